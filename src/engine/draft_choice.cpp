#include "engine/draft_choice.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace dovetail::engine {
namespace {

// Weight of what is remembered, for each draft token.
constexpr double kKeepTries = 0.99;

// The upper one of an even number. Reorders them.
double median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::uint32_t DraftChoice::choose(std::uint32_t sequences, std::uint32_t most,
                                  const schedule::StepCost& cost) {
  if (sequences == 0 || most == 0) return 0;
  if (!cost.known() || seen_ < kKnown) return most;
  std::uint32_t best = 0;
  double best_rate = 0.0;
  double expected = 0.0;
  double chance = 1.0;  // that all draft tokens before are right
  for (std::uint32_t drafts = 0; drafts <= most; ++drafts) {
    expected += chance;
    chance *= right();
    const double time =
        cost.predict({0, sequences * (1 + drafts), 0}) + drafts * pass_time(sequences);
    const double rate = expected / time;
    if (!(rate > best_rate)) continue;
    best = drafts;
    best_rate = rate;
  }
  if (best > 0) {
    since_probe_ = 0;
  } else if (++since_probe_ == kProbe) {
    since_probe_ = 0;
    best = 1;
  }
  return best;
}

void DraftChoice::observe(std::uint32_t drafted, std::uint32_t accepted) {
  // Those behind a wrong one say nothing.
  const std::uint32_t tried = std::min(drafted, accepted + 1);
  for (std::uint32_t i = 0; i < tried; ++i) {
    tried_ = tried_ * kKeepTries + 1.0;
    right_ = right_ * kKeepTries + (i < accepted ? 1.0 : 0.0);
  }
}

void DraftChoice::observe_time(std::uint32_t sequences, std::uint32_t passes, double microseconds) {
  if (passes == 0 || !(microseconds > 0.0) || !std::isfinite(microseconds)) return;
  times_[seen_++ % kTimes] = {static_cast<double>(sequences), microseconds / passes};
}

// By the line whose slope is the median of those between any two times (Theil and Sen).
double DraftChoice::pass_time(std::uint32_t sequences) const {
  const std::span<const PassTime> times(times_.data(), std::min(seen_, kTimes));
  std::array<double, kTimes*(kTimes - 1) / 2> slopes;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double apart = times[i].sequences - times[j].sequences;
      if (apart == 0.0) continue;
      slopes[pairs++] = (times[i].microseconds - times[j].microseconds) / apart;
    }
  }
  // More sequences never take less.
  const double slope = pairs == 0 ? 0.0 : std::max(0.0, median({slopes.data(), pairs}));
  std::array<double, kTimes> rest;
  for (std::size_t i = 0; i < times.size(); ++i)
    rest[i] = times[i].microseconds + slope * (sequences - times[i].sequences);
  const double on_line = median({rest.data(), times.size()});
  for (std::size_t i = 0; i < times.size(); ++i) rest[i] = times[i].microseconds;
  return std::max(on_line, 0.1 * median({rest.data(), times.size()}));
}

}  // namespace dovetail::engine
