#include "kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>
#include <map>

namespace dovetail::kv {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BlocksFor, RoundsUp) {
  struct Case {
    std::uint32_t tokens, block_size, blocks;
  };
  for (const auto& [tokens, block_size, blocks] :
       {Case{0, 4, 0}, Case{1, 4, 1}, Case{4, 4, 1}, Case{5, 4, 2}, Case{8, 4, 2}, Case{1, 1, 1},
        Case{7, 1, 7}, Case{4294967295U, 16, 268435456U}, Case{4294967295U, 1, 4294967295U}}) {
    EXPECT_EQ(blocks_for(tokens, block_size), blocks) << tokens << " / " << block_size;
  }
}

TEST(BlockPool, StartsFree) {
  const BlockPool pool(3);
  EXPECT_EQ(pool.size(), 3U);
  EXPECT_EQ(pool.free(), 3U);
  EXPECT_EQ(pool.used(), 0U);
  for (BlockId block = 0; block < 3; ++block) EXPECT_EQ(pool.references(block), 0U);
}

TEST(BlockPool, MayBeEmpty) {
  const BlockPool pool(0);
  EXPECT_EQ(pool.size(), 0U);
  EXPECT_EQ(pool.free(), 0U);
}

TEST(BlockPool, HandsOutTheLongestFreeFirst) {
  BlockPool pool(3);
  EXPECT_EQ(pool.allocate(), 0U);
  EXPECT_EQ(pool.allocate(), 1U);
  pool.release(1);
  pool.release(0);
  EXPECT_EQ(pool.allocate(), 2U);
  EXPECT_EQ(pool.allocate(), 1U);
  EXPECT_EQ(pool.allocate(), 0U);
  EXPECT_EQ(pool.free(), 0U);
  EXPECT_EQ(pool.used(), 3U);
}

TEST(BlockPool, ASharedBlockIsFreeAfterItsLastHolder) {
  BlockPool pool(1);
  const BlockId block = pool.allocate();
  pool.share(block);
  pool.share(block);
  EXPECT_EQ(pool.references(block), 3U);
  pool.release(block);
  pool.release(block);
  EXPECT_EQ(pool.references(block), 1U);
  EXPECT_EQ(pool.free(), 0U);
  EXPECT_THAT(pool.take_freed(), IsEmpty());
  pool.release(block);
  EXPECT_EQ(pool.references(block), 0U);
  EXPECT_EQ(pool.free(), 1U);
  EXPECT_THAT(pool.take_freed(), ElementsAre(block));
}

TEST(BlockPool, TellsOfAFreedBlockOnce) {
  BlockPool pool(2);
  pool.allocate();
  pool.allocate();
  pool.release(1);
  pool.release(0);
  EXPECT_THAT(pool.take_freed(), ElementsAre(1, 0));
  EXPECT_THAT(pool.take_freed(), IsEmpty());
  EXPECT_EQ(pool.allocate(), 1U);
  EXPECT_THAT(pool.take_freed(), IsEmpty());
  pool.release(1);
  EXPECT_THAT(pool.take_freed(), ElementsAre(1));
}

// It is told of a block also when that has a new holder by then: what lay in it is stale.
TEST(BlockPool, TellsOfAFreedBlockThatIsInUseAgain) {
  BlockPool pool(1);
  pool.release(pool.allocate());
  pool.allocate();
  EXPECT_THAT(pool.take_freed(), ElementsAre(0));
}

// Against books that are kept the plain way.
TEST(BlockPool, CountsLikeItsBooks) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::uint32_t>(1, 9);
    const auto steps = *rc::gen::container<std::vector<std::pair<int, std::uint32_t>>>(
        rc::gen::pair(rc::gen::inRange(0, 4), rc::gen::inRange<std::uint32_t>(0, 64)));
    BlockPool pool(size);
    std::map<BlockId, std::uint32_t> holders;
    std::deque<BlockId> order;
    std::vector<BlockId> freed;
    for (BlockId block = 0; block < size; ++block) order.push_back(block);
    for (const auto& [verb, choice] : steps) {
      if (verb == 0) {
        if (order.empty()) continue;
        RC_ASSERT(pool.allocate() == order.front());
        holders[order.front()] = 1;
        order.pop_front();
      } else if (verb == 1) {
        RC_ASSERT(pool.take_freed() == freed);
        freed.clear();
      } else {
        if (holders.empty()) continue;
        const auto holder = std::next(holders.begin(), choice % holders.size());
        const BlockId block = holder->first;
        if (verb == 2) {
          pool.share(block);
          ++holder->second;
        } else {
          pool.release(block);
          if (--holder->second == 0) {
            holders.erase(holder);
            order.push_back(block);
            freed.push_back(block);
          }
        }
      }
      RC_ASSERT(pool.free() == order.size());
      RC_ASSERT(pool.used() == holders.size());
      for (BlockId block = 0; block < size; ++block) {
        RC_ASSERT(pool.references(block) == (holders.contains(block) ? holders[block] : 0));
      }
    }
  }));
}

}  // namespace
}  // namespace dovetail::kv
