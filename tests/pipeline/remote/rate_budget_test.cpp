#include "pipeline/remote/rate_budget.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace dovetail::pipeline {
namespace {

TEST(RateBudget, WithoutLimitsEverythingGoes) {
  RateBudget budget(RateOptions{});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(budget.next_time(1e9, 5), 5);
    budget.sent(1e9, 5);
  }
}

TEST(RateBudget, SpacesRequests) {
  RateBudget budget(RateOptions{60, 0, kOneSecond});
  EXPECT_TRUE(budget.may_send(0, 0));
  budget.sent(0, 0);
  EXPECT_EQ(budget.next_time(0, 0), kOneSecond);
  EXPECT_EQ(budget.next_time(0, kOneSecond / 2), kOneSecond);
  EXPECT_FALSE(budget.may_send(0, kOneSecond - 1));
  EXPECT_TRUE(budget.may_send(0, kOneSecond));
  // Unused time is worth a burst of a second, no more.
  budget.sent(0, 100 * kOneSecond);
  EXPECT_FALSE(budget.may_send(0, 100 * kOneSecond));
}

TEST(RateBudget, ReservesTokensAndCorrectsThem) {
  RateBudget budget(RateOptions{0, 60'000, kOneSecond});  // 1,000 a second
  budget.sent(800, 0);
  EXPECT_EQ(budget.next_time(800, 0), 600'000);
  budget.finished(800, 100, 0);
  EXPECT_TRUE(budget.may_send(800, 0)) << "700 came back";
  budget.sent(800, 0);
  budget.finished(800, 2'900, 0);  // 2,000 more than there were
  EXPECT_EQ(budget.next_time(1'000, 0), 3 * kOneSecond);
  budget.finished(0, 0, 0);
  EXPECT_EQ(budget.next_time(1'000, 0), 3 * kOneSecond);
}

TEST(RateBudget, AnEstimateAboveTheBucketWaitsForAFullOne) {
  RateBudget budget(RateOptions{0, 60'000, kOneSecond});
  EXPECT_TRUE(budget.may_send(5'000, 0));
  budget.sent(5'000, 0);
  EXPECT_EQ(budget.next_time(1, 0), 4'001'000);
  EXPECT_EQ(budget.next_time(5'000, 0), 5 * kOneSecond);
}

RC_GTEST_PROP(RateBudget, KeepsBothRatesOverEverySpan, ()) {
  const double rpm = *rc::gen::inRange(1, 6000);
  const double tpm = *rc::gen::inRange(100, 1'000'000);
  const Micros burst = *rc::gen::inRange<Micros>(1, 10 * kOneSecond);
  RateBudget budget(RateOptions{rpm, tpm, burst});
  struct Sent {
    Micros at;
    double tokens;
  };
  std::vector<Sent> log;
  Micros now = 0;
  for (int i = 0; i < 60; ++i) {
    now += *rc::gen::inRange<Micros>(0, 2 * kOneSecond);
    const double estimate = *rc::gen::inRange(0, 5000);
    const Micros at = budget.next_time(estimate, now);
    RC_ASSERT(at >= now);
    RC_ASSERT(budget.may_send(estimate, at));
    if (at > now) RC_ASSERT(!budget.may_send(estimate, now));
    now = at;
    budget.sent(estimate, now);
    log.push_back({now, estimate});
  }
  for (std::size_t first = 0; first < log.size(); ++first) {
    double tokens = 0;
    for (std::size_t last = first; last < log.size(); ++last) {
      const auto span = static_cast<double>(log[last].at - log[first].at + burst);
      const double requests = static_cast<double>(last - first + 1);
      RC_ASSERT(requests <= rpm * span / 60e6 + 1.001);
      // All but the last one, which a full bucket lets through whatever its size.
      RC_ASSERT(tokens <= tpm * span / 60e6 + 1.001 + log[first].tokens);
      tokens += log[last].tokens;
    }
  }
}

}  // namespace
}  // namespace dovetail::pipeline
