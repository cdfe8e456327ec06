#include "kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "load/allocation_watch.h"

namespace dovetail::kv {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A block's content, by number.
std::array<std::int32_t, 1> content(std::int32_t number) { return {number}; }
BlockHash hash_of(std::int32_t number) { return chain_hash({}, content(number)); }
bool index(BlockPool& pool, BlockId block, std::int32_t number) {
  return pool.index(block, {}, hash_of(number), content(number));
}
std::optional<BlockId> find(const BlockPool& pool, std::int32_t number) {
  return pool.find({}, hash_of(number), content(number));
}
std::vector<BlockId> stale(BlockPool& pool) {
  std::vector<BlockId> blocks;
  pool.take_stale(blocks);
  return blocks;
}

// Blocks 0, 1, ... with contents 0, 1, ... and no holder, released in the given order.
BlockPool cached_pool(const std::vector<BlockId>& order) {
  BlockPool pool(static_cast<std::uint32_t>(order.size()), 1, true);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const BlockId block = pool.allocate().block;
    EXPECT_TRUE(index(pool, block, static_cast<std::int32_t>(block)));
  }
  for (const BlockId block : order) pool.release(block);
  return pool;
}

TEST(BlocksFor, RoundsUp) {
  struct Case {
    std::uint32_t tokens, block_size, blocks;
  };
  for (const auto& [tokens, block_size, blocks] :
       {Case{0, 4, 0}, Case{1, 4, 1}, Case{4, 4, 1}, Case{5, 4, 2}, Case{8, 4, 2}, Case{3, 1, 3},
        Case{0xffffffff, 16, 0x10000000}}) {
    EXPECT_EQ(blocks_for(tokens, block_size), blocks) << tokens << " / " << block_size;
  }
}

TEST(BlockPool, StartsFree) {
  const BlockPool pool(3, 4, false);
  EXPECT_EQ(pool.size(), 3U);
  EXPECT_EQ(pool.free(), 3U);
  EXPECT_EQ(pool.available(), 3U);
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_EQ(pool.cached(), 0U);
  for (BlockId block = 0; block < 3; ++block) EXPECT_EQ(pool.references(block), 0U);
}

TEST(BlockPool, MayBeEmpty) {
  const BlockPool pool(0, 4, true);
  EXPECT_EQ(pool.size(), 0U);
  EXPECT_EQ(pool.available(), 0U);
}

TEST(BlockPool, HandsOutTheLastFreedFirst) {
  BlockPool pool(3, 4, false);
  EXPECT_EQ(pool.allocate().block, 0U);
  EXPECT_EQ(pool.allocate().block, 1U);
  pool.release(1);
  pool.release(0);
  EXPECT_EQ(pool.allocate().block, 0U);
  EXPECT_EQ(pool.allocate().block, 1U);
  EXPECT_EQ(pool.allocate().block, 2U);
  EXPECT_EQ(pool.available(), 0U);
  EXPECT_EQ(pool.used(), 3U);
}

TEST(BlockPool, ASharedBlockIsFreeAfterItsLastHolder) {
  BlockPool pool(1, 4, false);
  const BlockId block = pool.allocate().block;
  pool.share(block);
  pool.share(block);
  EXPECT_EQ(pool.references(block), 3U);
  pool.release(block);
  pool.release(block);
  EXPECT_EQ(pool.references(block), 1U);
  EXPECT_EQ(pool.free(), 0U);
  pool.release(block);
  EXPECT_EQ(pool.references(block), 0U);
  EXPECT_EQ(pool.free(), 1U);
}

TEST(BlockPool, AnIndexedBlockIsCachedAfterItsLastHolder) {
  BlockPool pool(2, 1, true);
  const BlockId block = pool.allocate().block;
  ASSERT_TRUE(index(pool, block, 7));
  EXPECT_EQ(pool.cached(), 0U) << "in use, though it can be found";
  EXPECT_EQ(find(pool, 7), block);
  pool.release(block);
  EXPECT_EQ(pool.cached(), 1U);
  EXPECT_EQ(pool.free(), 1U);
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_EQ(pool.available(), 2U);
  EXPECT_EQ(find(pool, 7), block);
  pool.share(block);
  EXPECT_EQ(pool.cached(), 0U);
  EXPECT_EQ(pool.references(block), 1U);
  EXPECT_EQ(pool.available(), 1U);
}

TEST(BlockPool, FreeBlocksGoBeforeCachedOnes) {
  BlockPool pool(2, 1, true);
  ASSERT_TRUE(index(pool, pool.allocate().block, 7));
  pool.release(0);
  const auto taken = pool.allocate();
  EXPECT_EQ(taken.block, 1U);
  EXPECT_FALSE(taken.dropped);
  EXPECT_EQ(find(pool, 7), BlockId{0});
}

