#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "cores/dispatcher.h"
#include "cores/executor_state.h"
#include "cores/gates.h"
#include "cores/output_ring.h"
#include "cores/spans.h"
#include "cores/task_graph.h"
#include "cores/waiting.h"

namespace dovetail::cores {

// What the holder of an executor's lock does for all threads: it collects what has ended, makes
// tasks ready, asks the dispatcher and wakes threads. Every function requires the Lock.
class Combiner : public ExecutorState {
 public:
  Combiner(const Topology& topology, const ExecutorOptions& options);

  // Holds the lock for its lifetime. Threads with a new signal are notified after the unlock: the
  // kernel takes longer for that than the holder needs under the lock.
  class Lock {
   public:
    Lock(Combiner& combiner, std::vector<Thread*>& to_notify)
        : combiner_(combiner), to_notify_(to_notify) {
      combiner_.lock_.lock();
    }
    ~Lock() {
      const bool wakes = !combiner_.woken_.empty();
      if (wakes) to_notify_.swap(combiner_.woken_);
      combiner_.lock_.unlock();
      if (!wakes) return;
      for (Thread* thread : to_notify_) thread->wake.notify_one();
      to_notify_.clear();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Combiner& combiner_;
    std::vector<Thread*>& to_notify_;
  };

  bool leave_lanes(Thread& self);
  void collect();
  void end_gate(std::uint32_t gate);
  void end_task(TaskNumber task);
  void pass(TaskNumber task);
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

  alignas(64) SpinLock lock_;
  // Guarded by lock_.
  TaskGraph graph_;
  std::optional<OutputRing> outputs_;
  AlignedBuffer output_memory_;
  Dispatcher dispatcher_;
  Dispatcher::Plan plan_;
  SlotWatch slots_;  // with `trace`
  Gates gates_;
  std::uint64_t next_order_ = 0;
  std::uint64_t ended_ = 0;              // tasks, of which a combiner has heard
  std::uint64_t ended_before_ = 0;       // tasks, when the recording was started
  std::uint64_t waited_for_ = 0;         // tasks that had been submitted when wait() returned
  std::vector<TaskNumber> newly_ready_;  // of the recording
  std::vector<TaskNumber> passed_;       // ... after pass(): a heap, the oldest first
  std::vector<Thread*> woken_;           // that sleep and are to be notified
  bool closed_ = false;                  // the rings are
  const Until* until_ = nullptr;         // the caller sleeps until then
  std::uint32_t idle_lanes_ = 0;
  bool costs_known_ = false;         // of any task
  std::uint32_t since_collect_ = 0;  // tasks that were submitted
};

}  // namespace dovetail::cores
