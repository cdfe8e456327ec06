#include "pipeline/remote/level_trial.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dovetail::pipeline {

namespace {

// A trial lowers the level to this share of it, or raises it by the same step.
constexpr double kStep = 0.75;
constexpr double kDifference = 1 - kStep;
// Standard error of a window's mean latency, as a share of the mean: a twelfth of the step, so that
// the two outcomes of a trial are some five standard errors apart.
constexpr double kPrecision = kDifference / 12;
// Round trips of a window, where latencies do not ask for more.
constexpr std::size_t kRoundTrips = 2;
constexpr std::size_t kFewestSamples = 16;
// Latencies that are not known well enough by then do not stay the same: the window begins anew.
constexpr std::size_t kMostSamples = 16'384;
// Below this share of the limit in flight the demand is the limit, and a trial would show nothing.
constexpr double kBusyShare = 0.75;
// So many latencies without any answer are a stall, not load.
constexpr double kStallLatencies = 4;
// A trial costs at least this share of what its empty slots would have done, whatever was measured.
constexpr double kLeastLost = 0.1;
constexpr double kLossToRise = 0.5;
constexpr double kHigherPerLower = 2;

}  // namespace

void LevelTrial::in_flight_changed(int in_flight, Micros now) {
  used_ += static_cast<double>(in_flight_) * static_cast<double>(now - changed_);
  changed_ = now;
  in_flight_ = in_flight;
}

void LevelTrial::start_window(Micros now) {
  in_flight_changed(in_flight_, now);
  window_start_ = now;
  used_before_ = used_;
  samples_ = answered_ = 0;
  sum_ = squares_ = 0;
}

LevelTrial::Window LevelTrial::window(Micros now) const {
  const auto samples = static_cast<double>(samples_);
  Window result;
  result.latency = std::max(1.0, sum_ / samples);
  result.answered = static_cast<double>(answered_) / samples;
  result.in_flight =
      (used_ - used_before_) / std::max(1.0, static_cast<double>(now - window_start_));
  const double mean = sum_ / samples;
  result.deviation = std::sqrt(std::max(0.0, squares_ / samples - mean * mean));
  return result;
}

bool LevelTrial::is_full(int limit) const {
  if (samples_ < std::max(kFewestSamples, kRoundTrips * static_cast<std::size_t>(limit))) {
    return false;
  }
  const auto samples = static_cast<double>(samples_);
  const double mean = sum_ / samples;
  const double variance = std::max(0.0, squares_ / samples - mean * mean);
  return variance <= kPrecision * mean * kPrecision * mean * samples;
}

// What comes after a stall says nothing of load, nor do the answers that it held up.
bool LevelTrial::has_stalled(Micros now) {
  const auto silence = static_cast<double>(now - std::exchange(last_end_, now));
  return latency_ > 0 && silence > kStallLatencies * latency_;
}

void LevelTrial::interrupted(Micros now) {
  if (under_way()) give_up(limit_before_);
  start_window(now);
  skip_ = static_cast<std::size_t>(in_flight_);
}

std::optional<int> LevelTrial::finished(Micros latency, bool answered, int limit, int most,
                                        Micros now) {
  if (options_.budget <= 0) return std::nullopt;
  if (has_stalled(now)) {
    start_window(now);
    skip_ = static_cast<std::size_t>(in_flight_);
    return std::nullopt;
  }
  if (phase_ == Phase::kLower && budget_is_used_up(limit, now)) {
    interrupted(now);
    return limit_before_;
  }
  if (skip_ > 0) {
    if (--skip_ == 0) start_window(now);
    return std::nullopt;
  }
  const auto value = static_cast<double>(latency);
  ++samples_;
  answered_ += answered ? 1 : 0;
  sum_ += value;
  squares_ += value * value;
  if (!is_full(limit)) {
    if (samples_ >= kMostSamples) start_window(now);
    return std::nullopt;
  }
  in_flight_changed(in_flight_, now);
  const Window ended = window(now);
  latency_ = ended.latency;
  const auto level = under_way() ? judge(ended, limit) : begin(ended, limit, most, now);
  start_window(now);
  if (level) skip_ = static_cast<std::size_t>(in_flight_);
  return level;
}

// Slots times time: what one that finds nothing leaves empty, or takes too much.
double LevelTrial::likely_cost(const Window& before, int limit, int difference) const {
  const double noise = before.deviation / (kPrecision * before.latency);
  const double samples = std::max(kRoundTrips * static_cast<double>(limit), noise * noise);
  // First what is in flight ends.
  return difference * before.latency * (1 + samples / static_cast<double>(limit));
}

std::optional<int> LevelTrial::begin(const Window& before, int limit, int most, Micros now) {
  if (before.in_flight < kBusyShare * limit) return std::nullopt;
  const int lower = std::max(1, static_cast<int>(std::ceil(kStep * limit)));
  const int higher = std::min(most, static_cast<int>(std::ceil(limit / kStep)));
  int level = limit;
  if (lower < limit &&
      likely_cost(before, lower, limit - lower) <= options_.budget * (used_ - paid_lower_)) {
    phase_ = Phase::kLower;
    level = lower;
  } else if (limit >= ceiling_ && higher > limit &&
             likely_cost(before, limit, higher - limit) <=
                 kHigherPerLower * options_.budget * (used_ - paid_higher_)) {
    phase_ = Phase::kHigher;
    level = higher;
  } else {
    return std::nullopt;
  }
  before_ = before;
  limit_before_ = limit;
  trial_start_ = now;
  return level;
}

bool LevelTrial::budget_is_used_up(int limit, Micros now) const {
  const double used = used_ + static_cast<double>(in_flight_) * static_cast<double>(now - changed_);
  const double empty =
      static_cast<double>(limit_before_ - limit) * static_cast<double>(now - trial_start_);
  return empty > options_.budget * (used - paid_lower_);
}

std::optional<int> LevelTrial::give_up(int limit, double lost) {
  double& paid = phase_ == Phase::kLower ? paid_lower_ : paid_higher_;
  paid += std::clamp(lost, kLeastLost, 1.0) * (used_ - paid);
  phase_ = Phase::kWatch;
  return limit;
}

std::optional<int> LevelTrial::judge(const Window& tried, int limit) {
  const bool lower = phase_ == Phase::kLower;
  if (tried.in_flight < kBusyShare * limit) return give_up(limit_before_);
  const Window& few = lower ? tried : before_;
  const Window& many = lower ? before_ : tried;
  const double step = 1 - few.in_flight / many.in_flight;
  // A level that was found is not left for a doubt.
  const double loss = lower ? options_.loss : std::max(options_.loss, kLossToRise);
  const bool saturated = few.throughput() >= (1 - loss * step) * many.throughput();
  if (saturated != lower) {
    const double lost = 1 - few.throughput() / many.throughput();
    return give_up(limit_before_, lower ? lost / step : 1);
  }
  phase_ = Phase::kWatch;
  ceiling_ = limit;
  return std::nullopt;
}

}  // namespace dovetail::pipeline
