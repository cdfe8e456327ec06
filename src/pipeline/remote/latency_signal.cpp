#include "pipeline/remote/latency_signal.h"

#include <algorithm>
#include <cmath>

namespace dovetail::pipeline {

namespace {

// How far one lower window pulls the reference down: a single lucky window is not believed at once.
constexpr double kReferencePull = 0.5;
// Below this share of the limit in flight the demand is the limit, and a trial would show nothing.
constexpr double kBusyShare = 0.75;
// So many times the reference without any answer is a stall.
constexpr double kStallLatencies = 4;
constexpr int kMostPauseDoublings = 16;

}  // namespace

void LatencySignal::in_flight_changed(int in_flight, Micros now) {
  area_ += static_cast<double>(in_flight_) * static_cast<double>(now - last_change_);
  last_change_ = now;
  in_flight_ = in_flight;
}

void LatencySignal::start_window(Micros now) {
  samples_ = 0;
  sum_ = 0;
  squares_ = 0;
  skip_ = static_cast<std::size_t>(in_flight_);
  window_start_ = now;
  last_change_ = now;
  area_ = 0;
}

void LatencySignal::interrupted(Micros now) {
  if (phase_ != Phase::kWatch) next_trial_ = now + options_.trial_pause;
  phase_ = Phase::kWatch;
  start_window(now);
}

LatencySignal::Window LatencySignal::close_window(Micros now) {
  in_flight_changed(in_flight_, now);
  Window window;
  window.latency = std::max(1.0, sum_ / static_cast<double>(samples_));
  window.in_flight = area_ / std::max(1.0, static_cast<double>(now - window_start_));
  return window;
}

bool LatencySignal::stalled(Micros now) const {
  return reference_ > 0 && static_cast<double>(now - last_answer_) > kStallLatencies * reference_;
}

bool LatencySignal::window_is_full(int limit) const {
  const std::size_t least = std::max(options_.min_samples, 3 * static_cast<std::size_t>(limit));
  if (samples_ < least) return false;
  if (samples_ >= options_.max_samples) return true;
  const auto count = static_cast<double>(samples_);
  const double mean = sum_ / count;
  const double variance = std::max(0.0, squares_ / count - mean * mean);
  const double wanted =
      mean * (phase_ == Phase::kWatch ? options_.precision : options_.trial_precision);
  return variance <= wanted * wanted * count;
}

std::optional<LatencySignal::Advice> LatencySignal::finished(Micros latency, int limit,
                                                             bool ramping, Micros now) {
  if (!options_.enabled) return std::nullopt;
  const bool void_window = stalled(now);
  last_answer_ = now;
  if (void_window) {
    start_window(now);
    return std::nullopt;
  }
  if (skip_ > 0) {
    if (--skip_ > 0) return std::nullopt;
    start_window(now);
    skip_ = 0;
    return std::nullopt;
  }
  const auto value = static_cast<double>(latency);
  ++samples_;
  sum_ += value;
  squares_ += value * value;
  if (!window_is_full(limit)) return std::nullopt;

  ++windows_;
  const Phase before = phase_;
  const std::optional<Advice> advice = window_ended(close_window(now), limit, ramping, now);
  start_window(now);
  // At an unchanged level the answers under way belong to the next window as well as any.
  if (phase_ == before && phase_ == Phase::kWatch) skip_ = 0;
  return advice;
}

std::optional<LatencySignal::Advice> LatencySignal::window_ended(const Window& window, int limit,
                                                                 bool ramping, Micros now) {
  if (phase_ == Phase::kTrial) {
    phase_ = Phase::kWatch;
    return judge_trial(window, now);
  }
  if (reference_ == 0) reference_ = window.latency;
  if (window.latency < reference_) {
    reference_ += kReferencePull * (window.latency - reference_);
  }
  const bool wanted = wants_trial(window, limit, ramping, now);
  if (!wanted || phase_ == Phase::kWatch) {
    phase_ = wanted ? Phase::kBaseline : Phase::kWatch;
    return std::nullopt;
  }
  share_ =
      std::clamp(reference_ / window.latency, options_.deepest_trial, options_.shallowest_trial);
  phase_ = Phase::kTrial;
  before_ = window;
  limit_before_ = limit;
  return Advice{Advice::Kind::kTry,
                std::max(1, static_cast<int>(std::ceil(share_ * window.in_flight)))};
}

bool LatencySignal::wants_trial(const Window& window, int limit, bool ramping, Micros now) const {
  const bool risen = window.latency > options_.tolerance * reference_ && now >= next_descent_;
  const bool due = !ramping && now >= next_trial_;
  return limit >= 2 && window.in_flight >= kBusyShare * limit && (risen || due);
}

LatencySignal::Advice LatencySignal::judge_trial(const Window& window, Micros now) {
  const Micros length = now - window_start_;
  next_trial_ = now + pause_after(length, trials_++);
  const double kept = window.throughput() / before_.throughput();
  if (!options_.confirm || kept >= 1 - options_.loss * (1 - share_)) {
    reference_ = std::min(reference_, window.latency);
    unclear_ = 0;
    // As long as lowering costs nothing the knee is still below.
    if (options_.confirm) next_trial_ = now;
    return Advice{Advice::Kind::kKeep, 0};
  }
  if (kept > (1 + share_) / 2) {
    const auto pause = static_cast<double>(pause_after(length, unclear_++));
    next_descent_ = now + static_cast<Micros>(options_.unclear_pause * pause);
    next_trial_ = std::min(next_trial_, next_descent_);
  } else {
    reference_ = std::max(reference_, before_.latency);
  }
  return Advice{Advice::Kind::kReturn, limit_before_};
}

Micros LatencySignal::pause_after(Micros window_length, int times) const {
  const Micros unit = std::max(options_.trial_pause, options_.trial_pause_windows * window_length);
  return std::min(options_.longest_pause, unit << std::min(times, kMostPauseDoublings));
}

}  // namespace dovetail::pipeline
