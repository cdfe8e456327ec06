#include "kv/cache_groups.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dovetail::kv {
namespace {

TEST(FirstNeeded, IsTheBlockOfTheFirstPositionSeen) {
  struct Case {
    std::uint32_t window, next, block_size, block;
  };
  for (const auto& [window, next, block_size, block] :
       {Case{0, 1000, 16, 0}, Case{4, 0, 4, 0}, Case{4, 3, 4, 0}, Case{4, 6, 4, 0},
        Case{4, 7, 4, 1}, Case{4, 8, 4, 1}, Case{4, 11, 4, 2}, Case{1, 5, 4, 1}, Case{1, 8, 4, 2},
        Case{512, 4096, 16, 224}, Case{0xffffffff, 0xfffffffe, 16, 0}}) {
    EXPECT_EQ(first_needed({window}, next, block_size), block) << window << " at " << next;
  }
}

// What is there: for each group a string with a letter per block, '.' for one that is missing, and
// one for the states at edges 1, 2, ...
struct HitCase {
  std::string name;
  std::vector<CacheGroup> groups;
  std::vector<std::string> blocks;
  std::string states;
  std::uint32_t edge;
};

const std::vector<HitCase> kHits = {
    {"Nothing", {{0}}, {"...."}, "ssss", 0},
    {"All", {{0}}, {"bbbb"}, "ssss", 4},
    {"UpToTheFirstHole", {{0}}, {"bb.b"}, "ssss", 2},
    {"AllGroups", {{0}, {0}}, {"bbbb", "bbb."}, "ssss", 3},
    {"AWindowNeedsItsLastBlocks", {{0}, {4}}, {"bbbb", "...b"}, "ssss", 4},
    {"OfTwoBlocks", {{0}, {6}}, {"bbbb", ".b.b"}, "ssss", 0},
    {"AtAnEarlierEdge", {{0}, {6}}, {"bbbb", "bb.b"}, "ssss", 2},
    {"AWindowBeyondTheFullOnes", {{0}, {4}}, {"bb..", "bbbb"}, "ssss", 2},
    {"AWindowOfOnePositionNeedsNone", {{0}, {1}}, {"bbbb", "...."}, "ssss", 4},
    {"WindowsAlone", {{4}, {8}}, {".bb.", "bbb."}, "ssss", 3},
    {"TwoWindowsMustAgree", {{4}, {6}}, {"b.b.", "bb.."}, "ssss", 1},
    {"AStateBefore", {{0}}, {"bbbb"}, "s.s.", 3},
    {"NoState", {{0}}, {"bbbb"}, "....", 0},
    {"AStateWhoseWindowIsGone", {{0}, {6}}, {"bbbb", ".bbb"}, "ss.s", 4},
    {"AStateAndItsWindow", {{0}, {6}}, {"bbbb", "bb.."}, "ss.s", 2},
};

std::uint32_t hit_of(const HitCase& hit) {
  constexpr std::uint32_t kBlock = 4;
  const auto has = [&](std::size_t group, std::uint32_t block) {
    return hit.blocks[group][block] != '.';
  };
  const auto has_state = [&](std::uint32_t edge) { return hit.states[edge - 1] != '.'; };
  return longest_hit(hit.groups, kBlock, static_cast<std::uint32_t>(hit.blocks[0].size()), has,
                     has_state);
}

TEST(LongestHit, IsWhereAllGroupsHaveWhatTheyNeed) {
  for (const HitCase& hit : kHits) EXPECT_EQ(hit_of(hit), hit.edge) << hit.name;
}

// The same by trying every edge, from the last one down.
TEST(LongestHit, IsTheLastEdgeThatHoldsAtAll) {
  rc::check([] {
    HitCase hit;
    const std::size_t groups = *rc::gen::inRange<std::size_t>(1, 4);
    const std::size_t blocks = *rc::gen::inRange<std::size_t>(1, 9);
    const auto line = [&] {
      return *rc::gen::container<std::string>(blocks, rc::gen::elementOf(std::string("bbb.")));
    };
    for (std::size_t g = 0; g < groups; ++g) {
      hit.groups.push_back({*rc::gen::inRange<std::uint32_t>(0, 14)});
      hit.blocks.push_back(line());
    }
    hit.states = line();
    std::uint32_t expected = 0;
    for (std::uint32_t edge = 1; edge <= blocks; ++edge) {
      bool holds = hit.states[edge - 1] != '.';
      for (std::size_t g = 0; g < groups; ++g) {
        for (std::uint32_t position = 0; position < 4 * edge; ++position) {
          const std::uint32_t window = hit.groups[g].window;
          const bool seen = window == 0 || position + window > 4 * edge;
          holds = holds && (!seen || hit.blocks[g][position / 4] != '.');
        }
      }
      if (holds) expected = edge;
    }
    RC_ASSERT(hit_of(hit) == expected);
  });
}

}  // namespace
}  // namespace dovetail::kv
