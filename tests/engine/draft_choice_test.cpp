#include "engine/draft_choice.h"

#include <gtest/gtest.h>

namespace dovetail::engine {
namespace {

// A step takes 1000 us; more than four rows cost 100 us each.
constexpr schedule::StepCost kCost = {1000.0, 100.0, 100.0, 0.0, 4};

DraftChoice with(double right, double pass_us) {
  DraftChoice choice;
  double sum = 0.0;
  for (int i = 0; i < 1000; ++i) {
    sum += right;
    const bool hit = sum >= 1.0;
    if (hit) sum -= 1.0;
    choice.observe(1, hit ? 1 : 0);
  }
  for (int i = 0; i < 50; ++i) choice.observe_time(1 + i % 4, 1, pass_us);
  return choice;
}

TEST(DraftChoice, DraftsWhatPays) {
  struct Row {
    double right, pass_us;
    std::uint32_t sequences, most, wanted;
  };
  const Row rows[] = {
      {0.95, 50, 1, 3, 3},    // rows are free there
      {0.95, 50, 1, 1, 1},    //
      {0.05, 50, 1, 3, 0},    // seldom right, and not for nothing
      {0.95, 5000, 1, 3, 0},  // a draft takes longer than a step
      {0.60, 50, 1, 3, 3},    //
      {0.30, 100, 1, 3, 1},   // the second is right too seldom
      {0.95, 50, 32, 3, 2},   // rows that are right are worth their 100 us; the third seldom is
      {0.50, 50, 32, 3, 0},   // one that is right half the time is not
  };
  for (const Row& row : rows) {
    DraftChoice choice = with(row.right, row.pass_us);
    EXPECT_EQ(choice.choose(row.sequences, row.most, kCost), row.wanted)
        << row.right << ", " << row.pass_us << " us, " << row.sequences << " sequences";
  }
}

TEST(DraftChoice, LooksAgainNowAndThen) {
  DraftChoice choice = with(0.01, 50);
  std::uint32_t drafted = 0;
  for (std::uint32_t i = 0; i < 4 * DraftChoice::kProbe; ++i) drafted += choice.choose(8, 3, kCost);
  EXPECT_EQ(drafted, 4U);
  // What is seen then turns it.
  for (int i = 0; i < 500; ++i) choice.observe(1, 1);
  EXPECT_EQ(choice.choose(1, 3, kCost), 3U);
}

TEST(DraftChoice, DraftsAllWhileLittleIsKnown) {
  DraftChoice choice;
  // A pass that takes longer than a step is not worth it, but one says little.
  for (std::uint32_t i = 0; i < DraftChoice::kKnown; ++i) {
    EXPECT_EQ(choice.choose(8, 3, kCost), 3U) << i;
    choice.observe_time(8, 1, 50000.0);
    EXPECT_EQ(choice.choose(8, 3, {}), 3U) << i;
  }
  EXPECT_EQ(choice.choose(8, 3, kCost), 0U);
  EXPECT_EQ(choice.choose(8, 3, {}), 3U);
  EXPECT_EQ(choice.choose(0, 3, kCost), 0U);
  EXPECT_EQ(choice.choose(8, 0, kCost), 0U);
}

// A machine that was busy with something else for some passes is no reason to stop.
TEST(DraftChoice, HeedsNoOutliers) {
  for (const std::uint32_t spikes : {1U, 3U, 6U}) {
    // Among the first ones too.
    for (const std::uint32_t before : {0U, 2U, 40U}) {
      DraftChoice choice;
      for (std::uint32_t i = 0; i < before; ++i) choice.observe_time(1 + i % 4, 1, 50.0);
      for (std::uint32_t i = 0; i < spikes; ++i) choice.observe_time(1 + i % 4, 1, 40000.0);
      for (std::uint32_t i = 0; i < 10; ++i) choice.observe_time(1 + i % 4, 1, 50.0);
      EXPECT_EQ(choice.choose(1, 3, kCost), 3U) << spikes << " behind " << before;
      // When all are slow, it is so.
      for (std::uint32_t i = 0; i < 16; ++i) choice.observe_time(1 + i % 4, 1, 40000.0);
      EXPECT_EQ(choice.choose(1, 3, kCost), 0U) << spikes << " behind " << before;
    }
  }
}

// The passes of many sequences take longer than those of few; what is seen of few tells of many.
TEST(DraftChoice, FollowsTheLine) {
  DraftChoice choice = with(0.95, 50);
  for (std::uint32_t i = 0; i < 16; ++i) choice.observe_time(1 + i % 4, 1, 100.0 * (1 + i % 4));
  EXPECT_EQ(choice.choose(1, 3, kCost), 3U);
  // 32 sequences: a pass as the line has it takes 3200 us, a step of them 3800.
  EXPECT_EQ(choice.choose(32, 3, kCost), 0U);
}

// Behind a wrong draft token none counts as wrong.
TEST(DraftChoice, CountsWhatWasTried) {
  DraftChoice choice;
  for (int i = 0; i < 1000; ++i) choice.observe(3, 1);
  EXPECT_NEAR(choice.right(), 0.5, 0.02);
}

}  // namespace
}  // namespace dovetail::engine
