#include "schedule/step_plan.h"

namespace dovetail::schedule {

void StepPlan::clear() {
  number = 0;
  rows.clear();
  prefill_rows = tokens = prefill_tokens = drafts = 0;
  admitted.clear();
  preempted.clear();
}

}  // namespace dovetail::schedule
