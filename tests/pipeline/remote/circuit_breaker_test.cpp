#include "pipeline/remote/circuit_breaker.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace dovetail::pipeline {
namespace {

using BreakerOutcome = CircuitBreaker::Outcome;
using State = CircuitBreaker::State;

void fail_times(CircuitBreaker& breaker, int times, Micros now) {
  std::vector<CircuitBreaker::Ticket> tickets;
  for (int i = 0; i < times; ++i) tickets.push_back(breaker.sent(now));
  for (const auto& ticket : tickets) breaker.finished(ticket, BreakerOutcome::kFailure, now);
}

TEST(CircuitBreaker, OpensAfterFailuresInARow) {
  CircuitBreaker breaker(BreakerOptions{});
  fail_times(breaker, 4, 0);
  breaker.finished(breaker.sent(0), BreakerOutcome::kSuccess, 0);
  fail_times(breaker, 4, 0);
  breaker.finished(breaker.sent(0), BreakerOutcome::kUnknown, 0);
  EXPECT_EQ(breaker.state(0), State::kClosed);
  fail_times(breaker, 1, 0);
  EXPECT_EQ(breaker.state(0), State::kOpen);
  EXPECT_FALSE(breaker.may_send(0));
  EXPECT_EQ(breaker.next_time(0), kOneSecond);
}

TEST(CircuitBreaker, ProbesOneAtATimeWithGrowingPauses) {
  CircuitBreaker breaker(BreakerOptions{});
  fail_times(breaker, 5, 0);
  Micros now = 0;
  for (const Micros pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    EXPECT_FALSE(breaker.may_send(now + pause * kOneSecond - 1));
    now += pause * kOneSecond;
    EXPECT_EQ(breaker.state(now), State::kHalfOpen);
    const auto probe = breaker.sent(now);
    EXPECT_FALSE(breaker.may_send(now)) << "one probe";
    EXPECT_EQ(breaker.next_time(now), kNever);
    breaker.finished(probe, BreakerOutcome::kFailure, now);
  }
  now = breaker.next_time(now);
  breaker.finished(breaker.sent(now), BreakerOutcome::kUnknown, now);
  EXPECT_TRUE(breaker.may_send(now)) << "a cancelled probe makes room for another";
  breaker.finished(breaker.sent(now), BreakerOutcome::kSuccess, now);
  EXPECT_EQ(breaker.state(now), State::kClosed);
  fail_times(breaker, 5, now);
  EXPECT_EQ(breaker.next_time(now), now + kOneSecond) << "the pause starts anew";
}

TEST(CircuitBreaker, LateFailuresDoNotLengthenThePause) {
  CircuitBreaker breaker(BreakerOptions{});
  const auto late = breaker.sent(0);
  fail_times(breaker, 50, 0);
  EXPECT_EQ(breaker.next_time(0), kOneSecond);
  breaker.finished(late, BreakerOutcome::kFailure, kOneSecond / 2);
  EXPECT_EQ(breaker.next_time(0), kOneSecond);
}

TEST(CircuitBreaker, ALateSuccessClosesIt) {
  CircuitBreaker breaker(BreakerOptions{});
  const auto late = breaker.sent(0);
  fail_times(breaker, 5, 0);
  breaker.finished(late, BreakerOutcome::kSuccess, 10);
  EXPECT_TRUE(breaker.may_send(10));
}

RC_GTEST_PROP(CircuitBreaker, NeverLocksUp, ()) {
  CircuitBreaker breaker(BreakerOptions{*rc::gen::inRange(1, 6)});
  std::vector<CircuitBreaker::Ticket> flying;
  Micros now = 0;
  const auto steps =
      *rc::gen::container<std::vector<std::uint16_t>>(300, rc::gen::arbitrary<std::uint16_t>());
  for (const std::uint16_t step : steps) {
    now += step % 5 == 0 ? kOneSecond : 10;
    if (step % 2 == 0 && breaker.may_send(now)) {
      flying.push_back(breaker.sent(now));
    } else if (!flying.empty()) {
      const std::size_t which = step % flying.size();
      const auto outcome = step % 7 == 0   ? BreakerOutcome::kSuccess
                           : step % 3 == 0 ? BreakerOutcome::kUnknown
                                           : BreakerOutcome::kFailure;
      breaker.finished(flying[which], outcome, now);
      flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
    }
    const Micros next = breaker.next_time(now);
    RC_ASSERT(breaker.may_send(now) == (next == now));
    RC_ASSERT(next != kNever || !flying.empty());
    if (next != kNever) RC_ASSERT(breaker.may_send(next) && next <= now + 60 * kOneSecond);
  }
}

}  // namespace
}  // namespace dovetail::pipeline