TEST(BlockPool, DropsTheLeastRecentlyUsed) {
  BlockPool pool = cached_pool({2, 0, 3, 1});
  for (const BlockId expected : {2U, 0U, 3U, 1U}) {
    EXPECT_EQ(find(pool, static_cast<std::int32_t>(expected)), expected);
    const auto taken = pool.allocate();
    EXPECT_EQ(taken.block, expected);
    EXPECT_TRUE(taken.dropped);
    EXPECT_FALSE(find(pool, static_cast<std::int32_t>(expected)));
  }
  EXPECT_EQ(pool.available(), 0U);
}

// A hit makes a block the last to be reused; a block with a holder is not reused.
TEST(BlockPool, AUseRenews) {
  for (const BlockId used : {0U, 1U, 2U}) {  // first, middle, last of the list
    BlockPool pool = cached_pool({0, 1, 2});
    pool.share(used);
    pool.release(used);
    std::vector<BlockId> order{0, 1, 2};
    std::erase(order, used);
    order.push_back(used);
    for (const BlockId expected : order) EXPECT_EQ(pool.allocate().block, expected);
  }
}

TEST(BlockPool, WhatIsHeldIsNotDropped) {
  BlockPool pool = cached_pool({0, 1, 2});
  pool.share(0);
  EXPECT_EQ(pool.allocate().block, 1U);
  EXPECT_EQ(pool.allocate().block, 2U);
  EXPECT_EQ(pool.available(), 0U);
  EXPECT_EQ(find(pool, 0), BlockId{0});
}

TEST(BlockPool, ADuplicateIsFreedNotCached) {
  BlockPool pool(2, 1, true);
  const BlockId first = pool.allocate().block, second = pool.allocate().block;
  EXPECT_TRUE(index(pool, first, 7));
  EXPECT_FALSE(index(pool, second, 7));
  pool.release(second);
  EXPECT_EQ(pool.free(), 1U);
  EXPECT_EQ(pool.cached(), 0U);
  EXPECT_EQ(find(pool, 7), first);
}

TEST(BlockPool, WithheldBlocksAreNotAvailable) {
  BlockPool pool(4, 1, true);
  const BlockId block = pool.allocate().block;
  ASSERT_TRUE(index(pool, block, 7));
  pool.release(block);
  pool.allocate();
  ASSERT_EQ(pool.free() + pool.cached(), 3U);
  pool.withhold(1);
  EXPECT_EQ(pool.available(), 2U);
  pool.withhold(3);
  EXPECT_EQ(pool.available(), 0U);
  pool.withhold(1000);
  EXPECT_EQ(pool.available(), 0U) << "more than there is";
  EXPECT_EQ(pool.withheld(), 1000U);
  EXPECT_EQ(pool.free() + pool.cached(), 3U) << "withholding moves nothing";
  pool.withhold(0);
  EXPECT_EQ(pool.available(), 3U);
}

TEST(BlockPool, BlocksInUseCountAsWithheldWhenTheyComeFree) {
  BlockPool pool(2, 1, false);
  const BlockId first = pool.allocate().block, second = pool.allocate().block;
  pool.withhold(1);
  EXPECT_EQ(pool.available(), 0U);
  pool.release(first);
  EXPECT_EQ(pool.available(), 0U);
  pool.release(second);
  EXPECT_EQ(pool.available(), 1U);
}

TEST(BlockPool, NamesStaleBlocksOnceIfAsked) {
  BlockPool pool(3, 1, true);
  pool.release(pool.allocate().block);
  EXPECT_THAT(stale(pool), IsEmpty()) << "not recorded";
  pool.note_stale(true);
  const BlockId a = pool.allocate().block, b = pool.allocate().block, c = pool.allocate().block;
  ASSERT_TRUE(index(pool, b, 7));
  pool.release(c);
  pool.release(b);
  pool.release(a);
  EXPECT_THAT(stale(pool), ElementsAre(c, a)) << "a cached block is not stale";
  EXPECT_THAT(stale(pool), IsEmpty());
  EXPECT_EQ(pool.allocate().block, a);
  EXPECT_EQ(pool.allocate().block, c);
  EXPECT_THAT(stale(pool), IsEmpty()) << "they were named when they came free";
  EXPECT_EQ(pool.allocate().block, b);
  EXPECT_THAT(stale(pool), ElementsAre(b)) << "reused while cached";
}

TEST(BlockPool, AppendsToTheListOfStaleBlocks) {
  BlockPool pool(1, 1, false);
  pool.note_stale(true);
  pool.release(pool.allocate().block);
  std::vector<BlockId> blocks{9};
  pool.take_stale(blocks);
  EXPECT_THAT(blocks, ElementsAre(9, 0));
}

