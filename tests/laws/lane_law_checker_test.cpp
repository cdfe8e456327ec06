#include "laws/checker/lane_law_checker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "laws/checker/kept_lanes.h"

// The checker is asked about runs that nobody made: one for each of its rules, broken at one place,
// and one that only nearly breaks it.

namespace dovetail::laws {
namespace {

using cores::AdmissionPolicy;
using cores::GroupSpec;
using cores::LaneMask;
using cores::Span;
using cores::TaskShape;
using cores::Topology;

const std::map<std::string, TaskShape> kShapes = {
    {"C", cores::kMatrixTask}, {"V", cores::kVectorTask}, {"1C1V", {1, 1, false}},
    {"1C2V", {1, 2, false}},   {"2V", {0, 2, false}},     {"group", cores::kWholeGroup}};

// "TIME ready TASK SHAPE [BLOCKS [COST]]; TIME start TASK[.BLOCK] GROUP.LANE...; TIME end ...": the
// blocks of a cohort are followed by '!'.
std::vector<LaneEvent> lane_events(const std::string& text) {
  std::vector<LaneEvent> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream words(line);
    std::string kind, task, word;
    cores::Ticks at = 0;
    if (!(words >> at >> kind >> task)) continue;
    const std::size_t dot = task.find('.');
    LaneEvent event{LaneEvent::Kind::kReady, at, {}, 0, 0, 0};
    event.task.id = std::stoul(task);
    if (kind == "ready") {
      words >> word;
      event.task.shape = kShapes.at(word);
      if (words >> word) event.task.blocks = static_cast<std::uint32_t>(std::stoul(word));
      event.task.together = word.back() == '!';
      words >> event.task.cost;
      events.push_back(event);
      continue;
    }
    event.kind = kind == "start" ? LaneEvent::Kind::kStart : LaneEvent::Kind::kEnd;
    if (dot != std::string::npos) {
      event.block = static_cast<std::uint32_t>(std::stoul(task.substr(dot + 1)));
    }
    while (words >> word) {
      event.group = static_cast<cores::GroupId>(std::stoul(word));
      event.lane = static_cast<unsigned>(std::stoul(word.substr(word.find('.') + 1)));
      events.push_back(event);
    }
  }
  return events;
}

std::string judge_lanes(const char* topology, const LaneRules& rules, const std::string& events) {
  LaneLawChecker checker(*Topology::parse(topology), rules);
  for (const LaneEvent& event : lane_events(events)) checker.see(event);
  checker.finish();
  return checker.violations().empty() ? "" : checker.violations().front();
}

LaneRules patience_of(std::uint32_t patience) {
  LaneRules rules;
  rules.patience = patience;
  return rules;
}

LaneRules under(AdmissionPolicy policy) {
  cores::DispatchOptions options;
  options.policy = policy;
  return LaneRules::of(options);
}

const LaneRules kStrict = under(AdmissionPolicy::kStrict);
const LaneRules kPerCore = under(AdmissionPolicy::kPerCore);
const LaneRules kThreads = LaneRules::on_threads(true);
const LaneRules kFewThreads = LaneRules::on_threads(false);

const char* const k1 = "1x(1C2V)";
const char* const k2 = "2x(1C2V)";

// Tasks 1 and 2, of a vector lane each, and 3, which needs both.
const std::string kThree =
    "0 ready 1 V; 0 start 1 0.1; 0 ready 2 V; 0 start 2 0.2; 1 ready 3 2V; 9 end 1 0.1;";
const std::string kEnd3 = "10 end 2 0.2; 10 start 3 0.1 0.2; 20 end 3 0.1 0.2;";

// Task 1 has the matrix lane up to 9, for which 2 waits that needs a vector lane, too.
const std::string kWaits1C1V = "0 ready 1 C; 0 start 1 0.0; 1 ready 2 1C1V;";
const std::string kEnd1C1V = "9 end 1 0.0; 9 start 2 0.0 0.1; 12 end 2 0.0 0.1;";

// Task 1 has a vector lane up to 9; cohort 2 waits for both.
const std::string kCohort = "0 ready 1 V; 0 start 1 0.1; 1 ready 2 V 2!;";
const std::string kEndCohort = "9 end 1 0.1; 9 start 2.0 0.1; 9 start 2.1 0.2;";
const std::string kCohortEnds = "12 end 2.0 0.1; 12 end 2.1 0.2;";

// A vector lane of each of three groups is busy up to 9, and a cohort waits for two whole pairs.
const std::string kPairs =
    "0 ready 1 V 3; 0 start 1.0 0.1; 0 start 1.1 1.1; 0 start 1.2 2.1; 1 ready 2 2V 2!;";
const std::string kEndPairs =
    "9 end 1.0 0.1; 9 end 1.1 1.1; 9 start 2.0 0.1 0.2; 9 start 2.1 1.1 1.2; 9 end 1.2 2.1;"
    "12 end 2.0 0.1 0.2; 12 end 2.1 1.1 1.2;";

// The first of two matrix lanes is busy up to 9; a cohort waits for both, each with a vector lane.
const std::string kRows = "0 ready 1 C; 0 start 1 0.0; 1 ready 2 1C1V 2!;";
const std::string kEndRows =
    "9 end 1 0.0; 9 start 2.0 0.0 0.2; 9 start 2.1 0.1 0.3; 12 end 2.0 0.0 0.2; 12 end 2.1 0.1 "
    "0.3;";

struct LaneCase {
  const char* name;
  const char* topology;
  LaneRules rules;
  std::string events;
  std::string violation;  // a part of it; "": none
};

const char* const kIdle = "law 1: lanes are idle that need not be kept, and these wait:";

const LaneCase kLaneCases[] = {
    {"NothingHappens", k1, kStrict, "", ""},
    {"JoinsOnly", k1, kStrict, "0 ready 1 V 0", ""},
    {"MixedWhole", k1, kStrict, kThree + kEnd3, ""},

    {"StartsBeforeItIsReady", k1, kStrict, "0 start 1 0.1", "law 1: task 1 starts before it is"},
    {"IdleBesideASingle", k1, kStrict, "0 ready 1 V; 1 start 1 0.1; 2 end 1 0.1",
     std::string("at 0: ") + kIdle + " 1"},
    {"IdleOfAnotherKind", k1, kStrict,
     "0 ready 1 V 3; 0 start 1.0 0.1; 0 start 1.1 0.2; 5 end 1.0 0.1; 5 start 1.2 0.1; 6 end 1.1 "
     "0.2; 9 end 1.2 0.1",
     ""},
    {"IdleAndAllFits", k1, kStrict, kThree + "10 end 2 0.2; 11 start 3 0.1 0.2; 20 end 3 0.1 0.2",
     std::string("at 10: ") + kIdle + " 3"},
    {"IdleThatAMixedTaskCannotUse", k1, kStrict, kThree + "9 ready 4 C;" + kEnd3,
     std::string("at 9: ") + kIdle + " 3 4"},
    {"KeptForAMixedTask", k1, kStrict,
     kThree + "9 ready 4 V;" +
         "10 end 2 0.2; 10 start 3 0.1 0.2; 20 end 3 0.1 0.2; 20 start 4 0.1; 21 end 4 0.1",
     ""},
    {"OneMoreThanKeptForAMixedTask", k1, kStrict, kWaits1C1V + "2 ready 3 V;" + kEnd1C1V,
     std::string("at 2: ") + kIdle + " 2 3"},
    {"OneIsKeptForAMixedTask", k1, kStrict,
     kWaits1C1V + "2 ready 3 V 2; 2 start 3.0 0.2;" +
         "9 end 1 0.0; 9 start 2 0.0 0.1; 12 end 2 0.0 0.1; 12 start 3.1 0.1; 13 end 3.0 0.2; 13 "
         "end 3.1 0.1",
     ""},
    {"KeptInOneGroupOnly", k2, kStrict,
     "0 ready 1 C 2; 0 start 1.0 0.0; 0 start 1.1 1.0; 1 ready 2 1C2V; 2 ready 3 V; 3 end 1.0 0.0",
     std::string("at 2: ") + kIdle + " 2 3"},
    {"KeptInOneGroup", k2, kStrict,
     "0 ready 1 C 2; 0 start 1.0 0.0; 0 start 1.1 1.0; 1 ready 2 1C2V; 2 ready 3 V 3; 2 start 3.0 "
     "1.1; 2 start 3.1 1.2; 3 end 1.0 0.0; 3 start 2 0.0 0.1 0.2; 4 end 3.0 1.1; 4 start 3.2 1.1;"
     "5 end 3.1 1.2; 6 end 2 0.0 0.1 0.2; 6 end 3.2 1.1; 6 end 1.1 1.0",
     ""},

    {"KeptForACohort", k1, kStrict,
     kCohort + "2 ready 3 V;" + kEndCohort + kCohortEnds + "12 start 3 0.1; 13 end 3 0.1", ""},
    {"IdleThatACohortCannotUse", k1, kStrict, kCohort + "2 ready 3 C;" + kEndCohort + kCohortEnds,
     std::string("at 2: ") + kIdle + " 2 3"},
    {"UsesWhatACohortCannotUse", k1, kStrict,
     kCohort + "2 ready 3 C; 2 start 3 0.0; 8 end 3 0.0;" + kEndCohort + kCohortEnds, ""},
    {"IdleThatACohortDoesNotNeed", "3x(1C2V)", kStrict, kPairs + "2 ready 3 V;" + kEndPairs,
     std::string("at 2: ") + kIdle + " 2 3"},
    {"UsesWhatACohortDoesNotNeed", "3x(1C2V)", kStrict,
     kPairs + "2 ready 3 V; 2 start 3 2.2; 8 end 3 2.2;" + kEndPairs, ""},
    {"KeptForTwoBlocks", "3x(1C2V)", kStrict,
     kPairs + "2 ready 3 V 2; 2 start 3.0 2.2; 9 end 1.0 0.1; 9 end 1.1 1.1; 9 end 1.2 2.1;"
              "9 start 2.0 0.1 0.2; 9 start 2.1 1.1 1.2; 9 start 3.1 2.1; 12 end 2.0 0.1 0.2; 12 "
              "end 2.1 "
              "1.1 1.2; 12 end 3.0 2.2; 12 end 3.1 2.1",
     ""},
    {"MixedBesideACohort", "1x(2C4V)", kStrict, kRows + "2 ready 3 2V;" + kEndRows,
     std::string("at 2: ") + kIdle + " 2 3"},
    {"MixedUsesWhatIsLeft", "1x(2C4V)", kStrict,
     kRows + "2 ready 3 2V; 2 start 3 0.4 0.5; 8 end 3 0.4 0.5;" + kEndRows, ""},
    {"CohortBesideItsPlaces", k1, kStrict,
     kCohort + "9 end 1 0.1; 10 start 2.0 0.1; 10 start 2.1 0.2; 12 end 2.0 0.1; 12 end 2.1 0.2",
     std::string("at 9: ") + kIdle + " 2"},
    {"CohortBesideWhatIsKeptForAMixedTask", k1, kStrict,
     kWaits1C1V + "2 ready 3 V 2!;" + kEnd1C1V +
         "12 start 3.0 0.1; 12 start 3.1 0.2;"
         "13 end 3.0 0.1; 13 end 3.1 0.2",
     ""},
    {"CohortBesideWhatAMixedTaskDoesNotNeed", "1x(1C3V)", kStrict,
     kWaits1C1V + "2 ready 3 V 2!;" + kEnd1C1V +
         "12 start 3.0 0.1; 12 start 3.1 0.2;"
         "13 end 3.0 0.1; 13 end 3.1 0.2",
     std::string("at 2: ") + kIdle + " 2 3"},
    {"IdleUnderOtherPolicies", k1, kPerCore, "0 ready 1 V; 1 start 1 0.1; 2 end 1 0.1", ""},

    {"TwoThingsAtATime", k1, kStrict, "0 ready 1 C; 0 start 1 0.0; 0 ready 2 C; 0 start 2 0.0",
     "law 2: group 0 lane 0 runs tasks 1 and 2 at a time"},
    {"OneAfterTheOther", k1, kStrict,
     "0 ready 1 C; 0 start 1 0.0; 0 ready 2 C; 1 end 1 0.0; 1 start 2 0.0; 2 end 2 0.0", ""},
    {"AnotherKindOfLane", k1, kStrict, "0 ready 1 C; 0 start 1 0.1",
     "law 2: task 1 block 0 runs on lanes 10 of group 0"},
    {"AnotherShape", "1x(2C2V)", kStrict, "0 ready 1 1C1V; 0 start 1 0.0 0.1",
     "law 2: task 1 block 0 runs on lanes 11 of group 0"},
    {"NoSuchLane", k1, kStrict, "0 ready 1 V; 0 start 1 0.3", "law 2: task 1 runs on lane 3 of"},
    {"TwoGroups", k2, kStrict, "0 ready 1 1C1V; 0 start 1 0.0 1.1",
     "law 2: task 1 block 0 runs in two groups"},
    {"EndsElsewhere", k1, kStrict, "0 ready 1 V; 0 start 1 0.1; 1 end 1 0.2",
     "law 2: task 1 block 0 ends on group 0 lane 2, where it does not run"},
    {"PartsApart", k1, kStrict, "0 ready 1 2V; 0 start 1 0.1; 1 start 1 0.2; 2 end 1 0.1 0.2",
     "law 2: task 1 block 0: its parts start apart"},
    {"PartsApartUnderPerCore", k1, kPerCore,
     "0 ready 1 2V; 0 start 1 0.1; 1 start 1 0.2; 2 end 1 0.1 0.2", ""},
    {"PartsOverlapOnThreads", k1, kThreads,
     "0 ready 1 2V; 0 start 1 0.1; 1 end 1 0.1; 1 start 1 0.2; 2 end 1 0.2", ""},
    {"PartsDoNotMeetOnThreads", k1, kThreads,
     "0 ready 1 2V; 0 start 1 0.1; 1 end 1 0.1; 2 start 1 0.2; 3 end 1 0.2",
     "at 1: law 2: task 1 block 0: its parts start apart"},
    {"PartsOfFewThreads", k1, kFewThreads,
     "0 ready 1 2V; 0 start 1 0.1; 1 end 1 0.1; 2 start 1 0.2; 3 end 1 0.2", ""},
    {"CohortApart", k1, kStrict,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 1 start 1.1 0.2; 2 end 1.0 0.1; 2 end 1.1 0.2",
     "law 2: the blocks of cohort 1 start apart"},
    {"CohortApartUnderPerCore", k1, kPerCore,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 1 start 1.1 0.2; 2 end 1.0 0.1; 2 end 1.1 0.2",
     "law 2: the blocks of cohort 1 start apart"},
    {"CohortAtOnce", k1, kStrict,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 0 start 1.1 0.2; 2 end 1.0 0.1; 3 end 1.1 0.2", ""},
    {"CohortDoesNotMeetOnThreads", k1, kThreads,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 1 end 1.0 0.1; 2 start 1.1 0.2; 3 end 1.1 0.2",
     "at 1: law 2: the blocks of cohort 1 start apart"},
    {"CohortMeetsOnThreads", k1, kThreads,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 1 start 1.1 0.2; 2 end 1.0 0.1; 3 end 1.1 0.2", ""},

    {"ReadyTwice", k1, kStrict, "0 ready 1 V; 0 ready 1 V", "law 4: task 1 becomes ready twice"},
    {"ABlockTooMany", k1, kStrict, "0 ready 1 V; 0 start 1.1 0.1",
     "law 4: task 1 block 1 runs, but it has 1"},
    {"RunsTwice", k1, kStrict, "0 ready 1 V; 0 start 1 0.1; 1 end 1 0.1; 1 start 1 0.1",
     "law 4: task 1 block 0 runs twice"},
    {"RunsTwiceElsewhere", k1, kStrict, "0 ready 1 V; 0 start 1 0.1; 1 end 1 0.1; 1 start 1 0.2",
     "law 4: task 1 block 0 runs twice"},
    {"APartTwice", k1, kFewThreads, "0 ready 1 2V; 0 start 1 0.1; 1 end 1 0.1; 1 start 1 0.1",
     "law 4: task 1 block 0 runs twice"},
    {"DidNotRun", k1, kFewThreads, "0 ready 1 V 2; 0 start 1.0 0.1; 1 end 1.0 0.1",
     "law 4: task 1 block 1 did not run"},
    {"RanInPart", k1, kFewThreads, "0 ready 1 2V; 0 start 1 0.1; 1 end 1 0.1",
     "law 4: task 1 block 0 did not run to its end"},
    {"RunsForEver", k1, kStrict, "0 ready 1 V; 0 start 1 0.1",
     "law 4: task 1 block 0 did not run to its end"},
    {"Late", k1, kStrict, "3 ready 1 V; 3 start 1 0.1; 2 end 1 0.1", "an event of 2 comes late"},

    {"SingleOvertakes", k1, kStrict, "0 ready 1 C 1 5; 0 ready 2 C; 0 start 2 0.0",
     "law 4: task 2 overtakes its equal 1"},
    {"SingleOfAnotherKind", k1, kStrict,
     "0 ready 1 C; 0 start 1 0.0; 0 ready 2 C; 0 ready 3 V; 0 start 3 0.1; 1 end 1 0.0; 1 start 2 "
     "0.0; 2 end 2 0.0; 2 end 3 0.1",
     ""},
    {"LaterBlocksFirst", k1, kStrict,
     "0 ready 1 C 2; 0 ready 2 C; 0 start 1.0 0.0; 1 end 1.0 0.0;"
     "1 start 2 0.0",
     "law 4: task 2 overtakes its equal 1"},
    {"SingleOvertakesUnderPerCore", k1, kPerCore, "0 ready 1 C; 0 ready 2 C; 0 start 2 0.0",
     "law 4: task 2 overtakes its equal 1"},
    {"SingleOvertakesOnThreads", k1, kThreads,
     "0 ready 1 C; 0 ready 2 C; 0 start 2 0.0; 1 end 2 0.0; 1 start 1 0.0; 2 end 1 0.0", ""},
    {"MixedOvertakes", k1, kStrict, "0 ready 1 2V; 0 ready 2 2V; 0 start 2 0.1 0.2",
     "law 4: task 2 overtakes its equal 1"},
    {"MixedOvertakesUnderPerCore", k1, kPerCore,
     "0 ready 1 2V; 0 ready 2 2V; 0 start 2 0.1 0.2; 1 end 2 0.1 0.2; 1 start 1 0.1 0.2;"
     "2 end 1 0.1 0.2",
     ""},
    {"CohortOvertakes", k1, kStrict,
     "0 ready 1 V 2!; 0 ready 2 V 2!; 0 start 2.0 0.1; 0 start 2.1 0.2",
     "law 4: task 2 overtakes its equal 1"},
};

TEST(LaneLawChecker, SeesWhatIsBrokenAndNothingElse) {
  for (const LaneCase& one : kLaneCases) {
    const std::string violation = judge_lanes(one.topology, one.rules, one.events);
    if (one.violation.empty()) {
      EXPECT_EQ(violation, "") << one.name;
    } else {
      EXPECT_NE(violation.find(one.violation), std::string::npos)
          << one.name << ": '" << violation << "' instead of '" << one.violation << "'";
    }
  }
}

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

TEST(LaneLawChecker, CountsBlocksThatPassOverASingle) {
  const auto judge = [](std::uint32_t patience, const std::vector<std::string>& others) {
    return judge_lanes("1x(2L)", patience_of(patience), one_waits("V", others));
  };
  // Those after the first.
  EXPECT_EQ(judge(2, {"2V", "2V", "2V"}), "");
  EXPECT_EQ(judge(2, {"2V", "2V", "2V", "2V"}), "at 30: law 4: task 0 was passed over by 3 blocks");
  // A cohort that has begun to be counted counts whole.
  EXPECT_EQ(judge(2, {"2V", "2V", "V 2!"}), "");
  EXPECT_EQ(judge(2, {"2V", "V 2!", "2V"}), "at 20: law 4: task 0 was passed over by 3 blocks");
  EXPECT_EQ(judge(1, {"V 2!", "V 2!"}), "");
  EXPECT_EQ(judge(1, {"V 2!", "V 2!", "V 2!"}), "at 20: law 4: task 0 was passed over by 4 blocks");
}

TEST(LaneLawChecker, DoesNotCountWhatNeedsOtherLanes) {
  std::string events =
      "0 ready 1 C; 0 start 1 0.0; 0 ready 2 C; 0 ready 3 2V 6; 0 start 3.0 0.1 0.2;";
  for (int i = 1; i < 6; ++i) {
    events += fmt::format("{0} end 3.{1} 0.1 0.2; {0} start 3.{2} 0.1 0.2;", 10 * i, i - 1, i);
  }
  events += "60 end 3.5 0.1 0.2; 60 end 1 0.0; 60 start 2 0.0; 61 end 2 0.0";
  EXPECT_EQ(judge_lanes(k1, patience_of(2), events), "");
}

TEST(LaneLawChecker, DoesNotCountCohortsThatNeedOtherLanes) {
  std::string events = "0 ready 1 C; 0 start 1 0.0; 0 ready 2 C;";
  for (int i = 0; i < 6; ++i) {
    events += fmt::format(
        "{0} ready 1{1} V 2!; {0} start 1{1}.0 0.1; {0} start 1{1}.1 0.2; {2} end 1{1}.0 0.1; {2} "
        "end 1{1}.1 0.2;",
        10 * i, i, 10 * i + 10);
  }
  events += "60 end 1 0.0; 60 start 2 0.0; 61 end 2 0.0";
  EXPECT_EQ(judge_lanes(k1, patience_of(2), events), "");
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
      const bool cohort = others.back() == '!';
      for (const auto& [what, when] : {std::pair{"start", at}, std::pair{"end", at + 10}}) {
        events += cohort ? fmt::format("{0} {1} {2}.0 0.0; {0} {1} {2}.1 0.1;", when, what, number)
                         : fmt::format("{} {} {} 0.0 0.1;", when, what, number);
      }
      ++number;
    }
    return events;
  };
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(2), in_turns("V", "0.0", "2V")), "");
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(2), in_turns("group", "0.0 0.1", "V 2!")), "");
}

