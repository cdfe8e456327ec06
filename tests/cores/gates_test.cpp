#include "cores/gates.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace dovetail::cores {
namespace {

TEST(Gates, PartsOfABlockStartWhenAllHaveArrived) {
  Gates gates(2);
  const std::uint32_t gate = gates.open(7, 3, 3, false, false);
  EXPECT_EQ(gates.task(gate), 7U);
  EXPECT_EQ(gates.in_use(), 1U);
  EXPECT_FALSE(gates.skips(gate));
  gates.arrive(gate);
  gates.arrive(gate);
  EXPECT_FALSE(gates.may_start(gate));
  gates.arrive(gate);
  EXPECT_TRUE(gates.may_start(gate));
  EXPECT_FALSE(gates.end_part(gate));
  EXPECT_FALSE(gates.end_part(gate));
  EXPECT_TRUE(gates.may_start(gate)) << "for those that have not looked yet";
  EXPECT_TRUE(gates.end_part(gate));
  std::atomic<std::uint32_t> blocks_left{2};
  EXPECT_FALSE(gates.close(gate, blocks_left)) << "another block has not ended";
  EXPECT_EQ(blocks_left, 1U);
  EXPECT_EQ(gates.in_use(), 0U);
}

TEST(Gates, WhereThreadsServeSeveralLanesNoPartWaits) {
  Gates gates(1);
  const std::uint32_t gate = gates.open(0, 2, 0, true, false);
  EXPECT_TRUE(gates.may_start(gate));
  EXPECT_TRUE(gates.skips(gate));
  gates.arrive(gate);
  EXPECT_FALSE(gates.end_part(gate));
  EXPECT_TRUE(gates.end_part(gate));
}

TEST(Gates, AGateIsAsNewWhenItIsOpenedAgain) {
  Gates gates(1);
  std::atomic<std::uint32_t> blocks_left{3};
  for (TaskNumber task = 0; task < 3; ++task) {
    const std::uint32_t gate = gates.open(task, 2, 2, task == 0, task == 1);
    EXPECT_EQ(gates.task(gate), task);
    EXPECT_EQ(gates.skips(gate), task == 0);
    gates.arrive(gate);
    EXPECT_FALSE(gates.may_start(gate)) << "task " << task;
    gates.arrive(gate);
    EXPECT_TRUE(gates.may_start(gate));
    EXPECT_FALSE(gates.end_part(gate));
    EXPECT_TRUE(gates.end_part(gate));
    blocks_left = 1;
    EXPECT_TRUE(gates.close(gate, blocks_left));
    EXPECT_EQ(gates.in_use(), 0U);
  }
}

// All parts of a gang look at the gate of its first block, which is kept for them.
TEST(Gates, TheFirstOfAGangStaysOpenUntilItsLastBlockHasEnded) {
  Gates gates(3);
  std::atomic<std::uint32_t> blocks_left{3};
  const std::uint32_t first = gates.open(5, 1, 3, true, true);
  const std::uint32_t second = gates.join(first, 1), third = gates.join(first, 1);
  EXPECT_EQ(gates.task(third), 5U);
  EXPECT_EQ(gates.in_use(), 3U);
  gates.arrive(second);
  gates.arrive(first);
  EXPECT_FALSE(gates.may_start(first));
  gates.arrive(third);
  for (const std::uint32_t gate : {first, second, third}) {
    EXPECT_TRUE(gates.may_start(gate));
    EXPECT_TRUE(gates.skips(gate));
    EXPECT_TRUE(gates.end_part(gate));
  }
  EXPECT_FALSE(gates.close(first, blocks_left));
  EXPECT_EQ(gates.in_use(), 3U) << "others look at it";
  EXPECT_FALSE(gates.close(third, blocks_left));
  EXPECT_EQ(gates.in_use(), 2U);
  EXPECT_NE(gates.open(6, 2, 2, false, false), first);
  EXPECT_TRUE(gates.may_start(second));
  EXPECT_TRUE(gates.close(second, blocks_left));
  EXPECT_EQ(gates.in_use(), 1U);
}

TEST(Gates, ACopyGoesItsOwnWay) {
  Gates gates(2);
  const std::uint32_t gate = gates.open(3, 2, 2, true, false);
  gates.arrive(gate);
  Gates copy(gates);
  copy.arrive(gate);
  EXPECT_TRUE(copy.may_start(gate));
  EXPECT_TRUE(copy.skips(gate));
  EXPECT_EQ(copy.task(gate), 3U);
  EXPECT_FALSE(gates.may_start(gate));
  EXPECT_FALSE(copy.end_part(gate));
  EXPECT_NE(copy.open(4, 1, 0, false, false), gate);
  EXPECT_EQ(copy.in_use(), 2U);
  EXPECT_EQ(gates.in_use(), 1U);
}

TEST(Gates, TheLastOfSomeEnds) {
  std::atomic<std::uint32_t> left{4};
  EXPECT_FALSE(are_last(left));
  EXPECT_FALSE(are_last(left, 2));
  EXPECT_EQ(left, 1U);
  EXPECT_TRUE(are_last(left));
  left = 3;
  EXPECT_TRUE(are_last(left, 3)) << "all at once";
}

// What parts did before they came is visible to all of them; what they did before they ended, to
// the thread that closes the gate.
TEST(Gates, PartsSeeWhatTheOthersDid) {
  constexpr std::uint32_t kParts = 3, kTimes = 2000;
  Gates gates(1);
  std::vector<std::uint32_t> written(kParts, 0), missed(kParts, 0);  // plain: for ThreadSanitizer
  std::atomic<std::uint32_t> opened{0}, closed{0};
  std::vector<std::thread> threads;
  for (std::uint32_t part = 0; part < kParts; ++part) {
    threads.emplace_back([&, part] {
      for (std::uint32_t time = 1; time <= kTimes; ++time) {
        while (opened.load(std::memory_order_acquire) < time) std::this_thread::yield();
        written[part] = time;
        gates.arrive(0);
        while (!gates.may_start(0)) std::this_thread::yield();
        for (const std::uint32_t value : written) missed[part] += value == time ? 0 : 1;
        if (!gates.end_part(0)) continue;
        for (const std::uint32_t value : written) missed[part] += value == time ? 0 : 1;
        closed.store(time, std::memory_order_release);
      }
    });
  }
  for (std::uint32_t time = 1; time <= kTimes; ++time) {
    EXPECT_EQ(gates.open(time, kParts, kParts, false, false), 0U);
    opened.store(time, std::memory_order_release);
    while (closed.load(std::memory_order_acquire) < time) std::this_thread::yield();
    std::atomic<std::uint32_t> blocks_left{1};
    EXPECT_TRUE(gates.close(0, blocks_left));
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint32_t count : missed) EXPECT_EQ(count, 0U);
}

}  // namespace
}  // namespace dovetail::cores
