// Each kind of stall, as an executor's watchdog tells it.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "cores/machines.h"
#include "cores/names.h"

namespace dovetail::cores {

// What an executor never should lose, and gets back.
struct ExecutorFaults {
  // A task that no lane will get.
  static TaskNumber lose_task(Executor& executor) {
    const std::lock_guard guard(executor.lock_);
    EXPECT_TRUE(executor.graph_.submit({}));
    return executor.graph_.take_ready().value();
  }
  static void find_task(Executor& executor, TaskNumber task) {
    mend(executor, [&] { executor.end_task(task); });
  }

  // Two ends that a task of the recording that runs waits for in vain, as many as it takes for it
  // to be sure that they are not those of its producers.
  static void lose_ends(Executor& executor, TaskNumber task) {
    executor.progress_[task].waits.fetch_add(2);
  }
  static void find_ends(Executor& executor, TaskNumber task) {
    mend(executor, [&] { executor.newly_ready_.push_back(task); });
  }

  // An idle lane of group 0 that counts as busy.
  static void lose_lane(Executor& executor, unsigned lane) {
    const std::lock_guard guard(executor.lock_);
    executor.dispatcher_.occupy(0, LaneMask{1} << lane);
    --executor.idle_lanes_;
  }
  static void find_lane(Executor& executor, unsigned lane) {
    mend(executor, [&] { executor.free_lane(executor.lane(0, lane)); });
  }

 private:
  template <class Change>
  static void mend(Executor& executor, Change change) {
    std::vector<Executor::Thread*> to_notify;
    const Executor::Lock lock(executor, to_notify);
    change();
    executor.make_ready();
    executor.dispatch({});
  }
};

namespace {

using namespace std::chrono_literals;

// Listens to a watchdog.
class Told {
 public:
  ExecutorOptions options() {
    ExecutorOptions options;
    options.stall_limit = 20ms;
    options.on_stall = [this](const Stall& stall) {
      {
        const std::lock_guard guard(lock_);
        stalls_.push_back(stall);
      }
      changed_.notify_all();
    };
    return options;
  }

  // Waits for a stall of that kind whose message has that text: where the machine is busy with
  // other things others may come first. The last words of a failing test are the messages.
  testing::AssertionResult hears(StallKind kind, const std::string& text) {
    const auto is_it = [&](const Stall& stall) {
      return stall.kind == kind && stall.message.find(text) != std::string::npos;
    };
    const auto any = [&] { return std::any_of(stalls_.begin(), stalls_.end(), is_it); };
    std::unique_lock guard(lock_);
    if (changed_.wait_for(guard, 60s, any)) return testing::AssertionSuccess();
    auto failure = testing::AssertionFailure() << "no stall says '" << text << "', but:";
    for (const Stall& stall : stalls_) {
      failure << "\n" << static_cast<int>(stall.kind) << ": " << stall.message;
    }
    return failure;
  }

  bool has(StallKind kind) {
    const std::lock_guard guard(lock_);
    return std::any_of(stalls_.begin(), stalls_.end(),
                       [kind](const Stall& stall) { return stall.kind == kind; });
  }