TEST(BlockPool, AllMemoryIsTakenAtTheStart) {
  BlockPool pool(64, 1, true);
  std::size_t asked = 1;
  {
    const load::AllocationWatch watch;
    for (std::int32_t round = 0; round < 1000; ++round) {
      std::array<BlockId, 48> held{};
      for (BlockId& block : held) block = pool.allocate().block;
      for (std::size_t i = 0; i < held.size(); i += 2) {
        index(pool, held[i], 100 * round + static_cast<std::int32_t>(i));
      }
      pool.withhold(static_cast<std::uint32_t>(round) % 16);
      for (const BlockId block : held) pool.share(block);
      for (const BlockId block : held) pool.release(block);
      for (const BlockId block : held) pool.release(block);
    }
    asked = watch.total();
  }
  EXPECT_EQ(asked, 0U);
  EXPECT_GT(pool.cached(), 0U);
}

// Against books that are kept the plain way: every block is free, cached or in use, once.
TEST(BlockPool, CountsLikeItsBooks) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::uint32_t>(1, 9);
    const auto steps = *rc::gen::container<std::vector<std::array<std::uint32_t, 3>>>(
        rc::gen::container<std::array<std::uint32_t, 3>>(rc::gen::inRange<std::uint32_t>(0, 64)));
    BlockPool pool(size, 1, true);
    pool.note_stale(true);
    std::vector<BlockId> free;  // the last one goes first
    for (BlockId block = size; block > 0; --block) free.push_back(block - 1);
    std::list<BlockId> cached;  // the first one goes first
    std::map<BlockId, std::uint32_t> holders;
    std::map<std::int32_t, BlockId> findable;
    std::vector<BlockId> given_up;
    std::uint32_t withheld = 0;
    for (const auto& [verb, choice, number] : steps) {
      const std::size_t idle = free.size() + cached.size();
      const auto what = static_cast<std::int32_t>(number % 6);
      const auto held =
          holders.empty() ? holders.end() : std::next(holders.begin(), choice % holders.size());
      if (verb % 6 <= 1) {
        if (pool.available() == 0) continue;
        const auto taken = pool.allocate();
        BlockId expected = 0;
        if (!free.empty()) {
          expected = free.back();
          free.pop_back();
        } else {
          expected = cached.front();
          cached.pop_front();
          given_up.push_back(expected);
          RC_ASSERT(std::erase_if(findable, [&](const auto& entry) {
                      return entry.second == expected;
                    }) == 1U);
          RC_ASSERT(taken.dropped);
        }
        RC_ASSERT(taken.block == expected);
        holders[expected] = 1;
      } else if (verb % 6 == 2) {
        if (held == holders.end()) continue;
        const bool indexed = std::any_of(findable.begin(), findable.end(), [&](const auto& entry) {
          return entry.second == held->first;
        });
        if (indexed) continue;
        RC_ASSERT(index(pool, held->first, what) == !findable.contains(what));
        findable.emplace(what, held->first);
      } else if (verb % 6 == 3) {
        const auto found = find(pool, what);
        const auto book = findable.find(what);
        RC_ASSERT(found.has_value() == (book != findable.end()));
        if (!found) continue;
        RC_ASSERT(*found == book->second);
        pool.share(*found);
        ++holders[*found];
        cached.remove(*found);
      } else if (verb % 6 == 4) {
        if (held == holders.end()) continue;
        const BlockId block = held->first;
        pool.release(block);
        if (--held->second > 0) continue;
        holders.erase(held);
        const bool indexed = std::any_of(findable.begin(), findable.end(),
                                         [&](const auto& entry) { return entry.second == block; });
        if (indexed) {
          cached.push_back(block);
        } else {
          free.push_back(block);
          given_up.push_back(block);
        }
      } else {
        withheld = number % (size + 2);
        pool.withhold(withheld);
        RC_ASSERT(pool.free() + pool.cached() == idle);
        RC_ASSERT(stale(pool) == given_up);
        given_up.clear();
      }
      RC_ASSERT(pool.free() == free.size());
      RC_ASSERT(pool.cached() == cached.size());
      RC_ASSERT(pool.used() == holders.size());
      RC_ASSERT(pool.free() + pool.cached() + pool.used() == size);
      const std::size_t rest = free.size() + cached.size();
      RC_ASSERT(pool.available() == (rest > withheld ? rest - withheld : 0));
      for (BlockId block = 0; block < size; ++block) {
        RC_ASSERT(pool.references(block) == (holders.contains(block) ? holders[block] : 0));
      }
    }
  }));
}

}  // namespace
}  // namespace dovetail::kv
