#include "study/virtual_machine.h"

#include <bit>
#include <cassert>
#include <utility>

namespace dovetail::study {

VirtualMachine::VirtualMachine(const cores::Topology& topology,
                               const cores::DispatchOptions& options, Duration duration,
                               Ended ended)
    : dispatcher_(topology, options),
      stages_(options.may_stage()),
      duration_(std::move(duration)),
      ended_(std::move(ended)),
      slots_(topology.groups().size()) {}

Status VirtualMachine::submit(const cores::ReadyTask& task, cores::Ticks at) {
  assert(at >= now_);
  if (const Status ok = dispatcher_.check(task); !ok) return ok;
  constexpr std::uint64_t kArrival = std::uint64_t{1} << 63;
  events_.push({at, kArrival | next_order_++, kNoSpan, task});
  return {};
}

std::size_t VirtualMachine::run() {
  cores::Dispatcher::Plan plan;
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
    for (const cores::Move& move : plan.moves) {
      if (watches_) slots_.unpend(move.from_group, move.from_lane, now_);
      start({move.task, move.block}, move.to_group, move.to_lane);
      moves_.push_back(move);
    }
    for (const cores::Placement& placed : plan.placements) {
      parts_left_[placed.task] +=
          static_cast<std::uint64_t>(std::popcount(placed.running | placed.pending));
      --blocks_unplaced_[placed.task];
      const auto parts = static_cast<unsigned>(std::popcount(placed.running | placed.pending));
      if (parts > 1 && placed.pending != 0) in_parts_[{placed.task, placed.block}] = {parts, {}};
      for (cores::LaneMask lanes = placed.running; lanes != 0; lanes &= lanes - 1) {
        start({placed.task, placed.block}, placed.group,
              static_cast<unsigned>(std::countr_zero(lanes)));
      }
      for (cores::LaneMask lanes = watches_ ? placed.pending : 0; lanes != 0; lanes &= lanes - 1) {
        slots_.pend({placed.task, placed.block}, placed.group,
                    static_cast<unsigned>(std::countr_zero(lanes)), now_);
      }
    }
    if (watches_) slots_.see_reserved(dispatcher_.tracker(), now_);
  }
  return dispatcher_.waiting();
}

void VirtualMachine::start(cores::Dispatcher::Part part, cores::GroupId group, unsigned lane) {
  const cores::Ticks takes = duration_(part.task, part.block, group, lane);
  waits_[first_wait_.at(part.task) + part.block].start = now_;
  assert(takes > 0);
  started_.push_back({part.task, part.block, group, lane, now_, now_ + takes});
  const auto found = in_parts_.find({part.task, part.block});
  if (found == in_parts_.end()) return end_at(started_.size() - 1);
  InParts& parts = found->second;
  parts.started.push_back(started_.size() - 1);
  if (--parts.to_start > 0) return;
  for (const std::size_t index : parts.started) {
    cores::Span& span = started_[index];
    span.end = now_ + (span.end - span.start);
    if (stages_) span.start = now_;
    end_at(index);
  }
  in_parts_.erase(found);
}

void VirtualMachine::end_at(std::size_t span) {
  events_.push({started_[span].end, next_order_++, span, {}});
}

void VirtualMachine::end(const cores::Span& ended) {
  const cores::Span span = ended;
  spans_.push_back(span);
  if (const auto next = dispatcher_.finish(span.group, span.lane, now_)) {
    if (watches_) slots_.start(*next, span.group, span.lane, now_);
    start(*next, span.group, span.lane);
  }
  if (--parts_left_[span.task] > 0 || blocks_unplaced_[span.task] > 0) return;
  parts_left_.erase(span.task);
  blocks_unplaced_.erase(span.task);
  first_wait_.erase(span.task);
  if (ended_) ended_(span.task, now_);
}

}  // namespace dovetail::study
