#include "pipeline/remote/retry_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace dovetail::pipeline {
namespace {

using Limit = ConcurrencyLimit::Outcome;
using Health = CircuitBreaker::Outcome;
using ::testing::HasSubstr;

HttpResult answer(int status, std::string body = "", std::optional<Micros> retry_after = {}) {
  HttpResult result;
  result.status = status;
  result.body = std::move(body);
  result.retry_after = retry_after;
  return result;
}

HttpResult broken(TransportError error) {
  HttpResult result;
  result.error = error;
  return result;
}

TEST(Classify, EveryAnswer) {
  struct Case {
    HttpResult result;
    FailureClass failure;
    Limit limit;
    Health health;
  };
  const auto kFinal = FailureClass::kFinal;
  const auto kRetryable = FailureClass::kRetryable;
  const std::vector<Case> cases = {
      {answer(200), FailureClass::kNone, Limit::kSuccess, Health::kSuccess},
      {answer(302), kFinal, Limit::kOther, Health::kSuccess},
      {answer(400), kFinal, Limit::kOther, Health::kSuccess},
      {answer(401), kFinal, Limit::kOther, Health::kSuccess},
      {answer(403), kFinal, Limit::kOther, Health::kSuccess},
      {answer(404), kFinal, Limit::kOther, Health::kSuccess},
      {answer(408), kRetryable, Limit::kBroken, Health::kSuccess},
      {answer(413), kFinal, Limit::kOther, Health::kSuccess},
      {answer(422), kFinal, Limit::kOther, Health::kSuccess},
      {answer(425), kRetryable, Limit::kBroken, Health::kSuccess},
      {answer(429), FailureClass::kRateLimit, Limit::kRefused, Health::kSuccess},
      {answer(429, R"({"error": {"code": "insufficient_quota"}})"), kFinal, Limit::kRefused,
       Health::kSuccess},
      {answer(500), kRetryable, Limit::kBroken, Health::kFailure},
      {answer(502), kRetryable, Limit::kBroken, Health::kFailure},
      {answer(503), kRetryable, Limit::kRefused, Health::kFailure},
      {answer(503, "", kOneSecond), FailureClass::kRateLimit, Limit::kRefused, Health::kSuccess},
      {answer(504), kRetryable, Limit::kBroken, Health::kFailure},
      {answer(529), FailureClass::kRateLimit, Limit::kRefused, Health::kSuccess},
      {broken(TransportError::kCancelled), FailureClass::kCancelled, Limit::kOther,
       Health::kUnknown},
      {broken(TransportError::kInvalid), kFinal, Limit::kOther, Health::kUnknown},
      {broken(TransportError::kResolve), kRetryable, Limit::kBroken, Health::kFailure},
      {broken(TransportError::kConnect), kRetryable, Limit::kBroken, Health::kFailure},
      {broken(TransportError::kTls), kRetryable, Limit::kBroken, Health::kFailure},
      {broken(TransportError::kUntrusted), kFinal, Limit::kOther, Health::kFailure},
      {broken(TransportError::kConnectTimeout), kRetryable, Limit::kBroken, Health::kFailure},
      {broken(TransportError::kTimeout), kRetryable, Limit::kTimedOut, Health::kFailure},
      {broken(TransportError::kDropped), kRetryable, Limit::kBroken, Health::kFailure},
      {broken(TransportError::kProtocol), kRetryable, Limit::kBroken, Health::kFailure},
      {broken(TransportError::kTooLarge), kFinal, Limit::kOther, Health::kUnknown},
      {broken(TransportError::kOther), kRetryable, Limit::kBroken, Health::kFailure},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message()
                 << c.result.status << " " << static_cast<int>(c.result.error));
    EXPECT_EQ(classify(c.result), c.failure);
    EXPECT_EQ(limit_outcome(c.result), c.limit);
    EXPECT_EQ(breaker_outcome(c.result), c.health);
  }
}

