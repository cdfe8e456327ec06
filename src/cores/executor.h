#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/result.h"
#include "cores/condition.h"
#include "cores/executor_options.h"
#include "cores/executor_threads.h"
#include "cores/executor_watch.h"
#include "cores/output_ring.h"
#include "cores/recording.h"
#include "cores/run_status.h"
#include "cores/spans.h"
#include "cores/task.h"
#include "cores/task_graph.h"

namespace dovetail::cores {

// Runs tasks on the lanes of a topology with threads. A task starts when those that it waits for
// have ended (TaskGraph), on lanes that are the dispatcher's choice. While nothing but tasks of a
// single lane is ready, lanes that come free take the oldest by themselves, which is what the
// dispatcher would decide; as soon as a mixed task or a gang is ready, every lane asks. The
// thread that holds the lock schedules for all lanes; there is no scheduler thread to wait for.
//
// One thread submits and waits; functions of tasks may call fail() and nothing else. Idle threads
// look for work for a moment (kSpins) and then sleep in the kernel.
class Executor : private LaneThreads {
 public:
  // Throws std::system_error where the system does not start that many threads.
  Executor(const Topology& topology, const ExecutorOptions& options);
  ~Executor();  // requires that everything has ended
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The number of the task, which starts as soon as its predecessors have ended: the tasks that it
  // shares memory with (TensorMap), and those in `after`. Waits for room where the graph is full.
  // kInvalid: no group has such lanes, or there will never be room. After a task has failed:
  // its error, until wait().
  Result<TaskNumber> submit(const TaskSpec& spec, const TaskFunction& function,
                            std::span<const Access> accesses = {},
                            std::span<const TaskNumber> after = {},
                            const Condition& condition = {});

  // Bytes for what the task that is submitted next writes; it may have several. They are its own
  // until it and all tasks before it have ended, and their scope has; then a later task may get
  // them. Every task that writes or reads them lists them, as Region(buffer, offset, size) of one
  // buffer: a later task that gets the same bytes then waits for their readers. Waits for room
  // where all bytes are in use. kInvalid: there will never be room, or ExecutorOptions::outputs
  // gives none.
  // After a task has failed: its error, until wait(). The caller's thread.
  struct Output {
    std::uint64_t offset = 0;
    std::span<std::byte> bytes;
  };
  Result<Output> allocate_output(std::uint64_t bytes);

  // As TaskGraph's: an inner scope frees nothing when it ends, only the outermost does. wait() ends
  // no scope. A submit() for which open scopes leave no place is kInvalid, which is no failure of
  // the run: what was submitted runs, and end_scope() makes room.
  void begin_scope();
  void end_scope();

  // Until all that was submitted has ended. The first error that a task reported, if any: what had
  // not started by then was not run. The executor is clean afterwards.
  Status wait();

  // Runs all tasks of a recording and waits for them, as submit() and wait() would, with the
  // dependencies of the recording. A chain of single blocks that the caller's lane can do runs on
  // the caller's thread. Requires that everything that was submitted has ended. kInvalid: it has
  // more tasks than GraphOptions::tasks, or no group has the lanes of one.
  Status run(const Recording& recording);

  // From within a task: it has failed. Tasks that have not started will not run.
  void fail(const Part& part, const Error& error);

  // What lanes were at since the last call, in nanoseconds of the steady clock, in no order. A part
  // of a mixed task or a gang runs on its lane from the time at which it came to wait for the
  // others, so that parts that start together overlap. What is pending or reserved ends before what
  // follows on the lane is told to start. Nothing without `trace`. Requires that everything has
  // ended.
  LaneSpans take_spans();

  const Topology& topology() const { return topology_; }
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }
  // The most that was ever in use: of the graph's rings, by what was submitted, and of the output
  // memory, if there is any.
  struct HighWater {
    TaskGraph::HighWater graph;
    OutputRing::HighWater outputs;
  };
  HighWater high_water();

 private:
  friend struct ExecutorFaults;  // of the tests: loses what an executor never should

  // Before a Lock whose holder starts something: the watchdog is woken after the unlock.
  struct Waker {
    Executor& executor;
    ~Waker() { executor.watchdog_.wake(); }
  };

  Status check(const TaskSpec& spec) const;
  Status may_submit();
  bool is_chain(const Recording& recording) const;
  Status run_chain(const Recording& recording);
  Status end_run();
  void stop();

  std::mutex status_lock_;
  RunStatus status_;
  Watchdog watchdog_{*this};
};

}  // namespace dovetail::cores
