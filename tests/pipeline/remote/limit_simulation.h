#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "pipeline/remote/concurrency_limit.h"

namespace dovetail::pipeline {

// What a simulated server does with one request that arrives while `in_flight` (itself included)
// are accepted and not answered.
struct ServerAnswer {
  ConcurrencyLimit::Outcome outcome = ConcurrencyLimit::Outcome::kSuccess;
  Micros latency = 0;
  std::optional<Micros> retry_after;
};
using ServerModel = std::function<ServerAnswer(int in_flight, Micros now, std::mt19937_64& random)>;

struct SimulationResult {
  struct Level {
    Micros from;
    int limit;
  };
  std::vector<Level> levels;
  Micros end = 0;
  std::int64_t succeeded = 0;
  std::int64_t refused = 0;
  std::int64_t broken = 0;
  std::vector<int> times_succeeded;  // per job
  int most_in_flight = 0;
  int cuts = 0;

  // Share of the time from `from` on during which the limit was within [low, high].
  double share_within(Micros from, double low, double high) const;
  double mean_limit(Micros from) const;
};

// `jobs` jobs are all ready at 0; a job that does not succeed is sent again as soon as the limit
// lets it. Stops at `until` where jobs are left.
SimulationResult simulate(const LimitOptions& options, const ServerModel& server, int jobs,
                          Micros until = kNever, std::uint64_t seed = 1);

}  // namespace dovetail::pipeline
