#pragma once

#include <cstdint>
#include <vector>

#include "cores/dispatcher.h"

namespace dovetail::cores {

// What a lane did from `start` to `end`.
struct Span {
  TaskId task = 0;
  std::uint32_t block = 0;
  GroupId group = 0;
  unsigned lane = 0;
  Ticks start = 0, end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

// A lane was idle and reserved for a task that waited for others of its group.
struct ReservedSpan {
  GroupId group = 0;
  unsigned lane = 0;
  Ticks start = 0, end = 0;
  friend bool operator==(const ReservedSpan&, const ReservedSpan&) = default;
};

// What the lanes of a machine were at.
struct LaneSpans {
  std::vector<Span> running;
  std::vector<Span> pending;  // in the pending slot of a lane
  std::vector<ReservedSpan> reserved;
};

}  // namespace dovetail::cores
