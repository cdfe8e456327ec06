#include "model/share.h"

#include <gtest/gtest.h>

namespace dovetail::model {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 30;

TEST(Share, PartsMeetWithoutGaps) {
  for (const std::size_t count : {0U, 1U, 7U, 8U, 1000U}) {
    for (const std::uint32_t blocks : {1U, 2U, 3U, 8U}) {
      std::uint32_t next = 0;
      for (std::uint32_t block = 0; block < blocks; ++block) {
        const Range part = part_of(count, block, blocks);
        EXPECT_EQ(part.begin, next);
        EXPECT_LE(part.size(), count / blocks + 1);
        next = part.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Share, BlocksForAllLanes) {
  struct Case {
    std::size_t items, work, lanes;
    Share of;
    std::uint32_t wanted;
  };
  for (const Case& one : {
           Case{100, kPlenty, 4, {}, 8},         // two for each lane
           Case{100, kPlenty, 4, {1, 2}, 4},     // as many in all
           Case{100, kPlenty, 4, {20, 300}, 1},  // few beside many
           Case{100, kPlenty, 4, {280, 300}, 7}, Case{100, kPlenty, 4, {1, 99}, 1},  // at least one
           Case{5, kPlenty, 4, {}, 5},  // no more than there is
           Case{1, kPlenty, 4, {}, 1}, Case{0, kPlenty, 4, {}, 1},
           Case{100, kPlenty, 1, {}, 1},  // for whom?
           Case{100, 1000, 4, {}, 1},     // not worth it
       }) {
    EXPECT_EQ(share(one.items, one.work, one.lanes, one.of), one.wanted)
        << one.items << " items for " << one.lanes << " lanes, " << one.of.part << " of "
        << one.of.whole;
  }
}

}  // namespace
}  // namespace dovetail::model
