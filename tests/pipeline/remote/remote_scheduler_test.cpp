#include "pipeline/remote/remote_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "pipeline/remote/scheduler_simulation.h"

namespace dovetail::pipeline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// So many endpoints with a limit that stays where it is.
RemoteSchedulerOptions fixed(std::size_t endpoints, int limit) {
  RemoteSchedulerOptions options;
  options.name = "model m";
  for (std::size_t i = 0; i < endpoints; ++i) options.endpoints.push_back(fmt::format("e{}", i));
  options.limit.max_parallel = limit;
  options.limit.start = limit;

  options.limit.trial.budget = 0;
  return options;
}

int sum(const std::vector<int>& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

// 200 ms on the wire, then 200 ms of back-off, then 200 ms on the wire again: ten slots carry 1,000
// jobs in 40 s when back-off holds none.
SimulatedRun half_off_wire(bool slot_is_kept) {
  RemoteSchedulerOptions options = fixed(1, 10);
  options.retry.base = options.retry.longest = 200 * kMs;
  options.retry.share_of_latency = 0;
  options.slot_is_kept_in_back_off = slot_is_kept;
  return run_scheduler(
      options,
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return request.send == 1 ? unreadable(200 * kMs) : success(200 * kMs);
      },
      1000);
}

TEST(RemoteScheduler, BackOffHoldsNoSlot) {
  const SimulatedRun run = half_off_wire(false);
  EXPECT_THAT(run.succeeded, Each(1));
  EXPECT_GE(run.end, 40 * kOneSecond);
  EXPECT_LE(run.end, 40 * kOneSecond + 400 * kMs);
}

TEST(RemoteScheduler, ASlotThatIsKeptInBackOffIsSeen) {
  const SimulatedRun run = half_off_wire(true);
  EXPECT_THAT(run.succeeded, Each(1));
  EXPECT_GE(run.end, 60 * kOneSecond) << "the fault costs what it must";
}

TEST(RemoteScheduler, ReadingAnAnswerHoldsNoSlot) {
  const SimulatedRun run = run_scheduler(
      fixed(1, 10),
      [](const SimulatedRequest&, std::mt19937_64&) {
        SimulatedAnswer answer = success(200 * kMs);
        answer.reading = 200 * kMs;
        return answer;
      },
      1000);
  EXPECT_EQ(run.end, 20 * kOneSecond + 200 * kMs);
}

TEST(RemoteScheduler, WhatHasWaitedGoesFirst) {
  RemoteSchedulerOptions options = fixed(1, 1);
  options.retry.base = options.retry.longest = 250 * kMs;
  options.retry.share_of_latency = 0;
  const SimulatedRun run = run_scheduler(
      options,
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return request.job == 0 && request.send == 1 ? unreadable(100 * kMs) : success(100 * kMs);
      },
      6);
  std::vector<int> order;
  for (const SimulatedRequest& request : run.requests) order.push_back(request.job);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 0, 4, 5)) << "its time comes at 350 ms";
}

TEST(RemoteScheduler, BeginsNothingWhileTooManyWait) {
  RemoteSchedulerOptions options = fixed(1, 4);
  options.most_off_wire = 6;
  options.retry.tries = 1000;
  options.retry.base = options.retry.longest = 10 * kOneSecond;
  const SimulatedRun run = run_scheduler(
      options, [](const SimulatedRequest&, std::mt19937_64&) { return unreadable(100 * kMs); },
      1000, 9 * kOneSecond);
  EXPECT_LE(run.left, 6U + 4U);
  EXPECT_GE(run.left, 6U);
}

TEST(RemoteScheduler, FindsTheLimitBehindRefusals) {
  RemoteSchedulerOptions options = fixed(1, 256);
  options.limit = LimitOptions{};
  options.limit.max_parallel = 256;
  const SimulatedRun run = run_scheduler(
      options,
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return request.in_flight > 20 ? refusal(1 * kMs) : success(50 * kMs);
      },
      100'000);
  EXPECT_THAT(run.succeeded, Each(1)) << "nothing is lost";
  EXPECT_GE(run.share_within(run.end / 4, 18, 22), 0.9);
}

