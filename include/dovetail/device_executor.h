#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cores/dispatcher.h"
#include "cores/run_status.h"
#include "cores/spans.h"
#include "cores/task.h"
#include "cores/task_graph.h"
#include "cores/topology.h"

namespace dovetail::cores {

// The part of a task's block that one lane executes.
struct LanePart {
  TaskNumber task = 0;
  std::uint32_t block = 0;
  GroupId group = 0;
  unsigned lane = 0;  // of the group
  friend bool operator==(const LanePart&, const LanePart&) = default;
};

// A lane that came free starts a part from a pending slot.
struct HandOver {
  LanePart starts;  // on the lane that came free
  // Empty: the part was in the pending slot of that lane. Otherwise it was in the pending slot of
  // another lane, because it is older, and the two lanes have exchanged: this part, and this lane
  // whose pending slot holds it from now on.
  std::optional<LanePart> exchanged;
};

// What a DeviceExecutor asks the program to do. Called by schedule() and complete(), on the calling
// thread; they may not throw and may not call the executor (kInvalid).
struct DeviceCallbacks {
  // A block gets lanes of one group. The parts on `running` start now, all at the same time. The
  // parts on `pending` go into the pending slots of busy lanes; complete() says when each starts. A
  // gang's blocks come one after the other within one schedule(), and start at the same time. Of
  // a block's lanes those with matrix work come first (for_each_lane). Required.
  std::function<void(const Placement&)> dispatch;
  // A part leaves the pending slot of a busy lane and starts now on an idle one. Required with
  // DispatchOptions::pending_slots.
  std::function<void(const Move&)> move;
  // All blocks of a task have ended, or the task was not executed after fail(). Optional.
  std::function<void(TaskNumber task, Ticks now)> ended;
};

struct DeviceOptions {
  GraphOptions graph;
  // pending_slots = false: for a device whose lanes have no pending slot, or one that cannot be
  // exchanged.
  DispatchOptions dispatch;
  bool trace = false;  // keeps spans for take_spans()
};

// Executes a task graph on a device that the program drives: an accelerator, a simulator, a set of
// processes. The program submits tasks, starts parts on lanes as dispatch() says, reports what has
// ended, and owns the clock: times are ticks of its choice that never go back.
//
//   while (work is left) {
//     while (there is a next task && executor.submit(task)) ...   // kExhausted: complete() first
//     executor.schedule(now);                                     // calls dispatch() and move()
//     wait for the device;
//     for (HandOver& next : executor.complete(ended, now)) start next.starts on its lane;
//   }
//   executor.end_run();
//
// A pure state machine: no thread, no clock, no I/O. The same calls give the same callbacks. One
// thread at a time. On an error nothing has changed.
class DeviceExecutor {
 public:
  // kInvalid: an option or callback, by its name.
  static Result<DeviceExecutor> create(const Topology& topology, const DeviceOptions& options,
                                       DeviceCallbacks callbacks);

  // Tasks in the order of the serial program; each waits for the tasks before it with which it
  // shares memory (TensorMap), and for those that `after` names. TaskSpec::cost is in ticks of the
  // program. Starts nothing before schedule(). kExhausted: the graph is full; call schedule(), and
  // complete() for what has ended, then submit again. kInvalid: no group has such lanes, there will
  // never be room, or `after` names a task that was not submitted. After fail(): its error, until
  // end_run().
  Result<TaskNumber> submit(const TaskSpec& spec, std::span<const Access> accesses = {},
                            std::span<const TaskNumber> after = {});

  // As TaskGraph's. end_scope() is kInvalid without begin_scope().
  void begin_scope();
  Status end_scope();

  // Gives ready tasks all lanes that they can get at this time. To be called after submit() and
  // after complete(). kInvalid: the time goes back, or a callback calls.
  Status schedule(Ticks now);

