// Programs on threads, checked by what the laws say of the spans of their lanes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cores/laws/play.h"
#include "cores/program.h"

namespace dovetail::cores {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The program's tasks as jobs that are ready when those that they wait for have ended.
std::vector<Job> jobs_of(const std::vector<ProgramTask>& program, const PlayedProgram& run) {
  std::map<TaskId, Ticks> ready;
  for (const Wait& wait : run.waits) ready[wait.task] = wait.ready;
  std::vector<Job> jobs;
  for (TaskId id = 0; id < program.size(); ++id) {
    const ProgramTask& task = program[id];
    const std::uint32_t blocks = has_lanes(task.shape) ? task.blocks : 0;
    jobs.push_back({id, task.shape, ready[id], task.takes, blocks, task.together, 0});
  }
  return jobs;
}

TEST(ProgramRun, ObeysTheLawsOnThreads) {
  std::mt19937_64 random(23);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  int mixed = 0, cohorts = 0;
  for (std::uint64_t round = 0; round < 60; ++round) {
    const History history = random_history(random());
    const auto machine = *Topology::parse(history.topology);
    std::vector<ProgramTask> program;
    for (const Job& job : history.jobs) {
      ProgramTask& task = program.emplace_back();
      task.name = "task " + std::to_string(job.id);
      task.shape = below(10) == 0 ? TaskShape{} : job.shape;
      task.blocks = job.blocks;
      task.together = job.together && has_lanes(task.shape);
      task.takes = 100 * job.takes;
      for (std::uint64_t i = below(3); i > 0 && job.id > 0; --i)
        task.after.push_back(below(job.id));
      task.accesses = {
          {Region(below(12), 0, 8), below(2) == 0 ? AccessMode::kRead : AccessMode::kReadWrite}};
      mixed += task.shape.is_mixed() ? 1 : 0;
      cohorts += task.together && task.blocks > 1 ? 1 : 0;
    }
    RunOptions options;
    options.dispatch = history.options;
    options.graph = {std::uint32_t{2} << below(8), static_cast<std::uint32_t>(1 + below(300)),
                     static_cast<std::uint32_t>(160 + below(300))};
    options.costs_known = below(2) == 0;
    options.threads = below(3) == 0 ? 1 + static_cast<unsigned>(below(machine.lanes())) : 0;
    const auto run = run_program(machine, program, options);
    ASSERT_TRUE(run) << run.error().message;
    const bool gated = options.threads == 0 || options.threads == machine.lanes();
    ASSERT_THAT(violations_of_threads(machine, jobs_of(program, *run), run->spans, gated),
                IsEmpty())
        << "round " << round << " on " << history.topology << " with " << options.threads
        << " threads";
    for (const Span& span : run->spans) {
      EXPECT_GE(span.end - span.start, program[span.task].takes);
      EXPECT_LE(span.end, run->makespan);
    }
    EXPECT_LE(run->rings.back().high.tasks, options.graph.tasks);
  }
  EXPECT_GT(mixed, 0);
  EXPECT_GT(cohorts, 0);
}

TEST(ProgramRun, SaysWhichTaskHasNoPlace) {
  std::vector<ProgramTask> program(2);
  program[0] = {"narrow", kVectorTask, 1, false, 1, {}, {}};
  program[1] = {"wide", {2, 0, false}, 1, false, 1, {}, {}};
  const auto run = run_program(*Topology::parse("3x(1C2V)"), program, {});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(run.error().message, AllOf(HasSubstr("'wide'"), HasSubstr("2 matrix")));
}

// The checker sees what it is there for.
TEST(ProgramRun, BrokenLawsAreSeen) {
  const auto machine = *Topology::parse("2x(1C2V)");
  const std::vector<Job> jobs = {{0, kMatrixTask, 10, 5}, {1, k1C2V, 0, 5}};
  const std::vector<Span> good = {
      {0, 0, 1, 0, 10, 15}, {1, 0, 0, 0, 3, 8}, {1, 0, 0, 1, 4, 9}, {1, 0, 0, 2, 4, 9}};
  const auto with = [&](std::size_t which, const Span& span) {
    std::vector<Span> spans = good;
    spans[which] = span;
    return violations_of_threads(machine, jobs, spans, true);
  };
  EXPECT_THAT(violations_of_threads(machine, jobs, good, true), IsEmpty());
  EXPECT_THAT(with(0, {0, 0, 1, 0, 9, 15}),
              ElementsAre(HasSubstr("law 1: task 0 starts before it is ready")));
  EXPECT_THAT(with(0, {0, 0, 1, 1, 10, 15}),
              ElementsAre(HasSubstr("law 2: task 0 block 0 runs on lanes 10 of group 1")));
  EXPECT_THAT(with(0, {0, 0, 0, 0, 10, 15}), IsEmpty());
  EXPECT_THAT(with(1, {1, 0, 0, 0, 10, 15}),
              ElementsAre(HasSubstr("law 2: task 1 block 0: its parts start apart")));
  EXPECT_THAT(with(2, {1, 0, 0, 0, 4, 9}),
              ElementsAre(HasSubstr("law 2: group 0 lane 0 runs tasks 1 and 1 at a time")));
  EXPECT_THAT(with(2, {1, 0, 1, 1, 4, 9}),
              ElementsAre(HasSubstr("law 2: task 1 block 0 runs in two groups")));
  EXPECT_THAT(violations_of_threads(machine, jobs, {good.begin() + 1, good.end()}, true),
              ElementsAre(HasSubstr("law 4: task 0 block 0 did not run")));
}

}  // namespace
}  // namespace dovetail::cores
