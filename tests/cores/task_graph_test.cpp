#include "cores/task_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "study/virtual_machine.h"

namespace dovetail::cores {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kRead = AccessMode::kRead;
constexpr auto kWrite = AccessMode::kWrite;

Access access(BufferId buffer, AccessMode mode) { return {Region(buffer, 0, 8), mode}; }

TaskNumber submit(TaskGraph& graph, const std::vector<Access>& accesses,
                  const std::vector<TaskNumber>& after = {}) {
  const auto task = graph.submit(accesses, after);
  EXPECT_TRUE(task) << task.error().message;
  return task.value_or(~TaskNumber{0});
}

std::vector<TaskNumber> take_all(TaskGraph& graph) {
  std::vector<TaskNumber> ready;
  while (const auto task = graph.take_ready()) ready.push_back(*task);
  return ready;
}

// Tasks 0 and 2 only join others.
TEST(TaskGraph, WhatWaitedForAJoinGoesBeforeWhatWasSubmittedLater) {
  TaskGraph graph({16, 64, 64});
  submit(graph, {});
  submit(graph, {});
  submit(graph, {}, {0});
  for (int i = 0; i < 3; ++i) submit(graph, {});
  submit(graph, {}, {2});
  submit(graph, {});
  const auto pass = [&](TaskNumber join) {
    ASSERT_EQ(graph.take_ready(), join);
    graph.pass(join);
  };
  pass(0);
  EXPECT_EQ(graph.take_ready(), 1U);
  pass(2);
  EXPECT_THAT(take_all(graph), testing::ElementsAre(3, 4, 5, 6, 7));
  EXPECT_EQ(graph.running(), 6U);
}

TEST(TaskGraph, KnowsTheOldestWaitingTaskAndItsPredecessor) {
  TaskGraph graph({16, 64, 64});
  EXPECT_FALSE(graph.oldest_waiting());
  const auto expect = [&](TaskNumber task, std::uint32_t left,
                          std::optional<TaskNumber> waits_for) {
    const auto oldest = graph.oldest_waiting();
    ASSERT_TRUE(oldest);
    EXPECT_EQ(oldest->task, task);
    EXPECT_EQ(oldest->left, left);
    EXPECT_EQ(oldest->waits_for, waits_for);
  };
  for (int i = 0; i < 3; ++i) submit(graph, {});
  expect(0, 0, std::nullopt);
  submit(graph, {}, {1, 2});
  submit(graph, {}, {0, 2, 3});
  take_all(graph);
  expect(3, 2, 1);
  graph.finish(1);
  expect(3, 1, 2);
  graph.finish(2);
  expect(4, 2, 0);
  take_all(graph);
  graph.finish(0);
  expect(4, 1, 3);
}

TEST(TaskGraph, TasksAreReadyWhenWhatTheyWaitForHasEnded) {
  TaskGraph graph({16, 64, 64});
  submit(graph, {access(1, kWrite)});
  submit(graph, {access(1, kRead), access(2, kWrite)});
  submit(graph, {access(1, kRead)});
  submit(graph, {access(1, kWrite)});
  EXPECT_THAT(take_all(graph), ElementsAre(0));
  graph.finish(0);
  EXPECT_THAT(take_all(graph), ElementsAre(1, 2));
  graph.finish(2);
  EXPECT_THAT(take_all(graph), IsEmpty()) << "one of its readers still runs";
  graph.finish(1);
  EXPECT_THAT(take_all(graph), ElementsAre(3));
  graph.finish(3);
  EXPECT_EQ(graph.running(), 0U);
  EXPECT_EQ(graph.oldest(), 4U);
}

TEST(TaskGraph, ExplicitEdges) {
  TaskGraph graph({16, 64, 64});
  submit(graph, {});
  submit(graph, {}, {0});
  submit(graph, {}, {0, 1, 0});
  EXPECT_THAT(take_all(graph), ElementsAre(0));
  graph.finish(0);
  EXPECT_THAT(take_all(graph), ElementsAre(1));
  submit(graph, {}, {0});
  EXPECT_THAT(take_all(graph), ElementsAre(3)) << "it had ended before";
  graph.finish(1);
  EXPECT_THAT(take_all(graph), ElementsAre(2));
}

TEST(TaskGraph, AProducerThatHasEndedTakesNoEdge) {
  TaskGraph graph({16, 64, 0});
  submit(graph, {access(1, kWrite)});
  take_all(graph);
  graph.finish(0);
  submit(graph, {access(1, kRead)});
  EXPECT_THAT(take_all(graph), ElementsAre(1));
  EXPECT_EQ(graph.high_water().edges, 0U);
}

TEST(TaskGraph, OfNoTasks) {
  TaskGraph graph({16, 64, 64});
  EXPECT_FALSE(graph.take_ready());
  EXPECT_EQ(graph.running(), 0U);
}

TEST(TaskGraph, AFullRingWaitsForTheOldestTask) {
  TaskGraph graph({4, 64, 64});
  for (int i = 0; i < 4; ++i) submit(graph, {});
  const auto refused = graph.submit({});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted);
  take_all(graph);
  graph.finish(2);
  EXPECT_FALSE(graph.submit({})) << "places are given up in order";
  graph.finish(0);
  EXPECT_EQ(submit(graph, {}), 4U);
  EXPECT_FALSE(graph.submit({}));
  graph.finish(1);
  submit(graph, {});
  submit(graph, {});
  EXPECT_EQ(graph.high_water().tasks, 4U);
}