TEST(LaneLawChecker, DoesNotCountOlderCohorts) {
  std::string events;
  for (int i = 1; i <= 4; ++i) events += fmt::format("0 ready {} V 2!;", i);
  for (int i = 1; i <= 4; ++i) {
    events += fmt::format("{0} start {1}.0 0.0; {0} start {1}.1 0.1;", 10 * (i - 1), i);
    if (i == 1) events += "1 ready 0 group;";
    events += fmt::format("{0} end {1}.0 0.0; {0} end {1}.1 0.1;", 10 * i, i);
  }
  events += "40 start 0 0.0 0.1; 50 end 0 0.0 0.1";
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(2), events), "");
}

TEST(LaneLawChecker, CountsCohortsThatPassOverAMixedTask) {
  const auto judge = [](const std::vector<std::string>& others) {
    return judge_lanes("1x(2L)", patience_of(2), one_waits("group", others));
  };
  EXPECT_EQ(judge({"V 2!", "V 2!", "V 2!"}), "");
  EXPECT_EQ(judge({"V 2!", "V 2!", "V 2!", "V 2!"}),
            "at 30: law 4: mixed task 0 was passed over by 3 cohorts");
}

// The group that the mixed task waits for is another one.
TEST(LaneLawChecker, DoesNotCountCohortsThatLeaveRoom) {
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
  EXPECT_EQ(judge_lanes("2x(2L)", patience_of(2), events), "");
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

LaneRules without_parking(std::uint32_t patience) {
  LaneRules rules = patience_of(patience);
  rules.parks = false;
  return rules;
}

TEST(LaneLawChecker, CountsSinglesThatAMixedTaskWaitsFor) {
  EXPECT_EQ(judge_lanes("1x(2L)", kStrict, single_ones_first(2, 0)), "");
  EXPECT_EQ(judge_lanes("1x(2L)", kStrict, single_ones_first(3, 0)),
            "at 50: law 4: mixed task 0 waited for 3 tasks of a single lane");
  EXPECT_EQ(judge_lanes("1x(2L)", kStrict, single_ones_first(20, 3)), "") << "sure to end in time";
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(0), single_ones_first(20, 0)), "") << "their turn";
}

