#include "cores/spans.h"

#include <algorithm>
#include <cassert>

namespace dovetail::cores {

void SlotWatch::pend(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now) {
  [[maybe_unused]] const bool was_free =
      pending_now_.try_emplace({group, lane}, Span{part.task, part.block, group, lane, now, now})
          .second;
  assert(was_free);
}

void SlotWatch::unpend(GroupId group, unsigned lane, Ticks now) {
  const auto found = pending_now_.find({group, lane});
  assert(found != pending_now_.end());
  found->second.end = now;
  if (found->second.end > found->second.start) pending_.push_back(found->second);
  pending_now_.erase(found);
}

void SlotWatch::start(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now) {
  const auto is_it = [&](const Span& pending) {
    return pending.task == part.task && pending.block == part.block;
  };
  const Span own = pending_now_.at({group, lane});
  unpend(group, lane, now);
  if (is_it(own)) return;
  const auto other = std::find_if(pending_now_.begin(), pending_now_.end(),
                                  [&](const auto& one) { return is_it(one.second); });
  assert(other != pending_now_.end());
  const auto [other_group, other_lane] = other->first;
  unpend(other_group, other_lane, now);
  pend({own.task, own.block}, other_group, other_lane, now);
}

void SlotWatch::see_reserved(const GroupTracker& tracker, Ticks now) {
  for (GroupId group = 0; group < tracker.groups(); ++group) {
    const LaneMask reserved = tracker.reserved(group) & tracker.idle(group);
    const LaneMask changed = std::exchange(reserved_now_[group], reserved) ^ reserved;
    for_each_lane(changed, [&](unsigned lane) {
      if ((reserved >> lane & 1) != 0) {
        reserved_since_[{group, lane}] = now;
        return;
      }
      const auto since = reserved_since_.find({group, lane});
      if (since->second < now) reserved_.push_back({group, lane, since->second, now});
      reserved_since_.erase(since);
    });
  }
}

}  // namespace dovetail::cores
