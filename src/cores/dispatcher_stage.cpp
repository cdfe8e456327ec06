// Mixed tasks that have lanes before the last of these is free.

#include <bit>
#include <limits>

#include "cores/dispatcher.h"

namespace dovetail::cores {

// Whether a task of a single lane has its turn: for that lanes have to come free.
bool Dispatcher::single_overdue() {
  for (const Kind kind : {kMatrix, kVector}) {
    if (bypassed_[kind] >= turn_after(kind) && oldest_order(kind)) return true;
  }
  return false;
}

// Lanes with a free slot, of what is known to end by itself: what lanes have taken without asking
// may be followed by more, and the caller's lanes are free when it comes to wait.
LaneMask Dispatcher::stageable(GroupId group, bool oldest) const {
  LaneMask lanes = tracker_.open(group) | tracker_.open_pending(group);
  if (oldest && !reserved_for_mixed_.empty() && reserved_for_mixed_.front().group == group) {
    const GroupState& state = tracker_.state(group);
    lanes |= reserved_for_mixed_.front().lanes & ~state.pending;
  }
  for_each_lane(lanes & tracker_.state(group).running, [&](unsigned index) {
    if (lane(group, index).running.shape == TaskShape{}) lanes &= ~(LaneMask{1} << index);
  });
  return lanes;
}

// In the group whose lanes come free first, or where that is not known of all, in the one with the
// least to do.
bool Dispatcher::stage(Waiting& waiting, bool oldest, Ticks now, Plan& plan) {
  if (single_overdue()) return false;
  Reservation least, first;
  int least_load = std::numeric_limits<int>::max();
  Ticks first_at = kPendingUnknown;
  bool known = true;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    const LaneMask from = stageable(group, oldest);
    if (from == 0) continue;
    const auto [lanes, at] = soonest(group, waiting.task.shape, from);
    if (lanes == 0) continue;
    const int load = std::popcount(tracker_.state(group).running & lanes);
    if (load < least_load) least = {group, lanes};
    if (at < first_at) first = {group, lanes};
    least_load = std::min(least_load, load);
    first_at = std::min(first_at, at);
    known &= at < kUnknown;
  }
  if (least.lanes == 0) return false;
  const Reservation& best = known ? first : least;
  if (oldest) release(reserved_for_mixed_);
  if (oldest) mixed_bypassed_ = 0;
  place(waiting, best.group, best.lanes, now, plan);
  return true;
}

// A part of a staged block has its lane; where it is the last, all start.
void Dispatcher::open_staged(GroupId group, unsigned index, Ticks now) {
  const Part part = lane(group, index).running.part;
  const GroupState& state = tracker_.state(group);
  bool all = true;
  for_each_lane(state.pending, [&](unsigned other) {
    const Work& work = lane(group, other).pending;
    all &= work.part != part || !work.staged;
  });
  if (!all) return;
  for_each_lane(state.running, [&](unsigned other) {
    Work& work = lane(group, other).running;
    if (work.part != part || !work.staged) return;
    work.staged = false;
    work.start = now;
  });
}

}  // namespace dovetail::cores
