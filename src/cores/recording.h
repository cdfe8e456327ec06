#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cores/condition.h"
#include "cores/task.h"
#include "cores/tensor_map.h"

namespace dovetail::cores {

// Tasks and their dependencies, found once and run any number of times (Executor::run()).
class Recording {
 public:
  std::uint32_t size() const { return static_cast<std::uint32_t>(tasks_.size()); }
  // Pairs of a task and one that waits for it.
  std::size_t edges() const { return successors_.size(); }
  const TaskSpec& spec(TaskNumber task) const { return tasks_[task].spec; }

  // For the runs that follow. Requires at least one.
  void set_blocks(TaskNumber task, std::uint32_t blocks) {
    assert(blocks > 0);
    change(task, [&](TaskSpec& spec) { spec.blocks = blocks; });
  }
  // Likewise; a task that has lanes keeps having some.
  void set_shape(TaskNumber task, const TaskShape& shape) {
    change(task, [&](TaskSpec& spec) { spec.shape = shape; });
  }

 private:
  friend class Recorder;
  friend class Executor;
  friend struct ExecutorState;
  friend class Combiner;
  friend class LaneThreads;
  friend class StallProbe;

  struct alignas(64) Task {
    TaskFunction function;
    TaskSpec spec;
    std::uint32_t waits = 0;            // for so many others
    std::uint32_t first_successor = 0;  // up to the next task's
  };

  // How many tasks are a single block on a single lane, by its kind, and how many are not.
  struct Kinds {
    std::uint32_t matrix = 0, vector = 0, others = 0;
    std::uint32_t& of(const TaskSpec& spec) {
      if (spec.blocks != 1 || spec.shape.whole_group || spec.shape.lanes() != 1) return others;
      return spec.shape.matrix > 0 ? matrix : vector;
    }
  };

  template <class Change>
  void change(TaskNumber task, const Change& how) {
    TaskSpec& spec = tasks_[task].spec;
    --kinds_.of(spec);
    how(spec);
    ++kinds_.of(spec);
  }

  std::span<const std::uint32_t> successors(TaskNumber task) const {
    const std::size_t end =
        task + 1 < tasks_.size() ? tasks_[task + 1].first_successor : successors_.size();
    return std::span(successors_)
        .subspan(tasks_[task].first_successor, end - tasks_[task].first_successor);
  }

  // Nothing: it runs always.
  const Condition* condition(TaskNumber task) const {
    return conditions_.empty() ? nullptr : find_condition(task);
  }
  const Condition* find_condition(TaskNumber task) const;

  std::vector<Task> tasks_;
  std::vector<std::uint32_t> successors_;
  std::uint32_t sinks_ = 0;  // tasks without a successor
  Kinds kinds_;
  bool chain_ = true;  // each task waits for the one before it alone, and always runs
  std::vector<std::pair<TaskNumber, Condition>> conditions_;  // of few tasks, in their order
};

// Makes recordings.
class Recorder {
 public:
  // Room for so many tasks, and for so many accesses of all of them.
  explicit Recorder(std::uint32_t tasks = 16'384, std::uint32_t accesses = 65'536)
      : tasks_(tasks), map_(accesses) {}

  // As Executor::submit(), and numbered from 0. kInvalid: there is no room; the message names what
  // is to be raised.
  Result<TaskNumber> add(const TaskSpec& spec, const TaskFunction& function,
                         std::span<const Access> accesses = {},
                         std::span<const TaskNumber> after = {}, const Condition& condition = {});

  // All tasks that were added, ready to be run. Once; the recorder is spent.
  Recording finish() &&;

 private:
  std::uint32_t tasks_;
  TensorMap map_;
  Recording recording_;
  std::vector<std::vector<std::uint32_t>> successors_;
  std::vector<TaskNumber> before_;
};

}  // namespace dovetail::cores
