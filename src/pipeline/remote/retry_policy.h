#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pipeline/remote/circuit_breaker.h"
#include "pipeline/remote/concurrency_limit.h"
#include "pipeline/remote/http_message.h"
#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

enum class FailureClass {
  kNone,       // an answer: 2xx
  kRateLimit,  // come back later: 429, 529, 503 with Retry-After. Uses up no tries
  kRetryable,  // may work the next time: connection errors, timeouts, 408, 425, other 5xx
  kFinal,      // will fail again: 400, 401, 403, 404, 413, 422, other 4xx, 3xx, an empty quota
  kCancelled,
};

// The class of an answer, or of its absence. The body matters for 429 alone: a quota that is used
// up ("insufficient_quota") does not come back by waiting.
FailureClass classify(TransportError error, int status, bool has_retry_after,
                      std::string_view body = {});
FailureClass classify(const HttpResult& result);

// What the same answer tells a ConcurrencyLimit and a CircuitBreaker.
ConcurrencyLimit::Outcome limit_outcome(const HttpResult& result);
CircuitBreaker::Outcome breaker_outcome(const HttpResult& result);

struct RetryOptions {
  int tries = 4;  // the first one included
  // The shortest pause, where the endpoint has not answered yet.
  Micros base = kOneSecond / 2;
  // Of an endpoint that answers, as a share of its latency; never more than `base`.
  double share_of_latency = 0.5;
  Micros longest = 60 * kOneSecond;
};

// The tries of one cell. The pauses are exponential with decorrelated jitter: evenly between the
// shortest and three times the pause before, at most the longest (M. Brooker, Exponential Backoff
// and Jitter, AWS Architecture Blog, 2015). The last try comes no sooner than `base`: it may be the
// cell's last. After a rate limit pauses do not grow, since the endpoint itself pauses. Same seed,
// same pauses. No clock; single thread.
class Retries {
 public:
  struct Decision {
    bool again = false;
    Micros at = 0;        // of the next try
    Micros earliest = 0;  // the same where nothing else is left to do
    std::string reason;   // why not again; one line
  };

  Retries(RetryOptions options, std::uint64_t seed) : options_(options), random_(seed) {}

  // Precondition: `failure` is not kNone. `latency` of the endpoint's answers; 0: not known.
  Decision failed(FailureClass failure, Micros now,
                  std::optional<Micros> retry_after = std::nullopt, Micros latency = 0);

  int tries() const { return tries_; }              // that count
  int rate_limits() const { return rate_limits_; }  // that do not

 private:
  Micros shortest_pause(Micros latency) const;
  Micros pause(Micros shortest, Micros before);

  RetryOptions options_;
  std::uint64_t random_;
  int tries_ = 0;
  int rate_limits_ = 0;
  Micros last_pause_ = 0;
};

// Ends waiting that leads nowhere: when requests have been asked for and none succeeded for
// `bound`. One per alias. Time during which nothing was asked does not count, but does not start
// the bound anew: whoever asks for one thing after the other is told as well.
class StallWatch {
 public:
  StallWatch(std::string name, Micros bound) : name_(std::move(name)), bound_(bound) {}

  // There is something to send, or something on the wire; call when that begins.
  void busy(Micros now);
  void idle(Micros now);
  void succeeded(Micros now);
  void failed(std::string_view why) { last_failure_ = why; }

  // kTimeout with the last failure, where the bound has passed.
  Status check(Micros now) const;

  // When check() will fail if nothing succeeds, kNever where idle.
  Micros deadline() const;

 private:
  std::string name_;
  Micros bound_;
  Micros since_ = kNever;
  Micros waited_ = 0;  // before `since_`, without a success
  std::string last_failure_;
};

}  // namespace dovetail::pipeline
