#include "pipeline/remote/concurrency_limit.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace dovetail::pipeline {

namespace {

constexpr int kDefaultStart = 32;
constexpr int kMostHoldDoublings = 16;
// A limit that rose so far past the level once refused has met another server than then.
constexpr double kForgetShare = 2;
// Without a latency signal, how long a new level beyond the ceiling is looked at.
constexpr int kRoundTripsPerStep = 12;
// A server that asks for more is obeyed up to here; the stall bound of the run ends it before.
constexpr Micros kLongestCoolDown = 24 * 3600 * kOneSecond;

}  // namespace

ConcurrencyLimit::ConcurrencyLimit(LimitOptions options)
    : options_(options), latency_(options.latency) {
  options_.max_parallel = std::max(1, options_.max_parallel);
  const int start = options_.start > 0 ? options_.start : kDefaultStart;
  limit_ = std::min(start, options_.max_parallel);
  ramping_ = options_.ramp && limit_ < options_.max_parallel;
  ceiling_ = options_.max_parallel + 1;
}

ConcurrencyLimit::Ticket ConcurrencyLimit::sent(Micros now) {
  assert(may_send(now));
  ++in_flight_;
  latency_.in_flight_changed(in_flight_, now);
  return Ticket{now, epoch_, 2 * in_flight_ > limit_};
}

void ConcurrencyLimit::finished(Ticket ticket, Outcome outcome, Micros now,
                                std::optional<Micros> retry_after) {
  assert(in_flight_ > 0);
  --in_flight_;
  latency_.in_flight_changed(in_flight_, now);
  if (outcome == Outcome::kRefused) {
    refused(ticket, now, retry_after);
    return;
  }
  if (outcome == Outcome::kSuccess) succeeded(ticket, now);
  if (outcome == Outcome::kTimedOut || outcome == Outcome::kBroken) successes_ = 0;
  if (outcome == Outcome::kSuccess || outcome == Outcome::kTimedOut) {
    const auto advice = latency_.finished(now - ticket.sent_at, limit_, ramping_, now);
    if (advice) take_advice(*advice, now);
  }
}

void ConcurrencyLimit::refused(Ticket ticket, Micros now, std::optional<Micros> retry_after) {
  successes_ = 0;
  ramping_ = false;
  const bool cuts = !options_.one_cut_per_burst || ticket.epoch == epoch_;
  if (cuts || retry_after) {
    const Micros pause =
        std::clamp(retry_after.value_or(options_.default_cool_down), Micros{0}, kLongestCoolDown);
    cool_until_ = std::max(cool_until_, now + pause);
  }
  if (!cuts) return;
  ++epoch_;
  ++cuts_;
  hold_below(limit_, now);
  limit_ = std::max(1, static_cast<int>(std::floor(options_.cut * limit_)));
  latency_.interrupted(now);
}

void ConcurrencyLimit::succeeded(Ticket ticket, Micros now) {
  if (cooling(now) || !ticket.busy || ticket.epoch != epoch_ || latency_.holds(now)) return;
  if (ramping_) {
    limit_ = std::min(limit_ + 1, options_.max_parallel);
    ramping_ = limit_ < options_.max_parallel;
    return;
  }
  if (++successes_ < options_.successes_per_raise || limit_ >= options_.max_parallel) return;
  if (limit_ + 1 >= ceiling_) {
    if (now >= hold_until_) explore();
    return;
  }
  successes_ = 0;
  ++limit_;
}

void ConcurrencyLimit::explore() {
  const bool due = options_.latency.enabled ? latency_.windows() > step_window_
                                            : successes_ >= kRoundTripsPerStep * limit_;
  if (!due) return;
  successes_ = 0;
  step_window_ = latency_.windows();
  limit_ = std::min(limit_ + ++step_, options_.max_parallel);
  if (limit_ > kForgetShare * ceiling_) {
    ceiling_ = options_.max_parallel + 1;
    holds_ = 0;
  }
}

void ConcurrencyLimit::take_advice(LatencySignal::Advice advice, Micros now) {
  successes_ = 0;
  switch (advice.kind) {
    case LatencySignal::Advice::Kind::kTry:
      limit_ = advice.level;
      break;
    case LatencySignal::Advice::Kind::kKeep:
      ramping_ = false;
      hold_below(limit_ + 1, now);
      break;
    case LatencySignal::Advice::Kind::kReturn:
      limit_ = advice.level;
      break;
  }
}

void ConcurrencyLimit::hold_below(int level, Micros now) {
  // A signal during a hold belongs to the same search for the level.
  if (now >= hold_until_) ++holds_;
  ceiling_ = level;
  step_ = 0;
  hold_until_ = now + std::min(options_.longest_hold,
                               options_.hold << std::clamp(holds_ - 1, 0, kMostHoldDoublings));
}

Micros ConcurrencyLimit::next_time(Micros now) const {
  if (in_flight_ >= limit_) return kNever;
  return std::max(now, cool_until_);
}

}  // namespace dovetail::pipeline
