#include "pipeline/remote/circuit_breaker.h"

#include <algorithm>
#include <cassert>

namespace dovetail::pipeline {

bool CircuitBreaker::may_send(Micros now) const { return !open_ || (!probing_ && now >= until_); }

CircuitBreaker::Ticket CircuitBreaker::sent(Micros now) {
  assert(may_send(now));
  static_cast<void>(now);
  if (open_) probing_ = true;
  return Ticket{era_, open_};
}

void CircuitBreaker::finished(Ticket ticket, Outcome outcome, Micros now) {
  const bool probe = ticket.probe && ticket.era == era_;
  if (probe) probing_ = false;
  switch (outcome) {
    case Outcome::kSuccess:
      failures_ = 0;
      pause_ = 0;
      if (open_) ++era_;
      open_ = false;
      probing_ = false;
      return;
    case Outcome::kFailure:
      if (ticket.era != era_) return;
      ++failures_;
      if (probe || (!open_ && failures_ >= options_.failures_to_open)) open(now);
      return;
    case Outcome::kUnknown:
      return;
  }
}

void CircuitBreaker::open(Micros now) {
  const double longer = static_cast<double>(pause_) * options_.pause_growth;
  pause_ =
      std::min(options_.longest_pause, std::max(options_.first_pause, static_cast<Micros>(longer)));
  until_ = now + pause_;
  open_ = true;
  ++era_;
}

Micros CircuitBreaker::next_time(Micros now) const {
  if (!open_) return now;
  return probing_ ? kNever : std::max(now, until_);
}

CircuitBreaker::State CircuitBreaker::state(Micros now) const {
  if (!open_) return State::kClosed;
  return probing_ || now >= until_ ? State::kHalfOpen : State::kOpen;
}

}  // namespace dovetail::pipeline