// Nothing is parked behind a block of its own.
TEST(LaneLawChecker, CountsSinglesAgainForTheNextBlock) {
  const std::string events =
      "0 ready 1 V 2; 0 start 1.0 0.0; 0 start 1.1 0.1; 1 ready 0 group 2; 2 ready 2 V 2;"
      "10 end 1.0 0.0; 10 start 2.0 0.0; 12 end 1.1 0.1; 15 end 2.0 0.0; 15 start 0.0 0.0 0.1;"
      "25 end 0.0 0.0 0.1; 25 start 2.1 0.0; 35 end 2.1 0.0; 35 start 0.1 0.0 0.1;"
      "45 end 0.1 0.0 0.1";
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(1), events), "");
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(2), events),
            "at 25: law 4: mixed task 0 waited for 1 tasks of a single lane");
}

// What begins when the mixed task comes has nothing parked behind it.
TEST(LaneLawChecker, CountsWhatCanHaveBeenParked) {
  EXPECT_EQ(judge_lanes("1x(2L)", kStrict, single_ones_first(1, 0, 1)), "");
  EXPECT_EQ(judge_lanes("1x(2L)", kStrict, single_ones_first(2, 0, 1)),
            "at 40: law 4: mixed task 0 waited for 2 tasks of a single lane");
  EXPECT_EQ(judge_lanes("1x(2L)", without_parking(8), single_ones_first(0, 0)), "");
  EXPECT_EQ(judge_lanes("1x(2L)", without_parking(8), single_ones_first(1, 0)),
            "at 30: law 4: mixed task 0 waited for 1 tasks of a single lane");
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
  const auto judge = [](std::uint32_t patience, const std::string& others,
                        const std::vector<int>& first) {
    return judge_lanes("1x(2L)", patience_of(patience), after_three_blocks(others, first));
  };
  EXPECT_EQ(judge(2, "1 ready 2 V;", {2}), "");
  EXPECT_EQ(judge(3, "1 ready 2 V;", {2}),
            "at 30: law 4: mixed task 0 waited for 1 tasks of a single lane");
  EXPECT_EQ(judge(2, "1 ready 2 V; 1 ready 3 V;", {2, 3}),
            "at 40: law 4: mixed task 0 waited for 2 tasks of a single lane");
  EXPECT_EQ(judge(2, "1 ready 2 V; 1 ready 3 C;", {2, 3}), "") << "one of each kind";
  EXPECT_EQ(judge(2, "1 ready 2 V; 1 ready 3 C; 1 ready 4 C;", {2, 3, 4}),
            "at 50: law 4: mixed task 0 waited for 3 tasks of a single lane");
}

