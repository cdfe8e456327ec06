#include "kernels/functions.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace dovetail::kernels {
namespace {

// ln 2 and pi / 2 in parts: the high ones have 32 or 33 bits, so that their products with whole
// numbers of 20 bits are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfPi[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                              0x1.b839a252049c1p-104};

// The nearest whole number of |x| < 2^51; adding this leaves no room for a fraction.
constexpr double kMagic = 0x1.8p52;

double power_of_two(std::int64_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52U);
}

}  // namespace

double exp(double x) {
  if (!(x == x)) return x;
  if (x > 710.0) return std::numeric_limits<double>::infinity();
  if (x < -746.0) return 0.0;
  const double n = (x * 0x1.71547652b82fep+0 + kMagic) - kMagic;
  const double high = x - n * kLn2High;
  const double low = n * kLn2Low;
  const double r = high - low;
  // r (e^r + 1) / (e^r - 1) = 2 + r^2 / 6 - ..., here less 2: the polynomial of FreeBSD's exp.
  const double t = r * r;
  const double c =
      r - t * (1.66666666666666019037e-01 +
               t * (-2.77777777770155933842e-03 +
                    t * (6.61375632143793436117e-05 +
                         t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08))));
  const double result = 1.0 - ((low - r * c / (2.0 - c)) - high);
  // In two steps, of which the first is exact.
  const auto whole = static_cast<std::int64_t>(n);
  const std::int64_t half = whole / 2;
  return result * power_of_two(half) * power_of_two(whole - half);
}

double log(double x) {
  if (!(x > 0.0)) {
    return x == 0.0 ? -std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  if (x > std::numeric_limits<double>::max()) return x;
  std::int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  // x = 2^exponent * m with m from the root of 1/2 to that of 2.
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52U) - 1;
  constexpr std::uint64_t kOne = std::uint64_t{1023} << 52U;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<std::int64_t>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & kFraction) | kOne);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  // log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)): the polynomial of FreeBSD's log.
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double even = w * (3.999999999940941908e-01 +
                           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd = z * (6.666666666666735130e-01 +
                          w * (2.857142874366239149e-01 +
                               w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  const auto k = static_cast<double>(exponent);
  return k * kLn2High - ((half_square - (s * (half_square + (even + odd)) + k * kLn2Low)) - f);
}

double pow(double base, double exponent) { return exp(exponent * log(base)); }

SinCos sin_cos(double x) {
  if (!(x >= -0x1p30 && x <= 0x1p30)) {
    // Beyond, the reduction has no digits left; so that it is noticed.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan};
  }
  const double n = (x * 0x1.45f306dc9c883p-1 + kMagic) - kMagic;
  double high = x;
  double low = 0.0;  // what rounding took from `high`
  for (const double part : kHalfPi) {
    const double product = n * part;
    const double next = high - product;
    const double back = next - high;
    low += (high - (next - back)) - (product + back);
    high = next;
  }
  const double r = high + low;
  const double rest = (high - r) + low;
  // The polynomials of FreeBSD's kernels for |r| <= pi / 4.
  const double z = r * r;
  const double v = z * r;
  const double odd = 8.33333333332248946124e-03 +
                     z * (-1.98412698298579493134e-04 +
                          z * (2.75573137070700676789e-06 +
                               z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  const double sine = r - ((z * (0.5 * rest - v * odd) - rest) - v * -1.66666666666666324348e-01);
  const double even =
      z * (4.16666666666666019037e-02 +
           z * (-1.38888888888741095749e-03 +
                z * (2.48015872894767294178e-05 +
                     z * (-2.75573143513906633035e-07 +
                          z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double half = 0.5 * z;
  const double first = 1.0 - half;
  const double cosine = first + (((1.0 - first) - half) + (z * even - r * rest));
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace dovetail::kernels
