#include "pipeline/remote/concurrency_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace dovetail::pipeline {
namespace {

using LimitOutcome = ConcurrencyLimit::Outcome;
using Ticket = ConcurrencyLimit::Ticket;

// A limit that only moves by cuts and raises.
LimitOptions plain(int start, int max_parallel) {
  LimitOptions options;
  options.start = start;
  options.max_parallel = max_parallel;
  options.trial.budget = 0;
  return options;
}

std::vector<Ticket> fill(ConcurrencyLimit& limit, Micros now) {
  std::vector<Ticket> tickets;
  while (limit.may_send(now)) tickets.push_back(limit.sent(now));
  return tickets;
}

TEST(ConcurrencyLimit, SendsUpToTheLimit) {
  ConcurrencyLimit limit(plain(3, 10));
  EXPECT_EQ(fill(limit, 0).size(), 3U);
  EXPECT_EQ(limit.next_time(5), kNever);
  EXPECT_EQ(limit.in_flight(), 3);
}

TEST(ConcurrencyLimit, BeginsWithAllThatItMayHave) {
  EXPECT_EQ(ConcurrencyLimit(plain(0, 10)).limit(), 10);
  EXPECT_EQ(ConcurrencyLimit(plain(0, 200)).limit(), 200);
  EXPECT_EQ(ConcurrencyLimit(plain(20, 200)).limit(), 20);
  EXPECT_EQ(ConcurrencyLimit(plain(500, 200)).limit(), 200);
  EXPECT_EQ(ConcurrencyLimit(plain(0, 0)).limit(), 1);
}

TEST(ConcurrencyLimit, CutsToHalfButNeverToNothing) {
  struct Case {
    int before;
    int after;
  };
  for (const Case& c : {Case{64, 32}, Case{48, 24}, Case{21, 10}, Case{2, 1}, Case{1, 1}}) {
    ConcurrencyLimit limit(plain(c.before, 100));
    limit.finished(limit.sent(0), LimitOutcome::kRefused, 10);
    EXPECT_EQ(limit.limit(), c.after) << c.before;
  }
}

TEST(ConcurrencyLimit, OneBurstIsOneCut) {
  for (const bool mutant : {false, true}) {
    LimitOptions options = plain(400, 400);
    options.one_cut_per_burst = !mutant;
    ConcurrencyLimit limit(options);
    Micros now = 0;
    for (const Ticket& ticket : fill(limit, now)) {
      limit.finished(ticket, LimitOutcome::kRefused, ++now);
    }
    EXPECT_EQ(limit.cuts() == 1, !mutant);
    EXPECT_EQ(limit.limit() == 200, !mutant) << limit.limit();
  }
}

TEST(ConcurrencyLimit, ALateRefusalOfAnOldBurstDoesNotCutAgain) {
  ConcurrencyLimit limit(plain(4, 4));
  const auto burst = fill(limit, 0);
  limit.finished(burst[0], LimitOutcome::kRefused, 10);
  ASSERT_EQ(limit.limit(), 3);
  limit.finished(burst[1], LimitOutcome::kRefused, 60 * kOneSecond);
  EXPECT_EQ(limit.limit(), 3);
  EXPECT_FALSE(limit.cooling(60 * kOneSecond)) << "nor cool anew";
  limit.finished(burst[2], LimitOutcome::kRefused, 60 * kOneSecond, 5 * kOneSecond);
  EXPECT_EQ(limit.cool_until(), 65 * kOneSecond) << "unless the server names a time";
}

TEST(ConcurrencyLimit, CoolsDownForTheServersTime) {
  struct Case {
    std::optional<Micros> retry_after;
    Micros until;
  };
  for (const Case& c : {Case{7 * kOneSecond, 10 + 7 * kOneSecond}, Case{0, 10}, Case{-5, 10},
                        Case{kNever, 10 + 86'400 * kOneSecond}}) {
    ConcurrencyLimit limit(plain(8, 8));
    limit.finished(limit.sent(0), LimitOutcome::kRefused, 10, c.retry_after);
    EXPECT_EQ(limit.next_time(10), c.until);
    if (c.until > 10) {
      EXPECT_FALSE(limit.may_send(c.until - 1));
    }
    EXPECT_TRUE(limit.may_send(c.until));
  }
}

// Of an endpoint that answers after `latency`; 0: that has not answered.
std::vector<Micros> pauses_after_refusals(Micros latency, int bursts) {
  ConcurrencyLimit limit(plain(64, 64));
  Micros now = 0;
  if (latency > 0) {
    const Ticket ticket = limit.sent(now);
    limit.finished(ticket, LimitOutcome::kSuccess, now += latency);
  }
  std::vector<Micros> pauses;
  for (int burst = 0; burst < bursts; ++burst) {
    auto tickets = fill(limit, now);
    limit.finished(tickets.back(), LimitOutcome::kRefused, now);
    tickets.pop_back();
    for (const Ticket& ticket : tickets) limit.finished(ticket, LimitOutcome::kOther, now);
    pauses.push_back(limit.cool_until() - now);
    now = limit.cool_until();
  }
  return pauses;
}

TEST(ConcurrencyLimit, CoolsDownInProportionToTheLatencyWhereTheServerNamesNoTime) {
  constexpr Micros kMs = 1000;
  using ::testing::ElementsAre;
  EXPECT_THAT(pauses_after_refusals(0, 3), ElementsAre(10 * kMs, 20 * kMs, 40 * kMs));
  EXPECT_THAT(pauses_after_refusals(50 * kMs, 3), ElementsAre(10 * kMs, 20 * kMs, 40 * kMs));
  EXPECT_THAT(pauses_after_refusals(1600 * kMs, 3), ElementsAre(100 * kMs, 200 * kMs, 400 * kMs));
  EXPECT_THAT(pauses_after_refusals(160 * kOneSecond, 2), ElementsAre(2000 * kMs, 2000 * kMs));
  EXPECT_EQ(pauses_after_refusals(50 * kMs, 12).back(), 2 * kOneSecond) << "never longer";
}

TEST(ConcurrencyLimit, AnAnswerEndsTheRowOfCoolDowns) {
  ConcurrencyLimit limit(plain(64, 64));
  auto burst = fill(limit, 0);
  limit.finished(burst.back(), LimitOutcome::kRefused, 0);
  limit.finished(burst.front(), LimitOutcome::kSuccess, 160'000);
  const Micros now = 200'000;
  burst = fill(limit, now);
  limit.finished(burst.back(), LimitOutcome::kRefused, now, std::nullopt);
  EXPECT_LE(limit.cool_until(), now + 10'000);
}

TEST(ConcurrencyLimit, ACutGoesToWhatTheEndpointHasAccepted) {
  struct Case {
    int refused;
    int after;
  };
  for (const Case& c : {Case{1, 63}, Case{5, 59}, Case{16, 48}, Case{44, 32}}) {
    ConcurrencyLimit limit(plain(64, 64));
    auto burst = fill(limit, 0);
    for (int i = 0; i < c.refused; ++i, burst.pop_back()) {
      limit.finished(burst.back(), LimitOutcome::kRefused, 1000);
    }
    EXPECT_EQ(limit.limit(), c.after) << c.refused;
    EXPECT_EQ(limit.cuts(), 1);
  }
}

// Six requests in a hundred are refused, whatever their number.
TEST(ConcurrencyLimit, FewRefusalsAtALevelThatIsAnsweredAreNoise) {
  for (const bool mutant : {false, true}) {
    LimitOptions options = plain(32, 32);
    if (mutant) options.noise = 0;
    ConcurrencyLimit limit(options);
    Micros now = 0;
    for (int round = 0; round < 300; ++round) {
      now = std::max(now, limit.cool_until());
      auto tickets = fill(limit, now);
      std::rotate(tickets.begin(), tickets.begin() + round % static_cast<int>(tickets.size()),
                  tickets.end());
      now += 1000;
      for (std::size_t i = 0; i < tickets.size(); ++i) {
        const bool refused = round > 0 && i % 16 == 15;
        limit.finished(tickets[i], refused ? LimitOutcome::kRefused : LimitOutcome::kSuccess, now);
      }
    }
    EXPECT_EQ(limit.limit() == 32, !mutant) << limit.limit();
  }
}

TEST(ConcurrencyLimit, RisesByOneAfterTwentyFiveSuccessesInARow) {
  ConcurrencyLimit limit(plain(1, 3));
  Micros now = 0;
  const auto succeed = [&](int times) {
    for (int i = 0; i < times; ++i, ++now) {
      limit.finished(limit.sent(now), LimitOutcome::kSuccess, now + 1);
    }
  };
  succeed(24);
  EXPECT_EQ(limit.limit(), 1);
  succeed(1);
  EXPECT_EQ(limit.limit(), 2);

  auto both = fill(limit, now);
  limit.finished(both[1], LimitOutcome::kSuccess, ++now);
  limit.finished(both[0], LimitOutcome::kBroken, ++now);
  for (int i = 0; i < 24; ++i) {
    both = fill(limit, now);
    limit.finished(both[0], LimitOutcome::kOther, ++now);
    limit.finished(both[1], LimitOutcome::kSuccess, ++now);
  }
  EXPECT_EQ(limit.limit(), 2) << "the broken one ended the row, others do not";
  both = fill(limit, now);
  limit.finished(both[0], LimitOutcome::kOther, ++now);
  limit.finished(both[1], LimitOutcome::kSuccess, ++now);
  EXPECT_EQ(limit.limit(), 3);
  for (int i = 0; i < 100; ++i) {
    for (const Ticket& ticket : fill(limit, now))
      limit.finished(ticket, LimitOutcome::kSuccess, ++now);
  }
  EXPECT_EQ(limit.limit(), 3) << "the cap";
}

TEST(ConcurrencyLimit, AnIdleEndpointTeachesNothing) {
  ConcurrencyLimit limit(plain(10, 20));
  for (Micros now = 0; now < 1000; ++now)
    limit.finished(limit.sent(now), LimitOutcome::kSuccess, now);
  EXPECT_EQ(limit.limit(), 10);
}

TEST(ConcurrencyLimit, SuccessesInTheCoolDownDoNotCount) {
  ConcurrencyLimit limit(plain(40, 100));
  auto burst = fill(limit, 0);
  limit.finished(burst.back(), LimitOutcome::kRefused, 1);
  burst.pop_back();
  for (const Ticket& ticket : burst) limit.finished(ticket, LimitOutcome::kSuccess, 2);
  EXPECT_EQ(limit.limit(), 39);
}

TEST(ConcurrencyLimit, HoldsBelowARefusedLevelLongerEachTime) {
  LimitOptions options = plain(4, 100);
  options.noise = 0;
  ConcurrencyLimit limit(options);
  Micros now = 0;
  const auto round = [&] {
    for (const Ticket& ticket : fill(limit, now)) {
      limit.finished(ticket, LimitOutcome::kSuccess, now + 1000);
    }
    now += 1000;
  };
  std::vector<Micros> refused_at;
  while (refused_at.size() < 4) {
    round();
    if (limit.limit() >= 4) {
      const auto tickets = fill(limit, now);
      limit.finished(tickets.back(), LimitOutcome::kRefused, now);
      refused_at.push_back(now);
      for (int i = 0; i < 3; ++i) limit.finished(tickets[i], LimitOutcome::kSuccess, now);
      ASSERT_EQ(limit.limit(), 3);
      now = limit.cool_until();
    }
  }
  for (std::size_t i = 1; i < refused_at.size(); ++i) {
    const Micros hold = (15 * kOneSecond) << (i - 1);
    EXPECT_GE(refused_at[i] - refused_at[i - 1], hold);
    EXPECT_LE(refused_at[i] - refused_at[i - 1], hold + 5 * kOneSecond);
  }
}

// Whatever happens: never above the cap, below 1, never anything sent in a cool-down, and the
// number in flight is what was sent and has not finished.
RC_GTEST_PROP(ConcurrencyLimit, StaysWithinItsBounds, ()) {
  LimitOptions options;
  options.max_parallel = *rc::gen::inRange(1, 300);
  options.start = *rc::gen::inRange(0, 300);
  options.trial.budget = *rc::gen::element(0.0, 0.005, 0.5);
  ConcurrencyLimit limit(options);
  std::vector<Ticket> flying;
  Micros now = 0;
  const auto steps =
      *rc::gen::container<std::vector<std::uint16_t>>(400, rc::gen::arbitrary<std::uint16_t>());
  for (const std::uint16_t step : steps) {
    now += step % 97;
    if (step % 3 != 0) {
      for (int i = 0; i < step % 40 && limit.may_send(now); ++i) flying.push_back(limit.sent(now));
    } else if (!flying.empty()) {
      for (std::size_t i = 0; i < step % 50U && !flying.empty(); ++i) {
        const std::size_t which = (step / 7U) % flying.size();
        const auto outcome = step % 41 == 0  ? LimitOutcome::kRefused
                             : step % 7 == 0 ? LimitOutcome::kBroken
                             : step % 5 == 0 ? LimitOutcome::kTimedOut
                                             : LimitOutcome::kSuccess;
        limit.finished(flying[which], outcome, now,
                       step % 2 == 0 ? std::optional<Micros>(step) : std::nullopt);
        flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    RC_ASSERT(limit.limit() >= 1);
    RC_ASSERT(limit.limit() <= options.max_parallel);
    RC_ASSERT(limit.in_flight() == static_cast<int>(flying.size()));
    const Micros next = limit.next_time(now);
    RC_ASSERT(limit.may_send(now) == (next == now));
    if (next != kNever) RC_ASSERT(limit.may_send(next));
  }
}

}  // namespace
}  // namespace dovetail::pipeline
