#include "pipeline/sample/distributions.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>

namespace dovetail::pipeline {

namespace {

// ln 2 in two parts; the high one has 32 bits, so that its products with exponents are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

}  // namespace

double portable_log(double x) {
  assert(x > 0);
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  // log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172: the term of s^23 is below 2^-60.
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  double series = 1.0 / 21;
  for (const double divisor : {19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0}) {
    series = series * z + 1 / divisor;
  }
  const auto k = static_cast<double>(exponent);
  return k * kLn2High + (2 * s + (2 * s * z * series + k * kLn2Low));
}

double portable_exp(double x) {
  if (x < -708) return 0;
  if (x > 709) return 0x1.fffffffffffffp1023;
  const double k = std::floor(x * 1.44269504088896340736 + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  // |r| < 0.347: the term of r^15 is below 2^-60.
  double series = 1;
  for (int i = 14; i >= 1; --i) series = 1 + series * r / i;
  return std::ldexp(series, static_cast<int>(k));
}

double log_factorial(double k) {
  assert(k >= 0);
  constexpr std::size_t kTable = 16;
  static constexpr std::array<double, kTable> kFactorials = {
      1,     1,      2,       6,        24,        120,         720,          5040,
      40320, 362880, 3628800, 39916800, 479001600, 6227020800., 87178291200., 1307674368000.};
  if (k < static_cast<double>(kTable))
    return portable_log(kFactorials[static_cast<std::size_t>(k)]);
  const double inverse = 1 / k;
  const double square = inverse * inverse;
  const double correction =
      inverse * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680)));
  return (k + 0.5) * portable_log(k) - k + kHalfLogTwoPi + correction;
}

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
