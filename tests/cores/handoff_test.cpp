#include "cores/handoff.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "cores/laws/claims.h"

namespace dovetail::cores {
namespace {

std::pair<std::uint64_t, std::uint32_t> two_of(const std::optional<ReadyRing::Claim>& claim) {
  return claim ? std::pair(claim->task, claim->block) : std::pair(~std::uint64_t{0}, ~0U);
}

TEST(Handoff, GivesWhatIsLeftToAnyTaker) {
  Handoff handoff;
  EXPECT_FALSE(handoff.has_work());
  EXPECT_FALSE(handoff.take());
  EXPECT_FALSE(handoff.take_of(0));
  ASSERT_TRUE(handoff.offer(7, 4));
  EXPECT_TRUE(handoff.has_work());
  EXPECT_EQ(handoff.blocks(), 3U);
  EXPECT_FALSE(handoff.offer(8, 2)) << "blocks are left";
  EXPECT_EQ(two_of(handoff.take()), std::pair(std::uint64_t{7}, 1U));
  EXPECT_FALSE(handoff.take_of(8));
  EXPECT_EQ(two_of(handoff.take_of(7)), std::pair(std::uint64_t{7}, 2U));
  EXPECT_EQ(two_of(handoff.take()), std::pair(std::uint64_t{7}, 3U));
  EXPECT_FALSE(handoff.take());
  EXPECT_FALSE(handoff.take_of(7));
  EXPECT_TRUE(handoff.offer(8, 2));
}

TEST(Handoff, HoldsTheLargestOfAll) {
  Handoff handoff;
  ASSERT_TRUE(handoff.offer(Handoff::kMaxTasks - 1, ReadyRing::kMaxBlocks));
  EXPECT_EQ(handoff.blocks(), ReadyRing::kMaxBlocks - 1);
  EXPECT_EQ(two_of(handoff.take()), std::pair(Handoff::kMaxTasks - 1, 1U));
  handoff.close();
  EXPECT_EQ(two_of(handoff.take_rest()), std::pair(Handoff::kMaxTasks - 1, 2U));
}

TEST(Handoff, WhileItIsClosedOnlyItsCombinerTakes) {
  Handoff handoff;
  ASSERT_TRUE(handoff.offer(1, 3));
  handoff.close();
  EXPECT_FALSE(handoff.take());
  EXPECT_FALSE(handoff.take_of(1));
  EXPECT_FALSE(handoff.has_work());
  EXPECT_EQ(handoff.blocks(), 2U);
  EXPECT_EQ(two_of(handoff.take_rest()), std::pair(std::uint64_t{1}, 1U));
  EXPECT_FALSE(handoff.take_rest());
  EXPECT_FALSE(handoff.offer(2, 2));
  handoff.open();
  EXPECT_FALSE(handoff.take());
  EXPECT_TRUE(handoff.offer(2, 2));
}

TEST(Handoff, EightTakeEachBlockOfALargeTaskOnce) {
  EXPECT_EQ(eight_take_from_handoff().value_or(""), "");
}

// The thread that ends the last block offers the next task; another thread closes the handoff now
// and then.
TEST(Handoff, EachBlockOfAChainIsTakenOnce) {
  constexpr std::uint64_t kTasks = 20'000;
  const auto blocks_of = [](std::uint64_t task) {
    return static_cast<std::uint32_t>(2 + task % 3);
  };
  Handoff handoff;
  std::vector<std::uint32_t> taken(kTasks, 0);  // each under the order that the handoff makes
  std::vector<std::atomic<std::uint32_t>> left(kTasks);
  for (std::uint64_t task = 0; task < kTasks; ++task) left[task] = blocks_of(task);
  std::atomic<bool> ends{false};
  const auto run = [&](ReadyRing::Claim claim) {
    for (;;) {
      if (claim.block == 0) taken[claim.task] = claim.task == 0 ? 1 : taken[claim.task - 1] + 1;
      if (left[claim.task].fetch_sub(1) > 1) return;
      if (++claim.task == kTasks) {
        ends = true;
        return;
      }
      claim.block = 0;
      while (!handoff.offer(claim.task, blocks_of(claim.task))) std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      if (i == 0 && handoff.offer(0, blocks_of(0))) run({0, 0});
      while (!ends) {
        const auto claim = handoff.take();
        claim ? run(*claim) : std::this_thread::yield();
      }
    });
  }
  std::thread combiner([&] {
    while (!ends) {
      handoff.close();
      const auto rest = handoff.take_rest();
      handoff.open();
      for (std::uint32_t block = rest ? rest->block : 0; rest && block < blocks_of(rest->task);
           ++block) {
        run({rest->task, block});
      }
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  combiner.join();
  EXPECT_EQ(taken.back(), kTasks);
  for (const auto& blocks : left) ASSERT_EQ(blocks, 0U);
}

}  // namespace
}  // namespace dovetail::cores
