#include "pipeline/sample/stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace dovetail::pipeline {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers that the authors of Philox publish (Random123, kat_vectors).
TEST(Philox, MatchesPublishedAnswers) {
  struct Case {
    Block counter;
    std::array<std::uint32_t, 2> key;
    Block answer;
  };
  const Case cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Case& c : cases) EXPECT_EQ(philox(c.counter, c.key), c.answer);
}

TEST(Stream, DependsOnSeedColumnRecordAndAttemptOnly) {
  const auto first = [](std::uint64_t seed, const char* column, std::uint64_t record,
                        std::uint32_t attempt) {
    return Stream(stream_key(seed, column), record, attempt).bits();
  };
  EXPECT_EQ(first(1, "a", 2, 3), first(1, "a", 2, 3));
  EXPECT_NE(first(1, "a", 2, 3), first(2, "a", 2, 3));
  EXPECT_NE(first(1, "a", 2, 3), first(1, "b", 2, 3));
  EXPECT_NE(first(1, "a", 2, 3), first(1, "a", 3, 3));
  EXPECT_NE(first(1, "a", 2, 3), first(1, "a", 2, 4));
  EXPECT_NE(first(1, "a", 2, 3), first(1, "a", 2 + (std::uint64_t{1} << 32), 3));
}

TEST(Stream, UnitsStayInTheirIntervals) {
  Stream stream(7, 0);
  double least = 1, most = 0;
  for (int i = 0; i < 100000; ++i) {
    const double closed = stream.unit();
    const double open = stream.open_unit();
    ASSERT_GE(closed, 0);
    ASSERT_LT(closed, 1);
    ASSERT_GT(open, 0);
    ASSERT_LT(open, 1);
    least = std::min(least, closed);
    most = std::max(most, closed);
  }
  EXPECT_LT(least, 1e-3);
  EXPECT_GT(most, 1 - 1e-3);
}

TEST(Stream, BelowIsEvenAndInRange) {
  // 99.99 % quantiles of chi-square with bound - 1 degrees of freedom.
  const std::pair<std::uint64_t, double> cases[] = {
      {1, 0.1}, {2, 15.1}, {3, 18.4}, {10, 33.7}, {100, 161.3}};
  for (const auto& [bound, limit] : cases) {
    Stream stream(11, bound);
    std::vector<double> counts(bound);
    const double draws = 100000;
    for (int i = 0; i < 100000; ++i) {
      const std::uint64_t value = stream.below(bound);
      ASSERT_LT(value, bound);
      ++counts[value];
    }
    double chi = 0;
    const double expected = draws / static_cast<double>(bound);
    for (const double count : counts) chi += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi, limit) << bound;
  }
  // A bound whose surplus is nearly half of all inputs: rejection must be at work.
  const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;
  Stream stream(12, 0);
  int upper = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t value = stream.below(bound);
    ASSERT_LT(value, bound);
    upper += value >= bound / 2 ? 1 : 0;
  }
  EXPECT_NEAR(upper, 5000, 250);
}

}  // namespace
}  // namespace dovetail::pipeline