  std::size_t count() {
    const std::lock_guard guard(lock_);
    return stalls_.size();
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<Stall> stalls_;
};

// Task 0 runs until the others have been submitted: the watchdog tells once what stands still, and
// looks anew when something has ended.
template <class Submit>
void submit_all(Executor& executor, Submit submit) {
  std::atomic<int> step{0};
  const auto await = [&step](int which) {
    while (step != which) std::this_thread::sleep_for(1ms);
  };
  expect_submits(executor, kVector, [&](const Part&) {
    step = 1;
    await(2);
    step = 3;
  });
  await(1);
  submit();
  step = 2;
  await(3);
}

TEST(ExecutorStalls, WhatRunsComesBeforeWhatIsReadyOrWaits) {
  Told told;
  Executor executor(topology("1x(1C2V)"), told.options());
  expect_submits(executor, kVector, [&told](const Part&) {
    EXPECT_TRUE(
        told.hears(StallKind::kRunsTooLong, "1 task runs, longest task 0, block 0, on group 0"));
  });
  expect_submits(executor, kVector, [](const Part&) {}, {}, {0});
  expect_submits(executor, kMatrix, [](const Part&) {});
  EXPECT_TRUE(told.hears(StallKind::kRunsTooLong, "1 task runs"));
  EXPECT_TRUE(executor.wait());
}

TEST(ExecutorStalls, WhatIsReadyForACallerThatDoesNotWait) {
  Told told;
  Executor executor(topology("1x(1L)"), told.options());
  expect_submits(executor, kVector, [](const Part&) {});
  EXPECT_TRUE(told.hears(StallKind::kReadyButIdle,
                         "1 task is ready and none runs, oldest task 0 (V), 0 of 1 lanes are "
                         "idle; look at why the caller does not wait"));
  EXPECT_TRUE(executor.wait());
}

// The mixed task takes the matrix task out of the ring.
TEST(ExecutorStalls, WhatWasPendingOrPutBackIsReady) {
  Told told;
  Executor executor(topology("1x(1C2V)"), told.options());
  submit_all(executor, [&] {
    expect_submits(executor, kMatrix, [](const Part&) {});
    expect_submits(executor, {{0, 2, false}, false, 1, 0}, [](const Part&) {});
    expect_submits(executor, kMatrix, [](const Part&) {}, {}, {1});
  });
  EXPECT_TRUE(
      told.hears(StallKind::kReadyButIdle, "1 task is ready and none runs, oldest task 1 (C)"));
  EXPECT_TRUE(executor.wait());
}

TEST(ExecutorStalls, WhatTheDispatcherHoldsIsReady) {
  Told told;
  Executor executor(topology("2x(1C2V)"), told.options());
  submit_all(executor, [&] {
    // The caller's lane among them.
    constexpr TaskSpec kAllLanes = {{1, 2, false}, true, 2, 0};
    for (int i = 0; i < 5; ++i) expect_submits(executor, kAllLanes, [](const Part&) {});
    expect_submits(executor, kMixed, [](const Part&) {}, {}, {1});
  });
  EXPECT_TRUE(told.hears(StallKind::kReadyButIdle,
                         "5 tasks are ready and none runs, oldest task 1 (1C2V)"));
  EXPECT_TRUE(executor.wait());
}

// In a ring, or with the dispatcher.
TEST(ExecutorStalls, WhatIsReadyInARecording) {
  for (const TaskShape shape : {kVectorTask, TaskShape{1, 1, false}}) {
    Told told;
    Executor executor(topology("1x(1C1V)"), told.options());
    Recorder recorder;
    ASSERT_TRUE(recorder.add(kMatrix, [](const Part&) {}));
    ASSERT_TRUE(recorder.add(
        {shape, false, 3, 0}, [](const Part&) {}, {}, std::vector<TaskNumber>{0}));
    const Recording recording = std::move(recorder).finish();
    ExecutorFaults::lose_lane(executor, 1);
    std::thread finder([&] {
      EXPECT_TRUE(told.hears(
          StallKind::kReadyButIdle,
          fmt::format("1 task is ready and none runs, oldest task 1 ({})", shape_name(shape))));
      ExecutorFaults::find_lane(executor, 1);
    });
    EXPECT_TRUE(executor.run(recording));
    finder.join();
  }
}

TEST(ExecutorStalls, WhatALaneTookAndLost) {
  Told told;
  Executor executor(topology("1x(1C2V)"), told.options());
  TaskNumber lost = 0;
  submit_all(executor, [&] { lost = ExecutorFaults::lose_task(executor); });
  EXPECT_TRUE(told.hears(StallKind::kWaitsForNothing,
                         "1 task has not ended, of which none runs or is ready; oldest task 1; "
                         "look at the lane that took it"));
  ExecutorFaults::find_task(executor, lost);
  EXPECT_TRUE(executor.wait());
}

TEST(ExecutorStalls, WhatWaitsForATaskThatWasLost) {
  Told told;
  Executor executor(topology("1x(1C2V)"), told.options());
  TaskNumber lost = 0;
  submit_all(executor, [&] {
    lost = ExecutorFaults::lose_task(executor);
    expect_submits(executor, kVector, [](const Part&) {});
    expect_submits(executor, kVector, [](const Part&) {}, {}, {0, lost});
    expect_submits(executor, kMixed, [](const Part&) {}, {}, {3});
  });
  EXPECT_TRUE(told.hears(StallKind::kWaitsForNothing,
                         "3 tasks have not ended, of which none runs or is ready; oldest task 3, "
                         "which another one holds up; look at task 1"));
  ExecutorFaults::find_task(executor, lost);
  EXPECT_TRUE(executor.wait());
}

TEST(ExecutorStalls, WhatWaitsForEndsThatWereLostInARecording) {
  Told told;
  Executor executor(topology("1x(1C2V)"), told.options());
  Recorder recorder;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(recorder.add(kVector, [&executor, i](const Part&) {
      if (i == 0) ExecutorFaults::lose_ends(executor, 3);
    }));
  }
  ASSERT_TRUE(recorder.add(
      kMixed, [](const Part&) {}, {}, std::vector<TaskNumber>{0, 1, 2}));
  ASSERT_TRUE(recorder.add(
      kVector, [](const Part&) {}, {}, std::vector<TaskNumber>{3}));
  const Recording recording = std::move(recorder).finish();
  std::thread finder([&] {
    EXPECT_TRUE(told.hears(StallKind::kWaitsForNothing,
                           "2 tasks have not ended, of which none runs or is ready; oldest task 3, "
                           "which 2 others hold up"));
    ExecutorFaults::find_ends(executor, 3);
  });
  EXPECT_TRUE(executor.run(recording));
  finder.join();
}

// Once; not after wait(), which looks like a submitter that has come to its end.
TEST(ExecutorStalls, ASubmitterThatIsLate) {
  for (const bool scoped : {false, true}) {
    Told told;
    Executor executor(topology("1x(1C2V)"), told.options());
    if (scoped) executor.begin_scope();
    expect_submits(executor, kVector, [](const Part&) {});
    EXPECT_TRUE(told.hears(StallKind::kSubmitterStarves,
                           scoped ? "look at what it does meanwhile, in the scope that it began "
                                    "with task 0"
                                  : "the submitter neither submits nor waits for them"));
    const std::size_t before = told.count();
    EXPECT_TRUE(executor.wait());
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(told.count(), before);
    if (scoped) executor.end_scope();
  }
}

// What a run of a recording waits for, its caller need not wait for again.
TEST(ExecutorStalls, ASubmitterThatHasWaitedIsNotLate) {
  Told told;
  Executor executor(topology("1x(1C2V)"), told.options());
  Recorder recorder;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(recorder.add(kVector, [](const Part&) {}));
  const Recording recording = std::move(recorder).finish();
  expect_submits(executor, kVector, [](const Part&) {});
  EXPECT_TRUE(executor.wait());
  EXPECT_TRUE(executor.run(recording));
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(told.has(StallKind::kSubmitterStarves));
}

}  // namespace
}  // namespace dovetail::cores
