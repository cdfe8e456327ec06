#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>

#include "cores/executor.h"
#include "cores/machines.h"

namespace dovetail::cores {
namespace {

using testing::HasSubstr;

// An executor with room for eight tasks.
class ScopesOnMachines : public OnMachines {
 protected:
  static constexpr int kPlaces = 8;

  ExecutorOptions small() const {
    ExecutorOptions small = options();
    small.graph = {kPlaces, 64, 64};
    return small;
  }
  // Submits so many tasks; how many were taken, and the message of the refusal, if any.
  std::pair<int, std::string> submit(int tasks) {
    for (int task = 0; task < tasks; ++task) {
      const auto submitted =
          executor_.submit(task % 2 == 0 ? kMatrix : kVector, [this](const Part&) { ++ran_; });
      if (submitted) continue;
      EXPECT_EQ(submitted.error().kind, ErrorKind::kInvalid);
      return {task, submitted.error().message};
    }
    return {tasks, ""};
  }
  // That nothing is left of what was before.
  void expect_clean() {
    ran_ = 0;
    EXPECT_EQ(submit(5 * kPlaces), std::pair(5 * kPlaces, std::string()));
    EXPECT_TRUE(executor_.wait());
    EXPECT_EQ(ran_, 5 * kPlaces);
  }

  Executor executor_{machine(), small()};
  std::atomic<int> ran_{0};
};

INSTANTIATE_TEST_SUITE_P(Machines, ScopesOnMachines, testing::ValuesIn(kMachines));

// Also behind tasks that have not ended when the scope begins: their places can be waited for.
TEST_P(ScopesOnMachines, AScopeThatHoldsAllPlacesIsADeadlockUntilItEnds) {
  for (const int before : {0, 3, kPlaces}) {
    ran_ = 0;
    ASSERT_EQ(submit(before).first, before);
    executor_.begin_scope();
    const auto [submitted, message] = submit(kPlaces + 1);
    EXPECT_EQ(submitted, kPlaces);
    EXPECT_THAT(message, HasSubstr("the scope that began with task"));
    EXPECT_THAT(message, HasSubstr("holds all 8 places"));
    EXPECT_THAT(message, HasSubstr("GraphOptions::tasks"));
    EXPECT_TRUE(executor_.wait()) << "nothing that was submitted has failed";
    EXPECT_EQ(ran_, before + kPlaces);
    EXPECT_EQ(submit(1).first, 0) << "that all have ended changes nothing";
    executor_.end_scope();
    expect_clean();
  }
}

TEST_P(ScopesOnMachines, OnlyTheOutermostScopeFreesPlaces) {
  const auto ten_scopes = [&] {
    for (int scope = 0; scope < 10; ++scope) {
      executor_.begin_scope();
      const auto [submitted, message] = submit(1);
      executor_.end_scope();
      if (submitted == 0) return std::pair(scope, message);
    }
    return std::pair(10, std::string());
  };
  EXPECT_EQ(ten_scopes(), std::pair(10, std::string())) << "one after the other";
  ASSERT_TRUE(executor_.wait());
  EXPECT_EQ(ran_, 10);

  executor_.begin_scope();
  const auto [submitted, message] = ten_scopes();
  EXPECT_EQ(submitted, kPlaces);
  EXPECT_THAT(message, HasSubstr("the scope that began with task 10 holds all 8 places"));
  EXPECT_TRUE(executor_.wait());
  EXPECT_EQ(ran_, 10 + kPlaces);
  executor_.end_scope();
  expect_clean();
}

TEST_P(ScopesOnMachines, AFailureInAScopeLeavesItOpen) {
  executor_.begin_scope();
  ASSERT_EQ(submit(3).first, 3);
  ASSERT_TRUE(executor_.wait());
  expect_submits(executor_, kVector, [this](const Part& part) {
    executor_.fail(part, {ErrorKind::kIo, "no such luck"});
  });
  const Status failed = executor_.wait();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "task 3: no such luck");
  EXPECT_EQ(submit(kPlaces).first, kPlaces - 4);
  EXPECT_TRUE(executor_.wait());
  executor_.end_scope();
  expect_clean();
}

// A recording takes no places of the graph.
TEST_P(ScopesOnMachines, ARecordingRunsInAFullScope) {
  executor_.begin_scope();
  ASSERT_EQ(submit(kPlaces).first, kPlaces);
  ASSERT_TRUE(executor_.wait());
  Recorder recorder;
  for (int task = 0; task < kPlaces; ++task) {
    ASSERT_TRUE(recorder.add(task % 2 == 0 ? kMatrix : kVector, [this](const Part&) { ++ran_; }));
  }
  ASSERT_TRUE(executor_.run(std::move(recorder).finish()));
  EXPECT_EQ(ran_, 2 * kPlaces);
  executor_.end_scope();
  expect_clean();
}

}  // namespace
}  // namespace dovetail::cores
