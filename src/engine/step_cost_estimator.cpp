#include "engine/step_cost_estimator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace dovetail::engine {
namespace {

using schedule::StepLoad;

constexpr std::size_t kTerms = 4;  // a, b, c, d of StepCost
using Vector = std::array<double, kTerms>;
using Matrix = std::array<Vector, kTerms>;

// Candidates for StepCost::free_tokens, from kMinStepsForFree steps with prefill on. The least one
// whose error is nearly the smallest is taken.
constexpr std::array<std::uint32_t, 5> kFree = {0, 8, 16, 32, 64};
constexpr double kFreeGain = 0.9;
constexpr std::uint64_t kMinStepsForFree = 32;

// Relative to the diagonal: terms that the steps cannot separate share their part.
constexpr double kRidge = 1e-5;
constexpr double kMinWeight = 1e-3;
constexpr double kTrusted = 0.2;         // relative distance from the last fit that counts in full
constexpr double kOtherSpeed = 1.5;      // a factor above it is no drift
constexpr double kMaxSpeedChange = 10;   // largest accepted change of speed, a factor
constexpr std::uint32_t kImagined = 64;  // tokens of the imagined step

Vector terms(const StepLoad& load, std::uint32_t free_tokens) {
  const std::uint32_t gift = free_tokens > load.decode_rows ? free_tokens - load.decode_rows : 0;
  const std::uint32_t paid = load.prefill_tokens - std::min(load.prefill_tokens, gift);
  return {1.0, static_cast<double>(paid), static_cast<double>(load.decode_rows),
          load.context_tokens};
}

// Sums of a weighted least-squares problem: minimise the sum of w * (1 - x * beta)^2.
struct Sums {
  Matrix xx{};
  Vector x1{};
  double ones = 0;

  void add(const Vector& x, double microseconds, double weight) {
    const double scale = 1.0 / microseconds;
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j <= i; ++j) xx[i][j] += weight * x[i] * x[j] * scale * scale;
      x1[i] += weight * x[i] * scale;
    }
    ones += weight;
  }
};

// Solves for the terms in `used` alone, with unit diagonal and ridge, by Cholesky's method. Nothing
// where a coefficient would be negative.
std::optional<Vector> solve(const Sums& sums, const Vector& scale, unsigned used) {
  Matrix lower{};
  Vector solution{};
  for (std::size_t i = 0; i < kTerms; ++i) {
    if ((used >> i & 1U) == 0) continue;
    double rest = sums.x1[i] * scale[i];
    for (std::size_t j = 0; j <= i; ++j) {
      if ((used >> j & 1U) == 0) continue;
      double sum = sums.xx[i][j] * scale[i] * scale[j] + (i == j ? kRidge : 0.0);
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      if (i == j) {
        if (!(sum > 0)) return std::nullopt;
        lower[i][i] = std::sqrt(sum);
      } else {
        lower[i][j] = sum / lower[j][j];
        rest -= lower[i][j] * solution[j];
      }
    }
    solution[i] = rest / lower[i][i];
  }
  for (std::size_t i = kTerms; i-- > 0;) {
    if ((used >> i & 1U) == 0) continue;
    for (std::size_t k = i + 1; k < kTerms; ++k) solution[i] -= lower[k][i] * solution[k];
    solution[i] /= lower[i][i];
    if (!(solution[i] >= 0)) return std::nullopt;
  }
  for (std::size_t i = 0; i < kTerms; ++i) solution[i] *= scale[i];
  return solution;
}

struct Fit {
  Vector beta{};
  double error = std::numeric_limits<double>::infinity();
};

// With four terms all supports can be tried: the best feasible one is the optimum.
Fit fit_non_negative(const Sums& sums) {
  Vector scale{};
  for (std::size_t i = 0; i < kTerms; ++i)
    scale[i] = sums.xx[i][i] > 0 ? 1.0 / std::sqrt(sums.xx[i][i]) : 0.0;
  Fit best;
  for (unsigned used = 1; used < 1U << kTerms; ++used) {
    const std::optional<Vector> beta = solve(sums, scale, used);
    if (!beta) continue;
    double error = sums.ones;
    for (std::size_t i = 0; i < kTerms; ++i) {
      error -= 2 * (*beta)[i] * sums.x1[i];
      for (std::size_t j = 0; j < kTerms; ++j)
        error += (*beta)[i] * (*beta)[j] * sums.xx[std::max(i, j)][std::min(i, j)];
    }
    if (error < best.error) best = {*beta, error};
  }
  return best;
}

}  // namespace

