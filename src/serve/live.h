#pragma once

#include <chrono>
#include <string>

#include "dovetail/engine.h"
#include "serve/metrics.h"

namespace dovetail::serve {

// What the engine and the HTTP side have counted at one moment, as /events reports it.
struct LiveSnapshot {
  EngineStats stats;
  Histogram first_token{kFirstTokenBounds};
  Histogram between_tokens{kTokenBounds};
  std::chrono::steady_clock::time_point time;
};

// One server-sent event with a JSON object: what is there now, and what happened between the two
// snapshots. Means and quantiles of nothing are null; rates of no time are 0.
std::string live_event(const LiveSnapshot& before, const LiveSnapshot& now, bool draining);

}  // namespace dovetail::serve
