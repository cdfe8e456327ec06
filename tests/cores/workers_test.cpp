#include "cores/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

namespace dovetail::cores {
namespace {

class WorkersOf : public testing::TestWithParam<unsigned> {};

TEST_P(WorkersOf, RunEveryTaskOnceInEveryRound) {
  Workers workers(GetParam());
  EXPECT_EQ(workers.size(), GetParam());
  for (const std::size_t count : {0U, 1U, 2U, 3U, 17U, 1000U}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<int> calls(count, 0);  // plain ints: the end of run() must make them visible
      workers.run(count, [&](std::size_t i) { ++calls[i]; });
      EXPECT_EQ(std::accumulate(calls.begin(), calls.end(), 0), static_cast<int>(count));
      EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), static_cast<std::ptrdiff_t>(count));
    }
  }
}

TEST_P(WorkersOf, WakeUpAfterSleeping) {
  Workers workers(GetParam());
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> calls = 0;
    workers.run(8, [&](std::size_t) { ++calls; });
    EXPECT_EQ(calls, 8);
  }
}

// More tasks than the index within a round can tell apart.
TEST(Workers, TakeAnyNumberOfTasks) {
  Workers workers(2);
  const std::size_t count = (std::size_t{1} << 24) + 5;
  std::atomic<std::uint64_t> calls = 0;
  std::atomic<std::uint64_t> sum = 0;
  workers.run(count, [&](std::size_t i) {
    calls.fetch_add(1, std::memory_order_relaxed);
    sum.fetch_add(i, std::memory_order_relaxed);
  });
  EXPECT_EQ(calls, count);
  EXPECT_EQ(sum, std::uint64_t{count} * (count - 1) / 2);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WorkersOf, testing::Values(1U, 2U, 3U, 8U));

TEST(PhysicalCores, AreAtLeastOneAndNoMoreThanThreads) {
  EXPECT_GE(physical_cores(), 1U);
  EXPECT_LE(physical_cores(), std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace dovetail::cores
