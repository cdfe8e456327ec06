#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "pipeline/report/axis.h"

namespace dovetail::pipeline {
namespace {

LogHistogram histogram_of(const std::vector<std::uint64_t>& values) {
  LogHistogram histogram;
  for (const std::uint64_t value : values) histogram.add(value);
  return histogram;
}

RC_GTEST_PROP(Binning, HoldsAllValues, ()) {
  const int bits = *rc::gen::inRange(1, 64);
  const auto values = *rc::gen::container<std::vector<std::uint64_t>>(
      rc::gen::map(rc::gen::arbitrary<std::uint64_t>(),
                   [bits](std::uint64_t value) { return value >> (64 - bits); }));
  RC_PRE(!values.empty());
  const Unit unit = *rc::gen::element(Unit::kCount, Unit::kMicros);
  const Binning binning = bins_of(histogram_of(values), unit);
  RC_ASSERT(binning.bins.size() >= 8U);
  RC_ASSERT(binning.bins.size() <= 40U);
  std::uint64_t sum = binning.above;
  for (std::size_t i = 0; i < binning.bins.size(); ++i) {
    RC_ASSERT(binning.bins[i].from < binning.bins[i].to);
    if (i > 0) RC_ASSERT(binning.bins[i].from == binning.bins[i - 1].to);
    sum += binning.bins[i].count;
  }
  RC_ASSERT(sum == values.size());
}

TEST(Binning, SmallNumbersAreExact) {
  const Binning binning = bins_of(histogram_of({3, 5, 5, 9, 12}), Unit::kCount);
  for (const HistogramBin& bin : binning.bins) {
    EXPECT_EQ(bin.to - bin.from, 1);
    EXPECT_EQ(bin.count, bin.from == 5                                      ? 2U
                         : bin.from == 3 || bin.from == 9 || bin.from == 12 ? 1U
                                                                            : 0U);
  }
}

TEST(Binning, AFarTailHasABarOfItsOwn) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < 1000; ++i) values.push_back(50 + i % 40);
  values.push_back(100'000);
  const Binning binning = bins_of(histogram_of(values), Unit::kCount);
  EXPECT_EQ(binning.above, 1U);
  EXPECT_LE(binning.bins.back().to, 100);
  EXPECT_FALSE(binning.logarithmic);
}

TEST(Binning, WideSpreadsAreLogarithmic) {
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back(static_cast<std::uint64_t>(100 * std::pow(1.01, i)));
  }
  const Binning binning = bins_of(histogram_of(values), Unit::kMicros);
  ASSERT_TRUE(binning.logarithmic);
  EXPECT_EQ(binning.above, 0U);
  // Evenly spread values on such an axis give even bars, with no steps at powers of two.
  for (const HistogramBin& bin : binning.bins) EXPECT_NEAR(static_cast<double>(bin.count), 35.7, 3);
}

TEST(Binning, NoValuesNoBins) { EXPECT_TRUE(bins_of(LogHistogram(), Unit::kCount).bins.empty()); }

}  // namespace
}  // namespace dovetail::pipeline
