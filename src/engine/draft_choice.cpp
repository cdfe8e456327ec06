#include "engine/draft_choice.h"

#include <algorithm>
#include <cmath>

namespace dovetail::engine {
namespace {

// Weights of what is remembered, for each draft token and each time of a pass.
constexpr double kKeepTries = 0.99;
constexpr double kKeepTimes = 0.95;

}  // namespace

std::uint32_t DraftChoice::choose(std::uint32_t sequences, std::uint32_t most,
                                  const schedule::StepCost& cost) {
  if (sequences == 0 || most == 0) return 0;
  if (!cost.known() || count_ == 0) return most;
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
  const double time = microseconds / passes;
  const double x = sequences;
  for (double* sum : {&count_, &x_, &xx_, &y_, &xy_}) *sum *= kKeepTimes;
  count_ += 1.0;
  x_ += x;
  xx_ += x * x;
  y_ += time;
  xy_ += x * time;
}

// By the line, as far as the times lie on a rising one; else in proportion to nothing.
double DraftChoice::pass_time(std::uint32_t sequences) const {
  const double mean_x = x_ / count_;
  const double mean_y = y_ / count_;
  const double spread = xx_ / count_ - mean_x * mean_x;
  if (spread < 1e-9) return mean_y;
  const double slope = std::max(0.0, (xy_ / count_ - mean_x * mean_y) / spread);
  return std::max(mean_y + slope * (sequences - mean_x), 0.1 * mean_y);
}

}  // namespace dovetail::engine
