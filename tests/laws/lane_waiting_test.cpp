#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "laws/checker/lane_law_checker.h"
#include "laws/lane_runs.h"

// Bounded waiting, as the checker of lanes judges it: what may pass over a task of a single lane,
// and what a mixed task may have to wait for.

namespace dovetail::laws {
namespace {

// Lanes 0 and 1 of 1x(2L) run tasks of both, ready at 0, one after the other for 10 each, while
// task 0 waits, ready at 1: it starts after so many others. Their shapes, as in lane_events().
std::string one_waits(const std::string& shape_of_0, const std::vector<std::string>& others) {
  std::string events = fmt::format("0 ready 1 {};", others[0]);
  const auto both = [&](std::size_t task, const char* what, std::size_t at) {
    const std::string& shape = others[task - 1];
    if (shape.back() == '!') {
      events += fmt::format("{0} {1} {2}.0 0.0; {0} {1} {2}.1 0.1;", at, what, task);
    } else {
      events += fmt::format("{} {} {} 0.0 0.1;", at, what, task);
    }
  };
  both(1, "start", 0);
  events += fmt::format("1 ready 0 {};", shape_of_0);
  for (std::size_t task = 2; task <= others.size(); ++task)
    events += fmt::format("2 ready {} {};", task, others[task - 1]);
  for (std::size_t task = 2; task <= others.size(); ++task) {
    both(task - 1, "end", 10 * (task - 1));
    both(task, "start", 10 * (task - 1));
  }
  const std::size_t end = 10 * others.size();
  events += fmt::format("{} ready {} V 0;", end - 1, others.size() + 1);
  both(others.size(), "end", end);
  const bool wide = shape_of_0 == "group";
  events += fmt::format("{0} start 0 0.0{2}; {1} end 0 0.0{2};", end, end + 1, wide ? " 0.1" : "");
  return events;
}

TEST(LaneLawChecker, CountsRoundsThatPassOverASingle) {
  const auto judge = [](std::uint32_t starvation_bound, const std::vector<std::string>& others) {
    return judge_lanes("1x(2L)", starvation_bound_of(starvation_bound), one_waits("V", others));
  };
  // Those after the first.
  EXPECT_EQ(judge(2, {"2V", "2V", "2V"}), "");
  EXPECT_EQ(judge(2, {"2V", "2V", "2V", "2V"}),
            "at 30: law 4: task 0 was passed over by 6 parts, and a round has 2");
  EXPECT_EQ(judge(2, {"2V", "V 2!", "2V"}), "");
  EXPECT_EQ(judge(1, {"V 2!", "V 2!"}), "");
  EXPECT_EQ(judge(1, {"V 2!", "V 2!", "V 2!"}),
            "at 20: law 4: task 0 was passed over by 4 parts, and a round has 2");
}

// On 1x(3L), whose third lane is busy, two parts are less than a round, which the next two end.
TEST(LaneLawChecker, CountsWhatEndsARoundWhole) {
  const auto judge = [](const std::vector<std::string>& others) {
    return judge_lanes("1x(3L)", starvation_bound_of(1),
                       "0 ready 99 V; 0 start 99 0.2;" + one_waits("V", others) + "99 end 99 0.2");
  };
  const char* const one_too_many =
      "at 30: law 4: task 0 was passed over by 6 parts, and a round has 3";
  EXPECT_EQ(judge({"2V", "2V", "2V"}), "");
  EXPECT_EQ(judge({"V 2!", "V 2!", "V 2!"}), "");
  EXPECT_EQ(judge({"2V", "2V", "2V", "2V"}), one_too_many);
  EXPECT_EQ(judge({"V 2!", "V 2!", "V 2!", "V 2!"}), one_too_many);
}

TEST(LaneLawChecker, DoesNotCountWhatNeedsOtherLanes) {
  std::string events =
      "0 ready 1 C; 0 start 1 0.0; 0 ready 2 C; 0 ready 3 2V 6; 0 start 3.0 0.1 0.2;";
  for (int i = 1; i < 6; ++i) {
    events += fmt::format("{0} end 3.{1} 0.1 0.2; {0} start 3.{2} 0.1 0.2;", 10 * i, i - 1, i);
  }
  events += "60 end 3.5 0.1 0.2; 60 end 1 0.0; 60 start 2 0.0; 61 end 2 0.0";
  EXPECT_EQ(judge_lanes("1x(1C2V)", starvation_bound_of(2), events), "");
}

TEST(LaneLawChecker, DoesNotCountGangsThatNeedOtherLanes) {
  std::string events = "0 ready 1 C; 0 start 1 0.0; 0 ready 2 C;";
  for (int i = 0; i < 6; ++i) {
    events += fmt::format(
        "{0} ready 1{1} V 2!; {0} start 1{1}.0 0.1; {0} start 1{1}.1 0.2; {2} end 1{1}.0 0.1; {2} "
        "end 1{1}.1 0.2;",
        10 * i, i, 10 * i + 10);
  }
  events += "60 end 1 0.0; 60 start 2 0.0; 61 end 2 0.0";
  EXPECT_EQ(judge_lanes("1x(1C2V)", starvation_bound_of(2), events), "");
}

// So does the count of those that pass over a mixed task.
TEST(LaneLawChecker, CountsAgainForTheNextBlock) {
  const auto in_turns = [](const std::string& one, const std::string& lanes,
                           const std::string& others) {
    std::string events = "0 ready 9 2V; 0 start 9 0.0 0.1; 1 ready 0 " + one + " 2;";
    for (int i = 1; i <= 4; ++i) events += fmt::format("2 ready {} {};", i, others);
    events += "9 end 9 0.0 0.1;";
    int number = 1;
    for (int i = 0; i < 6; ++i) {
      const int at = 9 + 10 * i;
      if (i % 3 == 2) {
        events += fmt::format("{0} start 0.{1} {2}; {3} end 0.{1} {2};", at, i / 3, lanes, at + 10);
        continue;
      }
      const bool gang = others.back() == '!';
      for (const auto& [what, when] : {std::pair{"start", at}, std::pair{"end", at + 10}}) {
        events += gang ? fmt::format("{0} {1} {2}.0 0.0; {0} {1} {2}.1 0.1;", when, what, number)
                       : fmt::format("{} {} {} 0.0 0.1;", when, what, number);
      }
      ++number;
    }
    return events;
  };
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(2), in_turns("V", "0.0", "2V")), "");
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(2), in_turns("group", "0.0 0.1", "V 2!")),
            "");
}

