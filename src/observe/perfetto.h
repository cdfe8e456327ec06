#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "observe/event_log.h"
#include "observe/lane_log.h"

namespace dovetail::observe {

// Writes events as a trace that ui.perfetto.dev and chrome://tracing open (the JSON of the Trace
// Event Format). Steps are slices named `mixed[p=2 chunks/1934 tok, d=114]`, `prefill[...]` or
// `decode[d=114]`, with the engine's forward pass and sampling on a track of their own; every slot
// has a track with the rows that it ran; every sequence has a track from its arrival to its end,
// waiting, reading or decoding. Preemptions, cancellations and ends are instants; counters say what
// runs, waits, is in the cache, and how many tokens a step had. Times count from the first event.
// The beginning may be missing, as in a log that was full: what it would have told is left out.
// `lanes` (in any order) are what the lanes of the executor were at meanwhile: a track each, with
// slices named `layer 3 gate-up`, and below it tracks of what it had parked and when it was kept,
// where there was any. Slices of a track never overlap. `out` gets the text piece by piece.
void write_perfetto(std::span<const Event> events, std::span<const LaneSlice> lanes,
                    const std::function<void(std::string_view)>& out);

// The same as one string.
std::string perfetto_json(std::span<const Event> events, std::span<const LaneSlice> lanes = {});

}  // namespace dovetail::observe
