#include "cores/region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace dovetail::cores {
namespace {

using Numbers = std::vector<std::uint64_t>;

struct View {
  std::uint64_t offset = 0;
  std::uint64_t element = 1;
  Numbers counts, strides;

  Region region() const { return {1, offset, element, counts, strides}; }
  std::set<std::uint64_t> bytes() const {
    std::set<std::uint64_t> all;
    add(all, 0, offset);
    return all;
  }

 private:
  void add(std::set<std::uint64_t>& all, std::size_t dimension, std::uint64_t at) const {
    if (dimension == counts.size()) {
      for (std::uint64_t i = 0; i < element; ++i) all.insert(at + i);
      return;
    }
    for (std::uint64_t i = 0; i < counts[dimension]; ++i) {
      add(all, dimension + 1, at + i * strides[dimension]);
    }
  }
};

bool meet(const View& a, const View& b) {
  const auto x = a.bytes(), y = b.bytes();
  return std::any_of(x.begin(), x.end(), [&](std::uint64_t at) { return y.contains(at); });
}

bool holds(const View& outer, const View& inner) {
  const auto x = outer.bytes(), y = inner.bytes();
  return std::includes(x.begin(), x.end(), y.begin(), y.end());
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
  EXPECT_FALSE(meet(View{0, 1, {50}, {6}}, View{3, 1, {50}, {10}}));
  EXPECT_TRUE(overlap(odd.region(), even.region()));
}

TEST(Region, AgreesWithTheBytes) {
  std::mt19937_64 random(11);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t meetings = 0, coverings = 0, missed = 0;
  for (int round = 0; round < 60'000; ++round) {
    // Strides of a common tensor, mostly.
    const Numbers tensor = {1 + below(5), 1 + below(5), 1 + below(4)};
    const std::uint64_t element = 1 + below(3);
    const auto view = [&] {
      View drawn;
      drawn.element = element;
      drawn.strides = {element * tensor[1] * tensor[2], element * tensor[2], element};
      if (below(4) == 0) drawn.strides[below(3)] = 1 + below(12);
      for (std::size_t i = 0; i < 3; ++i) {
        const std::uint64_t first = below(tensor[i]);
        drawn.offset += first * drawn.strides[i];
        drawn.counts.push_back(1 + below(tensor[i] - first));
      }
      if (below(6) == 0) drawn.offset += below(5);
      return drawn;
    };
    const View a = view(), b = view();
    const Region x = a.region(), y = b.region();
    ASSERT_EQ(overlap(x, y), meet(a, b));
    ASSERT_EQ(overlap(y, x), meet(a, b));
    const bool covered = holds(a, b);
    ASSERT_TRUE(!covers(x, y) || covered);
    meetings += overlap(x, y) ? 1 : 0;
    coverings += covers(x, y) ? 1 : 0;
    missed += covered && !covers(x, y) ? 1 : 0;
    ASSERT_EQ(x.begin(), *a.bytes().begin());
    ASSERT_EQ(x.end(), *a.bytes().rbegin() + 1);
  }
  EXPECT_GT(meetings, 10'000U);
  EXPECT_GT(coverings, 5'000U);
  EXPECT_LT(missed, coverings / 10);
}

}  // namespace
}  // namespace dovetail::cores
