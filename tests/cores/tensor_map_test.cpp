#include "cores/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// Against every pair of tasks, byte by byte: whoever conflicts with an earlier task waits for it,
// directly or for one that does; and nobody waits for a task that it has nothing to do with.
TEST(TensorMap, OrdersConflictsAndNothingElse) {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::uint64_t edges = 0;
  for (int round = 0; round < 300; ++round) {
    constexpr std::size_t kTasks = 40;
    constexpr std::size_t kBytes = 48;
    struct Task {
      std::vector<Access> accesses;
      std::vector<int> uses;  // by byte: 0, 1 for read, 2 for written
    };
    TensorMap map(512);
    std::vector<Task> tasks;
    std::vector<std::vector<bool>> waits(kTasks, std::vector<bool>(kTasks, false));
    for (TaskNumber task = 0; task < kTasks; ++task) {
      Task made;
      made.uses.assign(2 * kBytes, 0);
      for (std::uint64_t i = 0; i <= below(3); ++i) {
        const std::uint64_t buffer = below(2);
        const std::uint64_t rows = 1 + below(4), columns = 1 + below(4);
        const std::uint64_t offset = 12 * below(5 - rows) + below(9);
        const std::uint64_t counts[] = {rows, columns}, strides[] = {12, 1};
        const auto mode = static_cast<AccessMode>(below(3));
        made.accesses.push_back({Region(buffer, offset, 1, counts, strides), mode});
        for (std::uint64_t row = 0; row < rows; ++row) {
          for (std::uint64_t column = 0; column < columns; ++column) {
            int& use = made.uses[kBytes * buffer + offset + 12 * row + column];
            use = std::max(use, mode == kReads ? 1 : 2);
          }
        }
      }
      for (const TaskNumber before : enter(map, task, made.accesses)) {
        ASSERT_LT(before, task);
        ++edges;
        waits[task][before] = true;
        bool conflict = false;
        for (std::size_t byte = 0; byte < 2 * kBytes; ++byte) {
          const int one = made.uses[byte], other = tasks[before].uses[byte];
          conflict = conflict || (one > 0 && other > 0 && one + other > 2);
        }
        ASSERT_TRUE(conflict) << task << " waits for " << before;
      }
      for (TaskNumber middle = 0; middle < task; ++middle) {
        if (!waits[task][middle]) continue;
        for (TaskNumber first = 0; first < middle; ++first) {
          if (waits[middle][first]) waits[task][first] = true;
        }
      }
      for (TaskNumber before = 0; before < task; ++before) {
        for (std::size_t byte = 0; byte < 2 * kBytes; ++byte) {
          const int one = made.uses[byte], other = tasks[before].uses[byte];
          if (one == 0 || other == 0 || one + other <= 2) continue;
          ASSERT_TRUE(waits[task][before]) << task << " does not wait for " << before;
        }
      }
      tasks.push_back(std::move(made));
    }
  }
  EXPECT_GT(edges, 10'000U);
}

}  // namespace
}  // namespace dovetail::cores