TEST(Retries, EndAfterTheirTries) {
  Retries retries(RetryOptions{}, 1);
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(retries.failed(FailureClass::kRetryable, 0).again);
  const auto last = retries.failed(FailureClass::kRetryable, 0);
  EXPECT_FALSE(last.again);
  EXPECT_EQ(last.reason, "failed 4 times");
}

TEST(Retries, SomeThingsAreNotTriedAgain) {
  EXPECT_FALSE(Retries(RetryOptions{}, 1).failed(FailureClass::kFinal, 0).again);
  EXPECT_FALSE(Retries(RetryOptions{}, 1).failed(FailureClass::kCancelled, 0).again);
  EXPECT_FALSE(Retries(RetryOptions{1}, 1).failed(FailureClass::kRetryable, 0).again);
}

TEST(Retries, RateLimitsUseUpNoTries) {
  Retries retries(RetryOptions{}, 1);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(retries.failed(FailureClass::kRateLimit, 0).again);
  EXPECT_EQ(retries.tries(), 0);
  EXPECT_EQ(retries.rate_limits(), 1000);
  EXPECT_TRUE(retries.failed(FailureClass::kRetryable, 0).again);
}

TEST(Retries, WaitAtLeastAsLongAsTheServerAsks) {
  Retries retries(RetryOptions{}, 1);
  EXPECT_EQ(retries.failed(FailureClass::kRateLimit, 7, 90 * kOneSecond).at, 7 + 90 * kOneSecond);
  EXPECT_GE(retries.failed(FailureClass::kRateLimit, 7, 0).at, 7 + kOneSecond / 2);
}

RC_GTEST_PROP(Retries, PausesAreBoundedDecorrelatedAndRepeatable, (std::uint64_t seed)) {
  const RetryOptions options{1000};
  Retries first(options, seed);
  Retries second(options, seed);
  Micros before = options.base;
  std::set<Micros> pauses;
  for (int i = 0; i < 50; ++i) {
    const Micros pause = first.failed(FailureClass::kRetryable, 0).at;
    RC_ASSERT(pause == second.failed(FailureClass::kRetryable, 0).at);
    RC_ASSERT(pause >= options.base);
    RC_ASSERT(pause <= std::min(options.longest, 3 * before));
    before = pause;
    pauses.insert(pause);
  }
  RC_ASSERT(pauses.size() > 10U);
}

TEST(StallWatch, EndsWaitingThatLeadsNowhere) {
  StallWatch watch("model \"judge\"", 600 * kOneSecond);
  EXPECT_TRUE(watch.check(kNever - 1).has_value()) << "nothing was asked for";
  watch.busy(10);
  watch.busy(500 * kOneSecond);
  EXPECT_EQ(watch.deadline(), 10 + 600 * kOneSecond);
  watch.succeeded(400 * kOneSecond);
  watch.failed("HTTP 429: slow down");
  EXPECT_TRUE(watch.check(1000 * kOneSecond - 1).has_value());
  const Status status = watch.check(1000 * kOneSecond);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(status.error().message,
            "model \"judge\": no request succeeded for 600 s; the last one failed with: HTTP 429: "
            "slow down");
  watch.idle(1000 * kOneSecond);
  EXPECT_TRUE(watch.check(2000 * kOneSecond).has_value());
  watch.succeeded(2000 * kOneSecond);
  EXPECT_EQ(watch.deadline(), kNever);
}

TEST(StallWatch, CountsTheTimeOfOneRequestAfterTheOther) {
  StallWatch watch("m", 100 * kOneSecond);
  watch.busy(0);
  watch.idle(60 * kOneSecond);
  watch.busy(1000 * kOneSecond);
  EXPECT_EQ(watch.deadline(), 1040 * kOneSecond);
  watch.succeeded(1010 * kOneSecond);
  EXPECT_EQ(watch.deadline(), 1110 * kOneSecond);
}

}  // namespace
}  // namespace dovetail::pipeline
