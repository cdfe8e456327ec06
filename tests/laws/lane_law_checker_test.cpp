#include "laws/checker/lane_law_checker.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "laws/lane_runs.h"

// The checker judges made-up runs: one for each of its rules, broken at one point,
// and one that only nearly breaks it. Those of bounded waiting are in lane_waiting_test.cpp.

namespace dovetail::laws {
namespace {

using cores::AdmissionPolicy;
using cores::Span;

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

// Task 1 has a vector lane up to 9; gang 2 waits for both.
const std::string kGang = "0 ready 1 V; 0 start 1 0.1; 1 ready 2 V 2!;";
const std::string kEndGang = "9 end 1 0.1; 9 start 2.0 0.1; 9 start 2.1 0.2;";
const std::string kGangEnds = "12 end 2.0 0.1; 12 end 2.1 0.2;";

// A vector lane of each of three groups is busy up to 9, and a gang waits for two whole pairs.
const std::string kPairs =
    "0 ready 1 V 3; 0 start 1.0 0.1; 0 start 1.1 1.1; 0 start 1.2 2.1; 1 ready 2 2V 2!;";
const std::string kEndPairs =
    "9 end 1.0 0.1; 9 end 1.1 1.1; 9 start 2.0 0.1 0.2; 9 start 2.1 1.1 1.2; 9 end 1.2 2.1;"
    "12 end 2.0 0.1 0.2; 12 end 2.1 1.1 1.2;";

// The first of two matrix lanes is busy up to 9; a gang waits for both, each with a vector lane.
const std::string kRows = "0 ready 1 C; 0 start 1 0.0; 1 ready 2 1C1V 2!;";
const std::string kEndRows =
    "9 end 1 0.0; 9 start 2.0 0.0 0.2; 9 start 2.1 0.1 0.3; 12 end 2.0 0.0 0.2; 12 end 2.1 0.1 "
    "0.3;";

// Of 1x(1C1L) both lanes are busy, and tasks of both kinds wait.
const std::string kCAndL =
    "0 ready 1 C; 0 start 1 0.0; 0 ready 2 V; 0 start 2 0.1; 0 ready 3 V; 0 ready 4 C;";

struct LaneCase {
  const char* name;
  const char* topology;
  LaneRules rules;
  std::string events;
  std::string violation;  // a part of it; "": none
};

const char* const kIdle = "law 1: lanes are idle that need not be reserved, and these wait:";

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
     kGang + "2 ready 3 V;" + kEndGang + kGangEnds + "12 start 3 0.1; 13 end 3 0.1", ""},
    {"IdleThatACohortCannotUse", k1, kStrict, kGang + "2 ready 3 C;" + kEndGang + kGangEnds,
     std::string("at 2: ") + kIdle + " 2 3"},
    {"UsesWhatACohortCannotUse", k1, kStrict,
     kGang + "2 ready 3 C; 2 start 3 0.0; 8 end 3 0.0;" + kEndGang + kGangEnds, ""},
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
    {"GangBesideItsPlaces", k1, kStrict,
     kGang + "9 end 1 0.1; 10 start 2.0 0.1; 10 start 2.1 0.2; 12 end 2.0 0.1; 12 end 2.1 0.2",
     std::string("at 9: ") + kIdle + " 2"},
    {"GangBesideWhatIsKeptForAMixedTask", k1, kStrict,
     kWaits1C1V + "2 ready 3 V 2!;" + kEnd1C1V +
         "12 start 3.0 0.1; 12 start 3.1 0.2;"
         "13 end 3.0 0.1; 13 end 3.1 0.2",
     ""},
    {"GangBesideWhatAMixedTaskDoesNotNeed", "1x(1C3V)", kStrict,
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
    {"GangApart", k1, kStrict,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 1 start 1.1 0.2; 2 end 1.0 0.1; 2 end 1.1 0.2",
     "law 2: the blocks of gang 1 start apart"},
    {"GangApartUnderPerCore", k1, kPerCore,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 1 start 1.1 0.2; 2 end 1.0 0.1; 2 end 1.1 0.2",
     "law 2: the blocks of gang 1 start apart"},
    {"GangAtOnce", k1, kStrict,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 0 start 1.1 0.2; 2 end 1.0 0.1; 3 end 1.1 0.2", ""},
    {"GangDoesNotMeetOnThreads", k1, kThreads,
     "0 ready 1 V 2!; 0 start 1.0 0.1; 1 end 1.0 0.1; 2 start 1.1 0.2; 3 end 1.1 0.2",
     "at 1: law 2: the blocks of gang 1 start apart"},
    {"GangMeetsOnThreads", k1, kThreads,
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
    {"KindsCompeteWhereAllLanesDoBoth", "1x(1L)", kStrict,
     "0 ready 1 V; 0 start 1 0.0; 0 ready 2 V; 0 ready 3 C; 10 end 1 0.0; 10 start 3 0.0",
     "law 4: task 3 overtakes its equal 2"},
    {"KindsCompeteForALaneOfBoth", "1x(1C1L)", kStrict,
     kCAndL + "9 end 2 0.1; 9 start 4 0.1; 10 end 1 0.0; 12 end 4 0.1; 12 start 3 0.1",
     "at 9: law 4: task 4 has a lane of both kinds, for which the older 3 waits"},
    {"KindsCompeteUnderPerCore", "1x(1C1L)", kPerCore,
     kCAndL + "9 end 2 0.1; 9 start 4 0.1; 10 end 1 0.0; 12 end 4 0.1; 12 start 3 0.1",
     "at 9: law 4: task 4 has a lane of both kinds, for which the older 3 waits"},
    {"TheOldestHasTheLaneOfBoth", "1x(1C1L)", kStrict,
     kCAndL + "9 end 2 0.1; 9 start 3 0.1; 10 end 1 0.0; 10 start 4 0.0; 12 end 3 0.1; 12 end 4 "
              "0.0",
     ""},
    {"KindsDoNotCompeteForALaneOfOne", "1x(1C1L)", kStrict,
     kCAndL + "9 end 1 0.0; 9 start 4 0.0; 10 end 2 0.1; 10 start 3 0.1; 12 end 3 0.1; 12 end 4 "
              "0.0",
     ""},
    {"TheYoungerMayEndInTime", "1x(1C1L)", kStrict,
     "0 ready 1 C; 0 start 1 0.0; 0 ready 2 1C1V; 0 ready 3 V 1 9; 0 ready 4 C 1 5; 0 start 4 0.1;"
     "5 end 4 0.1; 8 end 1 0.0; 8 start 2 0.0 0.1; 9 end 2 0.0 0.1; 9 start 3 0.1; 18 end 3 0.1",
     ""},
    {"TheOlderWouldEndSooner", "1x(1C1L)", kStrict,
     "0 ready 1 C; 0 start 1 0.0; 0 ready 2 1C1V; 0 ready 3 V 1 4; 0 ready 4 C 1 5; 0 start 4 0.1",
     "law 4: task 4 has a lane of both kinds, for which the older 3 waits"},
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
    {"GangOvertakes", k1, kStrict,
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

}  // namespace
}  // namespace dovetail::laws
