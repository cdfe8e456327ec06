#include "cores/ready_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "cores/laws/claims.h"

namespace dovetail::cores {
namespace {

std::pair<std::uint64_t, std::uint32_t> pair_of(const std::optional<ReadyRing::Claim>& claim) {
  return claim ? std::pair(claim->task, claim->block) : std::pair(~std::uint64_t{0}, ~0U);
}

TEST(ReadyRing, GivesBlocksInTheirOrder) {
  ReadyRing ring(4);
  EXPECT_FALSE(ring.take());
  ring.push(7, 2, 0);
  EXPECT_FALSE(ring.take()) << "not published";
  EXPECT_EQ(ring.unpublished(), 1U);
  ring.publish();
  ring.push(8, 1, 5);
  ring.publish();
  EXPECT_EQ(ring.blocks(10), 3U);
  EXPECT_EQ(ring.front(), 0U);
  EXPECT_EQ(pair_of(ring.take()), std::pair(std::uint64_t{7}, 0U));
  EXPECT_EQ(ring.blocks(10), 2U);
  EXPECT_EQ(ring.tasks(), 2U);
  EXPECT_EQ(pair_of(ring.take()), std::pair(std::uint64_t{7}, 1U));
  EXPECT_EQ(ring.front(), 5U);
  EXPECT_EQ(pair_of(ring.take()), std::pair(std::uint64_t{8}, 0U));
  EXPECT_FALSE(ring.has_work());
}

TEST(ReadyRing, WhileItIsClosedOnlyTheCombinerTakes) {
  ReadyRing ring(4);
  ring.push(1, 3, 0);
  ring.push(2, 1, 1);
  ring.publish();
  EXPECT_TRUE(ring.take());
  ring.close();
  EXPECT_FALSE(ring.take());
  EXPECT_FALSE(ring.has_work());
  EXPECT_FALSE(ring.front());
  EXPECT_EQ(pair_of(ring.take_rest()), std::pair(std::uint64_t{1}, 1U));
  ring.open();
  EXPECT_EQ(pair_of(ring.take()), std::pair(std::uint64_t{2}, 0U));
}

// The combiner takes what is unpublished; after that there is nothing.
TEST(ReadyRing, OpensWithNothingBehindWhatIsPublished) {
  ReadyRing ring(8);
  ring.push(7, 1, 0);
  ring.close();
  EXPECT_TRUE(ring.take_rest());
  EXPECT_FALSE(ring.take_rest());
  ring.publish();
  ring.open();
  EXPECT_FALSE(ring.take());
  EXPECT_FALSE(ring.has_work());
}

TEST(ReadyRing, ItsCombinerTakesFirstWhatIsUnpublished) {
  ReadyRing ring(4);
  EXPECT_FALSE(ring.take_unpublished());
  EXPECT_TRUE(ring.is_drained());
  ring.push(7, 1, 3);
  ring.push(8, 3, 4);
  EXPECT_EQ(ring.oldest(), 3U);
  EXPECT_EQ(pair_of(ring.take_unpublished()), std::pair(std::uint64_t{7}, 0U));
  EXPECT_FALSE(ring.has_work()) << "the head is beyond what is published";
  EXPECT_TRUE(ring.is_drained());
  EXPECT_FALSE(ring.take());
  EXPECT_FALSE(ring.front());
  EXPECT_FALSE(ring.take_unpublished()) << "what has been taken is to be published first";
  ring.publish();
  EXPECT_FALSE(ring.take_unpublished()) << "others know of it";
  EXPECT_TRUE(ring.has_work());
  EXPECT_FALSE(ring.is_drained());
  EXPECT_EQ(pair_of(ring.take()), std::pair(std::uint64_t{8}, 0U));
  EXPECT_EQ(pair_of(ring.take()), std::pair(std::uint64_t{8}, 1U));
  EXPECT_EQ(pair_of(ring.take()), std::pair(std::uint64_t{8}, 2U));
  EXPECT_TRUE(ring.is_drained());
  ring.push(9, 2, 5);
  ring.close();
  EXPECT_FALSE(ring.is_drained()) << "closed";
  EXPECT_FALSE(ring.take_unpublished());
  EXPECT_EQ(pair_of(ring.take_rest()), std::pair(std::uint64_t{9}, 0U));
  EXPECT_FALSE(ring.oldest());
}

// A combiner that goes on with the first block of what it publishes, beside two that take the
// others.
TEST(ReadyRing, EachBlockIsTakenOnceAlsoByItsCombiner) {
  constexpr std::size_t kTasks = 20'000;
  ReadyRing ring(8);
  std::vector<std::array<std::atomic<int>, 3>> taken(kTasks);
  std::atomic<bool> ends{false};
  const auto take = [&] {
    const auto claim = ring.take();
    if (claim) ++taken[claim->task][claim->block];
    return claim.has_value();
  };
  std::vector<std::thread> takers;
  for (int i = 0; i < 2; ++i) {
    takers.emplace_back([&] {
      while (!ends) {
        if (!take()) std::this_thread::yield();
      }
    });
  }
  for (std::size_t task = 0; task < kTasks; ++task) {
    while (ring.tasks() > 6) take();
    ring.push(task, static_cast<std::uint32_t>(1 + task % 3), task);
    if (task % 5 == 0) continue;
    if (const auto claim = ring.take_unpublished()) ++taken[claim->task][claim->block];
    ring.publish();
  }
  ring.publish();
  while (take()) {
  }
  ends = true;
  for (std::thread& taker : takers) taker.join();
  for (std::size_t task = 0; task < kTasks; ++task) {
    for (std::size_t block = 0; block < 3; ++block) {
      ASSERT_EQ(taken[task][block], block < 1 + task % 3 ? 1 : 0) << task << " " << block;
    }
  }
}

TEST(ReadyRing, EightTakeEachBlockOfALargeTaskOnce) {
  EXPECT_EQ(eight_take_from_ring().value_or(""), "");
}

TEST(ReadyRing, EachBlockIsTakenOnceByTheFirstThread) {
  constexpr std::size_t kTasks = 3000;
  ReadyRing ring(64);
  std::vector<std::array<std::atomic<int>, 3>> taken(kTasks);
  std::atomic<std::size_t> blocks{0};
  std::vector<std::thread> takers;
  for (int i = 0; i < 3; ++i) {
    takers.emplace_back([&] {
      while (blocks < 2 * kTasks) {
        const auto claim = ring.take();
        if (!claim) {
          std::this_thread::yield();
          continue;
        }
        ++taken[claim->task][claim->block];
        ++blocks;
      }
    });
  }
  for (std::size_t task = 0; task < kTasks; ++task) {
    while (ring.tasks() > 60) std::this_thread::yield();
    ring.push(task, static_cast<std::uint32_t>(1 + task % 3), task);
    ring.publish();
    if (task % 10 != 0) continue;
    ring.close();
    if (const auto rest = ring.take_rest()) {
      for (std::uint32_t block = rest->block; block < 1 + rest->task % 3; ++block) {
        ++taken[rest->task][block];
        ++blocks;
      }
    }
    ring.open();
  }
  for (std::thread& taker : takers) taker.join();
  for (std::size_t task = 0; task < kTasks; ++task) {
    for (std::size_t block = 0; block < 3; ++block) {
      EXPECT_EQ(taken[task][block], block < 1 + task % 3 ? 1 : 0) << task << " " << block;
    }
  }
}

}  // namespace
}  // namespace dovetail::cores
