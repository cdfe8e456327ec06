#include "cores/executor.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "cores/machines.h"

namespace dovetail::cores {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Machines, OnMachines, testing::ValuesIn(kMachines));

TEST_P(OnMachines, EachBlockRunsOnce) {
  Executor executor(machine(), options());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::atomic<int>> runs(1000);
    for (std::size_t task = 0; task < 10; ++task) {
      auto* first = runs.data() + 100 * task;
      expect_submits(executor, {task % 2 == 0 ? kMatrixTask : kVectorTask, false, 100, 0},
                     [first](const Part& part) { ++first[part.block]; });
    }
    ASSERT_TRUE(executor.wait());
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST_P(OnMachines, TasksSeeWhatTheyWaitFor) {
  Executor executor(machine(), options());
  std::vector<int> values(200, 0);
  for (int step = 1; step <= 50; ++step) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      int* value = &values[i];
      expect_submits(executor, i % 2 == 0 ? kMatrix : kVector,
                     [value, step](const Part&) { *value = *value == step - 1 ? step : -1000; },
                     {access_of(i, AccessMode::kReadWrite)});
    }
  }
  ASSERT_TRUE(executor.wait());
  EXPECT_EQ(values, std::vector<int>(200, 50));
}

TEST_P(OnMachines, AChainThroughDummiesAndBlocks) {
  Executor executor(machine(), options());
  std::atomic<int> sum{0};
  TaskNumber last = 0;
  for (int step = 0; step < 300; ++step) {
    const std::vector<TaskNumber> after = step == 0 ? std::vector<TaskNumber>{} : std::vector{last};
    const auto wide = executor.submit(
        {kVectorTask, false, 7, 0},
        [&sum, step](const Part&) {
          if (sum.load() / 7 >= step) ++sum;
        },
        {}, after);
    ASSERT_TRUE(wide);
    const TaskNumber before[] = {*wide};
    const auto join = executor.submit({{0, 0, false}, false, 1, 0}, {}, {}, before);
    ASSERT_TRUE(join);
    last = *join;
  }
  ASSERT_TRUE(executor.wait());
  EXPECT_EQ(sum, 300 * 7);
}

// Levels of four tasks and of one in turns that only join, behind four that do something and before
// one that sees it. When they are submitted the four have ended, or have not.
TEST_P(OnMachines, AChainOfNothingButDummies) {
  constexpr TaskSpec kDummy = {{0, 0, false}, false, 1, 0};
  Executor executor(machine(), options());
  std::atomic<int> value{0}, seen{0};
  std::atomic<bool> goes{false};
  const auto build = [&](const auto& add) {
    std::vector<TaskNumber> before;
    for (int i = 0; i < 4; ++i) {
      // One after the other, so that joining fewer of them shows.
      const auto function = [&, i](const Part&) {
        while (!goes || value < i) std::this_thread::yield();
        ++value;
      };
      before.push_back(add(kMatrix, function, {}));
    }
    for (int level = 0; level < 18; ++level) {
      std::vector<TaskNumber> now;
      for (std::size_t i = 0; i < (level % 2 == 0 ? 4 : 1); ++i) {
        now.push_back(add(kDummy, {}, level == 0 ? std::vector<TaskNumber>{before[i]} : before));
      }
      before = now;
    }
    add(
        kVector, [&](const Part&) { seen = value.load(); }, before);
  };
  for (int round = 0; round < 20; ++round) {
    value = 0;
    goes = round % 2 == 0;
    build([&](const TaskSpec& spec, const TaskFunction& function,
              const std::vector<TaskNumber>& after) {
      const auto task = executor.submit(spec, function, {}, after);
      EXPECT_TRUE(task);
      return task.value_or(0);
    });
    goes = true;
    ASSERT_TRUE(executor.wait());
    ASSERT_EQ(seen.exchange(0), 4);
    Recorder recorder;
    build([&](const TaskSpec& spec, const TaskFunction& function,
              const std::vector<TaskNumber>& after) {
      const auto task = recorder.add(spec, function, {}, after);
      EXPECT_TRUE(task);
      return task.value_or(0);
    });
    value = 0;
    const Recording recording = std::move(recorder).finish();
    ASSERT_TRUE(executor.run(recording));
    ASSERT_EQ(seen.exchange(0), 4);
  }
}

