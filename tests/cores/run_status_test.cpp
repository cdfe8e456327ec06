#include "cores/run_status.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "cores/task_graph.h"
#include "study/virtual_machine.h"

namespace dovetail::cores {
namespace {

const Error kOne{ErrorKind::kInvalid, "one"}, kOther{ErrorKind::kIo, "other"};

TEST(RunStatus, TheFirstErrorWins) {
  RunStatus status;
  EXPECT_TRUE(status.may_submit());
  status.fail_task(7, kOne);
  status.fail_task(3, kOther);
  for (int i = 0; i < 3; ++i) {
    const Status refused = status.may_submit();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(refused.error().message, "task 7: one");
  }
  const Status run = status.end_run();
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().message, "task 7: one");
}

TEST(RunStatus, TheNextRunIsClean) {
  RunStatus status;
  status.fail_task(7, kOther);
  EXPECT_FALSE(status.end_run());
  EXPECT_TRUE(status.may_submit());
  EXPECT_TRUE(status.end_run());
}

// Runs of random graphs, one behind the other on the same rings; in every other run some tasks
// fail.
TEST(RunStatus, WhatWasSubmittedDrainsAndTheNextRunIsWhole) {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  TaskGraph graph({64, 512, 512});
  RunStatus status;
  std::size_t drained = 0;
  for (int round = 0; round < 200; ++round) {
    const bool fails = round % 2 == 1;
    const std::uint64_t count = 1 + below(300);
    const TaskNumber first = graph.submitted();
    std::set<TaskNumber> failing;
    while (fails && failing.size() < 1 + count / 40) failing.insert(first + below(count));
    std::vector<Ticks> takes;
    std::generate_n(std::back_inserter(takes), count, [&] { return 1 + below(20); });

    std::vector<TaskNumber> ran;
    std::optional<Error> first_error;
    std::uint64_t refused_at = count;
    study::VirtualMachine* machine = nullptr;
    const auto feed = [&](Ticks now) {
      while (graph.submitted() < first + count) {
        if (const Status ok = status.may_submit(); !ok) {
          ASSERT_EQ(ok.error().message, first_error->message);
          refused_at = std::min(refused_at, graph.submitted() - first);
          break;
        }
        const Access access{Region(below(10), 0, 8), AccessMode::kReadWrite};
        if (!graph.submit(std::vector<Access>{access})) break;
      }
      while (const auto task = graph.take_ready()) {
        if (!status.may_submit()) {
          ++drained;
          graph.finish(*task);
          continue;
        }
        ASSERT_TRUE(machine->submit({*task, kVectorTask, 1, false, 0}, now));
      }
    };
    study::VirtualMachine player(
        *Topology::parse("2x(1C2V)"), {},
        [&](TaskId task, std::uint32_t, GroupId, unsigned) { return takes[task - first]; },
        [&](TaskId task, Ticks now) {
          ran.push_back(task);
          if (failing.contains(task)) {
            const Error error{ErrorKind::kInternal, "it fails"};
            status.fail_task(task, error);
            if (!first_error) first_error = {error.kind, fmt::format("task {}: it fails", task)};
          }
          graph.finish(task);
          feed(now);
        });
    machine = &player;
    feed(0);
    ASSERT_EQ(player.run(), 0U);
    ASSERT_EQ(graph.running(), 0U) << "all that was submitted has ended";
    ASSERT_EQ(graph.oldest(), graph.submitted());
    ASSERT_EQ(!status.may_submit(), first_error.has_value());
    const Status run = status.end_run();
    ASSERT_EQ(!run, fails);
    if (fails) {
      ASSERT_EQ(run.error().message, first_error->message);
    } else {
      ASSERT_EQ(ran.size(), count);
      ASSERT_EQ(refused_at, count);
    }
  }
  EXPECT_GT(drained, 500U);
}

}  // namespace
}  // namespace dovetail::cores
