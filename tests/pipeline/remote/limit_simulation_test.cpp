#include "pipeline/remote/limit_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dovetail::pipeline {
namespace {

using LimitOutcome = ConcurrencyLimit::Outcome;
constexpr Micros kMillisecond = 1000;

bool each_once(const SimulationResult& result) {
  return std::all_of(result.times_succeeded.begin(), result.times_succeeded.end(),
                     [](int times) { return times == 1; });
}

// Accepts `room` in flight and refuses the rest at once.
ServerModel refusing_above(int room, Micros latency) {
  return [=](int in_flight, Micros, std::mt19937_64&) {
    if (in_flight > room) return ServerAnswer{LimitOutcome::kRefused, kMillisecond, std::nullopt};
    return ServerAnswer{LimitOutcome::kSuccess, latency, std::nullopt};
  };
}

// Never refuses; above `knee` in flight every request only takes longer. Latencies scatter evenly
// by +- `jitter`.
ServerModel slowing_above(int knee, Micros base, double jitter) {
  return [=](int in_flight, Micros, std::mt19937_64& random) {
    const double load = std::max(1.0, static_cast<double>(in_flight) / knee);
    std::uniform_real_distribution<double> scatter(1 - jitter, 1 + jitter);
    return ServerAnswer{LimitOutcome::kSuccess,
                        std::llround(static_cast<double>(base) * load * scatter(random)),
                        std::nullopt};
  };
}

LimitOptions up_to(int cap) {
  LimitOptions options;
  options.max_parallel = cap;
  return options;
}

TEST(LimitSimulation, FindsAndHoldsTheLevelThatIsNotRefused) {
  for (const Micros latency : {50 * kMillisecond, 500 * kMillisecond}) {
    for (const int start : {0, 4, 200}) {
      LimitOptions options = up_to(200);
      options.start = start;
      const auto run = simulate(options, refusing_above(20, latency), 60'000, 600 * kOneSecond);
      SCOPED_TRACE(::testing::Message() << latency << " us from " << start);
      EXPECT_GT(run.share_within(120 * kOneSecond, 18, 22), 0.9);
      EXPECT_LE(run.cuts, 16);
      EXPECT_LE(run.refused, 600);

      options.hold = 0;  // forgets the level that was refused
      const auto mutant = simulate(options, refusing_above(20, latency), 60'000, 600 * kOneSecond);
      EXPECT_GT(mutant.cuts, 2 * run.cuts);
    }
  }
}

TEST(LimitSimulation, LosesNothingToRefusals) {
  const auto run = simulate(up_to(64), refusing_above(20, 50 * kMillisecond), 10'000);
  EXPECT_TRUE(each_once(run));
  EXPECT_GT(run.refused, 0);
}

TEST(LimitSimulation, SettlesAtTheKneeOfAServerThatOnlyGetsSlow) {
  for (const double jitter : {0.0, 0.5, 0.8}) {
    for (const int start : {0, 4, 200}) {
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        LimitOptions options = up_to(200);
        options.start = start;
        const auto server = slowing_above(20, 100 * kMillisecond, jitter);
        const auto run = simulate(options, server, 1'000'000, 900 * kOneSecond, seed);
        SCOPED_TRACE(::testing::Message() << "jitter " << jitter << " from " << start);
        EXPECT_GT(run.share_within(300 * kOneSecond, 20 / 1.3, 20 * 1.3), 0.9);
        EXPECT_NEAR(run.mean_limit(300 * kOneSecond), 20, 4);
        const double bound = 20.0 / (100 * kMillisecond) * static_cast<double>(run.end);
        EXPECT_GT(static_cast<double>(run.succeeded), 0.93 * bound);

        options.trial.budget = 0;
        const auto mutant = simulate(options, server, 1'000'000, 900 * kOneSecond, seed);
        EXPECT_LT(mutant.share_within(120 * kOneSecond, 20 / 1.3, 20 * 1.3), 0.1);
      }
    }
  }
}

// A server that batches: every request makes all slower, but more of them are answered. The
// gradient alone, without asking what became of the throughput, holds it back.
TEST(LimitSimulation, DoesNotStarveAServerThatBatches) {
  const ServerModel server = [](int in_flight, Micros, std::mt19937_64& random) {
    std::uniform_real_distribution<double> scatter(0.5, 1.5);
    const double latency = 1e6 * (1 + in_flight / 64.0) * scatter(random);
    return ServerAnswer{LimitOutcome::kSuccess, std::llround(latency), std::nullopt};
  };
  LimitOptions options = up_to(64);
  options.start = 4;
  const auto run = simulate(options, server, 1'000'000, 1800 * kOneSecond);
  EXPECT_GT(run.mean_limit(600 * kOneSecond), 0.9 * 64);
  options.trial.loss = 1;  // any throughput will do
  const auto mutant = simulate(options, server, 1'000'000, 1800 * kOneSecond);
  EXPECT_LT(mutant.mean_limit(600 * kOneSecond), 0.8 * 64);
}

TEST(LimitSimulation, CostsNextToNothingWhereNothingIsWrong) {
  for (const double jitter : {0.0, 0.8}) {
    for (const Micros latency : {50 * kMillisecond, 500 * kMillisecond}) {
      const auto run = simulate(up_to(64), slowing_above(1000, latency, jitter), 30'000);
      const double bound = 30'000.0 / 64 * static_cast<double>(latency);
      EXPECT_LT(static_cast<double>(run.end), 1.02 * bound + 2 * static_cast<double>(latency))
          << latency << " jitter " << jitter;
      EXPECT_TRUE(each_once(run));
    }
  }
}

TEST(LimitSimulation, GoesOnAfterAStall) {
  // What arrives, or is under way, between 20 s and 50 s is answered at 50 s and later.
  const ServerModel server = [](int, Micros now, std::mt19937_64&) {
    const Micros end = now + 100 * kMillisecond;
    const bool stalled = end > 20 * kOneSecond && now < 50 * kOneSecond;
    return ServerAnswer{LimitOutcome::kSuccess,
                        (stalled ? 50 * kOneSecond + 100 * kMillisecond : end) - now, std::nullopt};
  };
  const auto run = simulate(up_to(64), server, 64'000);
  EXPECT_TRUE(each_once(run));
  EXPECT_EQ(run.cuts, 0);
  EXPECT_GT(run.mean_limit(60 * kOneSecond), 60);
  EXPECT_LT(static_cast<double>(run.end), 1.02 * 130 * kOneSecond);
}

TEST(LimitSimulation, DroppedConnectionsDoNotKeepItDown) {
  const ServerModel server = [](int in_flight, Micros, std::mt19937_64& random) {
    if (std::uniform_real_distribution<double>()(random) < 0.05) {
      return ServerAnswer{LimitOutcome::kBroken, 20 * kMillisecond, std::nullopt};
    }
    if (in_flight > 40) return ServerAnswer{LimitOutcome::kRefused, kMillisecond, std::nullopt};
    return ServerAnswer{LimitOutcome::kSuccess, 100 * kMillisecond, std::nullopt};
  };
  const auto run = simulate(up_to(64), server, 100'000);
  EXPECT_TRUE(each_once(run));
  EXPECT_GT(run.broken, 4'000);
  EXPECT_GT(run.share_within(100 * kOneSecond, 36, 44), 0.85);
}

TEST(LimitSimulation, AStormIsOneCut) {
  // For an instant at 10 s the server refuses everybody.
  const ServerModel server = [](int, Micros now, std::mt19937_64&) {
    if (now >= 10 * kOneSecond && now < 10 * kOneSecond + 500 * kMillisecond) {
      return ServerAnswer{LimitOutcome::kRefused, 400 * kMillisecond, std::nullopt};
    }
    return ServerAnswer{LimitOutcome::kSuccess, 450 * kMillisecond, std::nullopt};
  };
  LimitOptions options = up_to(400);
  options.trial.budget = 0;
  const auto run = simulate(options, server, 100'000, 60 * kOneSecond);
  EXPECT_GT(run.refused, 300);
  EXPECT_EQ(run.cuts, 1);
  options.one_cut_per_burst = false;
  EXPECT_GT(simulate(options, server, 100'000, 60 * kOneSecond).cuts, 300);
}

TEST(LimitSimulation, FollowsAServerThatGrows) {
  const ServerModel server = [](int in_flight, Micros now, std::mt19937_64&) {
    if (in_flight > (now < 60 * kOneSecond ? 20 : 60)) {
      return ServerAnswer{LimitOutcome::kRefused, kMillisecond, std::nullopt};
    }
    return ServerAnswer{LimitOutcome::kSuccess, 100 * kMillisecond, std::nullopt};
  };
  const auto run = simulate(up_to(64), server, 1'000'000, 600 * kOneSecond);
  EXPECT_GT(run.share_within(300 * kOneSecond, 54, 64), 0.9);
}

// Trials of a server that is never saturated leave at most so many slots empty.
TEST(LimitSimulation, TrialsKeepTheirBudget) {
  for (const double jitter : {0.0, 0.8}) {
    const auto server = slowing_above(1000, 100 * kMillisecond, jitter);
    LimitOptions options = up_to(64);
    const auto run = simulate(options, server, 1'000'000, 1200 * kOneSecond);
    EXPECT_GE(run.mean_limit(0), (1 - options.trial.budget) * 64) << jitter;
    EXPECT_GT(run.levels.size(), 3U) << "there are some";
  }
}

}  // namespace
}  // namespace dovetail::pipeline
