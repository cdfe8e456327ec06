#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "cores/condition.h"
#include "cores/dispatcher.h"
#include "cores/gates.h"
#include "cores/output_ring.h"
#include "cores/ready_ring.h"
#include "cores/recording.h"
#include "cores/relay.h"
#include "cores/run_status.h"
#include "cores/slot_watch.h"
#include "cores/stall.h"
#include "cores/task.h"
#include "cores/task_graph.h"
#include "cores/thread_pins.h"
#include "cores/waiting.h"

namespace dovetail::cores {

struct ExecutorOptions {
  GraphOptions graph;
  // Memory for what tasks write (Executor::allocate_output()); nothing: none. Requires
  // OutputRing::check().
  std::optional<OutputRingOptions> outputs;
  DispatchOptions dispatch;
  // Threads that serve the lanes, the caller's among them; 0: one for each lane. With fewer than
  // lanes a thread serves several, one after the other: parts of a mixed task may not wait for each
  // other then.
  unsigned threads = 0;
  // The caller's thread serves lanes while it waits; otherwise it only submits.
  bool caller_serves = true;
  // Of the threads that the executor starts, each of which works for the core to which its first
  // lane belongs (Topology::core_of()); outlives the executor. The caller's is the caller's affair.
  ThreadPins* pins = nullptr;
  // Keeps what ran when on which lane, what was parked and which lanes were kept, for take_spans().
  bool trace = false;
  // Where no block has started or ended for so long although something was submitted for which
  // wait() has not returned, on_stall is told why, once for each time; 0: nobody looks. It may take
  // a quarter longer. Called on a thread of its own, which the destructor waits for: it may not
  // wait for whoever destroys the executor.
  std::chrono::milliseconds stall_limit{0};
  std::function<void(const Stall&)> on_stall;
};

// Runs tasks on the lanes of a topology with threads. A task starts when those that it waits for
// have ended (TaskGraph), on lanes that are the dispatcher's choice. While nothing but tasks of a
// single lane is ready, lanes that come free take the oldest by themselves, which is what the
// dispatcher would decide; as soon as a mixed task or a cohort is ready, every lane asks. Whoever
// comes by does the scheduling for all; nobody waits for a thread that schedules.
//
// One thread submits and waits; functions of tasks may call fail() and nothing else. Idle threads
// look for work for a moment (kSpins) and then sleep in the kernel.
class Executor {
 public:
  // Throws std::system_error where the system does not start that many threads.
  Executor(const Topology& topology, const ExecutorOptions& options);
  ~Executor();  // requires that everything has ended
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The number of the task, which starts as soon as what it waits for has ended: whom it shares
  // memory with (TensorMap), and those that `after` names. Waits for room where the graph is full.
  // kInvalid: no group has such lanes, or there will never be room. After a task has failed:
  // its error, until wait().
  Result<TaskNumber> submit(const TaskSpec& spec, const TaskFunction& function,
                            std::span<const Access> accesses = {},
                            std::span<const TaskNumber> after = {},
                            const Condition& condition = {});

  // Bytes for what the task that is submitted next writes; it may have several. They are its own
  // until it and all tasks before it have ended, and their scope has; then a later task may get
  // them. Whoever writes or reads them says so, as Region(buffer, offset, size) of one buffer: who
  // gets the same bytes later then waits for those who still read them. Waits for room where they
  // are all in use. kInvalid: there will never be room, or ExecutorOptions::outputs gives none.
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

  // Runs all tasks of a recording and waits for them, as submit() and wait() would, without looking
  // again for who waits for whom. A chain of single blocks that the caller's lane can do runs on
  // the caller's thread. Requires that everything that was submitted has ended. kInvalid: it has
  // more tasks than GraphOptions::tasks, or no group has the lanes of one.
  Status run(const Recording& recording);

  // From within a task: it has failed. Tasks that have not started will not run.
  void fail(const Part& part, const Error& error);