TEST(LaneLawChecker, DoesNotCountOlderGangs) {
  std::string events;
  for (int i = 1; i <= 4; ++i) events += fmt::format("0 ready {} V 2!;", i);
  for (int i = 1; i <= 4; ++i) {
    events += fmt::format("{0} start {1}.0 0.0; {0} start {1}.1 0.1;", 10 * (i - 1), i);
    if (i == 1) events += "1 ready 0 group;";
    events += fmt::format("{0} end {1}.0 0.0; {0} end {1}.1 0.1;", 10 * i, i);
  }
  events += "40 start 0 0.0 0.1; 50 end 0 0.0 0.1";
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(2), events), "");
}

TEST(LaneLawChecker, CountsGangsThatPassOverAMixedTask) {
  const auto judge = [](const std::vector<std::string>& others) {
    return judge_lanes("1x(2L)", starvation_bound_of(2), one_waits("group", others));
  };
  EXPECT_EQ(judge({"V 2!", "V 2!", "V 2!"}), "");
  EXPECT_EQ(judge({"V 2!", "V 2!", "V 2!", "V 2!"}),
            "at 30: law 4: mixed task 0 was passed over by 3 gangs");
}

// The group that the mixed task waits for is another one.
TEST(LaneLawChecker, DoesNotCountGangsThatLeaveRoom) {
  std::string events =
      "0 ready 9 2V; 0 start 9 1.0 1.1; 0 ready 1 V 2!; 0 start 1.0 0.0; 0 start 1.1 0.1;"
      "1 ready 0 group;";
  for (int i = 2; i < 8; ++i) {
    events += fmt::format(
        "{0} ready {1} V 2!; {0} end {2}.0 0.0; {0} end {2}.1 0.1; {0} start {1}.0 0.0; {0} start "
        "{1}.1 0.1;",
        10 * i, i, i - 1);
  }
  events +=
      "80 end 9 1.0 1.1; 80 start 0 1.0 1.1; 81 end 0 1.0 1.1; 81 end 7.0 0.0; 81 end 7.1 0.1";
  EXPECT_EQ(judge_lanes("2x(2L)", starvation_bound_of(2), events), "");
}