// 208 tasks in a window of 16: most of them have to wait for a place.
// Each task appends to one buffer what it finds in another; a serial program shows what that gives.
TEST(TaskGraph, ManyTasksInAFewPlaces) {
  std::mt19937 random(42);
  std::vector<std::pair<BufferId, BufferId>> tasks(208);
  for (auto& [from, to] : tasks) {
    from = random() % 5;
    to = random() % 5;
  }
  std::vector<std::vector<std::uint64_t>> serial(5), made(5);
  const auto run = [&](TaskNumber task, std::vector<std::vector<std::uint64_t>>& buffers) {
    const auto [from, to] = tasks[task];
    buffers[to].push_back(1000 * task + buffers[from].size());
  };
  TaskGraph graph({16, 64, 64});
  std::vector<TaskNumber> running;
  // What is ready at the same time runs in any order; the youngest first shows who should not be.
  const auto take = [&] {
    const std::vector<TaskNumber> ready = take_all(graph);
    running.insert(running.end(), ready.begin(), ready.end());
    for (std::size_t i = ready.size(); i > 0; --i) run(ready[i - 1], made);
  };
  const auto finish_oldest = [&] {
    const auto oldest = std::min_element(running.begin(), running.end());
    graph.finish(*oldest);
    running.erase(oldest);
  };
  int waits = 0;
  for (TaskNumber i = 0; i < tasks.size(); ++i) {
    const auto [from, to] = tasks[i];
    const std::vector<Access> accesses = {access(from, kRead), access(to, kWrite)};
    while (!graph.submit(accesses)) {
      ++waits;
      take();
      ASSERT_FALSE(running.empty());
      finish_oldest();
    }
    run(i, serial);
  }
  for (take(); !running.empty(); take()) finish_oldest();
  EXPECT_EQ(waits, 192);
  EXPECT_EQ(graph.running(), 0U);
  EXPECT_EQ(made, serial);
}

