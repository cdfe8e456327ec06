#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "pipeline/remote/remote_scheduler.h"

namespace dovetail::pipeline {

inline constexpr Micros kMs = 1000;  // a millisecond

// What a simulated endpoint does with a request.
struct SimulatedAnswer {
  Micros latency = 0;
  FailureClass failure = FailureClass::kNone;
  RemoteScheduler::WireEnd end{ConcurrencyLimit::Outcome::kSuccess,
                               CircuitBreaker::Outcome::kSuccess, std::nullopt};
  Micros reading = 0;  // from the last byte until somebody knows what it says
  double tokens = 0;
};

SimulatedAnswer success(Micros latency);
SimulatedAnswer unreadable(Micros latency);  // a 200 that makes no sense
SimulatedAnswer refusal(Micros latency, std::optional<Micros> retry_after = std::nullopt);
SimulatedAnswer breakage(Micros latency);  // a connection that ends
SimulatedAnswer time_out(Micros latency);

struct SimulatedRequest {
  int job = 0;
  int send = 1;  // how often it was sent, this time included
  std::size_t endpoint = 0;
  int in_flight = 0;  // at the endpoint, this one included
  Micros now = 0;
};
using SimulatedServer = std::function<SimulatedAnswer(const SimulatedRequest&, std::mt19937_64&)>;

struct SimulatedRun {
  Micros end = 0;
  std::vector<int> succeeded, failed;          // per job
  std::vector<SimulatedRequest> requests;      // all that were sent, in order
  std::vector<int> most_in_flight;             // per endpoint
  std::vector<double> in_flight_area;          // per endpoint: in flight x time
  std::int64_t idle_wake_ups = 0;              // for next_time() and then nothing to do
  std::vector<std::pair<Micros, int>> limits;  // of the first endpoint, as they changed
  Status stalled;
  std::size_t left = 0;

  std::int64_t sent_to(std::size_t endpoint) const;
  // Share of the time from `from` on with the first endpoint's limit within [low, high].
  double share_within(Micros from, int low, int high) const;
};

// `jobs` jobs are ready at 0. Ends when all have ended, at `until`, or when check() fails.
SimulatedRun run_scheduler(RemoteSchedulerOptions options, const SimulatedServer& server, int jobs,
                           Micros until = 24 * 3600 * kOneSecond, std::uint64_t seed = 1,
                           double tokens = 0);

}  // namespace dovetail::pipeline