TEST(RemoteScheduler, EndpointsShareTheLoadByTheirRoom) {
  const SimulatedRun run = run_scheduler(
      fixed(2, 10),
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return success(request.endpoint == 0 ? 100 * kMs : 300 * kMs);
      },
      4000);
  // 100 a second and 33 a second, both always full.
  EXPECT_NEAR(static_cast<double>(run.end) / kOneSecond, 30.0, 0.5);
  EXPECT_NEAR(static_cast<double>(run.sent_to(0)), 3000, 30);
}

TEST(RemoteScheduler, AStalledEndpointHoldsNothingUpButItsOwnRequests) {
  const SimulatedRun run = run_scheduler(
      fixed(2, 10),
      [](const SimulatedRequest& request, std::mt19937_64&) {
        const bool stalls = request.endpoint == 1 && request.now < 30 * kOneSecond;
        return stalls ? time_out(30 * kOneSecond) : success(100 * kMs);
      },
      2900);
  EXPECT_THAT(run.succeeded, Each(1));
  // The other endpoint alone makes 100 a second meanwhile.
  EXPECT_LE(run.end, 31 * kOneSecond + 2 * kOneSecond);
}

TEST(RemoteScheduler, ARetryGoesToAnotherEndpoint) {
  const SimulatedRun run = run_scheduler(
      fixed(2, 10),
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return request.endpoint == 0 ? unreadable(10 * kMs) : success(10 * kMs);
      },
      200);
  EXPECT_THAT(run.succeeded, Each(1));
  for (const SimulatedRequest& request : run.requests) {
    EXPECT_TRUE(request.endpoint == 1 || request.send == 1);
    EXPECT_LE(request.send, 2);
  }
}

TEST(RemoteScheduler, ARateLimitPausesItsEndpointAlone) {
  const SimulatedRun run = run_scheduler(
      fixed(2, 4),
      [](const SimulatedRequest& request, std::mt19937_64&) {
        const bool refuses = request.endpoint == 0 && request.now < 10 * kOneSecond;
        return refuses ? refusal(10 * kMs, 20 * kOneSecond) : success(100 * kMs);
      },
      2000);
  EXPECT_THAT(run.succeeded, Each(1));
  for (const SimulatedRequest& request : run.requests) {
    EXPECT_TRUE(request.endpoint == 1 || request.now == 0 || request.now >= 20 * kOneSecond);
  }
  const auto refused_came_back =
      std::find_if(run.requests.begin(), run.requests.end(),
                   [](const SimulatedRequest& request) { return request.send == 2; });
  ASSERT_NE(refused_came_back, run.requests.end());
  EXPECT_EQ(refused_came_back->endpoint, 1U);
  EXPECT_LE(refused_came_back->now, 2 * kOneSecond) << "the other endpoint has no reason to wait";
}

TEST(RemoteScheduler, RateLimitsUseUpNoTries) {
  const SimulatedRun run = run_scheduler(
      fixed(1, 4),
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return request.now < 300 * kOneSecond ? refusal(10 * kMs) : success(100 * kMs);
      },
      20);
  EXPECT_THAT(run.succeeded, Each(1));
  EXPECT_LE(run.end, 330 * kOneSecond);
}

TEST(RemoteScheduler, AnOpenBreakerIsProbedAndNoMore) {
  RemoteSchedulerOptions options = fixed(1, 8);
  options.stall_bound = 3600 * kOneSecond;
  options.retry.tries = 100;
  const SimulatedRun run = run_scheduler(
      options,
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return request.now < 100 * kOneSecond ? breakage(10 * kMs) : success(100 * kMs);
      },
      100);
  EXPECT_THAT(run.succeeded, Each(1));
  const auto before = std::count_if(run.requests.begin(), run.requests.end(),
                                    [](const auto& r) { return r.now < 100 * kOneSecond; });
  // The eight of the beginning, four in the place of the first that failed, then one after 1, 2, 4,
  // 8, 16, 32 and 60 s.
  EXPECT_GE(before, 12 + 5);
  EXPECT_LE(before, 12 + 7);
}

