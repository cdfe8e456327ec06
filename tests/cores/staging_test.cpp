#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "cores/laws/play.h"
#include "cores/machines.h"

// DispatchOptions::stages: mixed tasks that have lanes before the last of these is free.

namespace dovetail::cores {
namespace {

const std::vector<std::string> kNothing;

DispatchOptions staged() {
  DispatchOptions options;
  options.stages = true;
  return options;
}

std::vector<Ticks> starts_of(const Played& played, TaskId id) {
  std::vector<Ticks> starts;
  for (const Span& span : played.spans) {
    if (span.task == id) starts.push_back(span.start);
  }
  return starts;
}

TEST(Staging, ABlockStartsWholeWhenTheLastOfItsLanesIsFree) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 30},
                                 {1, kVectorTask, 0, 10},
                                 {2, k1C2V, 5, 10},
                                 {3, kVectorTask, 6, 10},
                                 {4, kMatrixTask, 7, 10}};
  const Played played = play("1x(1C2V)", jobs, staged());
  EXPECT_EQ(violations("1x(1C2V)", jobs, played, staged()), kNothing);
  EXPECT_EQ(starts_of(played, 2), (std::vector<Ticks>{30, 30, 30}));
  EXPECT_EQ(played.start_of(3), 40U);
  EXPECT_EQ(played.start_of(4), 40U);
}

// By default the second mixed task leaves the lanes of the other group to others.
TEST(Staging, SeveralBlocksHaveLanesAtATime) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 30, 1, false, 30},
                                 {1, k2V, 0, 40, 1, false, 40},
                                 {2, kVectorTask, 0, 30, 1, false, 30},
                                 {3, k1C2V, 5, 10, 2, false, 10},
                                 {4, kMatrixTask, 6, 100, 2, false, 100}};
  Played played = play("2x(1C2V)", jobs);
  EXPECT_EQ(violations("2x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(starts_of(played, 3), (std::vector<Ticks>{30, 30, 30, 40, 40, 40}));
  EXPECT_EQ(played.start_of(4), 6U) << "on the lane that is not kept";
  played = play("2x(1C2V)", jobs, staged());
  EXPECT_EQ(violations("2x(1C2V)", jobs, played, staged()), kNothing);
  EXPECT_EQ(starts_of(played, 3), (std::vector<Ticks>{30, 30, 30, 40, 40, 40}));
  EXPECT_EQ(played.start_of(4), 40U);
}

TEST(Staging, OneVectorTaskAmongAHundredStagedOnes) {
  std::vector<Job> jobs;
  for (TaskId id = 0; id < 100; ++id) jobs.push_back({id, k1C2V, 0, 10});
  jobs.push_back({100, kVectorTask, 0, 10});
  const Played played = play("1x(1C2V)", jobs, staged());
  EXPECT_EQ(violations("1x(1C2V)", jobs, played, staged()), kNothing);
  EXPECT_LE(played.start_of(100), 80U) << "after eight rounds";
}

TEST(Staging, HistoriesKeepTheLaws) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    History history = random_history(seed);
    history.options.stages = true;
    const Played played = play(history.topology, history.jobs, history.options);
    ASSERT_EQ(violations(history.topology, history.jobs, played, history.options), kNothing)
        << "seed " << seed;
  }
}

struct Meeting {
  std::array<std::atomic<std::uint32_t>, 3> arrived{};  // by block
};

// Parts of a mixed block wait for each other, so that nothing ends where two blocks hold lanes that
// the other needs.
TEST(Staging, PartsMeetOnThreads) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 8; ++round) {
    static constexpr const char* kTopologies[] = {"1x(1C2V)", "2x(1C2V)", "1x(4L)", "2x(2L)"};
    const char* text = kTopologies[below(4)];
    ExecutorOptions options;
    options.dispatch.stages = true;
    options.dispatch.pending_slots = below(2) == 0;
    options.caller_serves = below(2) == 0;
    options.trace = true;
    options.graph.tasks = 64;  // so that the caller comes to wait, and goes on
    Executor executor(topology(text), options);
    const Dispatcher checks(topology(text), options.dispatch);
    std::vector<Job> jobs;
    std::deque<Meeting> meetings;
    while (jobs.size() < 120) {
      static constexpr TaskShape kShapes[] = {kMatrixTask, kVectorTask, k1C1V,
                                              k1C2V,       k2V,         kWholeGroup};
      Job job;
      job.id = jobs.size();
      job.shape = kShapes[below(6)];
      job.blocks = static_cast<std::uint32_t>(1 + below(3));
      job.together = below(8) == 0;
      if (!checks.check({job.id, job.shape, job.blocks, job.together, 0})) continue;
      Meeting* meeting = &meetings.emplace_back();
      expect_submits(executor, {job.shape, job.together, job.blocks, 0},
                     [meeting](const Part& part) {
                       std::atomic<std::uint32_t>& met = meeting->arrived[part.block];
                       ++met;
                       while (met < part.parts) std::this_thread::yield();
                     });
      jobs.push_back(job);
    }
    ASSERT_TRUE(executor.wait());
    std::vector<Span> spans = executor.take_spans().running;
    Ticks first = ~Ticks{0};
    for (const Span& span : spans) first = std::min(first, span.start);
    for (Job& job : jobs) job.at = 0;
    for (Span& span : spans)
      span = {span.task, span.block, span.group, span.lane, span.start - first, span.end - first};
    EXPECT_EQ(violations_of_threads(topology(text), jobs, spans, true), kNothing)
        << text << ", round " << round;
  }
}

}  // namespace
}  // namespace dovetail::cores