// Of the two blocks of mixed tasks only the second counts for the last single one.
TEST(LaneLawChecker, CountsTurnsFromTheLastOne) {
  const std::string events =
      "0 ready 1 2V; 0 start 1 0.0 0.1; 0 ready 2 V 3; 10 end 1 0.0 0.1; 10 start 2.0 0.0;"
      "10 start 2.1 0.1; 12 ready 3 2V; 20 end 2.0 0.0; 20 end 2.1 0.1; 20 start 3 0.0 0.1;"
      "20 ready 0 group; 30 end 3 0.0 0.1; 30 start 2.2 0.0; 40 end 2.2 0.0; 40 start 0 0.0 0.1;"
      "41 end 0 0.0 0.1";
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(1), events), "");
  EXPECT_EQ(judge_lanes("1x(2L)", patience_of(2), events),
            "at 30: law 4: mixed task 0 waited for 1 tasks of a single lane");
}

// 1x(3L), whose first two lanes are busy when a cohort comes that needs two: it goes before task 0,
// and the third lane is for anybody until it starts.
std::string cohort_waits(bool one_more) {
  std::string events =
      "0 ready 1 V 3; 0 start 1.0 0.0; 0 start 1.1 0.1; 0 start 1.2 0.2; 1 ready 0 group;"
      "5 end 1.2 0.2; 10 ready 2 V 2!; 10 ready 3 V 3; 10 start 3.0 0.2; 15 end 3.0 0.2;"
      "15 start 3.1 0.2; 18 end 3.1 0.2; 18 start 3.2 0.2; 20 end 1.1 0.1; 35 end 1.0 0.0;"
      "35 start 2.0 0.0; 35 start 2.1 0.1; 40 end 3.2 0.2;";
  if (one_more) events += "40 ready 4 V; 40 start 4 0.2; 44 end 4 0.2;";
  return events + "45 end 2.0 0.0; 45 end 2.1 0.1; 45 start 0 0.0 0.1 0.2; 46 end 0 0.0 0.1 0.2";
}