TEST(RemoteScheduler, SomethingThatIsRefusedForGoodIsNotTriedAgain) {
  const SimulatedRun run = run_scheduler(
      fixed(1, 8),
      [](const SimulatedRequest& request, std::mt19937_64&) {
        SimulatedAnswer answer = success(10 * kMs);
        if (request.job % 2 == 1) {
          answer.failure = FailureClass::kFinal;
          answer.end.load = ConcurrencyLimit::Outcome::kOther;
        }
        return answer;
      },
      100);
  EXPECT_EQ(run.requests.size(), 100U);
  EXPECT_EQ(sum(run.failed), 50);
  EXPECT_EQ(sum(run.succeeded), 50);
}

TEST(RemoteScheduler, SaysWhenNothingSucceedsForTooLong) {
  RemoteSchedulerOptions options = fixed(1, 8);
  options.stall_bound = 100 * kOneSecond;
  const SimulatedRun run = run_scheduler(
      options,
      [](const SimulatedRequest& request, std::mt19937_64&) {
        return request.now < 50 * kOneSecond ? success(100 * kMs) : refusal(10 * kMs);
      },
      100'000);
  ASSERT_FALSE(run.stalled.has_value());
  EXPECT_EQ(run.stalled.error().kind, ErrorKind::kTimeout);
  EXPECT_THAT(run.stalled.error().message, HasSubstr("model m: no request succeeded for 100 s"));
  EXPECT_GE(run.end, 150 * kOneSecond);
  EXPECT_LE(run.end, 156 * kOneSecond);
  EXPECT_EQ(sum(run.failed), 0) << "a rate limit drops nothing";
}

TEST(RemoteScheduler, KeepsTheBudgets) {
  RemoteSchedulerOptions options = fixed(1, 64);
  options.rate.requests_per_minute = 600;
  const SimulatedRun requests = run_scheduler(
      options, [](const SimulatedRequest&, std::mt19937_64&) { return success(10 * kMs); }, 600);
  // Ten at once, then ten a second.
  EXPECT_GE(requests.end, 59 * kOneSecond);
  EXPECT_LE(requests.end, 59 * kOneSecond + 100 * kMs);
  EXPECT_LE(requests.idle_wake_ups, 10);

  options.rate = {};
  options.rate.tokens_per_minute = 60'000;
  const SimulatedRun tokens = run_scheduler(
      options,
      [](const SimulatedRequest&, std::mt19937_64&) {
        SimulatedAnswer answer = success(10 * kMs);
        answer.tokens = 200;  // of the 100 that were expected
        return answer;
      },
      300, kNever, 1, 100);
  EXPECT_NEAR(static_cast<double>(tokens.end) / kOneSecond, 59.0, 1.5)
      << "300 x 200 at 1,000 a second";
}

TEST(RemoteScheduler, SaysWhyAnEndpointIsIdle) {
  RemoteSchedulerOptions options = fixed(1, 1);
  options.rate.requests_per_minute = 60;
  options.limit.noise = 0;
  RemoteScheduler scheduler(options);
  const auto why = [&](Micros now) { return scheduler.state(now)[0].hindrance; };
  EXPECT_EQ(why(0), Hindrance::kNone);
  const auto first = scheduler.begin({}, 0);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(why(0), Hindrance::kLimit);
  EXPECT_FALSE(scheduler.begin({}, 0).has_value());
  scheduler.ended(first->id, success(0).end, 10);
  EXPECT_EQ(why(10), Hindrance::kBudget);
  const Micros refilled = scheduler.next_time(10);
  EXPECT_NEAR(static_cast<double>(refilled), kOneSecond, 2);
  EXPECT_EQ(scheduler.room(refilled), 1);
  EXPECT_EQ(why(refilled), Hindrance::kNone);
  scheduler.answered(first->id, 1, refilled);
  const auto second = scheduler.begin({}, refilled);
  ASSERT_TRUE(second.has_value());
  scheduler.ended(second->id, refusal(0).end, refilled);
  EXPECT_EQ(why(refilled), Hindrance::kCoolDown);
  EXPECT_TRUE(scheduler.failed(second->id, FailureClass::kRateLimit, "429", refilled).again);
  EXPECT_EQ(scheduler.waiting(), 1U);
}

// Why it fails is known from the first failure on, until something is answered. A request that is
// refused for good is its own fault.
TEST(RemoteScheduler, SaysWhyAnEndpointFails) {
  RemoteScheduler scheduler(fixed(1, 4));
  const auto why = [&] { return scheduler.state(1)[0].failure; };
  const auto cut = scheduler.begin({}, 0);
  const auto refused = scheduler.begin({}, 0);
  const auto good = scheduler.begin({}, 0);
  ASSERT_TRUE(cut && refused && good);
  EXPECT_EQ(why(), "");
  scheduler.ended(refused->id, refusal(0).end, 1);
  scheduler.failed(refused->id, FailureClass::kFinal, "400", 1);
  EXPECT_EQ(why(), "");
  scheduler.ended(cut->id, unreadable(0).end, 1);
  EXPECT_TRUE(scheduler.failed(cut->id, FailureClass::kRetryable, "cut", 1).again);
  EXPECT_EQ(why(), "cut");
  scheduler.ended(good->id, success(0).end, 1);
  scheduler.answered(good->id, 1, 1);
  EXPECT_EQ(why(), "");
}

TEST(RemoteScheduler, StopForgetsWhatWaits) {
  RemoteScheduler scheduler(fixed(1, 2));
  const auto a = scheduler.begin({}, 0);
  const auto b = scheduler.begin({}, 0);
  scheduler.ended(a->id, unreadable(0).end, 1);
  EXPECT_TRUE(scheduler.failed(a->id, FailureClass::kRetryable, "cut", 1).again);
  EXPECT_THAT(scheduler.stop(2), ElementsAre(a->id));
  EXPECT_EQ(scheduler.room(2), 0);
  EXPECT_EQ(scheduler.next_time(2), kNever);
  scheduler.ended(b->id, refusal(0).end, 3);
  EXPECT_FALSE(scheduler.failed(b->id, FailureClass::kRateLimit, "429", 3).again);
  EXPECT_EQ(scheduler.size(), 0U);
}

// Whatever the endpoints do: every job ends once, no endpoint has more than its slots, and nobody
// wakes up for nothing again and again.
RC_GTEST_PROP(RemoteScheduler, EveryJobEndsOnce, ()) {
  const auto endpoints = *rc::gen::inRange<std::size_t>(1, 4);
  const auto limit = *rc::gen::inRange(1, 12);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto badness = *rc::gen::inRange(0, 60);
  RemoteSchedulerOptions options = fixed(endpoints, limit);
  options.limit.start = 0;

  options.limit.trial.budget = 0.005;
  options.most_off_wire = static_cast<std::size_t>(*rc::gen::inRange(0, 20));
  if (*rc::gen::arbitrary<bool>()) options.rate.requests_per_minute = 6000;
  const SimulatedRun run = run_scheduler(
      options,
      [&](const SimulatedRequest& request, std::mt19937_64& random) {
        const auto latency = static_cast<Micros>(random() % 200'000);
        if (static_cast<int>(random() % 100) >= badness) return success(latency);
        switch (random() % 5) {
          case 0:
            return unreadable(latency);
          case 1:
            return refusal(latency);
          case 2:
            return refusal(latency, static_cast<Micros>(random() % 3'000'000));
          case 3:
            return time_out(latency);
          default:
            return request.endpoint == 0 ? breakage(latency) : success(latency);
        }
      },
      300, 24 * 3600 * kOneSecond, seed);
  for (std::size_t i = 0; i < 300; ++i) RC_ASSERT(run.succeeded[i] + run.failed[i] == 1);
  RC_ASSERT(run.left == 0U);
  for (const int most : run.most_in_flight) RC_ASSERT(most <= limit);
  RC_ASSERT(run.idle_wake_ups <= static_cast<std::int64_t>(2 * run.requests.size()));
}

}  // namespace
}  // namespace dovetail::pipeline
