#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cores/spans.h"

namespace dovetail::laws {

// What happens at a level of lanes: a task becomes ready, a part of a block of it starts on a lane,
// that part ends.
struct LaneEvent {
  enum class Kind : std::uint8_t { kReady, kStart, kEnd };

  Kind kind = Kind::kReady;
  cores::Ticks at = 0;
  cores::ReadyTask task;  // all of it where it becomes ready, later the id alone
  std::uint32_t block = 0;
  cores::GroupId group = 0;
  unsigned lane = 0;

  static LaneEvent ready(const cores::ReadyTask& task, cores::Ticks at) {
    return {Kind::kReady, at, task, 0, 0, 0};
  }
  static LaneEvent start(const cores::Span& span) { return of(Kind::kStart, span.start, span); }
  static LaneEvent end(const cores::Span& span) { return of(Kind::kEnd, span.end, span); }

 private:
  static LaneEvent of(Kind kind, cores::Ticks at, const cores::Span& span) {
    LaneEvent event{kind, at, {}, span.block, span.group, span.lane};
    event.task.id = span.task;
    return event;
  }
};

// The events of a run, as it can have been: by time, and where several things have the same, ends
// first, since a task may start on the lane or after the task that has ended; then what
// becomes ready, in the order of `ready`; then starts. What ends when it starts does so right after
// that.
std::vector<LaneEvent> in_order(std::span<const LaneEvent> ready,
                                std::span<const cores::Span> spans);

}  // namespace dovetail::laws
