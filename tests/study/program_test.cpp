#include "study/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>

#include "cores/laws/play.h"

namespace dovetail::study {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ProgramTask task(cores::TaskShape shape, cores::Ticks takes, std::uint32_t blocks = 1,
                 std::vector<cores::TaskNumber> after = {}) {
  return {"a task", shape, blocks, false, takes, {}, std::move(after)};
}
constexpr auto kNone = cores::TaskShape{};

TEST(Program, Bounds) {
  struct Case {
    const char* topology;
    std::vector<ProgramTask> program;
    cores::Ticks critical_path, work;
    const char* scarce;
  };
  const std::vector<Case> cases = {
      {"1x(1C2V)", {}, 0, 0, ""},
      {"1x(1C2V)", {task(kNone, 1)}, 0, 0, ""},
      {"2x(1C2V)",
       {task(cores::kMatrixTask, 7), task(cores::kMatrixTask, 4)},
       7,
       6,
       "matrix lanes"},
      {"2x(1C2V)", {task(cores::kVectorTask, 10, 8)}, 20, 20, "vector lanes"},
      // 9 blocks in three rounds of four places.
      {"2x(1C2V)", {task(cores::kVectorTask, 10, 9)}, 30, 23, "vector lanes"},
      {"1x(1C2V)",
       {task(cores::k1C2V, 5), task(kNone, 1, 1, {0}), task(cores::k1C2V, 6, 1, {1}),
        task(cores::kVectorTask, 1)},
       11,
       12,
       "vector lanes"},
      // Of three vector lanes a pair of two leaves one over.
      {"1x(1C3V)",
       {task(cores::k2V, 10), task(cores::k2V, 10), task(cores::k2V, 10)},
       10,
       30,
       "places for 2V"},
      // Lanes for both do either, but not at the same time.
      {"1x(2L)",
       {task(cores::kMatrixTask, 10), task(cores::kVectorTask, 10), task(cores::kVectorTask, 4)},
       10,
       12,
       "lanes"},
      {"2x(4L)", {task(cores::kWholeGroup, 10, 3)}, 20, 15, "lanes"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    const ProgramBounds bounds = bounds_of(*cores::Topology::parse(one.topology), one.program);
    EXPECT_EQ(bounds.critical_path, one.critical_path) << "case " << i;
    EXPECT_EQ(bounds.work, one.work) << "case " << i;
    EXPECT_EQ(bounds.scarce, one.scarce) << "case " << i;
  }
}

TEST(Program, MemoryIsPartOfTheCriticalPath) {
  std::vector<ProgramTask> program = {task(cores::kMatrixTask, 3), task(cores::kVectorTask, 4),
                                      task(cores::kVectorTask, 5)};
  program[0].accesses = {{cores::Region(1, 0, 8), cores::AccessMode::kWrite}};
  program[1].accesses = {{cores::Region(1, 4, 8), cores::AccessMode::kRead}};
  program[2].accesses = {{cores::Region(1, 8, 8), cores::AccessMode::kRead}};
  EXPECT_EQ(bounds_of(*cores::Topology::parse("1x(1C2V)"), program).critical_path, 7U);
}

TEST(Program, SaysWhichTaskHasNoPlace) {
  std::vector<ProgramTask> program = {task(cores::kMatrixTask, 3), task({2, 0, false}, 4)};
  program[1].name = "wide";
  const auto played = play_program(*cores::Topology::parse("3x(1C2V)"), program, {});
  ASSERT_FALSE(played);
  EXPECT_EQ(played.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(played.error().message, AllOf(HasSubstr("'wide'"), HasSubstr("2 matrix")));
}

// The join is satisfied at once; task 1 waits for it, and the others for nothing.
TEST(Program, AJoinPutsNothingBehindWhatCameLater) {
  std::vector<ProgramTask> program = {task(kNone, 1), task(cores::kVectorTask, 5, 1, {0})};
  while (program.size() < 100) program.push_back(task(cores::kVectorTask, 5));
  const auto played = play_program(*cores::Topology::parse("1x(1V)"), program, {});
  ASSERT_TRUE(played);
  EXPECT_EQ(played->spans.front().task, 1U);
}

TEST(Program, OfNothing) {
  const auto played = play_program(*cores::Topology::parse("1x(1C2V)"), {}, {});
  ASSERT_TRUE(played);
  EXPECT_EQ(played->makespan, 0U);
}

// Random programs on small rings: every block runs once, no task before its predecessors, and never
// faster than the bounds.
TEST(Program, PlaysEverythingInOrder) {
  std::mt19937_64 random(17);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  static constexpr cores::TaskShape kShapes[] = {
      kNone, cores::kMatrixTask, cores::kVectorTask, cores::k1C1V, cores::k1C2V, cores::k2V};
  static constexpr const char* kMachines[] = {"1x(1C2V)", "3x(1C2V)", "2x(3L)",
                                              "1x(2C2V)+1x(1C3V)+1x(4L)"};
  for (int round = 0; round < 200; ++round) {
    const auto topology = *cores::Topology::parse(kMachines[below(4)]);
    std::vector<ProgramTask> program(1 + below(150));
    for (cores::TaskNumber number = 0; number < program.size(); ++number) {
      ProgramTask& one = program[number];
      one = task(kShapes[below(6)], 1 + below(30), static_cast<std::uint32_t>(1 + below(4)));
      for (std::uint64_t i = below(3); i > 0 && number > 0; --i) {
        one.after.push_back(below(number));
      }
      const auto mode = below(2) == 0 ? cores::AccessMode::kRead : cores::AccessMode::kReadWrite;
      one.accesses = {{cores::Region(below(20), 0, 8), mode}};
    }
    PlayOptions options;
    options.graph = {std::uint32_t{2} << below(8), static_cast<std::uint32_t>(1 + below(300)),
                     static_cast<std::uint32_t>(160 + below(300))};
    options.costs_known = below(2) == 0;
    const auto played = play_program(topology, program, options);
    ASSERT_TRUE(played) << played.error().message;

    std::vector<cores::Ticks> starts(program.size(), ~cores::Ticks{0}), ends(program.size(), 0);
    std::vector<std::uint64_t> parts(program.size(), 0);
    for (const cores::Span& span : played->spans) {
      starts[span.task] = std::min(starts[span.task], span.start);
      ends[span.task] = std::max(ends[span.task], span.end);
      ++parts[span.task];
    }
    for (cores::TaskNumber number = 0; number < program.size(); ++number) {
      const ProgramTask& one = program[number];
      ASSERT_EQ(parts[number], one.shape.lanes() * std::uint64_t{one.blocks});
      for (const cores::TaskNumber earlier : one.after) ASSERT_LE(ends[earlier], starts[number]);
    }
    ASSERT_GE(played->makespan, bounds_of(topology, program).most()) << "round " << round;
    ASSERT_FALSE(played->rings.empty());
    ASSERT_LE(played->rings.back().high.tasks, options.graph.tasks);
  }
}

// Rounds, in each of which a seventh task finds six places taken, one of them for long, and others
// follow it. What tasks take differs by a tenth from one seed to another.
std::vector<ProgramTask> rounds_for_six_places(cores::TaskShape shape, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto about = [&](cores::Ticks takes) {
    return takes - takes / 10 + random() % (takes / 5);
  };
  std::vector<ProgramTask> program;
  for (int round = 0; round < 10; ++round) {
    std::vector<cores::TaskNumber> join;
    if (round > 0) join = {program.size() - 1};
    const auto add = [&](cores::Ticks takes, const std::vector<cores::TaskNumber>& after) {
      program.push_back(task(shape, about(takes), 1, after));
      return program.size() - 1;
    };
    std::vector<cores::TaskNumber> ends = {add(300, join)};
    for (int i = 0; i < 5; ++i) ends.push_back(add(100, join));
    cores::TaskNumber last = add(50, join);
    for (int i = 0; i < 5; ++i) last = add(50, {last});
    ends.push_back(last);
    program.push_back(task(kNone, 1, 1, ends));
  }
  return program;
}

// No place is idle while a task waits: at any moment all of them work, or the longest chain of what
// is left goes on. So the makespan is never more than both together, however long tasks take.
TEST(Program, PendingTasksCostNoTime) {
  int late = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const auto makespan = [&](const char* machine, const cores::TaskShape& shape,
                              cores::AdmissionPolicy policy) {
      PlayOptions options;
      options.dispatch.policy = policy;
      options.graph = {256, 16, 256};
      const auto played = play_program(*cores::Topology::parse(machine),
                                       rounds_for_six_places(shape, seed), options);
      EXPECT_TRUE(played);
      return played->makespan;
    };
    const auto most = [&](const char* machine, const cores::TaskShape& shape) {
      const auto bounds =
          bounds_of(*cores::Topology::parse(machine), rounds_for_six_places(shape, seed));
      return bounds.critical_path + bounds.work;
    };
    ASSERT_LE(makespan("3x(1C2V)", cores::kVectorTask, cores::AdmissionPolicy::kStrict),
              most("3x(1C2V)", cores::kVectorTask))
        << "seed " << seed;
    ASSERT_LE(makespan("6x(1C2V)", cores::k1C2V, cores::AdmissionPolicy::kStrict),
              most("6x(1C2V)", cores::k1C2V))
        << "seed " << seed;
    // Mixed tasks that are pending stay where they are.
    const cores::Ticks pending =
        makespan("6x(1C2V)", cores::k1C2V, cores::AdmissionPolicy::kPerCore);
    late += pending > most("6x(1C2V)", cores::k1C2V) ? 1 : 0;
  }
  EXPECT_EQ(late, 100) << "otherwise these programs do not need what is tested";
}

// Behind four tasks of different length 18 levels of four and of one that only join, and a task.
TEST(Program, AChainOfDummies) {
  std::vector<ProgramTask> program;
  std::vector<cores::TaskNumber> before;
  for (const cores::Ticks takes : {3, 10, 5, 7}) {
    before.push_back(program.size());
    program.push_back(task(cores::kVectorTask, takes));
  }
  for (int level = 0; level < 18; ++level) {
    std::vector<cores::TaskNumber> now;
    for (std::size_t i = 0; i < (level % 2 == 0 ? 4 : 1); ++i) {
      now.push_back(program.size());
      program.push_back(
          task(kNone, 1, 1, level == 0 ? std::vector<cores::TaskNumber>{before[i]} : before));
    }
    before = now;
  }
  program.push_back(task(cores::kMatrixTask, 5, 1, before));
  const auto played = play_program(*cores::Topology::parse("2x(1C2V)"), program, {});
  ASSERT_TRUE(played) << played.error().message;
  ASSERT_EQ(played->spans.size(), 5U) << "those that join have no spans";
  EXPECT_EQ(played->makespan, 15U);
  EXPECT_EQ(played->spans.back().task + 1, program.size());
  EXPECT_EQ(played->spans.back().start, 10U) << "after the longest of the four";
}

// What is recorded of pending slots and reserved lanes fits what ran: a lane has one thing pending
// at a time, only while it is busy, and is reserved only while it is idle; what was pending runs
// later on.
TEST(Program, SlotsAreWatched) {
  std::size_t pending = 0, reserved = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    cores::History history = cores::random_history(seed);
    history.options.policy = static_cast<cores::AdmissionPolicy>(seed % 3);
    VirtualMachine machine(*cores::Topology::parse(history.topology), history.options,
                           [&](cores::TaskId id, std::uint32_t, cores::GroupId, unsigned) {
                             return history.jobs[id].takes;
                           });
    machine.watch_slots();
    for (const cores::Job& job : history.jobs) {
      ASSERT_TRUE(machine.submit({job.id, job.shape, job.blocks, job.together, job.cost}, job.at));
    }
    ASSERT_EQ(machine.run(), 0U);
    using Key = std::pair<cores::GroupId, unsigned>;
    const auto by_lane = [](const auto& spans) {
      std::map<Key, std::vector<std::pair<cores::Ticks, cores::Ticks>>> lanes;
      for (const auto& span : spans) {
        lanes[{span.group, span.lane}].emplace_back(span.start, span.end);
      }
      for (auto& [lane, times] : lanes) std::sort(times.begin(), times.end());
      return lanes;
    };
    const auto overlap = [](const auto& all, const std::pair<cores::Ticks, cores::Ticks>& one) {
      cores::Ticks time = 0;
      for (const auto& [start, end] : all) {
        const cores::Ticks from = std::max(start, one.first), to = std::min(end, one.second);
        time += to > from ? to - from : 0;
      }
      return time;
    };
    auto running = by_lane(machine.spans());
    for (const auto& [lane, times] : by_lane(machine.pending())) {
      for (const auto& one : times) {
        ASSERT_EQ(overlap(running[lane], one), one.second - one.first) << "seed " << seed;
        ASSERT_EQ(overlap(times, one), one.second - one.first) << "seed " << seed;
      }
    }
    for (const auto& [lane, times] : by_lane(machine.reserved())) {
      for (const auto& one : times) ASSERT_EQ(overlap(running[lane], one), 0U) << "seed " << seed;
    }
    std::map<std::pair<cores::TaskId, std::uint32_t>, cores::Ticks> starts;
    for (const cores::Span& span : machine.spans()) {
      cores::Ticks& start = starts[{span.task, span.block}];
      start = std::max(start, span.start);
    }
    for (const cores::Span& span : machine.pending()) {
      ASSERT_LE(span.end, starts.at({span.task, span.block})) << "seed " << seed;
    }
    pending += machine.pending().size();
    reserved += machine.reserved().size();
  }
  EXPECT_GT(pending, 1000U);
  EXPECT_GT(reserved, 100U);
}

}  // namespace
}  // namespace dovetail::study
