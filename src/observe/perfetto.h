#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "observe/event_log.h"

namespace dovetail::observe {

// Writes events as a trace that ui.perfetto.dev and chrome://tracing open (the JSON of the Trace
// Event Format). Steps are slices named `mixed[p=2 chunks/1934 tok, d=114]`, `prefill[...]` or
// `decode[d=114]`, with the engine's forward pass and sampling on a track of their own; every slot
// has a track with its rows; every sequence has a track from its arrival to its end: waiting,
// prefill, decode. Preemptions, cancellations and ends are instants; counters show running and
// waiting sequences, blocks, and tokens per step. Times count from the first event.
// The beginning may be missing, as in a ring that has overwritten it: the trace lacks its slices.
// `lanes` (in any order) are the spans of the executor's lanes: a track each, with slices named
// `layer 3 gate-up`, and below it tracks of pending and reserved spans, where there are any. Slices
// of a track never overlap. `out` gets the text piece by piece.
void write_perfetto(std::span<const Event> events, std::span<const LaneSlice> lanes,
                    const std::function<void(std::string_view)>& out);

// The same as one string.
std::string perfetto_json(std::span<const Event> events, std::span<const LaneSlice> lanes = {});

}  // namespace dovetail::observe
