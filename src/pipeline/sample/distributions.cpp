#include "pipeline/sample/distributions.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "pipeline/sample/portable_math.h"

namespace dovetail::pipeline {
namespace {

constexpr double kInversionLimit = 10;

// From the left tail of the normal distribution, low >= 0: a shifted exponential candidate.
double draw_tail(Stream& stream, double low, double high) {
  const double rate = (low + std::sqrt(low * low + 4)) / 2;
  for (;;) {
    const double x = low - portable_log(stream.open_unit()) / rate;
    if (x > high) continue;
    const double gap = x - rate;
    if (stream.unit() <= portable_exp(-gap * gap / 2)) return x;
  }
}

// A uniform candidate, taken by its density relative to the densest point of the interval.
double draw_flat(Stream& stream, double low, double high) {
  const double densest = std::clamp(0.0, low, high);
  for (;;) {
    const double x = low + (high - low) * stream.unit();
    if (stream.unit() <= portable_exp((densest * densest - x * x) / 2)) return x;
  }
}

std::int64_t invert_poisson(Stream& stream, double mean) {
  double chance = portable_exp(-mean);
  double left = stream.unit();
  std::int64_t k = 0;
  // 200 is 60 deviations out: only rounding could get there.
  while (left >= chance && k < 200) {
    left -= chance;
    ++k;
    chance *= mean / static_cast<double>(k);
  }
  return k;
}

std::int64_t invert_binomial(Stream& stream, std::int64_t n, double p) {
  const double odds = p / (1 - p);
  const auto trials = static_cast<double>(n);
  double chance = portable_exp(trials * (p < 1e-8 ? -p - p * p / 2 : portable_log(1 - p)));
  double left = stream.unit();
  std::int64_t k = 0;
  while (left >= chance && k < std::min<std::int64_t>(n, 200)) {
    left -= chance;
    chance *= odds * (trials - static_cast<double>(k)) / static_cast<double>(k + 1);
    ++k;
  }
  return k;
}

}  // namespace

double draw_normal(Stream& stream) {
  for (;;) {
    const double x = 2 * stream.open_unit() - 1;
    const double y = 2 * stream.open_unit() - 1;
    const double square = x * x + y * y;
    if (square < 1 && square > 0) return x * std::sqrt(-2 * portable_log(square) / square);
  }
}

double draw_truncated_normal(Stream& stream, double low, double high) {
  assert(low < high);
  if (low > 0) {
    // The two candidates' chances to be taken cross here (Robert, section 2.2).
    const double root = std::sqrt(low * low + 4);
    const double border = low + 2 / (low + root) * portable_exp((low * low - low * root) / 4 + 0.5);
    return high > border ? draw_tail(stream, low, high) : draw_flat(stream, low, high);
  }
  if (high < 0) return -draw_truncated_normal(stream, -high, -low);
  constexpr double kRootTwoPi = 2.5066282746310002;
  if (high - low < kRootTwoPi) return draw_flat(stream, low, high);
  for (;;) {
    const double x = draw_normal(stream);
    if (x >= low && x <= high) return x;
  }
}

double draw_exponential(Stream& stream, double mean) {
  return -mean * portable_log(stream.open_unit());
}

double draw_gamma(Stream& stream, double shape, double scale) {
  if (shape < 1) {
    // Gamma(shape) = Gamma(shape + 1) * U^(1 / shape).
    const double boost = portable_exp(portable_log(stream.open_unit()) / shape);
    return draw_gamma(stream, shape + 1, scale) * boost;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(stream);
    const double base = 1 + c * x;
    if (base <= 0) continue;
    const double v = base * base * base;
    const double u = stream.open_unit();
    if (portable_log(u) < x * x / 2 + d - d * v + d * portable_log(v)) return d * v * scale;
  }
}

std::int64_t draw_poisson(Stream& stream, double mean) {
  assert(mean >= 0 && mean <= 1e9);
  if (mean < kInversionLimit) return invert_poisson(stream, mean);
  const double root = std::sqrt(mean);
  const double log_mean = portable_log(mean);
  const double b = 0.931 + 2.53 * root;
  const double a = -0.059 + 0.02483 * b;
  const double log_inverse_alpha = portable_log(1.1239 + 1.1328 / (b - 3.4));
  const double sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = stream.unit() - 0.5;
    const double v = stream.open_unit();
    const double us = 0.5 - std::abs(u);
    if (us <= 0) continue;
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= sure) return static_cast<std::int64_t>(k);
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (portable_log(v) + log_inverse_alpha - portable_log(a / (us * us) + b) <=
        k * log_mean - mean - log_factorial(k)) {
      return static_cast<std::int64_t>(k);
    }
  }
}

std::int64_t draw_binomial(Stream& stream, std::int64_t n, double p) {
  assert(n >= 0 && n <= 1'000'000'000 && p >= 0 && p <= 1);
  if (p > 0.5) return n - draw_binomial(stream, n, 1 - p);
  if (n == 0 || p == 0) return 0;
  const auto trials = static_cast<double>(n);
  if (trials * p < kInversionLimit) return invert_binomial(stream, n, p);
  const double q = 1 - p;
  const double deviation = std::sqrt(trials * p * q);
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = trials * p + 0.5;
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double sure = 0.92 - 4.2 / b;
  const double log_odds = portable_log(p / q);
  const double mode = std::floor((trials + 1) * p);
  const double at_mode = log_factorial(mode) + log_factorial(trials - mode);
  for (;;) {
    const double u = stream.unit() - 0.5;
    const double v = stream.open_unit();
    const double us = 0.5 - std::abs(u);
    if (us <= 0) continue;
    const double k = std::floor((2 * a / us + b) * u + c);
    if (k < 0 || k > trials) continue;
    if (us >= 0.07 && v <= sure) return static_cast<std::int64_t>(k);
    if (portable_log(v * alpha / (a / (us * us) + b)) <=
        at_mode - log_factorial(k) - log_factorial(trials - k) + (k - mode) * log_odds) {
      return static_cast<std::int64_t>(k);
    }
  }
}

}  // namespace dovetail::pipeline
