#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cores/group_tracker.h"

namespace dovetail::cores {

using TaskId = std::uint64_t;
using Ticks = std::uint64_t;  // of whatever clock the executor has

// A task whose producers have ended.
struct ReadyTask {
  TaskId id = 0;
  TaskShape shape;
  std::uint32_t blocks = 1;       // one function over so many blocks, each of this shape;
  bool together = false;          // a gang: no block starts before all of them have their lanes
  Ticks cost = 0;                 // how long a block takes, about; 0: unknown
  std::uint32_t first_block = 0;  // those before it have been given lanes already
};

// A block is given to lanes of a group.
struct Placement {
  TaskId task = 0;
  std::uint32_t block = 0;
  GroupId group = 0;
  LaneMask running = 0;  // parts that start now
  LaneMask pending = 0;  // parts that start when what runs on their lanes has ended; of a staged
                         // block, for which those that have lanes wait, too: all start together
};

// A pending part of a single-lane task found an idle lane and starts there.
struct Move {
  TaskId task = 0;
  std::uint32_t block = 0;
  GroupId from_group = 0, to_group = 0;
  unsigned from_lane = 0, to_lane = 0;
};

struct DispatchOptions {
  AdmissionPolicy policy = AdmissionPolicy::kStrict;
  // So many rounds of mixed tasks and gangs may start while a single-lane task waits, and so many
  // younger gangs while a mixed task does; then it is its turn. A round is as many parts as the
  // machine has lanes for the task's kind of work, on such lanes.
  std::uint32_t starvation_bound = 8;
  // Single-lane tasks are given to busy lanes, behind what runs there: where all lanes of the
  // machine do both kinds of work, to any; otherwise to those of one kind, since only when a lane
  // of both comes free is it known which kind has the oldest task for it.
  bool pending_slots = true;
  // Single-lane tasks whose cost is known may use lanes that are reserved for a mixed task or a
  // gang, as long as it is sure that it could not start before they end.
  bool backfills = true;
  // Under kStrict: a mixed task that finds no idle lanes may be staged. Its parts are given to
  // pending slots of one group, those of idle lanes at once, and start together when the last of
  // its lanes is free. So several mixed tasks have lanes at a time of which some stand idle, and
  // none moves to another group that is free sooner; none is staged while it is the turn of a task
  // of a single lane.
  bool stages = false;

  bool may_stage() const { return stages && policy == AdmissionPolicy::kStrict; }
};

// Decides which ready task is given to which lanes: first gangs, then mixed tasks, then tasks of
// a single lane; among equals the oldest first, and on a lane that does both kinds of work the
// oldest of both; idle lanes before pending slots, and a pending slot only where no lane of the
// kind is idle. Waiting is bounded in both directions: the oldest gang and the oldest mixed task
// have lanes reserved for them as these come free, a task of a single lane is passed over by so
// many rounds of mixed ones and no more, and a mixed task by so many younger gangs. A pure state
// machine: no thread, no clock.
class Dispatcher {
 public:
  Dispatcher(const Topology& topology, const DispatchOptions& options);

  // kInvalid: no group has such lanes, or a gang has more blocks than the machine has places.
  Status check(const ReadyTask& task) const;

  // Requires check(). `order`: its place among all that were added, which need not come in this
  // order but those of one queue do: gangs, mixed tasks of a shape, single-lane tasks of a kind.
  void add(const ReadyTask& task, std::uint64_t order);
  void add(const ReadyTask& task) { add(task, next_order_); }

  struct Plan {
    std::vector<Move>
        moves;  // to be carried out before the placements, which may take their pending slots
    std::vector<Placement> placements;
    void clear() {
      placements.clear();
      moves.clear();
    }
  };
  // Everything that can be given to lanes at this moment, in the order of the decisions; appended.
  void plan(Ticks now, Plan& plan);

  // What runs on a lane has ended. What is pending there, or what is pending elsewhere and older,
  // runs from now on, and is returned; the two have changed places.
  struct Part {
    TaskId task = 0;
    std::uint32_t block = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::optional<Part> finish(GroupId group, unsigned lane, Ticks now);

  // Idle lanes that are not reserved take single-lane work by themselves, one task after the other,
  // until finish().
  void occupy(GroupId group, LaneMask lanes);

  const GroupTracker& tracker() const { return tracker_; }
  std::size_t waiting() const;  // tasks with blocks that have no lanes yet
  // ... of them those of a single lane, for matrix work or for vector work; where all lanes do
  // both, they all count as vector work.
  std::size_t waiting_singles(bool matrix) const {
    return singles_[matrix ? kMatrix : kVector].size();
  }

 private:
  struct Waiting {
    ReadyTask task;
    std::uint64_t order = 0;
    std::uint32_t next_block = 0;
  };
  using Queue = std::deque<Waiting>;
  enum Kind : std::size_t { kMatrix, kVector };

  // Mixed tasks of one shape: where the oldest finds no lanes, none of them does.
  struct ShapeQueue {
    TaskShape shape;
    Queue tasks;
    bool stuck = false;  // in the plan that is being made
  };

