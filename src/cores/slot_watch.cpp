#include "cores/slot_watch.h"

#include <algorithm>
#include <cassert>

namespace dovetail::cores {

void SlotWatch::park(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now) {
  [[maybe_unused]] const bool was_free =
      parked_now_.try_emplace({group, lane}, Span{part.task, part.block, group, lane, now, now})
          .second;
  assert(was_free);
}

void SlotWatch::unpark(GroupId group, unsigned lane, Ticks now) {
  const auto found = parked_now_.find({group, lane});
  assert(found != parked_now_.end());
  found->second.end = now;
  if (found->second.end > found->second.start) parked_.push_back(found->second);
  parked_now_.erase(found);
}

void SlotWatch::start(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now) {
  const auto is_it = [&](const Span& parked) {
    return parked.task == part.task && parked.block == part.block;
  };
  const Span own = parked_now_.at({group, lane});
  unpark(group, lane, now);
  if (is_it(own)) return;
  const auto other = std::find_if(parked_now_.begin(), parked_now_.end(),
                                  [&](const auto& one) { return is_it(one.second); });
  assert(other != parked_now_.end());
  const auto [other_group, other_lane] = other->first;
  unpark(other_group, other_lane, now);
  park({own.task, own.block}, other_group, other_lane, now);
}

void SlotWatch::see_kept(const GroupTracker& tracker, Ticks now) {
  for (GroupId group = 0; group < tracker.groups(); ++group) {
    const LaneMask kept = tracker.kept(group) & tracker.idle(group);
    const LaneMask changed = std::exchange(kept_now_[group], kept) ^ kept;
    for_each_lane(changed, [&](unsigned lane) {
      if ((kept >> lane & 1) != 0) {
        kept_since_[{group, lane}] = now;
        return;
      }
      const auto since = kept_since_.find({group, lane});
      if (since->second < now) kept_.push_back({group, lane, since->second, now});
      kept_since_.erase(since);
    });
  }
}

}  // namespace dovetail::cores
