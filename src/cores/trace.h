#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cores/spans.h"
#include "observe/event_log.h"

namespace dovetail::cores {

// What lanes did, of threads or played: times in nanoseconds from the same start.
struct LaneTrace {
  // Numbers that change at some times, such as the use of a ring.
  struct Counter {
    std::string name;
    std::vector<std::pair<Ticks, double>> samples;  // by time
  };

  std::vector<Span> running;
  std::vector<Span> pending;           // in the pending slot of a lane
  std::vector<ReservedSpan> reserved;  // idle, for one task only
  std::vector<Counter> counters;
  std::function<std::string(TaskId)> name;  // in UTF-8; of a task of these spans
};

// Writes it for ui.perfetto.dev and chrome://tracing (the JSON of the Trace Event Format): every
// group is a process, every lane a track "group 3 · matrix 0" with a slice for each part of a
// block; what it had pending and when it was reserved are tracks of their own below it, where there
// was any. Counters come first. `out` gets the text piece by piece.
void write_lane_trace(const Topology& topology, const LaneTrace& trace,
                      const std::function<void(std::string_view)>& out);

// A span for the engine's trace, whose lanes are numbered through all groups; `task` in static
// storage.
observe::LaneSlice lane_slice(const Span& span, const Topology& topology, const char* task);
// When a lane was reserved: its task is "kept".
observe::LaneSlice lane_slice(const ReservedSpan& span, const Topology& topology);

// Writes what an executor kept to the engine's trace; `slice_of` says what a span was.
void write_slices(const LaneSpans& spans, const Topology& topology,
                  const std::function<observe::LaneSlice(const Span&)>& slice_of,
                  observe::LaneLog& log);

}  // namespace dovetail::cores
