#include "cores/region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace dovetail::cores {
namespace {

using Numbers = std::vector<std::uint64_t>;

struct View {
  std::uint64_t offset = 0;
  std::uint64_t element = 1;
  Numbers counts, strides;

  Region region() const { return {1, offset, element, counts, strides}; }
  // Each once, in their order.
  Numbers bytes() const {
    Numbers all;
    add(all, 0, offset);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
  std::uint64_t rows() const {
    std::uint64_t all = 1;
    for (const std::uint64_t count : counts) all *= count;
    return all;
  }

 private:
  void add(Numbers& all, std::size_t dimension, std::uint64_t at) const {
    if (dimension == counts.size()) {
      for (std::uint64_t i = 0; i < element; ++i) all.push_back(at + i);
      return;
    }
    for (std::uint64_t i = 0; i < counts[dimension]; ++i) {
      add(all, dimension + 1, at + i * strides[dimension]);
    }
  }
};

bool meet(const Numbers& a, const Numbers& b) {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) return true;
    ++(*x < *y ? x : y);
  }
  return false;
}

bool holds(const Numbers& outer, const Numbers& inner) {
  return std::includes(outer.begin(), outer.end(), inner.begin(), inner.end());
}

TEST(Region, HasANormalForm) {
  // A whole tensor of 4 x 3 x 2 elements of four bytes is 96 bytes in a row.
  EXPECT_EQ((View{8, 4, {4, 3, 2}, {24, 8, 4}}.region()), Region(1, 8, 96));
  // Dimensions of one element, repeated elements and the order of the dimensions tell nothing.
  EXPECT_EQ((View{0, 4, {1, 3, 7, 2}, {999, 8, 0, 4}}.region()), Region(1, 0, 24));
  EXPECT_EQ((View{0, 4, {2, 3}, {4, 16}}.region()), (View{0, 4, {3, 2}, {16, 4}}.region()));
  // Rows that follow each other are one dimension.
  EXPECT_EQ((View{0, 4, {3, 5}, {80, 16}}.region()), (View{0, 4, {15}, {16}}.region()));
  EXPECT_TRUE((View{0, 4, {3, 0}, {80, 16}}.region()).empty());
}

TEST(Region, BlocksOfOneTensorMeetWhereTheirIndicesDo) {
  // Blocks of a matrix of 1,000 x 1,000 floats.
  const auto block = [](std::uint64_t row, std::uint64_t column, std::uint64_t rows,
                        std::uint64_t columns) {
    return View{4 * (1000 * row + column), 4, {rows, columns}, {4000, 4}}.region();
  };
  EXPECT_TRUE(overlap(block(0, 0, 600, 600), block(599, 599, 400, 400)));
  EXPECT_FALSE(overlap(block(0, 0, 600, 600), block(599, 600, 400, 400)));
  EXPECT_FALSE(overlap(block(0, 0, 600, 600), block(600, 0, 400, 400)));
  EXPECT_FALSE(overlap(block(0, 0, 1000, 1), block(0, 1, 1000, 999)));
  EXPECT_TRUE(covers(block(0, 0, 1000, 1000), block(7, 9, 500, 500)));
  EXPECT_TRUE(covers(block(5, 5, 500, 500), block(7, 9, 400, 400)));
  EXPECT_FALSE(covers(block(5, 5, 500, 500), block(4, 9, 400, 400)));
  EXPECT_FALSE(covers(block(5, 5, 500, 500), block(7, 9, 500, 400)));
}

TEST(Region, OtherBuffersNeverMeet) {
  EXPECT_FALSE(overlap(Region(1, 0, 10), Region(2, 0, 10)));
  EXPECT_FALSE(covers(Region(1, 0, 10), Region(2, 0, 10)));
}