// 1x(2L): after the two that run when task 0 comes, the second since so long before, so many start
// that need a lane each.
std::string single_ones_first(int count, cores::Ticks cost, cores::Ticks second = 0) {
  std::string events = fmt::format(
      "0 ready 1 V; 0 start 1 0.0; {0} ready 2 V; {0} start 2 0.1; 1 ready 0 group;", second);
  for (int i = 3; i < count + 3; ++i) {
    const int lane = (i - 1) % 2, before = i - 2;
    events += fmt::format("{0} ready {1} V 1 {4}; {0} end {2} 0.{3}; {0} start {1} 0.{3};", 10 * i,
                          i, before, lane, cost);
  }
  return events + fmt::format(
                      "900 end {0} 0.{1}; 900 end {2} 0.{3}; 900 start 0 0.0 0.1; 901 end 0 "
                      "0.0 0.1",
                      count + 1, count % 2, count + 2, (count + 1) % 2);
}

LaneRules without_pending_slots(std::uint32_t starvation_bound) {
  LaneRules rules = starvation_bound_of(starvation_bound);
  rules.pending_slots = false;
  return rules;
}

TEST(LaneLawChecker, CountsSinglesThatAMixedTaskWaitsFor) {
  EXPECT_EQ(judge_lanes("1x(2L)", LaneRules(), single_ones_first(2, 0)), "");
  EXPECT_EQ(judge_lanes("1x(2L)", LaneRules(), single_ones_first(3, 0)),
            "at 50: law 4: mixed task 0 waited for 3 others, whichever lanes were reserved for it");
  EXPECT_EQ(judge_lanes("1x(2L)", LaneRules(), single_ones_first(20, 3)), "")
      << "sure to end in time";
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(0), single_ones_first(20, 0)), "")
      << "their turn";
}

// Nothing is pending behind a block of its own.
TEST(LaneLawChecker, CountsSinglesAgainForTheNextBlock) {
  const std::string events =
      "0 ready 1 V 2; 0 start 1.0 0.0; 0 start 1.1 0.1; 1 ready 0 group 2; 2 ready 2 V 2;"
      "10 end 1.0 0.0; 10 start 2.0 0.0; 12 end 1.1 0.1; 15 end 2.0 0.0; 15 start 0.0 0.0 0.1;"
      "25 end 0.0 0.0 0.1; 25 start 2.1 0.0; 35 end 2.1 0.0; 35 start 0.1 0.0 0.1;"
      "45 end 0.1 0.0 0.1";
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(1), events), "");
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(2), events),
            "at 25: law 4: mixed task 0 waited for 1 others, whichever lanes were reserved for it");
}

// What begins when the mixed task comes has nothing pending behind it.
TEST(LaneLawChecker, CountsWhatCanHaveBeenPending) {
  EXPECT_EQ(judge_lanes("1x(2L)", LaneRules(), single_ones_first(1, 0, 1)), "");
  EXPECT_EQ(judge_lanes("1x(2L)", LaneRules(), single_ones_first(2, 0, 1)),
            "at 40: law 4: mixed task 0 waited for 2 others, whichever lanes were reserved for it");
  EXPECT_EQ(judge_lanes("1x(2L)", without_pending_slots(8), single_ones_first(0, 0)), "");
  EXPECT_EQ(judge_lanes("1x(2L)", without_pending_slots(8), single_ones_first(1, 0)),
            "at 30: law 4: mixed task 0 waited for 1 others, whichever lanes were reserved for it");
}

