// Programs on threads, checked by what the laws say of the spans of their lanes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cores/laws/play.h"
#include "study/program.h"

namespace dovetail::study {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The program's tasks as jobs that are ready when those that they wait for have ended.
std::vector<cores::Job> jobs_of(const std::vector<ProgramTask>& program, const PlayedProgram& run) {
  std::map<cores::TaskId, cores::Ticks> ready;
  for (const Wait& wait : run.waits) ready[wait.task] = wait.ready;
  std::vector<cores::Job> jobs;
  for (cores::TaskId id = 0; id < program.size(); ++id) {
    const ProgramTask& task = program[id];
    const std::uint32_t blocks = has_lanes(task.shape) ? task.blocks : 0;
    jobs.push_back({id, task.shape, ready[id], task.takes, blocks, task.together, 0});
  }
  return jobs;
}

// A lane is reserved while it runs nothing, and has one thing pending at a time, which runs later
// on.
testing::AssertionResult slots_fit(const PlayedProgram& run) {
  const auto meet = [](const auto& a, const auto& b) {
    return a.group == b.group && a.lane == b.lane && a.start < b.end && b.start < a.end;
  };
  const auto fault = [](const auto& span, const char* what) {
    return testing::AssertionFailure() << "group " << span.group << " lane " << span.lane << ", "
                                       << span.start << " to " << span.end << ": " << what;
  };
  for (std::size_t i = 0; i < run.reserved.size(); ++i) {
    const cores::ReservedSpan& reserved = run.reserved[i];
    if (reserved.start >= reserved.end || reserved.end > run.makespan)
      return fault(reserved, "no time of the run");
    for (const cores::Span& span : run.spans) {
      if (meet(reserved, span)) return fault(reserved, "runs something while it is kept");
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (meet(reserved, run.reserved[j])) return fault(reserved, "is kept twice");
    }
    for (const cores::Span& pending : run.pending) {
      if (meet(reserved, pending)) return fault(reserved, "is idle and has something parked");
    }
  }
  for (std::size_t i = 0; i < run.pending.size(); ++i) {
    const cores::Span& pending = run.pending[i];
    if (pending.start >= pending.end) return fault(pending, "no time");
    for (std::size_t j = 0; j < i; ++j) {
      if (meet(pending, run.pending[j])) return fault(pending, "has two things parked");
    }
    const bool runs = std::any_of(run.spans.begin(), run.spans.end(), [&](const cores::Span& span) {
      return span.task == pending.task && span.block == pending.block && span.start >= pending.end;
    });
    if (!runs) return fault(pending, "what was parked does not run afterwards");
  }
  return testing::AssertionSuccess();
}

// Marks from the beginning on, each of which says something new.
void expect_rising(const PlayedProgram& run) {
  ASSERT_THAT(run.rings, testing::Not(IsEmpty()));
  EXPECT_EQ(run.rings.front().time, 0U);
  EXPECT_EQ(run.rings.front().high, cores::TaskGraph::HighWater{});
  for (std::size_t i = 1; i < run.rings.size(); ++i) {
    const RingSample &a = run.rings[i - 1], &b = run.rings[i];
    EXPECT_LE(a.time, b.time);
    EXPECT_TRUE(a.high.tasks <= b.high.tasks && a.high.accesses <= b.high.accesses &&
                a.high.edges <= b.high.edges && a.high != b.high);
  }
}

TEST(ProgramRun, ObeysTheLawsOnThreads) {
  std::mt19937_64 random(23);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  int mixed = 0, gangs = 0;
  std::size_t pending = 0, reserved = 0;
  for (std::uint64_t round = 0; round < 60; ++round) {
    const cores::History history = cores::random_history(random());
    const auto machine = *cores::Topology::parse(history.topology);
    std::vector<ProgramTask> program;
    for (const cores::Job& job : history.jobs) {
      ProgramTask& task = program.emplace_back();
      task.name = "task " + std::to_string(job.id);
      task.shape = below(10) == 0 ? cores::TaskShape{} : job.shape;
      task.blocks = job.blocks;
      task.together = job.together && has_lanes(task.shape);
      task.takes = 100 * job.takes;
      for (std::uint64_t i = below(3); i > 0 && job.id > 0; --i)
        task.after.push_back(below(job.id));
      task.accesses = {{cores::Region(below(12), 0, 8),
                        below(2) == 0 ? cores::AccessMode::kRead : cores::AccessMode::kReadWrite}};
      mixed += task.shape.is_mixed() ? 1 : 0;
      gangs += task.together && task.blocks > 1 ? 1 : 0;
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
    ASSERT_THAT(cores::violations_of_threads(machine, jobs_of(program, *run), run->spans, gated),
                IsEmpty())
        << "round " << round << " on " << history.topology << " with " << options.threads
        << " threads";
    ASSERT_TRUE(slots_fit(*run)) << "round " << round << " on " << history.topology;
    pending += run->pending.size();
    reserved += run->reserved.size();
    for (const cores::Span& span : run->spans) {
      EXPECT_GE(span.end - span.start, program[span.task].takes);
      EXPECT_LE(span.end, run->makespan);
    }
    EXPECT_LE(run->rings.back().high.tasks, options.graph.tasks);
    expect_rising(*run);
  }
  EXPECT_GT(mixed, 0);
  EXPECT_GT(gangs, 0);
  EXPECT_GT(pending, 0U);
  EXPECT_GT(reserved, 0U);
}

// A chain, each link of which reads more than the one before.
TEST(ProgramRun, SaysHowFullTheRingsWereWhen) {
  std::vector<ProgramTask> program(5);
  for (std::size_t i = 0; i < program.size(); ++i) {
    program[i] = {"link", cores::kVectorTask, 1, false, 1000, {}, {}};
    for (cores::BufferId buffer = 0; buffer <= i; ++buffer)
      program[i].accesses.push_back({cores::Region(buffer, 0, 8), cores::AccessMode::kRead});
    if (i > 0) program[i].after = {i - 1};
  }
  const auto run = run_program(*cores::Topology::parse("1x(2L)"), program, {});
  ASSERT_TRUE(run);
  ASSERT_NO_FATAL_FAILURE(expect_rising(*run));
  ASSERT_EQ(run->rings.size(), 1 + program.size());
  EXPECT_LT(run->rings[1].time, run->makespan) << "the others come later";
}

TEST(ProgramRun, SaysWhichTaskHasNoPlace) {
  std::vector<ProgramTask> program(2);
  program[0] = {"narrow", cores::kVectorTask, 1, false, 1, {}, {}};
  program[1] = {"wide", {2, 0, false}, 1, false, 1, {}, {}};
  const auto run = run_program(*cores::Topology::parse("3x(1C2V)"), program, {});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(run.error().message, AllOf(HasSubstr("'wide'"), HasSubstr("2 matrix")));
}

// The checker sees what it is there for.
TEST(ProgramRun, BrokenLawsAreSeen) {
  const auto machine = *cores::Topology::parse("2x(1C2V)");
  const std::vector<cores::Job> jobs = {{0, cores::kMatrixTask, 10, 5}, {1, cores::k1C2V, 0, 5}};
  const std::vector<cores::Span> good = {
      {0, 0, 1, 0, 10, 15}, {1, 0, 0, 0, 3, 8}, {1, 0, 0, 1, 4, 9}, {1, 0, 0, 2, 4, 9}};
  const auto with = [&](std::size_t which, const cores::Span& span) {
    std::vector<cores::Span> spans = good;
    spans[which] = span;
    return cores::violations_of_threads(machine, jobs, spans, true);
  };
  EXPECT_THAT(cores::violations_of_threads(machine, jobs, good, true), IsEmpty());
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
  EXPECT_THAT(cores::violations_of_threads(machine, jobs, {good.begin() + 1, good.end()}, true),
              ElementsAre(HasSubstr("law 4: task 0 block 0 did not run")));
}

}  // namespace
}  // namespace dovetail::study