  struct Work {
    Part part;
    std::uint64_t order = 0;
    TaskShape shape;
    Ticks cost = 0;
    Ticks start = 0;
    bool staged = false;  // other parts of its block do not have their lanes yet
  };
  struct Lane {
    Work running, pending;
  };
  struct Reservation {
    GroupId group = 0;
    LaneMask lanes = 0;
  };

  struct Pending {
    GroupId group = 0;
    unsigned lane = 0;
    Work* work = nullptr;
  };

  // Where all lanes do both, tasks of a single lane are of one kind: the oldest goes first.
  Kind kind_of(const TaskShape& shape) const {
    return shape.matrix > 0 && !one_kind_ ? kMatrix : kVector;
  }
  static TaskShape shape_of(Kind kind) { return kind == kMatrix ? kMatrixTask : kVectorTask; }
  Lane& lane(GroupId group, unsigned index) { return lanes_[first_lane_[group] + index]; }
  const Lane& lane(GroupId group, unsigned index) const {
    return lanes_[first_lane_[group] + index];
  }

  void serve_gangs(Ticks now, Plan& plan);
  void serve_mixed(Ticks now, Plan& plan);
  void serve_singles(Ticks now, Plan& plan);
  void serve_overdue(Ticks now, Plan& plan);
  std::optional<Pending> oldest_pending(Kind kind);
  void pend_singles(Ticks now, Plan& plan);
  std::optional<std::uint64_t> oldest_order(Kind kind);
  void give(Kind kind, GroupId group, LaneMask lanes, Ticks now, Plan& plan);
  bool serve_single(Kind kind, Ticks now, Plan& plan);
  bool backfill(Kind kind, Ticks now, Plan& plan);
  Queue& queue_of(const ReadyTask& task);
  std::optional<std::size_t> oldest_mixed(bool stuck_too = true) const;
  bool mixed_overdue() const;
  void serve_overdue_mixed(Ticks now, Plan& plan);
  bool place_mixed(Waiting& waiting, bool oldest, Ticks now, Plan& plan);
  bool stage(Waiting& waiting, bool oldest, Ticks now, Plan& plan);
  LaneMask stageable(GroupId group, bool oldest) const;
  void open_staged(GroupId group, unsigned lane, Ticks now);
  bool single_overdue();
  bool start_gang(Waiting& waiting, Ticks now, Plan& plan);
  void reserve_for_gang(const Waiting& waiting);
  void reserve_for_mixed(const Waiting& waiting);
  void release(std::vector<Reservation>& reserved);
  AdmissionPolicy policy() const;
  void place(Waiting& waiting, GroupId group, LaneMask lanes, Ticks now, Plan& plan);
  void count_bypass(GroupId group, LaneMask lanes);
  LaneMask lanes_for(Kind kind, GroupId group) const;
  LaneMask open_pending_for(Kind kind, GroupId group) const;
  std::uint64_t turn_after(Kind kind) const;
  std::optional<GroupTracker::Place> idle_place(Kind kind) const;
  Kind oldest_for(Kind kind, const GroupTracker::Place& place);

  // When lanes come free whose work has no cost, and then those where such work is pending.
  static constexpr Ticks kPendingUnknown = ~Ticks{0};
  static constexpr Ticks kUnknown = kPendingUnknown - 1;
  struct Soonest {
    LaneMask lanes = 0;
    Ticks at = 0;
  };
  std::size_t places(const TaskShape& shape, GroupId group, LaneMask from, std::size_t most) const;
  Ticks free_at(GroupId group, unsigned index) const;
  template <class When>
  LaneMask lanes_where(GroupId group, const When& when) const;
  LaneMask free_by(GroupId group, Ticks time) const;
  LaneMask free_before(GroupId group, Ticks time) const;
  Soonest soonest(GroupId group, const TaskShape& shape, LaneMask from) const;
  Ticks start_of_gang(const ReadyTask& gang) const;
  bool mixed_may_start(GroupId group, Ticks before) const;
  bool gang_may_start(Ticks before) const;

  DispatchOptions options_;
  GroupTracker tracker_;
  std::vector<std::size_t> first_lane_;  // by group
  std::vector<Lane> lanes_;
  bool one_kind_ = false;                      // every lane does both kinds of work
  std::array<std::uint64_t, 2> lane_count_{};  // by kind of work
  std::uint64_t next_order_ = 0;

  Queue gangs_;
  std::vector<ShapeQueue> mixed_;  // one for each shape that there was
  std::array<Queue, 2> singles_;
  std::array<std::uint64_t, 2> bypassed_{};  // parts that started while its oldest waited
  std::uint32_t mixed_bypassed_ = 0;  // younger gangs that started while the oldest mixed waited
  std::vector<Reservation> reserved_for_gang_, reserved_for_mixed_;
  std::array<std::size_t, 2> pending_{};  // parts of tasks of one lane, which may move
};

}  // namespace dovetail::cores
