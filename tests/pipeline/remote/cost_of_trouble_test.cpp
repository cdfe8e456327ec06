#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "pipeline/remote/scheduler_simulation.h"

// What trouble at an endpoint costs a run beyond what it must: wall time over a bound, on the
// virtual clock. Each case is a model of the source case's shape, 1,000 records of three columns.
namespace dovetail::pipeline {
namespace {

constexpr int kSlots = 64;
constexpr int kRequests = 3000;
constexpr Micros kLatencies[] = {50 * kMs, 500 * kMs, 5 * kOneSecond};
constexpr std::uint64_t kSeeds[] = {1, 2, 3, 4, 5};

RemoteSchedulerOptions product(int slots = kSlots) {
  RemoteSchedulerOptions options;
  options.name = "model m";
  options.endpoints = {"e"};
  options.limit.max_parallel = slots;
  return options;
}

bool chance(double share, std::mt19937_64& random) {
  return std::uniform_real_distribution<double>()(random) < share;
}

// Of a model whose requests all take `latency`, `slots` at a time.
double bound(Micros latency, int slots = kSlots) {
  return static_cast<double>((kRequests + slots - 1) / slots) * static_cast<double>(latency);
}

double ratio(const SimulatedServer& server, double bound, std::uint64_t seed = 1) {
  const SimulatedRun run =
      run_scheduler(product(), server, kRequests, 24 * 3600 * kOneSecond, seed);
  EXPECT_EQ(run.left, 0U);
  EXPECT_GE(std::count(run.succeeded.begin(), run.succeeded.end(), 1), kRequests - 1);
  return static_cast<double>(run.end) / bound;
}

TEST(CostOfTrouble, NoneWhereNothingIsWrong) {
  for (const Micros latency : kLatencies) {
    const auto server = [&](const SimulatedRequest&, std::mt19937_64&) { return success(latency); };
    EXPECT_LE(ratio(server, bound(latency)), 1.001) << latency;
  }
}

TEST(CostOfTrouble, FiveOfAHundredAnswersAreErrors) {
  for (const Micros latency : kLatencies) {
    for (const Micros until_error : {kMs, latency}) {
      for (const std::uint64_t seed : kSeeds) {
        const auto server = [&](const SimulatedRequest&, std::mt19937_64& random) {
          return chance(0.05, random) ? breakage(until_error) : success(latency);
        };
        EXPECT_LE(ratio(server, bound(latency), seed), 1.3)
            << latency << " us, errors after " << until_error << " us, seed " << seed;
      }
    }
  }
}

TEST(CostOfTrouble, SoManyAtATimeAndTheOthersAreRefused) {
  for (const Micros latency : kLatencies) {
    for (const int room : {5, 10, 20, 40, 63}) {
      const auto server = [&](const SimulatedRequest& request, std::mt19937_64&) {
        return request.in_flight > room ? refusal(kMs) : success(latency);
      };
      EXPECT_LE(ratio(server, bound(latency, room)), 1.3) << latency << " us, room " << room;
    }
  }
}

TEST(CostOfTrouble, SomeAreRefusedWhateverTheirNumber) {
  for (const Micros latency : kLatencies) {
    for (const double share : {0.01, 0.05}) {
      for (const std::uint64_t seed : kSeeds) {
        const auto server = [&](const SimulatedRequest&, std::mt19937_64& random) {
          return chance(share, random) ? refusal(kMs) : success(latency);
        };
        EXPECT_LE(ratio(server, bound(latency), seed), 1.3) << latency << " us, share " << share;
      }
    }
  }
}

// A bucket of tokens that holds as many as it gets during one answer, and refuses without them.
TEST(CostOfTrouble, ARateThatTheEndpointKeeps) {
  constexpr int kRoom = 20;
  for (const Micros latency : kLatencies) {
    const double rate = static_cast<double>(kRoom) / static_cast<double>(latency);
    double tokens = kRoom;
    Micros filled = 0;
    const auto server = [&](const SimulatedRequest& request, std::mt19937_64&) {
      tokens += rate * static_cast<double>(request.now - std::exchange(filled, request.now));
      tokens = std::min(tokens, static_cast<double>(kRoom));
      if (tokens < 1) return refusal(kMs);
      tokens -= 1;
      return success(latency);
    };
    EXPECT_LE(ratio(server, bound(latency, kRoom)), 1.3) << latency;
  }
}

}  // namespace
}  // namespace dovetail::pipeline