// Three blocks of task 1 on all of 1x(2L), the last two of which pass over those of one lane; task
// 0 waits from the second on. Then these start, one after the other, and the mixed task.
std::string after_three_blocks(const std::string& others, const std::vector<int>& first) {
  std::string events = "0 ready 1 2V 3; 0 start 1.0 0.0 0.1;" + others + "2 ready 0 group;";
  events += "10 end 1.0 0.0 0.1; 10 start 1.1 0.0 0.1; 20 end 1.1 0.0 0.1; 20 start 1.2 0.0 0.1;";
  events += "30 end 1.2 0.0 0.1;";
  int at = 30;
  for (const int task : first) {
    events += fmt::format("{0} start {1} 0.0; {2} end {1} 0.0;", at, task, at + 10);
    at += 10;
  }
  events += fmt::format("{0} start 0 0.0 0.1; {1} end 0 0.0 0.1;", at, at + 1);
  return events;
}

TEST(LaneLawChecker, CountsTurnsOfSingles) {
  const auto judge = [](std::uint32_t starvation_bound, const std::string& others,
                        const std::vector<int>& first) {
    return judge_lanes("1x(2L)", starvation_bound_of(starvation_bound),
                       after_three_blocks(others, first));
  };
  EXPECT_EQ(judge(2, "1 ready 2 V;", {2}), "");
  EXPECT_EQ(judge(3, "1 ready 2 V;", {2}),
            "at 30: law 4: mixed task 0 waited for 1 others, whichever lanes were reserved for it");
  EXPECT_EQ(judge(2, "1 ready 2 V; 1 ready 3 V;", {2, 3}),
            "at 40: law 4: mixed task 0 waited for 2 others, whichever lanes were reserved for it");
  EXPECT_EQ(judge(2, "1 ready 2 V; 1 ready 3 C;", {2, 3}),
            "at 40: law 4: mixed task 0 waited for 2 others, whichever lanes were reserved for it")
      << "a lane of both kinds has one turn for both";
}

// The same where each lane does one kind of work.
TEST(LaneLawChecker, CountsTurnsOfEachKindOnLanesOfItsOwn) {
  const auto judge = [](const std::string& others, const std::string& then) {
    return judge_lanes(
        "1x(1C1V)", starvation_bound_of(2),
        "0 ready 1 1C1V 3; 0 start 1.0 0.0 0.1; 1 ready 2 V; 1 ready 3 C;" + others +
            "2 ready 0 group; 10 end 1.0 0.0 0.1; 10 start 1.1 0.0 0.1; 20 end 1.1 0.0 0.1;"
            "20 start 1.2 0.0 0.1; 30 end 1.2 0.0 0.1; 30 start 2 0.1; 30 start 3 0.0;"
            "40 end 2 0.1; 40 end 3 0.0;" +
            then + "50 start 0 0.0 0.1; 51 end 0 0.0 0.1;");
  };
  EXPECT_EQ(judge("1 ready 4 C;", "40 start 4 0.0; 50 end 4 0.0;"),
            "at 40: law 4: mixed task 0 waited for 3 others, whichever lanes were reserved for it");
}

// Of the two blocks of mixed tasks only the second counts for the last single one.
TEST(LaneLawChecker, CountsTurnsFromTheLastOne) {
  const std::string events =
      "0 ready 1 2V; 0 start 1 0.0 0.1; 0 ready 2 V 3; 10 end 1 0.0 0.1; 10 start 2.0 0.0;"
      "10 start 2.1 0.1; 12 ready 3 2V; 20 end 2.0 0.0; 20 end 2.1 0.1; 20 start 3 0.0 0.1;"
      "20 ready 0 group; 30 end 3 0.0 0.1; 30 start 2.2 0.0; 40 end 2.2 0.0; 40 start 0 0.0 0.1;"
      "41 end 0 0.0 0.1";
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(1), events), "");
  EXPECT_EQ(judge_lanes("1x(2L)", starvation_bound_of(2), events),
            "at 30: law 4: mixed task 0 waited for 1 others, whichever lanes were reserved for it");
}

