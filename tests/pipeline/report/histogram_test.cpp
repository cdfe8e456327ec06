#include "pipeline/report/histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace dovetail::pipeline {
namespace {

std::vector<std::uint64_t> some_numbers() {
  return *rc::gen::container<std::vector<std::uint64_t>>(
      rc::gen::mapcat(rc::gen::inRange(0, 65), [](int bits) {
        return rc::gen::map(rc::gen::arbitrary<std::uint64_t>(), [bits](std::uint64_t value) {
          return bits == 0 ? 0 : value >> (64 - bits);
        });
      }));
}

RC_GTEST_PROP(LogHistogram, BinsHoldTheirValues, ()) {
  for (const std::uint64_t value : some_numbers()) {
    const std::size_t bin = LogHistogram::bin_of(value);
    RC_ASSERT(bin < 1920U);
    RC_ASSERT(LogHistogram::begin_of(bin) <= value);
    if (bin < 1919) RC_ASSERT(value < LogHistogram::begin_of(bin + 1));
    RC_ASSERT(value - LogHistogram::begin_of(bin) <= value / 32);
  }
}

RC_GTEST_PROP(LogHistogram, CountsAll, ()) {
  const std::vector<std::uint64_t> values = some_numbers();
  RC_PRE(!values.empty());
  LogHistogram histogram;
  for (const std::uint64_t value : values) histogram.add(value);
  RC_ASSERT(histogram.count() == values.size());
  RC_ASSERT(histogram.least() == *std::min_element(values.begin(), values.end()));
  RC_ASSERT(histogram.greatest() == *std::max_element(values.begin(), values.end()));
  RC_ASSERT(histogram.below(0) == 0U);
  RC_ASSERT(histogram.below(2e19) == values.size());
  std::uint64_t last = 0;
  for (std::size_t bin = 0; bin < 1920; ++bin) {
    const std::uint64_t begin = LogHistogram::begin_of(bin);
    const auto below = static_cast<std::uint64_t>(std::count_if(
        values.begin(), values.end(), [&](std::uint64_t value) { return value < begin; }));
    RC_ASSERT(histogram.below(static_cast<double>(begin)) == below);
    RC_ASSERT(below >= last);
    last = below;
  }
}

RC_GTEST_PROP(LogHistogram, QuantilesAreThoseOfTheSortedValues, ()) {
  std::vector<std::uint64_t> values = some_numbers();
  RC_PRE(!values.empty());
  LogHistogram histogram;
  for (const std::uint64_t value : values) histogram.add(value);
  std::sort(values.begin(), values.end());
  for (const double share : {0.0, 0.1, 0.5, 0.95, 1.0}) {
    const auto rank = static_cast<std::size_t>(
        std::max(1.0, std::ceil(share * static_cast<double>(values.size()))));
    const std::uint64_t exact = values[rank - 1];
    const std::uint64_t found = histogram.quantile(share);
    RC_ASSERT(LogHistogram::bin_of(found) == LogHistogram::bin_of(exact));
  }
}

TEST(LogHistogram, SmallNumbersAreExact) {
  LogHistogram histogram;
  for (const std::uint64_t value : {1, 2, 2, 3, 60}) histogram.add(value);
  EXPECT_EQ(histogram.quantile(0.5), 2U);
  EXPECT_EQ(histogram.quantile(1.0), 60U);
  EXPECT_DOUBLE_EQ(histogram.mean(), 13.6);
}

TEST(LogHistogram, WithoutValues) {
  const LogHistogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0U);
  EXPECT_EQ(histogram.below(5), 0U);
}

RC_GTEST_PROP(NumberHistogram, EveryValueIsInItsBin, (std::vector<double> values)) {
  const int scale = *rc::gen::inRange(-300, 300);
  for (double& value : values) value = std::ldexp(std::fmod(value, 1e6), scale);
  NumberHistogram histogram;
  for (const double value : values) histogram.add(value);
  const auto bins = histogram.bins();
  RC_ASSERT(bins.size() <= 64U);
  std::uint64_t sum = 0;
  for (const HistogramBin& bin : bins) {
    const auto inside = std::count_if(values.begin(), values.end(), [&](double value) {
      return value >= bin.from && value < bin.to;
    });
    RC_ASSERT(bin.count == static_cast<std::uint64_t>(inside));
    sum += bin.count;
  }
  RC_ASSERT(sum == values.size());
}

// Bins that were made for small values and had to grow.
TEST(NumberHistogram, GrowsWithItsValues) {
  NumberHistogram histogram;
  for (int i = 0; i < 1000; ++i) histogram.add(0.5 + i * 0.001);
  histogram.add(-1e6);
  histogram.add(1e9);
  const auto bins = histogram.bins();
  ASSERT_LE(bins.size(), 64U);
  EXPECT_LE(bins.front().from, -1e6);
  EXPECT_GT(bins.back().to, 1e9);
  std::uint64_t sum = 0;
  for (const HistogramBin& bin : bins) sum += bin.count;
  EXPECT_EQ(sum, 1002U);
}

TEST(NumberHistogram, WholeNumbersHaveBinsOfTheirOwn) {
  NumberHistogram histogram;
  for (int i = 0; i < 3000; ++i) histogram.add(i % 10);
  const auto bins = histogram.bins();
  ASSERT_EQ(bins.size(), 10U);
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const auto from = static_cast<double>(i);
    EXPECT_EQ(bins[i], (HistogramBin{from, from + 1, 300}));
  }
}

TEST(NumberHistogram, OneValueManyTimes) {
  for (const double value : {0.0, 0.1, -1e300, 5e-324, 7.0}) {
    NumberHistogram histogram;
    for (int i = 0; i < 500; ++i) histogram.add(value);
    ASSERT_EQ(histogram.bins().size(), 1U) << value;
    EXPECT_EQ(histogram.bins()[0].count, 500U);
  }
}

TEST(NumberHistogram, LeavesOutWhatIsNoNumber) {
  NumberHistogram histogram;
  histogram.add(std::numeric_limits<double>::quiet_NaN());
  histogram.add(std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_TRUE(histogram.bins().empty());
}

RC_GTEST_PROP(TopValues, CountsAreExact, ()) {
  const auto texts = *rc::gen::container<std::vector<std::string>>(
      rc::gen::element<std::string>("a", "b", "c", "d", "e", "f"));
  const auto most = *rc::gen::inRange<std::size_t>(1, 8);
  TopValues values(most);
  std::unordered_map<std::string, std::uint64_t> exact;
  for (const std::string& text : texts) {
    values.add(text);
    ++exact[text];
  }
  std::uint64_t sum = values.others();
  const auto entries = values.top(100);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    RC_ASSERT(entries[i].count == exact[entries[i].text]);
    if (i > 0) RC_ASSERT(entries[i - 1].count >= entries[i].count);
    sum += entries[i].count;
  }
  RC_ASSERT(sum == texts.size());
  RC_ASSERT(entries.size() <= most);
}

TEST(TopValues, LongTextsAreAmongTheOthers) {
  TopValues values;
  values.add(std::string(300, 'x'));
  values.add("short");
  EXPECT_EQ(values.others(), 1U);
  EXPECT_EQ(values.top(5), (std::vector<TopValues::Entry>{{"short", 1}}));
}

}  // namespace
}  // namespace dovetail::pipeline
