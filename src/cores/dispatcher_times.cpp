// When lanes come free, as far as costs tell.

#include <algorithm>
#include <array>
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
  const bool parked = (state.pending & bit) != 0;
  if (parked && busy.parked.cost == 0) return kParkedUnknown;
  if (busy.running.cost == 0) return parked ? kParkedUnknown : kUnknown;
  return busy.running.start + busy.running.cost + busy.parked.cost;
}

template <class When>
LaneMask Dispatcher::lanes_where(GroupId group, const When& when) const {
  LaneMask lanes = 0;
  for_each_lane(tracker_.spec(group).all(), [&](unsigned index) {
    if (when(free_at(group, index))) lanes |= LaneMask{1} << index;
  });
  return lanes;
}

// Lanes that will be free at that time, with kUnknown and kParkedUnknown those, too.
LaneMask Dispatcher::free_by(GroupId group, Ticks time) const {
  return lanes_where(group, [time](Ticks at) { return at <= time; });
}

// Lanes that may be free before that time.
LaneMask Dispatcher::free_before(GroupId group, Ticks time) const {
  return lanes_where(group, [time](Ticks at) { return at < time || at >= kUnknown; });
}

// Of the lanes that are kept for nobody, those for the shape that come free first, and when. None:
// there are not enough.
Dispatcher::Soonest Dispatcher::soonest(GroupId group, const TaskShape& shape) const {
  const GroupSpec& spec = tracker_.spec(group);
  const LaneMask all = spec.all() & ~tracker_.kept(group);
  std::array<Ticks, 64> times;
  std::size_t count = 0;
  for_each_lane(all, [&](unsigned index) { times[count++] = free_at(group, index); });
  std::sort(times.begin(), times.begin() + count);
  const auto by = [&](Ticks time) { return all & free_by(group, time); };
  const auto end = times.begin() + count;
  const auto at = std::find_if(
      times.begin(), end, [&](Ticks time) { return choose_lanes(spec, shape, by(time)) != 0; });
  if (at == end) return {};
  // Lanes that are free sooner first, so that others can have the rest.
  LaneMask lanes = 0;
  const auto add = [&](const TaskShape& one, unsigned more) {
    auto time = times.begin();
    while (more > 0 && time <= at) {
      const LaneMask found = choose_lanes(spec, one, by(*time) & ~lanes);
      if (found == 0) {
        ++time;
      } else {
        lanes |= found;
        --more;
      }
    }
    return more == 0;
  };
  const bool chosen =
      !shape.whole_group && add(kMatrixTask, shape.matrix) && add(kVectorTask, shape.vector);
  return {chosen ? lanes : choose_lanes(spec, shape, by(*at)), *at};
}

// When there are places for all its blocks, if nothing else comes; kParkedUnknown: nobody knows.
Ticks Dispatcher::start_of_cohort(const ReadyTask& cohort) const {
  std::vector<Ticks> times;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    for_each_lane(tracker_.spec(group).all(),
                  [&](unsigned index) { times.push_back(free_at(group, index)); });
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  if (times.back() >= kUnknown) return kParkedUnknown;
  return *std::partition_point(times.begin(), times.end() - 1, [&](Ticks time) {
    std::size_t count = 0;
    for (GroupId group = 0; group < tracker_.groups() && count < cohort.blocks; ++group)
      count += places(cohort.shape, group, free_by(group, time), cohort.blocks - count);
    return count < cohort.blocks;
  });
}

// Whether the oldest mixed task could start in that group before that time, on whichever lanes.
bool Dispatcher::mixed_may_start(GroupId group, Ticks before) const {
  return choose_lanes(tracker_.spec(group), mixed_[*oldest_mixed()].tasks.front().task.shape,
                      free_before(group, before)) != 0;
}

// Likewise the oldest cohort, anywhere.
bool Dispatcher::cohort_may_start(Ticks before) const {
  const ReadyTask& cohort = cohorts_.front().task;
  std::size_t count = 0;
  for (GroupId group = 0; group < tracker_.groups() && count < cohort.blocks; ++group)
    count += places(cohort.shape, group, free_before(group, before), cohort.blocks - count);
  return count == cohort.blocks;
}

}  // namespace dovetail::cores
