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

// A lane was idle and kept for a task that waited for others of its group.
struct KeptSpan {
  GroupId group = 0;
  unsigned lane = 0;
  Ticks start = 0, end = 0;
  friend bool operator==(const KeptSpan&, const KeptSpan&) = default;
};

// What the lanes of a machine were at.
struct LaneSpans {
  std::vector<Span> running;
  std::vector<Span> parked;  // in the pending slot of a lane
  std::vector<KeptSpan> kept;
};

}  // namespace dovetail::cores