  // What lanes were at since the last call, in nanoseconds of the steady clock, in no order. A part
  // of a mixed task or a cohort runs on its lane from the time at which it came to wait for the
  // others, so that parts that start together overlap. What is parked or kept ends before what
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
    std::uint32_t gate = Gates::kNone;  // of its block, if that is a mixed task's or a cohort's
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
    // Set by a keeper, taken by the lane's thread.
    std::atomic<Signal> signal{Signal::kNone};
    Assigned assigned;
    // Of the keepers.
    Assigned parked;
    // Of the lane's thread: it takes from the rings; the dispatcher counts it as running.
    bool takes = false;
    // What it runs, for the watchdog: 0 for nothing, else one more than the task, and the block in
    // the lowest kBlockBits.
    alignas(64) std::atomic<std::uint64_t> runs{0};
  };

  // What the watchdog saw of a lane: Lane::runs, and since when.
  struct Watched {
    std::uint64_t runs = 0;
    Ticks since = 0;
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
    std::vector<Thread*> to_notify;                  // of a Keeper
    std::atomic<std::uint64_t> finished{0};          // tasks whose end was no keeper's affair
    alignas(64) std::atomic<std::uint32_t> wake{0};  // counts signals
    std::atomic<bool> asleep{false};
    // Kinds of work that the thread looks for, or is about to since it was sent kTake.
    std::atomic<std::uint32_t> looks_for{0};
    // Ended blocks that no keeper has heard of: tasks, or gates.
    std::unique_ptr<std::atomic<std::uint64_t>[]> ended;
    std::vector<Span> spans;
    alignas(64) std::atomic<std::uint64_t> ended_tail{0};  // the thread's
    alignas(64) std::atomic<std::uint64_t> ended_head{0};  // the keepers'
    std::thread thread;
  };

  // What the caller waits for.
  struct Until {
    bool all = true;          // everything has ended;
    std::uint64_t ended = 0;  // or so many tasks have
  };

  // Whoever holds the lock. Threads that it sends something are notified when it has let go: that
  // takes the kernel longer than all that is done under the lock.
  class Keeper {
   public:
    Keeper(Executor& executor, std::vector<Thread*>& to_notify)
        : executor_(executor), to_notify_(to_notify) {
      executor_.lock_.lock();
    }
    ~Keeper() {
      const bool wakes = !executor_.woken_.empty();
      if (wakes) to_notify_.swap(executor_.woken_);
      executor_.lock_.unlock();
      if (!wakes) return;
      for (Thread* thread : to_notify_) thread->wake.notify_one();
      to_notify_.clear();
    }
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;

   private:
    Executor& executor_;
    std::vector<Thread*>& to_notify_;
  };

  // Before a Keeper that starts something: the watchdog is woken when the lock has been let go.
  struct Waker {
    Executor& executor;
    ~Waker() { executor.wake_watchdog(); }
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
  const Condition* condition_of(TaskNumber task) const;
  Lane& lane(GroupId group, unsigned index) { return lanes_[first_lane_[group] + index]; }

  Status check(const TaskSpec& spec) const;
  Status may_submit();
  bool is_chain(const Recording& recording) const;
  Status run_chain(const Recording& recording);
  Status end_run();
  void stop();
  void watch();
  void wake_watchdog();
  bool nothing_left() const;
  bool submitter_is_late() const;
  StallFacts facts(Ticks time, Ticks last_change, std::span<const Watched> lanes) const;
  void see_running(Ticks time, std::span<const Watched> lanes, StallFacts& known) const;
  void see_ready(StallFacts& known) const;
  void see_waiting(StallFacts& known) const;
  std::size_t add_waiting_for_lanes(std::vector<TaskNumber>& tasks) const;