TEST(Region, NothingMeetsNothing) {
  EXPECT_FALSE(overlap(Region(1, 5, 0), Region(1, 0, 10)));
  EXPECT_TRUE(covers(Region(1, 5, 1), Region(1, 0, 0)));
  EXPECT_FALSE(covers(Region(1, 5, 0), Region(1, 5, 1)));
}

// Views whose rows cannot be told apart in time may meet; they are never said not to.
TEST(Region, GivesUpOnTheSafeSide) {
  const View odd{0, 1, {5000}, {6}}, even{3, 1, {5000}, {10}};
  EXPECT_FALSE(meet(View{0, 1, {50}, {6}}.bytes(), View{3, 1, {50}, {10}}.bytes()));
  EXPECT_TRUE(overlap(odd.region(), even.region()));
}

class RegionsOfManyDimensions : public testing::TestWithParam<std::size_t> {
 protected:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::size_t dimensions() const { return GetParam(); }

 private:
  std::mt19937_64 random_{11 + GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Dimensions, RegionsOfManyDimensions,
                         testing::Range(std::size_t{1}, Region::kMaxDimensions + 1));

// What the answers about two views were compared with.
struct Seen {
  std::uint64_t meetings = 0, misses = 0, coverings = 0, uncovered = 0, feared = 0;
};

// `exact`: they can be told apart in any case.
void compare(const View& a, const View& b, bool exact, Seen& seen) {
  const Region x = a.region(), y = b.region();
  const Numbers of_a = a.bytes(), of_b = b.bytes();
  ASSERT_EQ(x.empty(), of_a.empty());
  if (!of_a.empty()) {
    ASSERT_EQ(x.begin(), of_a.front());
    ASSERT_EQ(x.end(), of_a.back() + 1);
    ASSERT_EQ(x.strided(), of_a.back() - of_a.front() + 1 > of_a.size());
  }
  const bool met = meet(of_a, of_b), covered = holds(of_a, of_b);
  for (const bool said : {overlap(x, y), overlap(y, x)}) {
    ASSERT_TRUE(said || !met);
    if (exact) {
      ASSERT_EQ(said, met);
    }
    seen.feared += said && !met ? 1 : 0;
  }
  ASSERT_TRUE(covered || !covers(x, y));
  seen.meetings += met ? 1 : 0;
  seen.misses += met || of_a.empty() || of_b.empty() ? 0 : 1;
  seen.coverings += covered && !of_b.empty() ? 1 : 0;
  seen.uncovered += covered && !covers(x, y) ? 1 : 0;
}

// Parts of one tensor, mostly, which has gaps between some of its rows: where there are none,
// dimensions become one. The same dimension is often left out or taken whole.
TEST_P(RegionsOfManyDimensions, PartsOfATensorAgreeWithTheBytes) {
  Seen seen;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t element = 1 + below(3);
    Numbers tensor(dimensions()), strides(dimensions());
    std::uint64_t row = element;
    for (std::size_t i = dimensions(); i-- > 0;) {
      tensor[i] = 1 + below(dimensions() > 3 ? 4 : 5);
      strides[i] = row + (below(2) == 0 ? 1 + below(2) : 0);
      row = tensor[i] * strides[i];
    }
    const auto part = [&] {
      View drawn = {0, element, {}, strides};
      if (below(8) == 0) drawn.strides[below(dimensions())] = 1 + below(12);
      for (std::size_t i = 0; i < dimensions(); ++i) {
        const std::uint64_t first = below(tensor[i]);
        drawn.offset += first * drawn.strides[i];
        drawn.counts.push_back(1 + below(std::min<std::uint64_t>(tensor[i] - first, 3)));
      }
      if (below(40) == 0) drawn.counts[below(dimensions())] = 0;
      if (below(6) == 0) drawn.offset += below(5);
      return drawn;
    };
    const View a = part(), b = part();
    const bool common = a.strides == strides && b.strides == strides;
    compare(a, b, common || a.rows() * b.rows() <= 100, seen);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen.meetings, 500U);
  EXPECT_GT(seen.misses, 500U);
  EXPECT_GT(seen.coverings, 100U);
  EXPECT_LT(seen.uncovered, seen.coverings / 10);
  EXPECT_LT(seen.feared, seen.misses / 10);
}