TEST(LaneLawChecker, CountsSinglesOnceNoCohortWaits) {
  EXPECT_EQ(judge_lanes("1x(3L)", without_parking(8), cohort_waits(false)), "");
  EXPECT_EQ(judge_lanes("1x(3L)", without_parking(8), cohort_waits(true)),
            "at 40: law 4: mixed task 0 waited for 1 tasks of a single lane");
}

// 1x(3L), where a cohort comes that finds two lanes kept for task 0 and starts at once, and then
// another one, which waits; on the third lane so many start that need one lane. Those that `wait`
// do so from the beginning, the others come when they start.
std::string cohort_starts(int count, bool wait) {
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

// The second cohort does not go first: as many as may have passed over the mixed task.
TEST(LaneLawChecker, CountsSinglesAcrossACohortThatDidNotWait) {
  EXPECT_EQ(judge_lanes("1x(3L)", patience_of(1), cohort_starts(3, false)), "");
  EXPECT_EQ(judge_lanes("1x(3L)", patience_of(1), cohort_starts(4, false)),
            "at 70: law 4: mixed task 0 waited for 4 tasks of a single lane");
  // By its two blocks it brings those that it passes over two turns.
  EXPECT_EQ(judge_lanes("1x(3L)", patience_of(1), cohort_starts(5, true)), "");
  EXPECT_EQ(judge_lanes("1x(3L)", patience_of(1), cohort_starts(6, true)),
            "at 90: law 4: mixed task 0 waited for 6 tasks of a single lane");
}

TEST(LaneEvents, EndsComeFirstAndStartsLast) {
  const LaneEvent ready[] = {LaneEvent::ready({7, cores::kVectorTask, 1, false, 0, 0}, 5),
                             LaneEvent::ready({6, cores::kVectorTask, 1, false, 0, 0}, 5),
                             LaneEvent::ready({5, cores::kVectorTask, 1, false, 0, 0}, 0)};
  const Span spans[] = {{6, 0, 0, 0, 5, 9}, {7, 0, 0, 0, 5, 5}, {5, 0, 0, 0, 0, 5}};
  std::string text;
  for (const LaneEvent& event : in_order(ready, spans)) {
    static constexpr const char* kKinds[] = {"ready", "start", "end"};
    text +=
        fmt::format("{} {} {}; ", event.at, kKinds[static_cast<int>(event.kind)], event.task.id);
  }
  EXPECT_EQ(text,
            "0 ready 5; 0 start 5; 5 end 5; 5 ready 7; 5 ready 6; 5 start 7; 5 end 7; 5 start 6; 9 "
            "end 6; ");
}

// Every choice of lanes, one after the other.
class EveryChoice {
 public:
  EveryChoice(std::span<const GroupSpec> groups, std::vector<LaneMask> idle, const Waiting& waiting)
      : groups_(groups), idle_(std::move(idle)), waiting_(waiting) {}

  bool explains() {
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      mixed_.assign(groups_.size(), 0);
      if (!waiting_.mixed) break;
      for (LaneMask lanes = 1; lanes <= groups_[group].all(); ++lanes) {
        if (choose_lanes(groups_[group], *waiting_.mixed, lanes) != lanes) continue;
        mixed_[group] = lanes;
        cohort_.assign(groups_.size(), 0);
        if (explains_with(0)) return true;
      }
    }
    mixed_.assign(groups_.size(), 0);
    cohort_.assign(groups_.size(), 0);
    return explains_with(0);
  }

 private:
  bool explains_with(std::uint32_t places) {
    if (holds()) return true;
    if (!waiting_.cohort || places == waiting_.cohort->blocks) return false;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (LaneMask lanes = 1; lanes <= groups_[group].all(); ++lanes) {
        if (choose_lanes(groups_[group], waiting_.cohort->shape, lanes) != lanes ||
            (lanes & (mixed_[group] | cohort_[group])) != 0) {
          continue;
        }
        cohort_[group] |= lanes;
        if (explains_with(places + 1)) return true;
        cohort_[group] &= ~lanes;
      }
    }
    return false;
  }

  bool holds() const {
    std::uint32_t places = 0;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      const auto fits = [&](const TaskShape& shape, LaneMask lanes) {
        return choose_lanes(groups_[group], shape, lanes) != 0;
      };
      const LaneMask without_cohort = idle_[group] & ~cohort_[group];
      if (waiting_.mixed && fits(*waiting_.mixed, without_cohort)) return false;
      for (const TaskShape& shape : waiting_.shapes) {
        if (fits(shape, without_cohort & ~mixed_[group])) return false;
      }
      LaneMask rest = idle_[group] & ~mixed_[group];
      while (waiting_.cohort) {
        const LaneMask lanes = choose_lanes(groups_[group], waiting_.cohort->shape, rest);
        if (lanes == 0) break;
        rest &= ~lanes;
        ++places;
      }
    }
    return !waiting_.cohort || places < waiting_.cohort->blocks;
  }

  std::span<const GroupSpec> groups_;
  std::vector<LaneMask> idle_;
  const Waiting& waiting_;
  std::vector<LaneMask> mixed_, cohort_;
};

