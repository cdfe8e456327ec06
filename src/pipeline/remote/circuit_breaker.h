#pragma once

#include <cstdint>

#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

struct BreakerOptions {
  int failures_to_open = 5;  // in a row
  Micros first_pause = kOneSecond;
  double pause_growth = 2;
  Micros longest_pause = 60 * kOneSecond;
};

// Keeps requests from an endpoint that is down. Opens after some failures in a row (connection
// errors and 5xx; a refusal for load is none), sends one probe after a pause, closes when anything
// succeeds, pauses longer when the probe fails (M. Nygard, Release It!, "Circuit Breaker").
//
// Every function takes the moment `now`, which never runs backwards. Single thread.
class CircuitBreaker {
 public:
  enum class State { kClosed, kOpen, kHalfOpen };
  enum class Outcome {
    kSuccess,
    kFailure,
    kUnknown,  // says nothing about the endpoint's health: cancelled
  };

  // Kept by the caller while the request is on the wire.
  struct Ticket {
    std::uint32_t era = 0;
    bool probe = false;
  };

  explicit CircuitBreaker(BreakerOptions options) : options_(options) {}

  bool may_send(Micros now) const;

  // Precondition: may_send(now).
  Ticket sent(Micros now);

  // Every ticket is finished exactly once. Failures of requests sent before the breaker opened do
  // not lengthen the pause; a success closes it whenever it was sent.
  void finished(Ticket ticket, Outcome outcome, Micros now);

  // When may_send() may turn true without a finished(): now, the end of the pause, or kNever.
  Micros next_time(Micros now) const;

  State state(Micros now) const;
  int failures() const { return failures_; }

 private:
  void open(Micros now);

  BreakerOptions options_;
  bool open_ = false;
  bool probing_ = false;
  std::uint32_t era_ = 0;  // counts openings and closings
  int failures_ = 0;
  Micros pause_ = 0;
  Micros until_ = 0;
};

}  // namespace dovetail::pipeline
