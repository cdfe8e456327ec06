#include "cores/virtual_machine.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace dovetail::cores {

VirtualMachine::VirtualMachine(const Topology& topology, const DispatchOptions& options,
                               Duration duration, Ended ended)
    : dispatcher_(topology, options), duration_(std::move(duration)), ended_(std::move(ended)) {}

Status VirtualMachine::submit(const ReadyTask& task, Ticks at) {
  assert(at >= now_);
  if (const Status ok = dispatcher_.check(task); !ok) return ok;
  constexpr std::uint64_t kArrival = std::uint64_t{1} << 63;
  events_.push({at, kArrival | next_order_++, kNoSpan, task});
  return {};
}

std::size_t VirtualMachine::run() {
  Dispatcher::Plan plan;
  while (!events_.empty()) {
    now_ = events_.top().time;
    while (!events_.empty() && events_.top().time == now_) {
      const Event event = events_.top();
      events_.pop();
      if (event.span == kNoSpan) {
        blocks_unplaced_[event.task.id] = event.task.blocks;
        first_wait_[event.task.id] = waits_.size();
        for (std::uint32_t block = 0; block < event.task.blocks; ++block) {
          waits_.push_back({event.task.id, block, event.task.shape, now_, now_});
        }
        dispatcher_.add(event.task);
      } else {
        end(started_[event.span]);
      }
    }
    plan.clear();
    dispatcher_.plan(now_, plan);
    for (const Move& move : plan.moves) {
      if (watches_) see_unparked(move.from_group, move.from_lane);
      start({move.task, move.block}, move.to_group, move.to_lane);
      moves_.push_back(move);
    }
    for (const Placement& placed : plan.placements) {
      parts_left_[placed.task] +=
          static_cast<std::uint64_t>(std::popcount(placed.running | placed.parked));
      --blocks_unplaced_[placed.task];
      const auto parts = static_cast<unsigned>(std::popcount(placed.running | placed.parked));
      if (parts > 1 && placed.parked != 0) in_parts_[{placed.task, placed.block}] = {parts, {}};
      for (LaneMask lanes = placed.running; lanes != 0; lanes &= lanes - 1) {
        start({placed.task, placed.block}, placed.group,
              static_cast<unsigned>(std::countr_zero(lanes)));
      }
      for (LaneMask lanes = watches_ ? placed.parked : 0; lanes != 0; lanes &= lanes - 1) {
        see_parked({placed.task, placed.block}, placed.group,
                   static_cast<unsigned>(std::countr_zero(lanes)));
      }
    }
    if (watches_) see_kept();
  }
  return dispatcher_.waiting();
}

void VirtualMachine::start(Dispatcher::Part part, GroupId group, unsigned lane) {
  const Ticks takes = duration_(part.task, part.block, group, lane);
  waits_[first_wait_.at(part.task) + part.block].start = now_;
  assert(takes > 0);
  started_.push_back({part.task, part.block, group, lane, now_, now_ + takes});
  const auto found = in_parts_.find({part.task, part.block});
  if (found == in_parts_.end()) return end_at(started_.size() - 1);
  InParts& parts = found->second;
  parts.started.push_back(started_.size() - 1);
  if (--parts.to_start > 0) return;
  for (const std::size_t index : parts.started) {
    Span& span = started_[index];
    span.end = now_ + (span.end - span.start);
    end_at(index);
  }
  in_parts_.erase(found);
}

void VirtualMachine::end_at(std::size_t span) {
  events_.push({started_[span].end, next_order_++, span, {}});
}

void VirtualMachine::end(const Span& ended) {
  const Span span = ended;
  spans_.push_back(span);
  if (const auto next = dispatcher_.finish(span.group, span.lane, now_)) {
    if (watches_) see_started_from(span.group, span.lane, *next);
    start(*next, span.group, span.lane);
  }
  if (--parts_left_[span.task] > 0 || blocks_unplaced_[span.task] > 0) return;
  parts_left_.erase(span.task);
  blocks_unplaced_.erase(span.task);
  first_wait_.erase(span.task);
  if (ended_) ended_(span.task, now_);
}

void VirtualMachine::watch_slots() {
  watches_ = true;
  kept_now_.assign(dispatcher_.tracker().groups(), 0);
}

void VirtualMachine::see_parked(Dispatcher::Part part, GroupId group, unsigned lane) {
  parked_now_[{group, lane}] = {part.task, part.block, group, lane, now_, now_};
}

void VirtualMachine::see_unparked(GroupId group, unsigned lane) {
  const auto found = parked_now_.find({group, lane});
  found->second.end = now_;
  if (found->second.end > found->second.start) parked_.push_back(found->second);
  parked_now_.erase(found);
}

// What was parked on the lane runs there, or it has changed places with an older one, which does.
void VirtualMachine::see_started_from(GroupId group, unsigned lane, Dispatcher::Part part) {
  const auto is_it = [&](const Span& parked) {
    return parked.task == part.task && parked.block == part.block;
  };
  const Span own = parked_now_.at({group, lane});
  see_unparked(group, lane);
  if (is_it(own)) return;
  const auto other = std::find_if(parked_now_.begin(), parked_now_.end(),
                                  [&](const auto& one) { return is_it(one.second); });
  const auto [other_group, other_lane] = other->first;
  see_unparked(other_group, other_lane);
  see_parked({own.task, own.block}, other_group, other_lane);
}

void VirtualMachine::see_kept() {
  const GroupTracker& tracker = dispatcher_.tracker();
  for (GroupId group = 0; group < tracker.groups(); ++group) {
    const LaneMask kept = tracker.kept(group) & tracker.idle(group);
    LaneMask changed = std::exchange(kept_now_[group], kept) ^ kept;
    for (; changed != 0; changed &= changed - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(changed));
      if ((kept >> lane & 1) != 0) {
        kept_since_[{group, lane}] = now_;
        continue;
      }
      const auto since = kept_since_.find({group, lane});
      if (since->second < now_) kept_.push_back({group, lane, since->second, now_});
      kept_since_.erase(since);
    }
  }
}

}  // namespace dovetail::cores
