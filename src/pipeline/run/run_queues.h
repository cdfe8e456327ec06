#pragma once

#include <vector>

#include "pipeline/config/pipeline_spec.h"
#include "pipeline/flow/column_plan.h"

namespace dovetail::pipeline {

// Where the cells of a run wait: a queue for each model, one for what may take long on another
// thread, and one for what is made at once.
struct RunQueues {
  explicit RunQueues(const PipelineSpec& spec);

  QueueId blocking = 0;  // behind the models'
  QueueId instant = 0;
  std::vector<QueueId> of_column;
  std::vector<ColumnPlan> plans;  // of the columns
};

}  // namespace dovetail::pipeline