// Ends of tasks that are kept from being given up, and as few places as can be.
TEST_P(OnMachines, SmallRingsHoldBackWhoSubmits) {
  ExecutorOptions small = options();
  small.graph = {16, 64, 64};
  Executor executor(machine(), small);
  std::vector<int> values(5, 0);
  for (int step = 0; step < 2000; ++step) {
    int* value = &values[static_cast<std::size_t>(step % 5)];
    expect_submits(executor, step % 3 == 0 ? kMatrix : kVector, [value](const Part&) { ++*value; },
                   {access_of(static_cast<BufferId>(step % 5), AccessMode::kReadWrite)});
  }
  ASSERT_TRUE(executor.wait());
  EXPECT_THAT(values, testing::Each(400));
  EXPECT_LE(executor.high_water().graph.tasks, 16U);
}

TEST_P(OnMachines, AFailureIsReportedOnceAndLeavesACleanExecutor) {
  Executor executor(machine(), options());
  std::atomic<int> ran{0};
  std::atomic<int> joined{0};
  for (int i = 0; i < 20; ++i) {
    const auto done = executor.submit(
        kVector,
        [&](const Part& part) {
          ++ran;
          executor.fail(part, {ErrorKind::kInternal, "the first one"});
        },
        std::vector{access_of(1, AccessMode::kReadWrite)});
    if (!done) {
      EXPECT_EQ(done.error().message, "task 0: the first one");
      break;
    }
    (void)executor.submit(
        kMatrix, [&](const Part&) { ++joined; }, std::vector{access_of(1, AccessMode::kRead)});
  }
  const Status failed = executor.wait();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "task 0: the first one");
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(joined, 0) << "it waits for what has failed";
  expect_submits(executor, kVector, [&](const Part&) { ++joined; });
  EXPECT_TRUE(executor.wait());
  EXPECT_EQ(joined, 1);
}

TEST_P(OnMachines, NothingIsAWaitForNothing) {
  Executor executor(machine(), options());
  EXPECT_TRUE(executor.wait());
  EXPECT_TRUE(executor.wait());
}

// Case 47: 42 stays or becomes 999.
TEST_P(OnMachines, AConditionDecidesWhenTheTaskIsDue) {
  Executor executor(machine(), options());
  for (const bool holds : {false, true}) {
    std::int32_t flag = 0;
    int value = 42, seen = 0;
    Recorder recorder;
    for (const bool records : {false, true}) {
      const auto add = [&](const TaskFunction& function, const std::vector<Access>& accesses,
                           const Condition& condition) {
        const auto task = records ? recorder.add(kVector, function, accesses, {}, condition)
                                  : executor.submit(kVector, function, accesses, {}, condition);
        ASSERT_TRUE(task);
      };
      add([&flag, holds](const Part&) { flag = holds ? 1 : 0; }, {access_of(1, AccessMode::kWrite)},
          {});
      add([&value](const Part&) { value = 999; },
          {access_of(1, AccessMode::kRead), access_of(2, AccessMode::kReadWrite)},
          Condition::on(&flag, Comparison::kEqual, 1));
      add([&](const Part&) { seen = value; }, {access_of(2, AccessMode::kRead)}, {});
    }
    ASSERT_TRUE(executor.wait());
    EXPECT_EQ(seen, holds ? 999 : 42);
    value = 42;
    const Recording recording = std::move(recorder).finish();
    ASSERT_TRUE(executor.run(recording));
    EXPECT_EQ(seen, holds ? 999 : 42);
  }
}

TEST(Executor, SpansSayWhatRanWhere) {
  ExecutorOptions options;
  options.trace = true;
  Executor executor(topology("2x(1C2V)"), options);
  for (int i = 0; i < 200; ++i) {
    expect_submits(executor,
                   i % 3 == 0   ? kMixed
                   : i % 3 == 1 ? kVector
                                : kMatrix,
                   [](const Part&) {});
  }
  ASSERT_TRUE(executor.wait());
  std::vector<Span> spans = executor.take_spans().running;
  EXPECT_THAT(spans, SizeIs(67 * 3 + 133));
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tuple(a.group, a.lane, a.start) < std::tuple(b.group, b.lane, b.start);
  });
  for (std::size_t i = 1; i < spans.size(); ++i) {
    const Span &a = spans[i - 1], &b = spans[i];
    EXPECT_TRUE(a.group != b.group || a.lane != b.lane || a.end <= b.start);
  }
  EXPECT_THAT(executor.take_spans().running, SizeIs(0));
}

