#pragma once

#include <span>
#include <string>

#include "observe/event_log.h"

namespace dovetail::observe {

// A log as a trace for ui.perfetto.dev (Chrome's "Trace Event Format", JSON), with times from the
// first event on:
// - process "engine": a track of steps, each named for what it holds, such as
//   "mixed[p=2 chunks/1934 tok, d=114]", from the begin to the end of its forward pass (of a log
//   without an engine: from plan to commit); tracks of planning and sampling; counters of running
//   and waiting sequences, of blocks in use, and of the tokens of a step;
// - process "slots": a track per slot with the sequences that hold it, "7 prefill" and then
//   "7 decode", and marks where one was preempted;
// - process "waiting": a track per sequence that waits.
// A log that has lost its beginning gives what is whole; what has not ended ends with the last
// event. Expects events as EventLog::events() gives them.
std::string perfetto_json(std::span<const Event> events);

}  // namespace dovetail::observe
