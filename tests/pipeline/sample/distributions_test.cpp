#include "pipeline/sample/distributions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace dovetail::pipeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kDraws = 200000;

double ulps(double a, double b) {
  return std::abs(a - b) / (std::nextafter(std::abs(b), kInfinity) - std::abs(b));
}

TEST(PortableMath, IsWithinFourUnitsInTheLastPlace) {
  Stream stream(3, 0);
  for (int i = 0; i < 200000; ++i) {
    const double x = std::exp(1400 * (stream.unit() - 0.5));
    ASSERT_LE(ulps(portable_log(x), std::log(x)), 4) << x;
    const double near_one = 0.5 + stream.unit();
    ASSERT_LE(ulps(portable_log(near_one), std::log(near_one)), 4) << near_one;
    const double y = 1400 * (stream.unit() - 0.5);
    ASSERT_LE(ulps(portable_exp(y), std::exp(y)), 4) << y;
  }
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_exp(0), 1);
}

TEST(PortableMath, LogFactorial) {
  for (double k = 0; k < 1000; ++k) {
    EXPECT_NEAR(log_factorial(k), std::lgamma(k + 1), 1e-13 * (1 + std::lgamma(k + 1))) << k;
  }
}

// The largest distance between the empirical distribution and `cdf`, times sqrt(n): above 2.2 with
// chance 1e-4 (Kolmogorov).
double kolmogorov(std::vector<double> values, const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]);
    most = std::max({most, std::abs(expected - static_cast<double>(i) / n),
                     std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  return most * std::sqrt(n);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

std::vector<double> collect(const std::function<double(Stream&)>& draw) {
  std::vector<double> values;
  for (int i = 0; i < kDraws; ++i) {
    Stream stream(99, static_cast<std::uint64_t>(i));
    values.push_back(draw(stream));
  }
  return values;
}

TEST(Normal, FollowsItsDistribution) {
  EXPECT_LT(kolmogorov(collect(draw_normal), normal_cdf), 2.2);
}

TEST(TruncatedNormal, FollowsItsDistributionAndStaysInside) {
  const std::pair<double, double> intervals[] = {
      {-kInfinity, 0.5}, {-1, 1},          {-1, 3},         {0, kInfinity}, {0.3, 0.4},
      {2, kInfinity},    {2, 2.1},         {-3, -2},        {1, 8},         {-0.01, 4},
      {5, 5.5},          {-kInfinity, -4}, {-2, kInfinity}, {-0.1, 0},      {0.2, kInfinity}};
  for (const auto& [low, high] : intervals) {
    const auto values = collect([low = low, high = high](Stream& stream) {
      return draw_truncated_normal(stream, low, high);
    });
    ASSERT_GE(*std::min_element(values.begin(), values.end()), low);
    ASSERT_LE(*std::max_element(values.begin(), values.end()), high);
    // By the side where both numbers are small, else the difference loses all digits.
    const bool right = low > 0;
    const double from = right ? normal_cdf(-low) : normal_cdf(low);
    const double to = right ? normal_cdf(-high) : normal_cdf(high);
    EXPECT_LT(
        kolmogorov(values,
                   [&](double x) { return (normal_cdf(right ? -x : x) - from) / (to - from); }),
        2.2)
        << low << " to " << high;
  }
}

TEST(TruncatedNormal, EndsFarOutsideToo) {
  for (const double far : {10.0, 100.0, 1e6}) {
    Stream stream(5, 0);
    for (int i = 0; i < 1000; ++i) {
      const double x = draw_truncated_normal(stream, far, kInfinity);
      ASSERT_GE(x, far);
      ASSERT_LT(x, far + 20 / far);
      ASSERT_LE(draw_truncated_normal(stream, -kInfinity, -far), -far);
    }
  }
}

TEST(Exponential, FollowsItsDistribution) {
  EXPECT_LT(kolmogorov(collect([](Stream& stream) { return draw_exponential(stream, 3); }),
                       [](double x) { return 1 - std::exp(-x / 3); }),
            2.2);
}

TEST(Gamma, FollowsItsDistribution) {
  // Whole shapes have a closed form: 1 - e^-x * sum x^i / i!.
  for (const int shape : {1, 2, 7}) {
    EXPECT_LT(kolmogorov(collect([=](Stream& stream) { return draw_gamma(stream, shape, 2); }),
                         [=](double x) {
                           double sum = 0;
                           double term = 1;
                           for (int i = 0; i < shape; ++i) {
                             sum += term;
                             term *= x / 2 / (i + 1);
                           }
                           return 1 - std::exp(-x / 2) * sum;
                         }),
              2.2)
        << shape;
  }
  // Half a squared normal draw.
  EXPECT_LT(kolmogorov(collect([](Stream& stream) { return draw_gamma(stream, 0.5, 1); }),
                       [](double x) { return std::erf(std::sqrt(x)); }),
            2.2);
}

// Chi-square over cells of at least 20 expected draws, in deviations from its mean; the chance to
// be above 5 is about 1e-5.
double chi_square_excess(const std::vector<double>& values,
                         const std::function<double(double)>& log_chance, double most) {
  double chi = 0;
  double expected = 0;
  double found = 0;
  int cells = 0;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::size_t at = 0;
  double total = 0;
  for (double k = 0; k <= most; ++k) {
    const double share = kDraws * std::exp(log_chance(k));
    expected += share;
    total += share;
    while (at < sorted.size() && sorted[at] == k) {
      ++at;
      ++found;
    }
    if (expected >= 20 && kDraws - total >= 20) {
      chi += (found - expected) * (found - expected) / expected;
      expected = found = 0;
      ++cells;
    }
  }
  expected += kDraws - total;
  found += static_cast<double>(sorted.size() - at);
  if (expected > 0) chi += (found - expected) * (found - expected) / expected;
  return cells == 0 ? 0 : (chi - cells) / std::sqrt(2.0 * cells);
}

TEST(Poisson, FollowsItsDistribution) {
  for (const double mean : {0.3, 4.0, 9.99, 10.0, 12.5, 100.0, 3000.0}) {
    const auto values =
        collect([=](Stream& stream) { return static_cast<double>(draw_poisson(stream, mean)); });
    EXPECT_LT(chi_square_excess(
                  values, [=](double k) { return k * std::log(mean) - mean - std::lgamma(k + 1); },
                  mean + 20 * std::sqrt(mean) + 20),
              5)
        << mean;
  }
  Stream stream(1, 1);
  EXPECT_EQ(draw_poisson(stream, 0), 0);
}

TEST(Poisson, LargeMeans) {
  for (const double mean : {1e6, 1e9}) {
    const auto values = collect([=](Stream& stream) {
      return (static_cast<double>(draw_poisson(stream, mean)) - mean) / std::sqrt(mean);
    });
    // Steps of 1e-3 deviations at 1e6 add about as much to the distance.
    EXPECT_LT(kolmogorov(values, normal_cdf), 2.6) << mean;
  }
}

TEST(Binomial, FollowsItsDistribution) {
  struct Case {
    std::int64_t n;
    double p;
  };
  for (const Case c : {Case{1, 0.3},
                       {10, 0.5},
                       {15, 0.9},
                       {25, 0.4},
                       {25, 0.39},
                       {100, 0.1},
                       {100, 0.73},
                       {1000, 0.5},
                       {100000, 0.00003},
                       {1000000, 0.001}}) {
    const auto values = collect(
        [=](Stream& stream) { return static_cast<double>(draw_binomial(stream, c.n, c.p)); });
    ASSERT_GE(*std::min_element(values.begin(), values.end()), 0);
    ASSERT_LE(*std::max_element(values.begin(), values.end()), static_cast<double>(c.n));
    const auto n = static_cast<double>(c.n);
    EXPECT_LT(chi_square_excess(
                  values,
                  [=](double k) {
                    return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                           k * std::log(c.p) + (n - k) * std::log1p(-c.p);
                  },
                  std::min(n, n * c.p + 20 * std::sqrt(n * c.p) + 20)),
              5)
        << c.n << " " << c.p;
  }
}

TEST(Binomial, Borders) {
  Stream stream(1, 1);
  EXPECT_EQ(draw_binomial(stream, 0, 0.5), 0);
  EXPECT_EQ(draw_binomial(stream, 1000000000, 0), 0);
  EXPECT_EQ(draw_binomial(stream, 1000000000, 1), 1000000000);
  for (int i = 0; i < 1000; ++i) {
    const auto value = static_cast<double>(draw_binomial(stream, 1000000000, 0.5));
    ASSERT_NEAR(value, 5e8, 6 * std::sqrt(2.5e8));
  }
}

}  // namespace
}  // namespace dovetail::pipeline