TEST(Executor, TheWatchdogSaysWhatRunsTooLong) {
  ExecutorOptions options;
  options.stall_limit = std::chrono::milliseconds(20);
  std::mutex lock;
  std::vector<Stall> stalls;
  std::atomic<bool> told{false};
  options.on_stall = [&](const Stall& stall) {
    const std::lock_guard guard(lock);
    stalls.push_back(stall);
    told = true;
  };
  Executor executor(topology("1x(1C2V)"), options);
  for (int i = 0; i < 10; ++i) expect_submits(executor, kMatrix, [](const Part&) {});
  ASSERT_TRUE(executor.wait());
  expect_submits(executor, kVector, [&told](const Part&) {
    while (!told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  ASSERT_TRUE(executor.wait());
  const std::lock_guard guard(lock);
  ASSERT_THAT(stalls, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(stalls.front().kind, StallKind::kRunsTooLong);
  EXPECT_THAT(stalls.front().message, HasSubstr("task 10, block 0, on group 0 · vector"));
}

TEST(Executor, TheWatchdogWakesWithEachTask) {
  ExecutorOptions options;
  options.stall_limit = std::chrono::milliseconds(1);
  std::atomic<int> told{0};
  options.on_stall = [&told](const Stall&) { ++told; };
  Executor executor(topology("1x(2L)"), options);
  for (int time = 0; time < 10; ++time) {
    // Long enough, as a rule, for the watchdog to find nothing to do.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    expect_submits(executor, kVector, [&told, before = told.load()](const Part&) {
      while (told == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    ASSERT_TRUE(executor.wait());
  }
}

TEST(Executor, OnOneLaneTasksRunInTheirOrder) {
  ExecutorOptions options;
  Executor executor(topology("1x(1L)"), options);
  std::vector<int> order;
  for (int task = 0; task < 100; ++task) {
    expect_submits(executor, task % 3 == 0 ? kMatrix : kVector,
                   [&order, task](const Part&) { order.push_back(task); });
  }
  ASSERT_TRUE(executor.wait());
  ASSERT_THAT(order, SizeIs(100));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Executor, RefusesWhatNeverCouldRun) {
  Executor executor(topology("2x(1C2V)"), {});
  const auto refused = [&](const TaskSpec& spec) {
    const auto task = executor.submit(spec, [](const Part&) {});
    return task ? "" : task.error().message;
  };
  EXPECT_THAT(refused({{2, 0, false}, false, 1, 0}), HasSubstr("no group has 2 matrix"));
  EXPECT_THAT(refused({{1, 2, false}, true, 3, 0}), HasSubstr("places for 2"));
  EXPECT_THAT(refused({kVectorTask, false, 0, 0}), HasSubstr("it has no blocks"));
  EXPECT_THAT(refused({kVectorTask, false, 1U << 20, 0}), HasSubstr("1048575 at most"));
  EXPECT_TRUE(executor.wait());
}

// An idle executor uses no CPU to speak of, and neither does its watchdog.
TEST(Executor, SleepsWhenThereIsNothingToDo) {
  ExecutorOptions options;
  options.stall_limit = std::chrono::milliseconds(1);
  Executor executor(topology("4x(1C2V)"), options);
  for (int i = 0; i < 100; ++i) expect_submits(executor, kMixed, [](const Part&) {});
  ASSERT_TRUE(executor.wait());
  // On a busy machine its threads come to rest late.
  const auto used = [] {
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return std::clock() - before;
  };
  bool rests = false;
  for (int i = 0; i < 30 && !rests; ++i) rests = used() < CLOCKS_PER_SEC / 50;
  EXPECT_TRUE(rests);
}

// What a task makes of what it reads: depends on the order of tasks that share memory.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  a = (a ^ b) * 0x9E3779B97F4A7C15U;
  return a ^ (a >> 29);
}

// Tasks over buffers of one number for each part of each block, and what a serial program makes of
// them.
class RandomGraph {
 public:
  static constexpr std::size_t kBlocks = 4, kParts = 3;
  using Values = std::vector<std::array<std::uint64_t, kBlocks * kParts>>;

  struct Step {
    TaskSpec spec;
    std::uint16_t from = 0, to = 0;
    bool slow = false;
  };

  RandomGraph(std::mt19937& random, const Topology& topology, std::size_t tasks)
      : buffers_(1 + random() % 12), ran_(tasks) {
    static constexpr TaskShape kMixedShapes[] = {{1, 1, false}, {1, 2, false}, {0, 2, false}};
    const Dispatcher dispatcher(topology, {});
    while (steps_.size() < tasks) {
      Step step;
      step.spec = {random() % 2 == 0 ? kMatrixTask : kVectorTask, false, 1, 0};
      if (random() % 4 == 0) step.spec.shape = kMixedShapes[random() % 3];
      if (random() % 4 == 0) step.spec.blocks = static_cast<std::uint32_t>(2 + random() % 3);
      step.spec.together = random() % 4 == 0;
      step.from = static_cast<std::uint16_t>(random() % buffers_);
      step.to = static_cast<std::uint16_t>(random() % buffers_);
      step.slow = random() % 100 == 0;
      const ReadyTask ready = {0, step.spec.shape, step.spec.blocks, step.spec.together, 0, 0};
      if (dispatcher.check(ready)) steps_.push_back(step);
    }
  }

  const std::vector<Step>& steps() const { return steps_; }

  void clear() {
    threaded_.assign(buffers_, {});
    for (auto& count : ran_) count = 0;
  }

  // Parts of a block share nothing but what the task reads.
  static void run(const Step& step, std::size_t task, std::size_t block, std::size_t part,
                  Values& values) {
    std::uint64_t& value = values[step.to][kParts * block + part];
    value = mix(value, task + 1);
    if (step.from == step.to) return;
    for (const std::uint64_t read : values[step.from]) value = mix(value, read);
  }

  Values serial() const {
    Values values(buffers_);
    for (std::size_t task = 0; task < steps_.size(); ++task) {
      const Step& step = steps_[task];
      for (std::size_t block = 0; block < step.spec.blocks; ++block) {
        for (std::size_t part = 0; part < step.spec.shape.lanes(); ++part) {
          run(step, task, block, part, values);
        }
      }
    }
    return values;
  }
  const Values& threaded() const { return threaded_; }

  // Of a task: what an executor calls.
  auto function(std::size_t task) {
    return [this, task](const Part& part) {
      const Step& step = steps_[task];
      if (step.slow) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++ran_[task];
      run(step, task, part.block, part.part, threaded_);
    };
  }
  std::array<Access, 2> accesses(std::size_t task) const {
    return {access_of(steps_[task].from, AccessMode::kRead),
            access_of(steps_[task].to, AccessMode::kReadWrite)};
  }

  // How many parts of tasks ran that wait for this one.
  int ran_after(std::size_t task) const {
    std::vector<bool> written(buffers_), read(buffers_);
    int ran = 0;
    for (std::size_t one = task; one < steps_.size(); ++one) {
      const Step& step = steps_[one];
      const bool waits = written[step.from] || written[step.to] || read[step.to];
      if (one > task && !waits) continue;
      if (one > task) ran += ran_[one];
      written[step.to] = true;
      read[step.from] = true;
    }
    return ran;
  }

 private:
  std::size_t buffers_;
  std::vector<Step> steps_;
  Values threaded_;
  std::vector<std::atomic<int>> ran_;  // parts, by task
};

ExecutorOptions random_options(std::mt19937& random) {
  ExecutorOptions options;
  options.threads = random() % 4;
  options.caller_serves = random() % 2 == 0;
  options.stall_limit = std::chrono::milliseconds(random() % 2);
  // A task has two accesses, and waits for fewer than 64 others: those that read what it writes.
  const std::uint32_t tasks[] = {4, 64, 16'384};
  options.graph.tasks = tasks[random() % 3];
  const std::uint32_t rings[] = {65'536, 2 * options.graph.tasks, options.graph.tasks, 64};
  options.graph.accesses = rings[random() % 4];
  options.graph.edges = rings[random() % 4];
  options.dispatch.policy = static_cast<AdmissionPolicy>(random() % 3);
  return options;
}

constexpr const char* kGraphMachines[] = {"1x(2L)", "2x(1C2V)", "3x(1C2V)", "1x(4L)", "1x(1C1V)"};

TEST(Executor, RandomGraphsGiveWhatASerialProgramGives) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const Topology lanes = topology(kGraphMachines[seed % 5]);
    const ExecutorOptions options = random_options(random);
    Executor executor(lanes, options);
    RandomGraph graph(random, lanes, 10 + random() % (seed % 10 == 0 ? 5000 : 300));
    // Recorded as well where that has room.
    const bool records = options.graph.tasks >= graph.steps().size();
    Recorder recorder;
    graph.clear();
    for (std::size_t task = 0; task < graph.steps().size(); ++task) {
      const TaskSpec& spec = graph.steps()[task].spec;
      const auto submitted = executor.submit(spec, graph.function(task), graph.accesses(task));
      ASSERT_TRUE(submitted) << submitted.error().message << ", seed " << seed;
      if (records) {
        ASSERT_TRUE(recorder.add(spec, graph.function(task), graph.accesses(task)));
      }
    }
    ASSERT_TRUE(executor.wait());
    const RandomGraph::Values serial = graph.serial();
    EXPECT_EQ(graph.threaded(), serial) << "seed " << seed;
    EXPECT_LE(executor.high_water().graph.accesses, options.graph.accesses);
    EXPECT_LE(executor.high_water().graph.edges, options.graph.edges);
    if (!records) continue;
    const Recording recording = std::move(recorder).finish();
    for (int time = 0; time < 3; ++time) {
      graph.clear();
      ASSERT_TRUE(executor.run(recording));
      ASSERT_EQ(graph.threaded(), serial) << "seed " << seed << ", time " << time;
    }
  }
}

// One of the tasks fails: its successors do not run, its error is what wait() returns, and
// the same executor runs the graph again.
TEST(Executor, RandomGraphsThatFailLeaveNothingBehind) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(1000 + seed);
    const Topology lanes = topology(kGraphMachines[seed % 5]);
    Executor executor(lanes, random_options(random));
    RandomGraph graph(random, lanes, 10 + random() % 200);
    const std::size_t failing = random() % graph.steps().size();
    graph.clear();
    TaskNumber number = 0;
    bool refused = false;
    for (std::size_t task = 0; task < graph.steps().size() && !refused; ++task) {
      struct Failing {
        Executor* executor;
        RandomGraph* graph;
        std::size_t task;
        void operator()(const Part& part) const {
          graph->function(task)(part);
          executor->fail(part, {ErrorKind::kInternal, "it is the one"});
        }
      };
      const TaskSpec& spec = graph.steps()[task].spec;
      const auto submitted =
          task == failing
              ? executor.submit(spec, Failing{&executor, &graph, task}, graph.accesses(task))
              : executor.submit(spec, graph.function(task), graph.accesses(task));
      refused = !submitted;
      if (refused) {
        EXPECT_GT(task, failing) << submitted.error().message;
      } else if (task == failing) {
        number = *submitted;
      }
    }
    const Status failed = executor.wait();
    ASSERT_FALSE(failed) << "seed " << seed;
    EXPECT_EQ(failed.error().message, fmt::format("task {}: it is the one", number));
    EXPECT_EQ(graph.ran_after(failing), 0) << "seed " << seed;
    graph.clear();
    for (std::size_t task = 0; task < graph.steps().size(); ++task) {
      expect_submits(executor, graph.steps()[task].spec, graph.function(task),
                     {graph.accesses(task)[0], graph.accesses(task)[1]});
    }
    ASSERT_TRUE(executor.wait());
    EXPECT_EQ(graph.threaded(), graph.serial()) << "seed " << seed;
  }
}

// Threads that have just been started, or have just gone idle, hear of the end.
TEST(Executor, MayBeDestroyedAtAnyMoment) {
  for (int round = 0; round < 500; ++round) {
    std::atomic<int> ran{0};
    {
      Executor executor(*Topology::parse("4x(1L)"), {});
      for (int i = 0; i < round % 5; ++i) {
        ASSERT_TRUE(executor.submit({kVectorTask}, [&ran](const Part&) { ++ran; }));
      }
      if (round % 5 > 0) {
        ASSERT_TRUE(executor.wait());
      }
    }
    EXPECT_EQ(ran.load(), round % 5);
  }
}

}  // namespace
}  // namespace dovetail::cores