TEST(TaskGraph, HalfAMillionTasksAreNoDeadlock) {
  TaskGraph graph({16'384, 65'536, 65'536});
  for (std::uint64_t i = 0; i < 525'312; ++i) {
    while (!graph.submit(std::vector<Access>{access(i % 256, kWrite)})) {
      const auto task = graph.take_ready();
      ASSERT_TRUE(task);
      graph.finish(*task);
    }
  }
  while (const auto task = graph.take_ready()) graph.finish(*task);
  EXPECT_EQ(graph.running(), 0U);
}

TEST(TaskGraph, AScopeThatHoldsAllPlacesIsADeadlock) {
  const auto fill = [](std::uint32_t places, int tasks) {
    TaskGraph graph({places, 64, 64});
    graph.begin_scope();
    Status ok;
    for (int i = 0; i < tasks && ok; ++i) {
      const auto task = graph.submit({});
      if (!task) ok = fail(task.error());
      while (const auto ready = graph.take_ready()) graph.finish(*ready);
    }
    return ok;
  };
  EXPECT_TRUE(fill(16, 13));
  const Status stuck = fill(8, 13);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(stuck.error().message, HasSubstr("the scope that began with task 0 holds all 8"));
  EXPECT_THAT(stuck.error().message, HasSubstr("GraphOptions::tasks"));
}

TEST(TaskGraph, ScopesNest) {
  TaskGraph graph({8, 64, 64});
  const auto run = [&] {
    submit(graph, {});
    graph.finish(take_all(graph).at(0));
  };
  run();
  EXPECT_EQ(graph.oldest(), 1U);
  graph.begin_scope();
  run();
  graph.begin_scope();
  run();
  graph.end_scope();
  EXPECT_EQ(graph.oldest(), 1U);
  graph.end_scope();
  EXPECT_EQ(graph.oldest(), 3U);
}

TEST(TaskGraph, WhatCanNeverFitIsRefusedByItsOption) {
  TaskGraph graph({16, 2, 2});
  const auto wide =
      graph.submit(std::vector<Access>{access(1, kRead), access(2, kRead), access(3, kRead)});
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(wide.error().message, HasSubstr("GraphOptions::accesses has room for 2"));
}

// Whether it fits may depend on when others end, but not whether it ever does.
TEST(TaskGraph, WhoWaitsForMoreThanThereAreEdgesFitsLater) {
  for (const std::uint32_t edges : {0U, 1U, 2U}) {
    TaskGraph graph({16, 2, edges});
    for (int i = 0; i < 3; ++i) submit(graph, {});
    take_all(graph);
    const std::vector<TaskNumber> all = {0, 1, 2};
    for (TaskNumber next = 0; next + edges < 3; ++next) {
      const auto joined = graph.submit({}, all);
      ASSERT_FALSE(joined);
      EXPECT_EQ(joined.error().kind, ErrorKind::kExhausted);
      graph.finish(next);
    }
    EXPECT_EQ(submit(graph, {}, all), 3U);
  }
}

TEST(TaskGraph, ARefusalLeavesNoTrace) {
  TaskGraph graph({16, 64, 1});
  submit(graph, {access(1, kWrite)});
  submit(graph, {access(1, kRead)});
  EXPECT_EQ(graph.submit(std::vector<Access>{access(1, kRead)}).error().kind,
            ErrorKind::kExhausted);
  take_all(graph);
  graph.finish(0);
  EXPECT_EQ(submit(graph, {access(1, kRead)}), 2U);
  EXPECT_THAT(take_all(graph), ElementsAre(1, 2));
}

TEST(TaskGraph, AllToAll) {
  TaskGraph graph({256, 64, 8192});
  std::vector<TaskNumber> first, second;
  for (int i = 0; i < 64; ++i) first.push_back(submit(graph, {}));
  for (int i = 0; i < 64; ++i) second.push_back(submit(graph, {}, first));
  take_all(graph);
  std::reverse(first.begin(), first.end());
  for (const TaskNumber task : first) {
    EXPECT_THAT(take_all(graph), IsEmpty());
    graph.finish(task);
  }
  EXPECT_EQ(take_all(graph), second);
}

// A program over a few cells of memory: each task mixes what it reads into what it writes. Played
// on the lanes of a machine, with rings of any size, it leaves what it leaves run serially.
TEST(TaskGraph, RunsAsTheSerialProgramDoes) {
  std::mt19937_64 random(3);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 150; ++round) {
    struct Task {
      std::vector<BufferId> reads, writes;
      TaskShape shape;
      Ticks takes = 1;
    };
    const std::uint64_t count = 10 + below(round % 30 == 0 ? 5000 : 200);
    const std::uint64_t cells = 1 + below(12);
    std::vector<Task> tasks(count);
    for (Task& task : tasks) {
      for (std::uint64_t i = below(3); i > 0; --i) task.reads.push_back(below(cells));
      for (std::uint64_t i = 1 + below(2); i > 0; --i) task.writes.push_back(below(cells));
      task.shape = below(4) == 0   ? TaskShape{1, 2, false}
                   : below(2) == 0 ? kMatrixTask
                                   : kVectorTask;
      task.takes = 1 + below(30);
    }
    const auto run = [&](std::vector<std::uint64_t>& memory, TaskNumber number) {
      std::uint64_t mixed = number + 1;
      for (const BufferId cell : tasks[number].reads) mixed = mixed * 31 + memory[cell];
      for (const BufferId cell : tasks[number].writes) memory[cell] = memory[cell] * 17 + mixed;
    };
    std::vector<std::uint64_t> serial(cells, 1), played(cells, 1);
    for (TaskNumber task = 0; task < count; ++task) run(serial, task);

    TaskGraph graph({std::uint32_t{4} << below(8), static_cast<std::uint32_t>(8 + below(300)),
                     static_cast<std::uint32_t>(24 + below(300))});
    TaskNumber next = 0;
    study::VirtualMachine* machine = nullptr;
    const auto feed = [&](Ticks now) {
      while (next < count) {
        std::vector<Access> accesses;
        for (const BufferId cell : tasks[next].reads) accesses.push_back(access(cell, kRead));
        for (const BufferId cell : tasks[next].writes) {
          accesses.push_back(access(cell, AccessMode::kReadWrite));
        }
        const auto task = graph.submit(accesses);
        if (!task) {
          ASSERT_EQ(task.error().kind, ErrorKind::kExhausted) << task.error().message;
          break;
        }
        ASSERT_EQ(*task, next++);
      }
      while (const auto task = graph.take_ready()) {
        ASSERT_TRUE(machine->submit({*task, tasks[*task].shape, 1, false, 0}, now));
      }
    };
    study::VirtualMachine player(
        *Topology::parse("3x(1C2V)"), {},
        [&](TaskId task, std::uint32_t, GroupId, unsigned) { return tasks[task].takes; },
        [&](TaskId task, Ticks now) {
          run(played, task);
          graph.finish(task);
          feed(now);
        });
    machine = &player;
    feed(0);
    EXPECT_EQ(player.run(), 0U);
    EXPECT_EQ(next, count);
    EXPECT_EQ(graph.running(), 0U);
    ASSERT_EQ(played, serial) << "round " << round;
  }
}

}  // namespace
}  // namespace dovetail::cores
