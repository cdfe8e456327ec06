#include "pipeline/remote/retry_policy.h"

#include <algorithm>
#include <cassert>

namespace dovetail::pipeline {

namespace {

// Steele, Lea, Flood: Fast splittable pseudorandom number generators (SplitMix64).
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31U);
}

bool is_refusal(int status) { return status == 429 || status == 503 || status == 529; }

}  // namespace

FailureClass classify(TransportError error, int status, bool has_retry_after,
                      std::string_view body) {
  switch (error) {
    case TransportError::kNone:
      break;
    case TransportError::kCancelled:
      return FailureClass::kCancelled;
    case TransportError::kInvalid:
    case TransportError::kUntrusted:
    case TransportError::kTooLarge:
      return FailureClass::kFinal;
    case TransportError::kResolve:
    case TransportError::kConnect:
    case TransportError::kConnectTimeout:
    case TransportError::kTls:
    case TransportError::kTimeout:
    case TransportError::kDropped:
    case TransportError::kProtocol:
    case TransportError::kOther:
      return FailureClass::kRetryable;
  }
  if (status >= 200 && status < 300) return FailureClass::kNone;
  if (status == 429) {
    const bool spent = body.find("insufficient_quota") != std::string_view::npos;
    return spent ? FailureClass::kFinal : FailureClass::kRateLimit;
  }
  if (status == 529 || (status == 503 && has_retry_after)) return FailureClass::kRateLimit;
  if (status == 408 || status == 425 || status >= 500) return FailureClass::kRetryable;
  return FailureClass::kFinal;
}

FailureClass classify(const HttpResult& result) {
  return classify(result.error, result.status, result.retry_after.has_value(), result.body);
}

ConcurrencyLimit::Outcome limit_outcome(const HttpResult& result) {
  using Outcome = ConcurrencyLimit::Outcome;
  if (result.error == TransportError::kTimeout) return Outcome::kTimedOut;
  if (is_refusal(result.status)) return Outcome::kRefused;
  switch (classify(result)) {
    case FailureClass::kNone:
      return Outcome::kSuccess;
    case FailureClass::kRateLimit:
      return Outcome::kRefused;
    case FailureClass::kRetryable:
      return Outcome::kBroken;
    case FailureClass::kFinal:
    case FailureClass::kCancelled:
      return Outcome::kOther;
  }
  return Outcome::kOther;
}

CircuitBreaker::Outcome breaker_outcome(const HttpResult& result) {
  using Outcome = CircuitBreaker::Outcome;
  switch (result.error) {
    case TransportError::kNone:
      break;
    case TransportError::kCancelled:
    case TransportError::kInvalid:
    case TransportError::kTooLarge:
      return Outcome::kUnknown;
    default:
      return Outcome::kFailure;
  }
  // Whoever refuses politely is alive.
  if (result.status == 429 || result.status == 529 || result.status == 503) {
    return result.status == 503 && !result.retry_after ? Outcome::kFailure : Outcome::kSuccess;
  }
  return result.status >= 500 ? Outcome::kFailure : Outcome::kSuccess;
}

Retries::Decision Retries::failed(FailureClass failure, Micros now,
                                  std::optional<Micros> retry_after, Micros latency) {
  assert(failure != FailureClass::kNone);
  Decision decision;
  Micros shortest = shortest_pause(latency);
  switch (failure) {
    case FailureClass::kNone:
    case FailureClass::kFinal:
      decision.reason = "not worth another try";
      return decision;
    case FailureClass::kCancelled:
      decision.reason = "cancelled";
      return decision;
    case FailureClass::kRateLimit:
      ++rate_limits_;
      decision.at = now + pause(shortest, 0);
      break;
    case FailureClass::kRetryable:
      if (++tries_ >= options_.tries) {
        decision.reason = fmt::format("failed {} times", tries_);
        return decision;
      }
      if (tries_ + 1 == options_.tries) shortest = std::max(shortest, options_.base);
      last_pause_ = pause(shortest, last_pause_);
      decision.at = now + last_pause_;
      break;
  }
  decision.again = true;
  decision.earliest = now + std::max(std::min(shortest, options_.longest), retry_after.value_or(0));
  decision.at = std::max(decision.at, decision.earliest);
  return decision;
}

Micros Retries::shortest_pause(Micros latency) const {
  const auto share = static_cast<Micros>(options_.share_of_latency * static_cast<double>(latency));
  return std::max<Micros>(1, share > 0 ? std::min(share, options_.base) : options_.base);
}

Micros Retries::pause(Micros shortest, Micros before) {
  const Micros high = std::min(options_.longest, 3 * std::max(shortest, before));
  const Micros low = std::min(shortest, high);
  const auto width = static_cast<std::uint64_t>(high - low) + 1;
  return low + static_cast<Micros>(next_random(random_) % width);
}

void StallWatch::busy(Micros now) {
  if (since_ == kNever) since_ = now;
}

void StallWatch::idle(Micros now) {
  if (since_ != kNever) waited_ += now - since_;
  since_ = kNever;
}

void StallWatch::succeeded(Micros now) {
  waited_ = 0;
  if (since_ != kNever) since_ = now;
}

Micros StallWatch::deadline() const {
  return since_ == kNever ? kNever : since_ + std::max<Micros>(0, bound_ - waited_);
}

Status StallWatch::check(Micros now) const {
  if (now < deadline()) return {};
  return fail(ErrorKind::kTimeout,
              "{}: no request succeeded for {} s; the last one failed with: {}", name_,
              bound_ / kOneSecond, last_failure_.empty() ? "no answer yet" : last_failure_);
}

}  // namespace dovetail::pipeline
