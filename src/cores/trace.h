#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cores/spans.h"
#include "observe/lane_log.h"

namespace dovetail::cores {

// What lanes were at, whoever ran them: times in nanoseconds from the same start.
struct LaneTrace {
  // Numbers that change at some times, such as the use of a ring.
  struct Counter {
    std::string name;
    std::vector<std::pair<Ticks, double>> samples;  // by time
  };

  std::vector<Span> running;
  std::vector<Span> parked;    // in the pending slot of a lane
  std::vector<KeptSpan> kept;  // idle, and nobody else's
  std::vector<Counter> counters;
  std::function<std::string(TaskId)> name;  // in UTF-8; of a task of these spans
};

// Writes it for ui.perfetto.dev and chrome://tracing (the JSON of the Trace Event Format): every
// group is a process, every lane a track "group 3 · matrix 0" with a slice for each part of a
// block; what it had parked and when it was kept are tracks of their own below it, where there was
// any. Counters come first. `out` gets the text piece by piece.
void write_lane_trace(const Topology& topology, const LaneTrace& trace,
                      const std::function<void(std::string_view)>& out);

// A span for the engine's trace, whose lanes are numbered through all groups; `task` in static
// storage.
observe::LaneSlice lane_slice(const Span& span, const Topology& topology, const char* task);
// When a lane was kept: its task is "kept".
observe::LaneSlice lane_slice(const KeptSpan& span, const Topology& topology);

}  // namespace dovetail::cores
