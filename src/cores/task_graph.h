#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cores/tensor_map.h"

namespace dovetail::cores {

struct GraphOptions {
  std::uint32_t tasks = 16'384;     // that have not been given up: a power of two
  std::uint32_t accesses = 65'536;  // of tasks that have not ended
  std::uint32_t edges = 65'536;     // to tasks that wait
};

// Which tasks have to wait for which. Tasks are submitted in the order in which a serial program
// would run them; each waits for those before it that it shares memory with, and for those it
// names. All memory is taken at the start, in rings: a full one is no error but a reason to finish
// tasks first. A scope keeps the places of its tasks until it ends, so that what they made can be
// named meanwhile; places are given up in the order of the tasks. One thread.
class TaskGraph {
 public:
  explicit TaskGraph(const GraphOptions& options);

  // What a task waits for. `after` names tasks that have been submitted, also ended ones.
  // kExhausted: there is no room before older tasks have ended; nothing was submitted, ask again
  // then. kInvalid: there will never be room: the message names the option and who holds its
  // places.
  Result<TaskNumber> submit(std::span<const Access> accesses,
                            std::span<const TaskNumber> after = {});

  // From here on tasks keep their places until end_scope(), of which there is one for each
  // begin_scope(). They nest, but an inner scope frees nothing when it ends: places are given up in
  // order, and the outermost holds all from its first task on. All that is submitted while any is
  // open has to fit GraphOptions::tasks; scopes one after the other need room for the largest.
  void begin_scope();
  void end_scope();  // the innermost

  // The next task that has nothing to wait for any more, each once; in the order in which they came
  // to be so, but what waited for a task that only joins others as if it had not.
  std::optional<TaskNumber> take_ready();

  // A task that was taken has ended. Who waited for nothing else is ready now.
  void finish(TaskNumber task);
  // The same of a task that had nothing to do, at once: who waited for it goes before what is ready
  // and was submitted later.
  void pass(TaskNumber task);

  // Submitted and not ended.
  std::uint64_t running() const { return submitted_ - ended_; }
  std::uint64_t submitted() const { return submitted_; }
  // The oldest task whose place has not been given up; all before it have ended.
  TaskNumber oldest() const { return oldest_; }
  // The first task that keeps its place, whatever ends, until the submitter goes on: the first of
  // the outermost scope; without a scope the next to be submitted.
  TaskNumber held_from() const { return scopes_.empty() ? submitted_ : scopes_.front(); }

  // The oldest task that waits, for so many that have not ended, and the oldest of these; where
  // none waits the oldest task that has not ended, if any. Looks at all of them.
  struct Waiting {
    TaskNumber task = 0;
    std::uint32_t left = 0;
    std::optional<TaskNumber> waits_for;
  };
  std::optional<Waiting> oldest_waiting() const;

  // The most that were ever in use.
  struct HighWater {
    std::uint32_t tasks = 0, accesses = 0, edges = 0;
    friend bool operator==(const HighWater&, const HighWater&) = default;
  };
  const HighWater& high_water() const { return high_water_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Slot {
    std::uint32_t waits = 0;           // for so many tasks
    std::uint32_t first_edge = kNone;  // to those that wait for it
    std::uint32_t last_edge = kNone;
    bool ended = true;
  };
  struct Edge {
    TaskNumber to = 0;
    std::uint32_t next = kNone;
  };

  Slot& slot(TaskNumber task) { return slots_[task & (slots_.size() - 1)]; }
  const Slot& slot(TaskNumber task) const { return slots_[task & (slots_.size() - 1)]; }
  bool has_ended(TaskNumber task) const { return task < live_ || slot(task).ended; }
  Status room(std::size_t accesses, std::size_t edges) const;
  template <class Ready>
  void end(TaskNumber task, const Ready& ready);
  void reclaim();

  std::vector<Slot> slots_;
  std::vector<Edge> edges_;
  std::uint32_t free_edge_ = 0;
  std::uint32_t edges_used_ = 0;
  TensorMap map_;
  std::vector<TaskNumber> scopes_;  // by depth: the first task of each
  std::vector<TaskNumber> ready_;   // a ring as large as the slots
  std::uint64_t ready_begin_ = 0, ready_end_ = 0;
  std::vector<TaskNumber> passed_;  // what is ready after pass(): a heap, the oldest first
  std::vector<TaskNumber> before_;  // of the task that is submitted
  TaskNumber live_ = 0;             // the first that has not ended
  TaskNumber oldest_ = 0;           // the first that keeps its place
  std::uint64_t submitted_ = 0, ended_ = 0;
  HighWater high_water_;
};

}  // namespace dovetail::cores
