#pragma once

#include <optional>

#include "base/result.h"
#include "cores/tensor_map.h"

namespace dovetail::cores {

// What has gone wrong in a run, if anything: the first error is the run's. From then on nothing is
// submitted any more, and what was submitted ends without being run, in its order. Not guarded:
// threads that share it take a lock, or check a flag of their own before.
class RunStatus {
 public:
  // The first error, for who wants to submit.
  Status may_submit() const;

  // A task's function has failed; the error gets the task in front.
  void fail_task(TaskNumber task, const Error& error);

  // What the run, of which all tasks have ended, ends with; the next is clean.
  Status end_run();

 private:
  std::optional<Error> error_;
};

}  // namespace dovetail::cores
