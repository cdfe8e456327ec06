#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "pipeline/flow/virtual_run.h"

// The source case: a sampler feeds three generator columns on endpoint 0, each feeds a judge column
// on endpoint 1. Under a virtual clock, so that times are exact. Numbers in names are those of the
// fifteen claims in docs/pipelines.md.

namespace dovetail::pipeline {
namespace {

constexpr QueueId kGenerators = 0, kJudges = 1, kSamplers = 2;
constexpr std::int64_t kMs = 1000;

const std::vector<ColumnPlan> kShapeS = {
    {{}, kSamplers}, {{0}, kGenerators}, {{0}, kGenerators}, {{0}, kGenerators},
    {{1}, kJudges},  {{2}, kJudges},     {{3}, kJudges},
};

FrontierOptions records(std::uint64_t count, std::uint64_t window) {
  FrontierOptions options;
  options.records = count;
  options.window = window;
  options.instant = {kSamplers};
  return options;
}

std::vector<VirtualEndpoint> endpoints(std::int64_t generate_us, std::int64_t judge_us,
                                       std::uint32_t slots = 64) {
  return {{slots, generate_us}, {slots, judge_us}, {}};
}

std::int64_t work(std::uint64_t count, std::int64_t latency_us, std::uint32_t slots = 64) {
  return static_cast<std::int64_t>((3 * count + slots - 1) / slots) * latency_us;
}

// The longer of the two works, and the time until the other can begin.
std::int64_t bound(std::uint64_t count, std::int64_t generate_us, std::int64_t judge_us,
                   std::uint32_t slots = 64) {
  const std::int64_t generators = work(count, generate_us, slots),
                     judges = work(count, judge_us, slots);
  return std::max(generators, judges) + (generators >= judges ? judge_us : generate_us);
}

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

TEST(SnapshotDispatch, Claims1To6_IsSerial) {
  constexpr std::uint64_t kCount = 10'000;
  const VirtualRun run =
      play(kShapeS, endpoints(50 * kMs, 50 * kMs), records(kCount, kCount), Dispatch::kSnapshot);
  EXPECT_EQ(run.first_list, 30'000U);
  EXPECT_EQ(run.most_in_flight[kGenerators], 64U);
  const std::int64_t last_generator =
      *std::max_element(run.last_sent.begin() + 1, run.last_sent.begin() + 4);
  const std::int64_t first_judge =
      *std::min_element(run.first_sent.begin() + 4, run.first_sent.end());
  EXPECT_GE(first_judge, last_generator) << "after all of the generators' requests, not only 99 %";
  EXPECT_EQ(run.sent_by_second_before_last_of_first, 0U);
  const std::int64_t serial = work(kCount, 50 * kMs) * 2;
  EXPECT_NEAR(share(run.wall_us, serial), 1.0, 0.05);
  EXPECT_LT(share(run.both_busy_us, run.any_busy_us), 0.05);
}

TEST(SnapshotDispatch, Claim7_TheRightBufferHidesItAndOthersDoNot) {
  constexpr std::uint64_t kCount = 10'000;
  const auto run = [](std::uint64_t window) {
    return play(kShapeS, endpoints(50 * kMs, 50 * kMs), records(kCount, window),
                Dispatch::kSnapshot);
  };
  const std::int64_t best = bound(kCount, 50 * kMs, 50 * kMs);
  const VirtualRun tuned = run(100);
  EXPECT_GT(share(tuned.both_busy_us, tuned.any_busy_us), 0.9);
  EXPECT_LT(share(tuned.wall_us, best), 1.15);
  for (const std::uint64_t window : {50ULL, 150ULL, 1'000ULL}) {
    EXPECT_GT(share(run(window).wall_us, best), 1.6) << window;
  }
}

TEST(SnapshotDispatch, Claim15_FewerSlotsHideNothing) {
  constexpr std::uint64_t kCount = 1'000;
  const VirtualRun run =
      play(kShapeS, endpoints(50 * kMs, 50 * kMs, 4), records(kCount, kCount), Dispatch::kSnapshot);
  EXPECT_NEAR(share(run.wall_us, 2 * work(kCount, 50 * kMs, 4)), 1.0, 0.05);
}

TEST(FrontierDispatch, Claim3_AJudgeIsReadyForEveryGenerator) {
  Frontier frontier(kShapeS, 3, records(100, 100));
  std::size_t judges = 0;
  for (int i = 0; i < 40; ++i) {
    auto cell = frontier.take(kGenerators);
    while (!cell) {
      const auto topic = frontier.take(kSamplers);
      ASSERT_TRUE(topic);
      frontier.end(*topic);
      cell = frontier.take(kGenerators);
    }
    frontier.end(*cell);
    EXPECT_EQ(frontier.ready(kJudges), ++judges);
  }
}

TEST(FrontierDispatch, Claim8_FiftyRecordsAreThreeHundredRequests) {
  EXPECT_EQ(play(kShapeS, endpoints(kMs, kMs), records(50, 50)).requests, 300U);
}

TEST(FrontierDispatch, Claim9_TheFirstJudgeGoesOutWithTheFirstGenerator) {
  for (const std::uint64_t count : {1ULL, 100ULL, 10'000ULL, 1'000'000ULL}) {
    const VirtualRun run =
        play(kShapeS, endpoints(50 * kMs, 50 * kMs), records(count, count), Dispatch::kFrontier,
             [](const VirtualRun& so_far) { return so_far.first_sent[4] >= 0; });
    EXPECT_EQ(run.first_sent[4], run.first_ended[1]) << count;
    EXPECT_EQ(run.first_ended[1], 50 * kMs) << count;
  }
}

TEST(FrontierDispatch, Claims10And11_ReachesTheBoundWithAnyWindow) {
  constexpr std::uint64_t kCount = 10'000;
  struct Latency {
    std::int64_t generate, judge;
  };
  for (const auto& [generate, judge] :
       {Latency{50 * kMs, 50 * kMs}, Latency{5 * kMs, 5 * kMs}, Latency{500 * kMs, 50 * kMs},
        Latency{50 * kMs, 500 * kMs}}) {
    std::int64_t best = 0;
    for (const std::uint64_t window : {10'000ULL, 1'000ULL, 200ULL, 100ULL}) {
      const VirtualRun run = play(kShapeS, endpoints(generate, judge), records(kCount, window));
      EXPECT_LE(share(run.wall_us, bound(kCount, generate, judge)), 1.02)
          << generate << ' ' << judge << ' ' << window;
      if (best == 0) best = run.wall_us;
      EXPECT_LE(share(run.wall_us, best), 1.02);
      EXPECT_LE(run.most_open, window);
      EXPECT_LE(run.most_in_flight[kGenerators], 64U);
      EXPECT_LE(run.most_in_flight[kJudges], 64U);
    }
  }
}

TEST(FrontierDispatch, Claim13_OnOneEndpointWhatIsBegunIsFinished) {
  std::vector<ColumnPlan> columns = kShapeS;
  for (ColumnPlan& column : columns) {
    if (column.queue == kJudges) column.queue = kGenerators;
  }
  const VirtualRun run = play(columns, endpoints(50 * kMs, 50 * kMs, 8), records(1'000, 1'000));
  EXPECT_LE(run.most_open, 9U);
  // 8 slots: three generators of two records and two of a third go first.
  EXPECT_EQ(run.first_record_us, 100 * kMs);
  EXPECT_EQ(run.wall_us, work(2 * 1'000, 50 * kMs, 8));
}

TEST(FrontierDispatch, WorkOffTheWireHoldsNoSlot) {
  constexpr std::uint64_t kCount = 1'000;
  std::vector<VirtualEndpoint> with_tools = endpoints(200 * kMs, 50 * kMs);
  with_tools[0].off_wire_us = 200 * kMs;
  const std::int64_t best = work(kCount, 200 * kMs) + 200 * kMs + 50 * kMs;
  EXPECT_LE(share(play(kShapeS, with_tools, records(kCount, kCount)).wall_us, best), 1.05);
  const VirtualRun holding =
      play(kShapeS, with_tools, records(kCount, kCount), Dispatch::kHoldsSlot);
  EXPECT_GT(share(holding.wall_us, best), 1.9) << "the test would not see it";
}

TEST(FrontierDispatch, AStalledEndpointBlocksNoOther) {
  constexpr std::uint64_t kCount = 10'000;
  std::vector<VirtualEndpoint> stalled = endpoints(50 * kMs, 50 * kMs);
  // The judges stand still from the second second on, for thirty.
  stalled[1].latency = [](Cell, std::int64_t now) {
    const bool inside = now >= 1'000 * kMs && now < 31'000 * kMs;
    return inside ? 31'000 * kMs - now + 50 * kMs : 50 * kMs;
  };
  const VirtualRun run = play(kShapeS, stalled, records(kCount, kCount));
  const std::int64_t last_generator =
      *std::max_element(run.last_sent.begin() + 1, run.last_sent.begin() + 4);
  EXPECT_LE(last_generator, work(kCount, 50 * kMs));
  EXPECT_LE(run.wall_us, work(kCount, 50 * kMs) + 30'100 * kMs);
}

TEST(FrontierDispatch, SmallPartsOfManyShapes) {
  struct Shape {
    const char* name;
    std::vector<ColumnPlan> columns;
    std::int64_t best_us;  // 100 records, 10 slots, 10 ms
  };
  std::vector<ColumnPlan> chain{{{}, 0}};
  for (ColumnId column = 1; column < 6; ++column) chain.push_back({{column - 1}, 0});
  std::vector<ColumnPlan> fan{{{}, 0}};
  for (int i = 0; i < 200; ++i) fan.push_back({{0}, 0});
  fan.push_back({{}, 0});
  for (ColumnId column = 1; column <= 200; ++column) fan.back().needs.push_back(column);
  const Shape shapes[] = {
      {"chain of six", chain, 600 * kMs},
      {"diamond", {{{}, 0}, {{0}, 0}, {{0}, 0}, {{1, 2}, 0}}, 400 * kMs},
      {"fan of 200", fan, 20'200 * kMs},
  };
  for (const Shape& shape : shapes) {
    FrontierOptions options = records(100, 100);
    options.instant.clear();
    const VirtualRun run = play(shape.columns, {{10, 10 * kMs}}, options);
    EXPECT_EQ(run.requests, 100 * shape.columns.size()) << shape.name;
    EXPECT_LE(share(run.wall_us, shape.best_us), 1.06) << shape.name;
  }
}

}  // namespace
}  // namespace dovetail::pipeline
