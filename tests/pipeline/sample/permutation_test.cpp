#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "pipeline/sample/stream.h"

namespace dovetail::pipeline {
namespace {

TEST(Permutation, IsABijection) {
  for (std::uint64_t size : {1U, 2U, 3U, 7U, 64U, 1000U, 65537U}) {
    const Permutation order(5, "x", 0, size);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t at = order(i);
      ASSERT_LT(at, size);
      ASSERT_FALSE(seen[at]) << size;
      seen[at] = true;
    }
  }
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 3000);
    const Permutation order(*rc::gen::arbitrary<std::uint64_t>(), "y",
                            *rc::gen::arbitrary<std::uint64_t>(), size);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      RC_ASSERT(order(i) < size);
      RC_ASSERT(!seen[order(i)]);
      seen[order(i)] = true;
    }
  }));
}

TEST(Permutation, HugeSizes) {
  const std::uint64_t size = ~std::uint64_t{0};
  const Permutation order(1, "z", 0, size);
  EXPECT_LT(order(0), size);
  EXPECT_NE(order(0), order(1));
  EXPECT_NE(order(size - 1), order(size - 2));
}

TEST(Permutation, EveryOrderOfFourIsAboutAsLikely) {
  std::map<std::vector<std::uint64_t>, int> counts;
  for (std::uint64_t seed = 0; seed < 24000; ++seed) {
    const Permutation order(seed, "x", 0, 4);
    ++counts[{order(0), order(1), order(2), order(3)}];
  }
  ASSERT_EQ(counts.size(), 24U);
  double chi = 0;
  for (const auto& [order, count] : counts) chi += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi, 61);  // 23 degrees of freedom; above it with chance 3e-5
}

TEST(Permutation, PlacesAndNeighboursLookRandom) {
  // Where the first place goes, over seeds; and how far neighbours end up apart, within one order.
  constexpr std::uint64_t kSize = 1000;
  std::vector<double> cells(10);
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    ++cells[Permutation(seed, "x", 0, kSize)(0) / 100];
  }
  double chi = 0;
  for (const double count : cells) chi += (count - 2000) * (count - 2000) / 2000;
  EXPECT_LT(chi, 38);  // 9 degrees of freedom

  const Permutation order(3, "x", 0, 100000);
  std::vector<double> gaps(10);
  for (std::uint64_t i = 0; i + 1 < 100000; ++i) {
    ++gaps[(order(i + 1) + 100000 - order(i)) % 100000 / 10000];
  }
  chi = 0;
  for (const double count : gaps) chi += (count - 10000) * (count - 10000) / 10000;
  EXPECT_LT(chi, 38);
}

TEST(Permutation, DependsOnSeedNameAndEpoch) {
  const auto first = [](std::uint64_t seed, const char* name, std::uint64_t epoch) {
    return Permutation(seed, name, epoch, std::uint64_t{1} << 60)(17);
  };
  EXPECT_EQ(first(1, "a", 0), first(1, "a", 0));
  EXPECT_NE(first(1, "a", 0), first(2, "a", 0));
  EXPECT_NE(first(1, "a", 0), first(1, "b", 0));
  EXPECT_NE(first(1, "a", 0), first(1, "a", 1));
}

}  // namespace
}  // namespace dovetail::pipeline
