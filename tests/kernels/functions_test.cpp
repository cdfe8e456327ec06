#include "kernels/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace dovetail::kernels {
namespace {

constexpr double kInfDouble = std::numeric_limits<double>::infinity();

// The error in units of the last place of `expected` as a double.
double ulps(double got, long double expected) {
  if (got == static_cast<double>(expected)) return 0;
  const double near = std::abs(static_cast<double>(expected));
  const long double unit = std::nextafter(near, kInfDouble) - static_cast<long double>(near);
  return static_cast<double>(std::abs(static_cast<long double>(got) - expected) / unit);
}

TEST(Functions, ExpIsWithinOneUnit) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-746, 710);
  std::uniform_real_distribution<double> narrow(-2, 2);
  double worst = 0;
  for (int i = 0; i < 400000; ++i) {
    const double x = i % 2 == 0 ? wide(random) : narrow(random);
    const long double expected = std::exp(static_cast<long double>(x));
    if (expected > std::numeric_limits<double>::max()) continue;
    worst = std::max(worst, ulps(exp(x), expected));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_EQ(exp(0.0), 1.0);
  EXPECT_EQ(exp(-0.0), 1.0);
  EXPECT_EQ(exp(-kInfDouble), 0.0);
  EXPECT_EQ(exp(-800), 0.0);
  EXPECT_EQ(exp(kInfDouble), kInfDouble);
  EXPECT_EQ(exp(710.5), kInfDouble);
  EXPECT_TRUE(std::isnan(exp(NAN)));
}

TEST(Functions, LogIsWithinOneUnit) {
  std::mt19937_64 random(2);
  double worst = 0;
  for (int i = 0; i < 400000; ++i) {
    const double x = i % 2 == 0 ? std::bit_cast<double>(random() % 0x7ff0000000000000U)
                                : std::uniform_real_distribution<double>(0.5, 2)(random);
    if (x == 0) continue;
    worst = std::max(worst, ulps(log(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 1.0);
  EXPECT_EQ(log(1.0), 0.0);
  EXPECT_EQ(log(0.0), -kInfDouble);
  EXPECT_EQ(log(kInfDouble), kInfDouble);
  EXPECT_TRUE(std::isnan(log(-1.0)));
  EXPECT_TRUE(std::isnan(log(NAN)));
}

TEST(Functions, PowOfFrequencies) {
  double worst = 0;
  for (const double theta : {1e4, 5e5, 1e6, 1e7, 31.0}) {
    for (int i = 0; i < 128; ++i) {
      const long double expected = std::pow(static_cast<long double>(theta), i / 128.0L);
      const double limit = (2 + i / 128.0 * std::log(theta)) * 0x1p-52;
      const double error =
          static_cast<double>(std::abs(pow(theta, i / 128.0) / expected - 1.0L)) / limit;
      worst = std::max(worst, error);
    }
  }
  EXPECT_LT(worst, 1.0);
}

TEST(Functions, SinAndCos) {
  std::mt19937_64 random(3);
  double worst = 0;
  double worst_far = 0;
  for (int i = 0; i < 400000; ++i) {
    const double limit = i % 4 == 0 ? 8 : i % 4 == 1 ? 1e4 : i % 4 == 2 ? 1e6 : 0x1p30;
    double x = std::uniform_real_distribution<double>(-limit, limit)(random);
    if (i % 3 == 0) x = static_cast<float>(x);
    if (i % 5 == 0) x = std::round(x / M_PI_2) * M_PI_2;  // near a zero of one of them
    const SinCos got = sin_cos(x);
    const auto exact = static_cast<long double>(x);
    const double error = static_cast<double>(
        std::max(std::abs(got.sin - std::sin(exact)), std::abs(got.cos - std::cos(exact))));
    (std::abs(x) <= 1e6 ? worst : worst_far) = std::max(
        std::abs(x) <= 1e6 ? worst : worst_far, std::abs(x) <= 1e6 ? error : error / std::abs(x));
  }
  EXPECT_LT(worst, 0x1p-52);
  EXPECT_LT(worst_far, 0x1p-52);
  EXPECT_EQ(sin_cos(0.0).sin, 0.0);
  EXPECT_EQ(sin_cos(0.0).cos, 1.0);
  for (const double x : {kInfDouble, -kInfDouble, static_cast<double>(NAN), 1e300}) {
    EXPECT_TRUE(std::isnan(sin_cos(x).sin)) << x;
    EXPECT_TRUE(std::isnan(sin_cos(x).cos)) << x;
  }
}

// The same bits on every machine: what these functions gave on the first one.
TEST(Functions, HaveTheirBits) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto take = [&hash](double value) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3U;
  };
  std::uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const double x = static_cast<double>(state >> 40U) * 0x1p-10;  // to 16384
    take(exp(x * 0x1p-5 - 100.0));
    take(log(x + 0x1p-11));
    take(pow(x + 1.0, 0.3));
    take(sin_cos(x * 64).sin);
    take(sin_cos(x * 64).cos);
  }
  EXPECT_EQ(hash, 105654324136390453U);
}

// Relative errors of the vectors' functions over all magnitudes.
TEST(Functions, OfVectorsAreAccurate) {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 3001) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(value)) x.push_back(value);
  }
  for (float value = -110; value < 110; value += 0.0009F) x.push_back(value);
  struct Case {
    Function function;
    long double (*exact)(long double);
    double limit;
  };
  const Case cases[] = {
      {Function::kExp, [](long double v) { return std::exp(v); }, 2e-7},
      {Function::kSigmoid, [](long double v) { return 1 / (1 + std::exp(-v)); }, 4e-7},
      {Function::kTanh, [](long double v) { return std::tanh(v); }, 2e-7},
      {Function::kErf, [](long double v) { return std::erf(v); }, 2e-7},
      {Function::kSoftplus,
       [](long double v) { return std::max(v, 0.0L) + std::log1p(std::exp(-std::abs(v))); }, 4e-7},
  };
  constexpr float kFInf = std::numeric_limits<float>::infinity();
  for (const Case& c : cases) {
    SCOPED_TRACE(static_cast<int>(c.function));
    std::vector<float> out(x.size());
    best_kernels().apply(c.function, x.data(), x.size(), out.data());
    double worst = 0;
    float where = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double expected = c.exact(x[i]);
      if (std::abs(expected) < std::numeric_limits<float>::min()) {
        ASSERT_NEAR(out[i], static_cast<double>(expected), 1.2e-38) << x[i];
      } else if (std::abs(expected) > std::numeric_limits<float>::max()) {
        ASSERT_EQ(out[i], kFInf) << x[i];
      } else {
        const double error = static_cast<double>(std::abs(out[i] / expected - 1));
        if (error > worst) where = x[i];
        worst = std::max(worst, error);
      }
    }
    EXPECT_LT(worst, c.limit) << "at " << where;
    RecordProperty("worst" + std::to_string(static_cast<int>(c.function)),
                   std::to_string(worst * 1e9));
    const float ends[] = {-kFInf, kFInf, NAN};
    float result[3];
    best_kernels().apply(c.function, ends, 3, result);
    EXPECT_EQ(result[0], static_cast<float>(c.exact(-kFInf)));
    EXPECT_EQ(result[1], static_cast<float>(c.exact(kFInf)));
    EXPECT_TRUE(std::isnan(result[2]));
  }
}

}  // namespace
}  // namespace dovetail::kernels