std::size_t StepCostEstimator::kind_of(const StepLoad& load) {
  const bool prefill = load.prefill_tokens > 0;
  const auto size =
      static_cast<std::size_t>(std::bit_width(prefill ? load.prefill_tokens : load.decode_rows));
  return (prefill ? kSizes : 0) + std::min(size, kSizes - 1);
}

void StepCostEstimator::observe(const StepLoad& load, double microseconds) {
  const double tokens = static_cast<double>(load.prefill_tokens) + load.decode_rows;
  if (tokens == 0 || !std::isfinite(microseconds) || !(microseconds > 0)) return;
  Kind& kind = kinds_[kind_of(load)];
  if (load.prefill_tokens > 0) ++prefill_;
  const std::uint64_t number = ++steps_;
  kind.steps[kind.seen++ % kPerKind] = {load, microseconds, number};

  const double rate = microseconds / tokens;
  if (best_rate_ == 0 || rate < best_rate_) best_rate_ = rate;
  const bool enough = steps_ >= kMinSteps && prefill_ >= kMinPrefillSteps;
  last_[number % kLast] = {load, microseconds, number};
  if (enough && (prefill_ <= kMinStepsForFree || number % kRefit == 0)) {
    if (fitted_) follow_speed();
    fit();
  }
  if (!fitted_) cost_ = {0, best_rate_, best_rate_, 0, 0};
}

// By age, and by the distance from the last fit as Huber weighs it.
double StepCostEstimator::weight(const Step& step) const {
  const double age = static_cast<double>(steps_ - step.number);
  const double recent = std::max(std::exp2(-age / kHalfLife), kMinWeight);
  if (!fitted_) return recent;
  const double distance = std::abs(1.0 - cost_.predict(step.load) / step.microseconds);
  return distance > kTrusted ? recent * kTrusted / distance : recent;
}

void StepCostEstimator::follow_speed() {
  const std::uint64_t number = steps_;
  if (number < speed_since_ + kLast) return;
  std::array<double, kLast> ratios;
  std::transform(last_.begin(), last_.end(), ratios.begin(),
                 [&](const Step& step) { return step.microseconds / cost_.predict(step.load); });
  std::nth_element(ratios.begin(), ratios.begin() + kLast / 2, ratios.end());
  const double factor = std::clamp(ratios[kLast / 2], 1 / kMaxSpeedChange, kMaxSpeedChange);
  if (factor < kOtherSpeed && factor > 1 / kOtherSpeed) return;
  for (Kind& kind : kinds_) {
    for (Step& step : kind.steps) {
      if (step.number == 0) continue;
      // Nearer to the old speed than to the new one?
      const double ratio = step.microseconds / cost_.predict(step.load);
      const bool old = factor > 1 ? ratio < std::sqrt(factor) : ratio > std::sqrt(factor);
      if (old) step.microseconds *= factor;
    }
  }
  best_rate_ *= factor;
  cost_ = {cost_.step * factor, cost_.prefill_token * factor, cost_.decode_row * factor,
           cost_.context_token * factor, cost_.free_tokens};
  speed_since_ = number;
}

void StepCostEstimator::fit() {
  std::array<Sums, kFree.size()> sums{};
  double prefill_weight = 0;
  for (const Kind& kind : kinds_) {
    const std::size_t count = std::min<std::uint64_t>(kind.seen, kPerKind);
    for (std::size_t i = 0; i < count; ++i) {
      const Step& step = kind.steps[i];
      const double w = weight(step);
      if (step.load.prefill_tokens > 0) prefill_weight += w;
      for (std::size_t f = 0; f < kFree.size(); ++f)
        sums[f].add(terms(step.load, kFree[f]), step.microseconds, w);
    }
  }
  const double doubt = prefill_weight / static_cast<double>(prefill_);
  const StepLoad imagined{kImagined, 0, 0};
  const std::size_t tried = prefill_ >= kMinStepsForFree ? kFree.size() : 1;
  std::array<Fit, kFree.size()> fits;
  double least_error = std::numeric_limits<double>::infinity();
  for (std::size_t f = 0; f < tried; ++f) {
    sums[f].add(terms(imagined, 0), best_rate_ * kImagined, doubt);
    fits[f] = fit_non_negative(sums[f]);
    least_error = std::min(least_error, fits[f].error);
  }
  std::size_t chosen = 0;
  while (kFreeGain * fits[chosen].error > least_error) ++chosen;
  const Vector& beta = fits[chosen].beta;
  // Without a price for prefill there would be no bound; a tiny price has the same effect.
  const double least = 1e-6 * best_rate_;
  cost_ = {beta[0], std::max(beta[1], least), beta[2], beta[3], kFree[chosen]};
  fitted_ = true;
}

}  // namespace dovetail::engine
