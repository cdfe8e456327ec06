#include "cores/stall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace dovetail::cores {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

TEST(Stall, IsClassifiedByTheFirstThatHolds) {
  struct Case {
    std::uint64_t running, ready, waiting;
    bool submitted_all;
    StallKind kind;
    const char* says;
  };
  for (const Case& one : {
           Case{1, 0, 0, true, StallKind::kRunsTooLong, "1 task runs"},
           Case{2, 5, 7, false, StallKind::kRunsTooLong, "2 tasks run"},
           Case{0, 1, 0, true, StallKind::kReadyButIdle, "1 task is ready and none runs"},
           Case{0, 3, 1, false, StallKind::kReadyButIdle, "3 tasks are ready and none runs"},
           Case{0, 0, 1, true, StallKind::kWaitsForNobody, "1 task waits"},
           Case{0, 0, 9, false, StallKind::kWaitsForNobody, "9 tasks wait"},
           Case{0, 0, 0, false, StallKind::kSubmitterStarves, "the submitter neither submits"},
           Case{0, 0, 0, true, StallKind::kUnknown, "no task is left"},
       }) {
    StallFacts facts;
    facts.since = 10'040ms;
    facts.running = one.running;
    facts.ready = one.ready;
    facts.waiting = one.waiting;
    facts.submitted_all = one.submitted_all;
    const Stall stall = classify_stall(facts);
    EXPECT_EQ(stall.kind, one.kind) << one.says;
    EXPECT_THAT(stall.message,
                AllOf(HasSubstr("nothing has ended for 10.0 s: "), HasSubstr(one.says),
                      HasSubstr("look at"), Not(HasSubstr("\n"))));
  }
}

TEST(Stall, NamesWhatRuns) {
  StallFacts facts;
  facts.running = 3;
  facts.longest_running = {17, "gate", 2, "group 0 · matrix 0", 9800ms};
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("longest task 17 'gate', block 2, on group 0 · matrix 0, for 9.8 s"),
                    HasSubstr("raise stall_limit")));
}

TEST(Stall, NamesWhatIsReady) {
  StallFacts facts;
  facts.ready = 1;
  facts.lanes = 72;
  facts.idle_lanes = 70;
  facts.oldest_ready = {5, "", {1, 2, false}};
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("oldest task 5 (1C2V)"), HasSubstr("70 of 72 lanes are idle")));
}

TEST(Stall, NamesWhoWaitsAndForWhom) {
  StallFacts facts;
  facts.waiting = 4;
  facts.oldest_waiting = {9, "combine", 2, TaskNumber{3}};
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("oldest task 9 'combine', which 2 others hold up"),
                    HasSubstr("look at task 3")));
  facts.oldest_waiting->waits_for.reset();
  EXPECT_THAT(classify_stall(facts).message, Not(HasSubstr("task 3")));
}

TEST(Stall, SaysWhatTheSubmitterWaitsFor) {
  StallFacts facts;
  facts.submitted_all = false;
  facts.refusal = "1024 bytes of output are in use";
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("1024 bytes of output are in use"), HasSubstr("scopes")));
}

}  // namespace
}  // namespace dovetail::cores
