#include "pipeline/sample/portable_math.h"

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

}  // namespace dovetail::pipeline