// Rows that overlap themselves, interleave with the other view's, or are the same again, in any
// order of the dimensions.
TEST_P(RegionsOfManyDimensions, AnyStridesAgreeWithTheBytes) {
  Seen seen;
  for (int round = 0; round < 20'000; ++round) {
    const Numbers few = {1 + below(4), 2 + below(10), 5 + below(40), 20 + below(200)};
    const auto view = [&] {
      View drawn = {below(20), 1 + below(3), {}, {}};
      for (std::size_t i = 0; i < dimensions(); ++i) {
        drawn.counts.push_back(below(30) == 0 ? 0 : 1 + below(3));
        drawn.strides.push_back(below(8) == 0 ? below(30) : few[below(4)] * (1 + below(2)));
      }
      return drawn;
    };
    const View a = view();
    View b = view();
    if (below(4) == 0) {  // a part of it
      b.element = a.element;
      b.strides = a.strides;
      b.offset = a.offset;
      for (std::size_t i = 0; i < dimensions(); ++i) {
        const std::uint64_t first = below(std::max<std::uint64_t>(a.counts[i], 1));
        b.offset += first * a.strides[i];
        b.counts[i] = below(a.counts[i] - std::min(first, a.counts[i]) + 1);
      }
    }
    compare(a, b, a.rows() * b.rows() <= 100, seen);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen.meetings, 500U);
  EXPECT_GT(seen.misses, 500U);
  EXPECT_GT(seen.coverings, 100U);
}

// One dimension that is told as two is the same view, wherever it lies among the others.
TEST_P(RegionsOfManyDimensions, DimensionsThatFollowEachOtherAreOne) {
  if (dimensions() == 1) return;
  for (int round = 0; round < 2'000; ++round) {
    View whole = {below(9), 1 + below(3), {}, {}};
    std::uint64_t row = whole.element;
    for (std::size_t i = 1; i < dimensions(); ++i) {
      whole.counts.insert(whole.counts.begin(), 2 * (1 + below(3)));
      whole.strides.insert(whole.strides.begin(), row + below(3));
      row = whole.counts.front() * whole.strides.front();
    }
    View told = whole;
    const std::size_t which = below(whole.counts.size());
    const auto at = static_cast<std::ptrdiff_t>(which);
    told.counts[which] /= 2;
    told.counts.insert(told.counts.begin() + at, 2);
    told.strides.insert(told.strides.begin() + at, told.counts[which + 1] * told.strides[which]);
    ASSERT_EQ(told.region(), whole.region());
    ASSERT_EQ(told.bytes(), whole.bytes());
  }
}

// Views of which no dimensions become one, and that are a row apart in one of them.
TEST_P(RegionsOfManyDimensions, EachDimensionCounts) {
  const std::size_t count = dimensions();
  View a = {0, 1, Numbers(count, 2), Numbers(count)};
  std::uint64_t stride = 3;
  for (std::size_t i = count; i-- > 0; stride *= 7) a.strides[i] = stride;
  for (std::size_t i = 0; i < count; ++i) {
    View b = a;
    b.offset += 2 * a.strides[i];  // one row behind a's last
    EXPECT_FALSE(overlap(a.region(), b.region())) << i;
    EXPECT_FALSE(covers(a.region(), b.region())) << i;
    b.offset = a.strides[i];
    EXPECT_TRUE(overlap(a.region(), b.region())) << i;
    EXPECT_FALSE(covers(a.region(), b.region())) << i;
    b.counts[i] = 1;
    EXPECT_TRUE(covers(a.region(), b.region())) << i;
  }
}

}  // namespace
}  // namespace dovetail::cores
