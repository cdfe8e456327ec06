// When lanes come free, as far as costs tell.

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "cores/dispatcher.h"

namespace dovetail::cores {

// Disjoint places for the shape among lanes of a group, counted up to `most`.
std::size_t Dispatcher::places(const TaskShape& shape, GroupId group, LaneMask from,
                               std::size_t most) const {
  std::size_t count = 0;
  while (count < most) {
    const LaneMask lanes = choose_lanes(tracker_.spec(group), shape, from);
    if (lanes == 0) break;
    from &= ~lanes;
    ++count;
  }
  return count;
}

// When what is on the lane will have ended: 0 if nothing is.
Ticks Dispatcher::free_at(GroupId group, unsigned index) const {
  const GroupState& state = tracker_.state(group);
  const LaneMask bit = LaneMask{1} << index;
  if ((state.running & bit) == 0) return 0;
  const Lane& busy = lane(group, index);
  const bool pending = (state.pending & bit) != 0;
  if (pending && busy.pending.cost == 0) return kPendingUnknown;
  if (busy.running.cost == 0 || busy.running.staged) return pending ? kPendingUnknown : kUnknown;
  return busy.running.start + busy.running.cost + busy.pending.cost;
}

template <class When>
LaneMask Dispatcher::lanes_where(GroupId group, const When& when) const {
  LaneMask lanes = 0;
  for_each_lane(tracker_.spec(group).all(), [&](unsigned index) {
    if (when(free_at(group, index))) lanes |= LaneMask{1} << index;
  });
  return lanes;
}

// Lanes that will be free at that time, with kUnknown and kPendingUnknown those, too.
LaneMask Dispatcher::free_by(GroupId group, Ticks time) const {
  return lanes_where(group, [time](Ticks at) { return at <= time; });
}

// Lanes that may be free before that time.
LaneMask Dispatcher::free_before(GroupId group, Ticks time) const {
  return lanes_where(group, [time](Ticks at) { return at < time || at >= kUnknown; });
}

// Of the lanes `all`, those for the shape that come free first, and when. None: there are not
// enough.
Dispatcher::Soonest Dispatcher::soonest(GroupId group, const TaskShape& shape, LaneMask all) const {
  const GroupSpec& spec = tracker_.spec(group);
  std::array<Soonest, Topology::kMaxLanes> order;  // one lane each
  std::size_t count = 0;
  for_each_lane(all, [&](unsigned index) {
    order[count++] = {LaneMask{1} << index, free_at(group, index)};
  });
  const std::span known(order.data(), count);
  std::sort(known.begin(), known.end(),
            [](const Soonest& a, const Soonest& b) { return a.at < b.at; });
  // From here on those that are free by then, too.
  for (std::size_t i = 1; i < count; ++i) known[i].lanes |= known[i - 1].lanes;
  for (std::size_t i = count; i-- > 1;) {
    if (known[i - 1].at == known[i].at) known[i - 1].lanes = known[i].lanes;
  }
  const auto first = std::find_if(known.begin(), known.end(), [&](const Soonest& by) {
    return choose_lanes(spec, shape, by.lanes) != 0;
  });
  if (first == known.end()) return {};
  const LaneMask any = choose_lanes(spec, shape, first->lanes);
  if (any == first->lanes || shape.whole_group) return {any, first->at};
  // Lanes that are free sooner first, so that others can have the rest.
  LaneMask lanes = 0;
  const auto add = [&](const TaskShape& one, unsigned more) {
    auto by = known.begin();
    while (more > 0 && by <= first) {
      const LaneMask found = choose_lanes(spec, one, by->lanes & ~lanes);
      if (found == 0) {
        ++by;
      } else {
        lanes |= found;
        --more;
      }
    }
    return more == 0;
  };
  const bool chosen = add(kMatrixTask, shape.matrix) && add(kVectorTask, shape.vector);
  return {chosen ? lanes : any, first->at};
}

// When there are places for all its blocks, if nothing else comes; kPendingUnknown: unknown.
Ticks Dispatcher::start_of_gang(const ReadyTask& gang) const {
  std::vector<Ticks> times;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    for_each_lane(tracker_.spec(group).all(),
                  [&](unsigned index) { times.push_back(free_at(group, index)); });
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  if (times.back() >= kUnknown) return kPendingUnknown;
  return *std::partition_point(times.begin(), times.end() - 1, [&](Ticks time) {
    std::size_t count = 0;
    for (GroupId group = 0; group < tracker_.groups() && count < gang.blocks; ++group)
      count += places(gang.shape, group, free_by(group, time), gang.blocks - count);
    return count < gang.blocks;
  });
}

// Whether the oldest mixed task could start in that group before that time, on whichever lanes.
bool Dispatcher::mixed_may_start(GroupId group, Ticks before) const {
  return choose_lanes(tracker_.spec(group), mixed_[*oldest_mixed()].tasks.front().task.shape,
                      free_before(group, before)) != 0;
}

// Likewise the oldest gang, anywhere.
bool Dispatcher::gang_may_start(Ticks before) const {
  const ReadyTask& gang = gangs_.front().task;
  std::size_t count = 0;
  for (GroupId group = 0; group < tracker_.groups() && count < gang.blocks; ++group)
    count += places(gang.shape, group, free_before(group, before), gang.blocks - count);
  return count == gang.blocks;
}

}  // namespace dovetail::cores