TEST(KeptLanes, AreFoundWhereAnyChoiceExplainsThem) {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  static constexpr const char* kMachines[] = {"1x(1C2V)", "2x(1C2V)",        "1x(1C1V2L)",
                                              "2x(2L)",   "1x(2C2V)+1x(1L)", "3x(1C1V)"};
  static constexpr TaskShape kWide[] = {
      {1, 1, false}, {1, 2, false}, {0, 2, false}, {2, 0, false}, cores::kWholeGroup};
  std::size_t explained = 0;
  static constexpr std::size_t kRounds = 20000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::string text = kMachines[below(std::size(kMachines))];
    const Topology machine = *Topology::parse(text);
    std::vector<LaneMask> idle;
    for (const GroupSpec& group : machine.groups()) idle.push_back(group.all() & random());
    Waiting waiting;
    if (below(2) == 0) waiting.mixed = kWide[below(std::size(kWide))];
    if (below(3) != 0) {
      const TaskShape shape = below(2) == 0   ? kWide[below(std::size(kWide))]
                              : below(2) == 0 ? cores::kMatrixTask
                                              : cores::kVectorTask;
      waiting.cohort = {shape, static_cast<std::uint32_t>(2 + below(2))};
    }
    if (below(2) == 0) waiting.shapes.push_back(kWide[below(std::size(kWide))]);
    if (below(2) == 0) waiting.shapes.push_back(cores::kMatrixTask);
    if (below(2) == 0) waiting.shapes.push_back(cores::kVectorTask);
    const bool expected = EveryChoice(machine.groups(), idle, waiting).explains();
    explained += expected ? 1 : 0;
    ASSERT_EQ(may_be_idle(machine.groups(), idle, waiting), expected) << "round " << round;
  }
  EXPECT_GT(explained, kRounds / 10);
  EXPECT_LT(explained, kRounds * 9 / 10);
}

}  // namespace
}  // namespace dovetail::laws
