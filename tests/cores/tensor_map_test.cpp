#include "cores/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <random>
#include <vector>

namespace dovetail::cores {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kReads = AccessMode::kRead;
constexpr auto kWrites = AccessMode::kWrite;

std::vector<TaskNumber> enter(TensorMap& map, TaskNumber task, std::vector<Access> accesses) {
  std::vector<TaskNumber> before;
  map.find(task, accesses, {}, before);
  EXPECT_TRUE(map.enter(task, accesses));
  return before;
}

Access reads(std::uint64_t offset, std::uint64_t size) { return {Region(7, offset, size), kReads}; }
Access writes(std::uint64_t offset, std::uint64_t size) {
  return {Region(7, offset, size), kWrites};
}

TEST(TensorMap, ReadersWaitForWriters) {
  TensorMap map(16);
  EXPECT_THAT(enter(map, 0, {writes(0, 10)}), IsEmpty());
  EXPECT_THAT(enter(map, 1, {reads(9, 1)}), ElementsAre(0));
  EXPECT_THAT(enter(map, 2, {reads(10, 1)}), IsEmpty());
  EXPECT_THAT(enter(map, 3, {reads(0, 20)}), ElementsAre(0));
}

TEST(TensorMap, WritersWaitForReadersAndWriters) {
  TensorMap map(16);
  enter(map, 0, {writes(0, 10)});
  enter(map, 1, {reads(0, 5)});
  enter(map, 2, {reads(5, 5)});
  EXPECT_THAT(enter(map, 3, {writes(4, 1)}), ElementsAre(0, 1));
  EXPECT_THAT(enter(map, 4, {writes(0, 10)}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(enter(map, 5, {reads(2, 1)}), ElementsAre(4)) << "those before it are its affair";
}

TEST(TensorMap, NamesEachOnceAndInOrder) {
  TensorMap map(16);
  enter(map, 0, {writes(0, 10), writes(20, 10)});
  enter(map, 1, {});
  enter(map, 2, {writes(10, 5)});
  std::vector<TaskNumber> before = {7};
  map.find(3, std::vector{reads(10, 20), reads(0, 10)}, std::vector<TaskNumber>{2, 1, 1}, before);
  EXPECT_THAT(before, ElementsAre(0, 1, 2));
}

TEST(TensorMap, ATaskDoesNotWaitForItself) {
  TensorMap map(16);
  EXPECT_THAT(enter(map, 0, {reads(0, 10), writes(0, 10)}), IsEmpty());
  EXPECT_THAT(enter(map, 1, {{Region(7, 0, 10), AccessMode::kReadWrite}}), ElementsAre(0));
}

TEST(TensorMap, ForgetsTasksThatHaveEnded) {
  TensorMap map(16);
  enter(map, 0, {writes(0, 10)});
  enter(map, 1, {writes(10, 10)});
  map.retire_before(1);
  EXPECT_THAT(enter(map, 2, {reads(0, 20)}), ElementsAre(1));
}

TEST(TensorMap, IsFullUntilOlderTasksEnd) {
  TensorMap map(4);
  for (TaskNumber task = 0; task < 4; ++task) enter(map, task, {writes(10 * task, 10)});
  const std::vector<Access> two = {reads(0, 1), reads(90, 1)};
  EXPECT_FALSE(map.enter(4, two));
  map.retire_before(1);
  EXPECT_FALSE(map.enter(4, two));
  EXPECT_EQ(map.size(), 3U) << "of those that had ended nothing is left";
  map.retire_before(2);
  EXPECT_TRUE(map.enter(4, two));
  EXPECT_EQ(map.size(), 4U);
}

TEST(TensorMap, AHundredThousandTasksFitFewEntries) {
  TensorMap map(64);
  for (TaskNumber task = 0; task < 100'000; ++task) {
    map.retire_before(task < 16 ? 0 : task - 16);
    const auto before =
        enter(map, task, {reads(8 * (task % 8), 8), writes(8 * ((task + 1) % 8), 8)});
    EXPECT_LE(before.size(), 16U);
  }
}

// Against every pair of tasks, byte by byte: a task that conflicts with an earlier one waits for
// it, directly or for one that does; and no task waits for one that it has nothing to do with.
// Parts of two tensors of five dimensions, with gaps in each of them.
TEST(TensorMap, OrdersConflictsAndNothingElse) {
  constexpr std::array<std::uint64_t, 5> kTensor = {2, 2, 2, 3, 3}, kStrides = {100, 48, 23, 7, 2};
  constexpr std::size_t kTasks = 40;
  constexpr std::size_t kBytes = 200;
  struct Task {
    std::bitset<2 * kBytes> reads, writes;
    bool conflicts(const Task& other) const {
      return ((reads | writes) & other.writes).any() || (writes & other.reads).any();
    }
  };
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t edges = 0;
  for (int round = 0; round < 600; ++round) {
    TensorMap map(512);
    std::vector<Task> tasks;
    std::vector<std::bitset<kTasks>> waits(kTasks);
    // Small parts as a rule in every other round, so that fewer tasks meet.
    const std::uint64_t most = round % 2 == 0 ? 2 : 4;
    for (TaskNumber task = 0; task < kTasks; ++task) {
      Task made;
      std::vector<Access> accesses;
      for (std::uint64_t i = 0; i <= below(3); ++i) {
        const std::uint64_t buffer = below(2);
        std::vector<std::uint64_t> counts, strides;
        std::uint64_t offset = below(5) == 0 ? below(8) : 0;
        for (std::size_t dimension = 0; dimension < kTensor.size(); ++dimension) {
          const std::uint64_t first = below(kTensor[dimension]);
          offset += first * kStrides[dimension];
          if (below(4) == 0) continue;  // a view of fewer
          counts.push_back(1 + below(std::min(most, kTensor[dimension] - first)));
          strides.push_back(kStrides[dimension]);
        }
        if (!counts.empty() && below(20) == 0) counts[below(counts.size())] = 0;
        const auto mode = static_cast<AccessMode>(below(3));
        accesses.push_back({Region(buffer, offset, 1, counts, strides), mode});
        std::vector<std::uint64_t> elements = {kBytes * buffer + offset};
        for (std::size_t dimension = 0; dimension < counts.size(); ++dimension) {
          std::vector<std::uint64_t> more;
          for (const std::uint64_t element : elements) {
            for (std::uint64_t row = 0; row < counts[dimension]; ++row) {
              more.push_back(element + row * strides[dimension]);
            }
          }
          elements.swap(more);
        }
        for (const std::uint64_t element : elements) {
          (mode == kReads ? made.reads : made.writes).set(element);
        }
      }
      for (const TaskNumber before : enter(map, task, accesses)) {
        ASSERT_LT(before, task);
        ++edges;
        waits[task].set(before);
        ASSERT_TRUE(made.conflicts(tasks[before])) << task << " waits for " << before;
      }
      for (TaskNumber middle = task; middle-- > 0;) {
        if (waits[task].test(middle)) waits[task] |= waits[middle];
      }
      for (TaskNumber before = 0; before < task; ++before) {
        ASSERT_TRUE(waits[task].test(before) || !made.conflicts(tasks[before]))
            << task << " does not wait for " << before;
      }
      tasks.push_back(made);
    }
  }
  EXPECT_GT(edges, 10'000U);
}

}  // namespace
}  // namespace dovetail::cores
