#include "cores/run_status.h"

#include <utility>

namespace dovetail::cores {

Status RunStatus::may_submit() const {
  if (error_) return fail(*error_);
  return {};
}

void RunStatus::fail_task(TaskNumber task, const Error& error) {
  if (!error_) error_ = Error{error.kind, fmt::format("task {}: {}", task, error.message)};
}

Status RunStatus::end_run() {
  if (const auto error = std::exchange(error_, std::nullopt)) return fail(*error);
  return {};
}

}  // namespace dovetail::cores