// 1x(3L), whose first two lanes are busy when a gang comes that needs two: it goes before task 0,
// and the third lane is for anybody until it starts.
std::string gang_waits(bool one_more) {
  std::string events =
      "0 ready 1 V 3; 0 start 1.0 0.0; 0 start 1.1 0.1; 0 start 1.2 0.2; 1 ready 0 group;"
      "5 end 1.2 0.2; 10 ready 2 V 2!; 10 ready 3 V 3; 10 start 3.0 0.2; 15 end 3.0 0.2;"
      "15 start 3.1 0.2; 18 end 3.1 0.2; 18 start 3.2 0.2; 20 end 1.1 0.1; 35 end 1.0 0.0;"
      "35 start 2.0 0.0; 35 start 2.1 0.1; 40 end 3.2 0.2;";
  if (one_more) events += "40 ready 4 V; 40 start 4 0.2; 44 end 4 0.2;";
  return events + "45 end 2.0 0.0; 45 end 2.1 0.1; 45 start 0 0.0 0.1 0.2; 46 end 0 0.0 0.1 0.2";
}

TEST(LaneLawChecker, CountsSinglesOnceNoGangWaits) {
  EXPECT_EQ(judge_lanes("1x(3L)", without_pending_slots(8), gang_waits(false)), "");
  EXPECT_EQ(judge_lanes("1x(3L)", without_pending_slots(8), gang_waits(true)),
            "at 40: law 4: mixed task 0 waited for 1 others, whichever lanes were reserved for it");
}

// 1x(3L), where a gang comes that finds two lanes reserved for task 0 and starts at once, and then
// another one, which waits; on the third lane so many start that need one lane. Those that `wait`
// do so from the beginning, the others come when they start.
std::string gang_starts(int count, bool wait) {
  std::string events =
      "0 ready 1 V 3; 0 start 1.0 0.0; 0 start 1.1 0.1; 0 start 1.2 0.2; 1 ready 0 group;";
  if (wait) events += fmt::format("2 ready 4 V {};", count);
  events +=
      "10 end 1.1 0.1; 10 end 1.2 0.2; 20 ready 2 V 2!; 20 start 2.0 0.1; 20 start 2.1 0.2;"
      "30 end 2.0 0.1; 30 end 2.1 0.2; 31 ready 3 V 2!;";
  std::string before = "1.0";
  for (int i = 0; i < count; ++i) {
    const std::string task = wait ? fmt::format("4.{}", i) : fmt::format("{}", 4 + i);
    events += fmt::format("{} end {} 0.0;", 40 + 10 * i, before);
    if (!wait) events += fmt::format("{} ready {} V;", 40 + 10 * i, task);
    events += fmt::format("{} start {} 0.0;", 40 + 10 * i, task);
    before = task;
  }
  const int end = 40 + 10 * count;
  return events + fmt::format(
                      "{0} end {1} 0.0; {0} start 0 0.0 0.1 0.2; {2} end 0 0.0 0.1 0.2;"
                      "{2} start 3.0 0.0; {2} start 3.1 0.1; {3} end 3.0 0.0; {3} end 3.1 0.1",
                      end, before, end + 1, end + 2);
}

// The second gang does not go first: as many as may have passed over the mixed task.
TEST(LaneLawChecker, CountsSinglesAcrossAGangThatDidNotWait) {
  EXPECT_EQ(judge_lanes("1x(3L)", starvation_bound_of(1), gang_starts(3, false)), "");
  EXPECT_EQ(judge_lanes("1x(3L)", starvation_bound_of(1), gang_starts(4, false)),
            "at 70: law 4: mixed task 0 waited for 4 others, whichever lanes were reserved for it");
  // By its two blocks, which are no round, it brings those that it passes over no turn.
  EXPECT_EQ(judge_lanes("1x(3L)", starvation_bound_of(1), gang_starts(3, true)), "");
  EXPECT_EQ(judge_lanes("1x(3L)", starvation_bound_of(1), gang_starts(4, true)),
            "at 70: law 4: mixed task 0 waited for 4 others, whichever lanes were reserved for it");
}

}  // namespace
}  // namespace dovetail::laws
