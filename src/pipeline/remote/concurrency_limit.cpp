#include "pipeline/remote/concurrency_limit.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace dovetail::pipeline {

namespace {

constexpr int kMostDoublings = 16;
// A limit that rose so far past the level once refused has met another server than then.
constexpr double kForgetShare = 2;
// How long a new level beyond the ceiling is looked at.
constexpr int kRoundTripsPerStep = 12;
// A server that asks for more is obeyed up to here; the stall bound of the run ends it before.
constexpr Micros kLongestCoolDown = 24 * 3600 * kOneSecond;
// Weight of one answer in the latency seen.
constexpr double kLatencyWeight = 1.0 / 16;
// Weight of one request in the share of refusals.
constexpr double kShareWeight = 1.0 / 64;

}  // namespace

ConcurrencyLimit::ConcurrencyLimit(LimitOptions options)
    : options_(options), trial_(options.trial) {
  options_.max_parallel = std::max(1, options_.max_parallel);
  limit_ =
      options_.start > 0 ? std::min(options_.start, options_.max_parallel) : options_.max_parallel;
  ceiling_ = options_.max_parallel + 1;
}

ConcurrencyLimit::Ticket ConcurrencyLimit::sent(Micros now) {
  assert(may_send(now));
  ++in_flight_;
  trial_.in_flight_changed(in_flight_, now);
  return Ticket{now, epoch_, in_flight_, 2 * in_flight_ > limit_};
}

void ConcurrencyLimit::finished(Ticket ticket, Outcome outcome, Micros now,
                                std::optional<Micros> retry_after) {
  assert(in_flight_ > 0);
  --in_flight_;
  trial_.in_flight_changed(in_flight_, now);
  if (outcome == Outcome::kRefused) {
    refused(ticket, now, retry_after);
    return;
  }
  const Micros latency = now - ticket.sent_at;
  if (outcome == Outcome::kSuccess) {
    const double weight = latency_ == 0 ? 1 : kLatencyWeight;
    latency_ += weight * (static_cast<double>(latency) - latency_);
    bursts_ = 0;
    refused_share_ -= kShareWeight * refused_share_;
    answered_at(ticket.level, now);
    succeeded(ticket, now);
  }
  if (outcome == Outcome::kTimedOut || outcome == Outcome::kBroken) successes_ = 0;
  if (outcome == Outcome::kSuccess || outcome == Outcome::kTimedOut) {
    const auto level = trial_.finished(latency, outcome == Outcome::kSuccess, limit_,
                                       std::min(options_.max_parallel, ceiling_ - 1), now);
    if (!level) return;
    limit_ = *level;
    successes_ = 0;
  }
}

void ConcurrencyLimit::refused(Ticket ticket, Micros now, std::optional<Micros> retry_after) {
  const bool cuts = !options_.one_cut_per_burst || ticket.epoch == epoch_;
  const bool in_burst = cooling(now);
  const bool level_is_answered = ticket.level <= std::max(answered_level_, answered_before_);
  refused_share_ += kShareWeight * (1 - refused_share_);
  if (cuts && !retry_after && level_is_answered && refused_share_ < options_.noise) return;
  if (retry_after) {
    const Micros pause = std::clamp(*retry_after, Micros{0}, kLongestCoolDown);
    cool_until_ = std::max(cool_until_, now + pause);
  }
  if (cuts) {
    if (!retry_after) {
      const auto unit = std::clamp(static_cast<Micros>(options_.cool_down * latency_),
                                   options_.shortest_cool_down, options_.longest_cool_down);
      const Micros pause = unit << std::min(bursts_, kMostDoublings);
      cool_until_ = std::max(cool_until_, now + std::min(pause, options_.longest_cool_down));
    }
    ++bursts_;
    ++epoch_;
    ++cuts_;
    successes_ = 0;
    const int refused_level = std::max(limit_, trial_.level_before().value_or(0));
    limit_ = trial_.level_before().value_or(limit_);
    trial_.interrupted(now);
    lowest_cut_ = std::max(1, static_cast<int>(std::floor(options_.cut * limit_)));
    hold_below(refused_level, now);
  } else if (ticket.epoch + 1 != epoch_ || !in_burst) {
    return;
  }
  const int accepted = std::max(lowest_cut_, in_flight_);
  if (accepted >= limit_) return;
  limit_ = accepted;
  trial_.interrupted(now);
}

void ConcurrencyLimit::succeeded(Ticket ticket, Micros now) {
  if (cooling(now) || !ticket.busy || ticket.epoch != epoch_ || trial_.under_way()) return;
  if (++successes_ < options_.successes_per_raise || limit_ >= most()) return;
  if (limit_ + 1 >= ceiling_) {
    if (now >= hold_until_) explore();
    return;
  }
  successes_ = 0;
  ++limit_;
  trial_.interrupted(now);
}

void ConcurrencyLimit::explore() {
  if (successes_ < kRoundTripsPerStep * limit_) return;
  successes_ = 0;
  limit_ = std::min(limit_ + ++step_, most());
  if (limit_ > kForgetShare * ceiling_) {
    ceiling_ = options_.max_parallel + 1;
    holds_ = 0;
  }
}

void ConcurrencyLimit::answered_at(int level, Micros now) {
  if (now - answered_since_ > options_.hold) {
    answered_before_ = std::exchange(answered_level_, 0);
    answered_since_ = now;
  }
  answered_level_ = std::max(answered_level_, level);
}

void ConcurrencyLimit::hold_below(int level, Micros now) {
  // A signal during a hold belongs to the same search for the level.
  if (now >= hold_until_) ++holds_;
  ceiling_ = level;
  step_ = 0;
  hold_until_ = now + std::min(options_.longest_hold,
                               options_.hold << std::clamp(holds_ - 1, 0, kMostDoublings));
}

Micros ConcurrencyLimit::next_time(Micros now) const {
  if (in_flight_ >= limit_) return kNever;
  return std::max(now, cool_until_);
}

}  // namespace dovetail::pipeline
