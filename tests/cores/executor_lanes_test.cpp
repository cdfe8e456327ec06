#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "cores/executor.h"
#include "cores/machines.h"

namespace dovetail::cores {
namespace {

// Keeps an account of who is on which lane, and remembers what may not be.
class Account {
 public:
  Account(std::size_t lanes, std::size_t tasks) : lanes_(lanes), ended_(tasks) {}

  void enter(std::size_t lane, TaskNumber task) {
    if (lanes_[lane].exchange(task + 1) != 0) ++faults_;
  }
  void leave(std::size_t lane, TaskNumber task) {
    ended_[task].fetch_or(static_cast<std::uint16_t>(1U << lane));
    if (lanes_[lane].exchange(0) != task + 1) ++faults_;
  }
  // No foreign task is on a lane of the group, unless the task's own part there has ended.
  void whole(std::size_t first, std::size_t count, TaskNumber task) {
    for (std::size_t lane = first; lane < first + count; ++lane) {
      const TaskNumber other = lanes_[lane].load();
      if (other == 0 || other == task + 1) continue;
      if ((ended_[task].load() >> lane & 1) == 0) ++faults_;
    }
  }
  int faults() const { return faults_; }

 private:
  std::vector<std::atomic<TaskNumber>> lanes_;
  std::vector<std::atomic<std::uint16_t>> ended_;  // lanes by task
  std::atomic<int> faults_{0};
};

// Case 16: lanes are never shared, and a mixed task has its lanes to itself.
TEST(ExecutorLanes, MixedTasksHaveTheirLanesToThemselves) {
  const bool many = std::getenv("DOVETAIL_LONG") != nullptr;
  for (const unsigned threads : {0U, 8U}) {
    ExecutorOptions options;
    options.threads = threads;
    Executor executor(topology("3x(1C2V)"), options);
    std::atomic<std::uint64_t> parts{0};
    std::uint64_t expected = 0;
    std::mt19937 random(threads);
    const TaskNumber tasks = many ? 1'000'000 : 20'000;
    Account account(9, tasks);
    for (TaskNumber task = 0; task < tasks; ++task) {
      const auto kind = random() % 10;
      const auto blocks = static_cast<std::uint32_t>(random() % 8 == 0 ? 1 + random() % 5 : 1);
      TaskSpec spec = {kVectorTask, false, blocks, 0};
      if (kind < 3) spec.shape = kMatrixTask;
      if (kind == 7) spec.shape = {1, 1, false};
      if (kind == 8) spec.shape = {1, 2, false};
      if (kind == 9) spec.shape = kWholeGroup;
      if (blocks > 1 && blocks <= 3 && random() % 4 == 0) spec.together = true;
      const std::uint64_t lanes = spec.shape.whole_group ? 3 : spec.shape.lanes();
      expected += lanes * spec.blocks;
      expect_submits(executor, spec, [&, task, whole = lanes == 3](const Part& part) {
        const std::size_t first = 3 * part.group;
        account.enter(first + part.lane, task);
        if (whole) account.whole(first, 3, task);
        ++parts;
        if (whole) account.whole(first, 3, task);
        account.leave(first + part.lane, task);
      });
    }
    ASSERT_TRUE(executor.wait());
    EXPECT_EQ(account.faults(), 0);
    EXPECT_EQ(parts, expected);
  }
}

// Each part waits for the others: without their starting together this would never end.
TEST(ExecutorLanes, PartsOfATaskMeet) {
  Executor executor(topology("2x(1C2V)"), {});
  std::vector<std::atomic<std::uint32_t>> met(400);
  for (std::size_t task = 0; task < met.size(); ++task) {
    expect_submits(executor, kMixed, [meeting = &met[task]](const Part& part) {
      meeting->fetch_add(1);
      while (meeting->load() < part.parts) std::this_thread::yield();
    });
    expect_submits(executor, kVector, [](const Part&) {});
  }
  ASSERT_TRUE(executor.wait());
  for (const auto& count : met) EXPECT_EQ(count, 3U);
}

TEST(ExecutorLanes, BlocksOfACohortMeet) {
  Executor executor(topology("3x(1C2V)"), {});
  std::vector<std::atomic<std::uint32_t>> met(200);
  for (std::size_t task = 0; task < met.size(); ++task) {
    const auto blocks = static_cast<std::uint32_t>(2 + task % 2);
    expect_submits(executor, {{1, 1, false}, true, blocks, 0},
                   [meeting = &met[task], blocks](const Part&) {
                     meeting->fetch_add(1);
                     while (meeting->load() < 2 * blocks) std::this_thread::yield();
                   });
    expect_submits(executor, kVector, [](const Part&) {});
    expect_submits(executor, kMatrix, [](const Part&) {});
  }
  ASSERT_TRUE(executor.wait());
}

}  // namespace
}  // namespace dovetail::cores
