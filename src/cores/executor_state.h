#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cores/condition.h"
#include "cores/executor_options.h"
#include "cores/gates.h"
#include "cores/handoff.h"
#include "cores/ready_ring.h"
#include "cores/recording.h"
#include "cores/spans.h"
#include "cores/task.h"

namespace dovetail::cores {

// What the threads of an executor share without its lock: lanes, threads, the bodies of tasks, and
// the rings from which lanes take ready tasks. Combiner, LaneThreads and Executor work on it.
struct ExecutorState {
  ExecutorState(const Topology& topology, const ExecutorOptions& options);
  ExecutorState(const ExecutorState&) = delete;
  ExecutorState& operator=(const ExecutorState&) = delete;

  // What a thread reports: a task that ended, or with this bit a gate whose last part has.
  static constexpr std::uint64_t kGateEnded = std::uint64_t{1} << 63;
  static constexpr std::uint32_t kLooksForMatrix = 1, kLooksForVector = 2;
  static constexpr unsigned kBlockBits = 20;
  static_assert(ReadyRing::kMaxBlocks < std::uint64_t{1} << kBlockBits);

  // What is known of a task between submit() and its end.
  struct alignas(64) Body {
    TaskFunction function;
    TaskSpec spec;
    std::atomic<std::uint32_t> blocks_left{0};
    bool conditional = false;  // conditions_ has what on
  };

  // How far a task of the recording that runs has come; the recording has the rest.
  struct Progress {
    std::atomic<std::uint32_t> blocks_left{0};
    std::atomic<std::uint32_t> waits{0};  // for so many other tasks
  };

  // A part that was given to a lane.
  struct Assigned {
    TaskNumber task = 0;
    Part part;
    std::uint32_t gate = Gates::kNone;  // of its block, if that is a mixed task's or a gang's
  };

  enum class Signal : std::uint32_t {
    kNone,
    kTake,  // the lane takes from the rings
    kRun,   // the lane has an assigned part
  };

  struct alignas(64) Lane {
    GroupId group = 0;
    unsigned index = 0;   // of the group
    unsigned thread = 0;  // that serves it
    bool matrix = false, vector = false;
    // Set by a combiner, taken by the lane's thread.
    std::atomic<Signal> signal{Signal::kNone};
    Assigned assigned;
    // Of the combiners.
    Assigned pending;
    // Of the lane's thread: it takes from the rings; the dispatcher counts it as running.
    bool takes = false;
    // What it runs, for the watchdog: 0 for nothing, else one more than the task, and the block in
    // the lowest kBlockBits.
    alignas(64) std::atomic<std::uint64_t> runs{0};
  };

  // By kind of work: what lanes can take.
  struct Kinds {
    std::uint32_t matrix = 0, vector = 0;
  };

  struct alignas(64) Thread {
    unsigned index = 0;
    std::vector<Lane*> lanes;
    bool searching = false;                          // it has said so in looks_for
    std::vector<TaskNumber> ready;                   // by what it has just ended
    std::vector<Thread*> to_notify;                  // of a Lock
    std::atomic<std::uint64_t> finished{0};          // tasks whose end was no combiner's affair
    alignas(64) std::atomic<std::uint32_t> wake{0};  // counts signals
    std::atomic<bool> asleep{false};
    // Kinds of work that the thread looks for, or is about to since it was sent kTake.
    std::atomic<std::uint32_t> looks_for{0};
    // Ended blocks that no combiner has heard of: tasks, or gates.
    std::unique_ptr<std::atomic<std::uint64_t>[]> ended;
    std::vector<Span> spans;
    alignas(64) std::atomic<std::uint64_t> ended_tail{0};  // the thread's
    alignas(64) std::atomic<std::uint64_t> ended_head{0};  // the combiners'
    std::thread thread;
  };

  // What the caller waits for.
  struct Until {
    bool all = true;          // everything has ended;
    std::uint64_t ended = 0;  // or so many tasks have
  };

  Body& body(TaskNumber task) const { return bodies_[task & (options_.graph.tasks - 1)]; }
  // Of submitted tasks and of those of the recording. A thread that asks has a block of the task or
  // holds the lock: recording_ changes only while nothing runs, before anything is published.
  const TaskFunction& function_of(TaskNumber task) const {
    return recording_ != nullptr ? recording_->tasks_[task].function : body(task).function;
  }
  const TaskSpec& spec_of(TaskNumber task) const {
    return recording_ != nullptr ? recording_->tasks_[task].spec : body(task).spec;
  }
  std::atomic<std::uint32_t>& blocks_left(TaskNumber task) const {
    return recording_ != nullptr ? progress_[task].blocks_left : body(task).blocks_left;
  }
  const Condition* condition_of(TaskNumber task) const {
    if (recording_ != nullptr) return recording_->condition(task);
    return body(task).conditional ? &conditions_[task & (options_.graph.tasks - 1)] : nullptr;
  }
  Lane& lane(GroupId group, unsigned index) { return lanes_[first_lane_[group] + index]; }

  bool has_work() const {
    return handoff_.has_work() || matrix_ring_.has_work() || vector_ring_.has_work();
  }
  bool is_drained() const {
    return !handoff_.has_work() && matrix_ring_.is_drained() && vector_ring_.is_drained();
  }
  static bool has_unheard(const Thread& thread) {
    return thread.ended_head.load(std::memory_order_relaxed) !=
           thread.ended_tail.load(std::memory_order_relaxed);
  }
  static void stop_searching(Thread& self) {
    if (!std::exchange(self.searching, false)) return;
    self.looks_for.store(0, std::memory_order_seq_cst);
  }
  // Gates that can be open at the same time.
  std::uint32_t gate_count() const { return 4 * static_cast<std::uint32_t>(lane_count_) + 4; }
  static Ticks clock();  // in nanoseconds

  const Topology topology_;
  const ExecutorOptions options_;
  std::vector<std::size_t> first_lane_;  // by group
  std::unique_ptr<Lane[]> lanes_;
  std::size_t lane_count_ = 0;
  bool gated_ = false;    // every lane has a thread of its own
  bool uniform_ = false;  // every lane does both kinds of work: one ring is enough
  std::vector<std::unique_ptr<Thread>> threads_;
  std::unique_ptr<Body[]> bodies_;
  std::unique_ptr<Condition[]> conditions_;  // by the places of the bodies
  std::unique_ptr<Progress[]> progress_;
  // That runs. Changes only while nothing runs.
  const Recording* recording_ = nullptr;
  // Tasks of the recording without a successor that have not ended; at 0 all its tasks have ended.
  std::atomic<std::uint32_t> sinks_left_{0};
  ReadyRing matrix_ring_, vector_ring_;
  Handoff handoff_;  // where lanes are uniform, and a recording runs
  std::uint64_t ended_mask_ = 0;

  // Lanes that wait for a signal: they want to hear of what ends.
  alignas(64) std::atomic<std::uint32_t> idle_{0};
  // Mixed tasks and gangs that have been submitted and are not ready.
  std::atomic<std::uint32_t> wide_{0};
  std::atomic<bool> submitting_{true};  // the caller does not wait
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace dovetail::cores