  // Of the threads.
  void serve(Thread& self, const Until* until);
  bool is_due(const Until* until, int spins) const;
  enum class Did { kNothing, kTaken, kAssigned };
  Did step(Thread& self, Lane& lane);
  std::optional<ReadyRing::Claim> take(const Lane& lane);
  void run_taken(Thread& self, Lane& lane, const ReadyRing::Claim& claim);
  void call(Thread& self, Lane& lane, const Part& part, Ticks arrived = 0);
  void run_assigned(Thread& self, Lane& lane);
  std::optional<ReadyRing::Claim> end_blocks(Thread& self, Lane& lane, TaskNumber task,
                                             std::uint32_t blocks);
  std::optional<ReadyRing::Claim> go_on(Thread& self, Lane& lane, TaskNumber task);
  bool runs_on(const Lane& lane, TaskNumber task) const;
  static bool fits(const Lane& lane, const TaskSpec& spec);
  void report(Thread& self, std::uint64_t what);
  static bool has_unheard(const Thread& thread);
  static Kinds takers(const Thread& self);
  void start_searching(Thread& self);
  static void stop_searching(Thread& self);
  static void sleep(Thread& self, std::uint32_t seen);
  bool come_by(Thread& self, const Until* until, bool gives_up);
  bool has_work() const {
    return relay_.has_work() || matrix_ring_.has_work() || vector_ring_.has_work();
  }
  bool is_drained() const {
    return !relay_.has_work() && matrix_ring_.is_drained() && vector_ring_.is_drained();
  }

  // Of whoever holds the lock.
  bool leave_lanes(Thread& self);
  void collect();
  void end_gate(std::uint32_t gate);
  void end_task(TaskNumber task);
  void make_ready();
  void make_ready(TaskNumber task);
  ReadyRing& ring_of(const TaskShape& shape);
  std::optional<ReadyRing::Claim> take_unpublished(const Lane& lane);
  void close_rings();
  void free_lane(Lane& lane);
  void dispatch(const Kinds& takers);
  bool refill();
  void deliver();
  std::uint32_t open_gate(const Placement& placement, std::uint32_t start, std::uint32_t together);
  void give(const Placement& placement, std::uint32_t gate);
  static void move_to(Assigned& work, const Lane& lane);
  void send(Lane& lane, Signal signal);
  void wake(Thread& thread);
  void wake_takers(bool matrix, std::uint64_t takers);
  void wake_caller();
  bool reached(const Until& until) const;
  void count_idle();
  std::uint64_t ended() const;
  Ticks now() const;
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
  // Of its tasks for which nobody waits, those that have not ended; without them all have.
  std::atomic<std::uint32_t> sinks_left_{0};
  ReadyRing matrix_ring_, vector_ring_;
  Relay relay_;  // where lanes are uniform, and a recording runs
  std::uint64_t ended_mask_ = 0;

  SpinLock lock_;
  // Guarded by lock_.
  TaskGraph graph_;
  std::optional<OutputRing> outputs_;
  AlignedBuffer output_memory_;
  Dispatcher dispatcher_;
  Dispatcher::Plan plan_;
  SlotWatch slots_;  // with `trace`
  Gates gates_;
  std::uint64_t next_order_ = 0;
  std::uint64_t ended_ = 0;              // tasks, of which a keeper has heard
  std::uint64_t ended_before_ = 0;       // tasks, when the recording was started
  std::uint64_t waited_for_ = 0;         // tasks that had been submitted when wait() returned
  std::vector<TaskNumber> newly_ready_;  // of the recording
  std::vector<Thread*> woken_;           // that sleep and are to be notified
  bool closed_ = false;                  // the rings are
  const Until* until_ = nullptr;         // the caller sleeps until then
  std::uint32_t idle_lanes_ = 0;
  bool costs_known_ = false;         // of any task
  std::uint32_t since_collect_ = 0;  // tasks that were submitted

  // Lanes that wait for a signal: they want to hear of what ends.
  alignas(64) std::atomic<std::uint32_t> idle_{0};
  // Mixed tasks and cohorts that have been submitted and are not ready.
  std::atomic<std::uint32_t> wide_{0};
  std::atomic<bool> submitting_{true};  // the caller does not wait
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::mutex status_lock_;
  RunStatus status_;
  // Nothing was left when the watchdog looked: it sleeps until whoever starts something wakes it.
  // Changes under watch_lock_; becomes true under lock_, too.
  std::atomic<bool> watchdog_sleeps_{false};
  std::mutex watch_lock_;
  std::condition_variable watch_ends_;
  std::thread watchdog_;
};

}  // namespace dovetail::cores
