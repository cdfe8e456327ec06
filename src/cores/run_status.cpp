#include "cores/run_status.h"

#include <utility>

namespace dovetail::cores {

Status RunStatus::may_submit() const {
  if (error_) return fail(*error_);
  return {};
}

void RunStatus::fail_task(TaskNumber task, const Error& error) {
  fail_run({error.kind, fmt::format("task {}: {}", task, error.message)});
}

void RunStatus::fail_run(Error error) {
  ++failures_;
  if (!error_) error_ = std::move(error);
}

Status RunStatus::end_run() {
  failures_ = 0;
  if (const auto error = std::exchange(error_, std::nullopt)) return fail(*error);
  return {};
}

}  // namespace dovetail::cores