  // These parts have ended, each on the lane that executed it. Returns the parts that start now on
  // those lanes, in the order of `ended`; the other lanes are idle until schedule(). kInvalid,
  // which names part and lane: there is no such lane, the lane does not execute that part (it was
  // completed before, is pending, or was never dispatched), or it is listed twice; the time goes
  // back; a callback calls.
  Result<std::vector<HandOver>> complete(std::span<const LanePart> ended, Ticks now);
  Result<std::vector<HandOver>> complete(const LanePart& ended, Ticks now) {
    return complete(std::span(&ended, 1), now);
  }

  // A submitted task has failed. What was dispatched goes on, pending parts included, and is to be
  // completed; all other tasks end without being executed. kInvalid: no such task.
  Status fail(TaskNumber task, const Error& error);

  // The error of the first task that failed, if any; the executor is clean afterwards. kInvalid:
  // tasks have not ended.
  Status end_run();

  std::uint64_t submitted() const { return graph_.submitted(); }
  std::uint64_t unfinished() const { return graph_.running(); }  // submitted and not ended
  std::size_t busy_lanes() const { return busy_lanes_; }         // that execute a part
  const Topology& topology() const { return topology_; }
  const TaskGraph::HighWater& high_water() const { return graph_.high_water(); }

  // What the lanes did since the last call, in no order. Parts that execute and lanes that are
  // reserved at this time are in a later call. Nothing without DeviceOptions::trace.
  LaneSpans take_spans();

 private:
  // What is known of a task from submit() to its end.
  struct Body {
    TaskSpec spec;
    bool ready = false;            // the dispatcher has it, or had
    std::uint32_t unplaced = 0;    // blocks without lanes
    std::uint64_t parts_left = 0;  // on lanes, that have not ended
  };
  struct Slot {
    TaskNumber task = 0;
    std::uint32_t block = 0;
    bool used = false;

    bool holds(TaskNumber of, std::uint32_t index) const {
      return used && task == of && block == index;
    }
  };
  struct Lane {
    Slot running, pending, last;  // last: what ended there before
    Ticks started = 0, ended = 0;
    std::uint64_t listed = 0;  // in this complete()
  };
  DeviceExecutor(const Topology& topology, const DeviceOptions& options, DeviceCallbacks callbacks);

  Body& body(TaskNumber task) { return bodies_[task & (bodies_.size() - 1)]; }
  Lane& lane(GroupId group, unsigned index) { return lanes_[first_lane_[group] + index]; }
  Status may_call(const char* function) const;
  Status may_call(const char* function, Ticks now) const;
  Status check(const LanePart& part);
  tl::unexpected<Error> refuse(const Lane& lane, const LanePart& part) const;
  template <class Callback, class... Args>
  void call(const Callback& callback, const Args&... args);
  void settle(Ticks now);
  void drop(Ticks now);
  void deliver(Ticks now);
  void start(Lane& lane, const Slot& part, Ticks now);
  void see_reserved(Ticks now);
  std::optional<HandOver> finish(const LanePart& part, Ticks now);
  std::optional<LanePart> exchange(Lane& lane, const Slot& next);
  void end_task(TaskNumber task, Ticks now);

  Topology topology_;
  DeviceOptions options_;
  DeviceCallbacks callbacks_;
  TaskGraph graph_;
  Dispatcher dispatcher_;
  Dispatcher::Plan plan_;
  SlotWatch slots_;
  std::vector<Span> spans_;
  std::vector<Body> bodies_;             // by task, a ring
  std::vector<std::size_t> first_lane_;  // by group
  std::vector<Lane> lanes_;
  RunStatus status_;
  bool failed_ = false;
  bool dropped_ = false;  // after a failure: the dispatcher has nothing any more
  bool calls_back_ = false;
  std::uint32_t scopes_ = 0;
  std::uint64_t completions_ = 0;  // calls
  std::size_t busy_lanes_ = 0;
  Ticks now_ = 0;
};

}  // namespace dovetail::cores
