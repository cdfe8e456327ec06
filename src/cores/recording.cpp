#include "cores/recording.h"

#include <algorithm>
#include <utility>

namespace dovetail::cores {

Result<TaskNumber> Recorder::add(const TaskSpec& spec, const TaskFunction& function,
                                 std::span<const Access> accesses,
                                 std::span<const TaskNumber> after, const Condition& condition) {
  const TaskNumber task = recording_.tasks_.size();
  if (task == tasks_) {
    return fail(ErrorKind::kInvalid, "task {}: the recorder has room for {} tasks", task, tasks_);
  }
  if (map_.capacity() - map_.size() < accesses.size()) {
    return fail(ErrorKind::kInvalid,
                "task {}: {} accesses, and of the recorder's {} there are {} left", task,
                accesses.size(), map_.capacity(), map_.capacity() - map_.size());
  }
  map_.find(task, accesses, after, before_);
  map_.enter(task, accesses);
  for (const TaskNumber earlier : before_) {
    successors_[earlier].push_back(static_cast<std::uint32_t>(task));
  }
  successors_.emplace_back();
  recording_.tasks_.push_back({function, spec, static_cast<std::uint32_t>(before_.size()), 0});
  if (!condition.always()) recording_.conditions_.emplace_back(task, condition);
  return task;
}

const Condition* Recording::find_condition(TaskNumber task) const {
  const auto found = std::lower_bound(
      conditions_.begin(), conditions_.end(), task,
      [](const auto& conditional, TaskNumber number) { return conditional.first < number; });
  return found != conditions_.end() && found->first == task ? &found->second : nullptr;
}

Recording Recorder::finish() && {
  for (std::size_t task = 0; task < successors_.size(); ++task) {
    recording_.tasks_[task].first_successor =
        static_cast<std::uint32_t>(recording_.successors_.size());
    recording_.sinks_ += successors_[task].empty() ? 1 : 0;
    ++recording_.kinds_.of(recording_.tasks_[task].spec);
    recording_.successors_.insert(recording_.successors_.end(), successors_[task].begin(),
                                  successors_[task].end());
    recording_.chain_ &= recording_.tasks_[task].waits == (task > 0 ? 1U : 0U) &&
                         successors_[task].size() == (task + 1 < successors_.size() ? 1U : 0U);
  }
  recording_.chain_ &= recording_.conditions_.empty();
  return std::move(recording_);
}

}  // namespace dovetail::cores
