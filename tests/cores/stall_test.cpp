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
    StallKind kind;
    const char* says;
  };
  for (const Case& one : {
           Case{1, 0, 0, StallKind::kRunsTooLong, "1 task runs"},
           Case{2, 5, 7, StallKind::kRunsTooLong, "2 tasks run"},
           Case{0, 1, 0, StallKind::kReadyButIdle, "1 task is ready and none runs"},
           Case{0, 3, 1, StallKind::kReadyButIdle, "3 tasks are ready and none runs"},
           Case{0, 0, 1, StallKind::kWaitsForNothing, "1 task has not ended"},
           Case{0, 0, 9, StallKind::kWaitsForNothing, "9 tasks have not ended"},
           Case{0, 0, 0, StallKind::kSubmitterStarves, "the submitter neither submits"},
       }) {
    StallFacts facts;
    facts.since = 10'040ms;
    facts.running = one.running;
    facts.ready = one.ready;
    facts.waiting = one.waiting;
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
  facts.longest_running = {17, 2, "group 0 · matrix 0", 9800ms};
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("longest task 17, block 2, on group 0 · matrix 0, for 9.8 s"),
                    HasSubstr("raise stall_limit")));
}

TEST(Stall, NamesWhatIsReady) {
  StallFacts facts;
  facts.ready = 1;
  facts.lanes = 72;
  facts.idle_lanes = 70;
  facts.oldest_ready = {5, {1, 2, false}};
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("oldest task 5 (1C2V)"), HasSubstr("70 of 72 lanes are idle"),
                    Not(HasSubstr("caller"))));
  facts.caller_lanes = 2;
  EXPECT_THAT(classify_stall(facts).message, HasSubstr("why the caller does not wait"));
}

TEST(Stall, NamesTheWaitingTaskAndItsPredecessor) {
  StallFacts facts;
  facts.waiting = 4;
  facts.oldest_waiting = {9, 2, TaskNumber{3}};
  EXPECT_THAT(
      classify_stall(facts).message,
      AllOf(HasSubstr("oldest task 9, which 2 others hold up"), HasSubstr("look at task 3")));
  facts.oldest_waiting->waits_for.reset();
  facts.oldest_waiting->left = 1;
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("which another one holds up"), Not(HasSubstr("task 3"))));
  facts.oldest_waiting->left = 0;
  EXPECT_THAT(classify_stall(facts).message,
              AllOf(HasSubstr("oldest task 9"), HasSubstr("the lane that took it")));
}

TEST(Stall, NamesTheScopeOfTheSubmitter) {
  StallFacts facts;
  EXPECT_THAT(classify_stall(facts).message, Not(HasSubstr("scope")));
  facts.scope = TaskNumber{12};
  EXPECT_THAT(classify_stall(facts).message, HasSubstr("the scope that it began with task 12"));
}

}  // namespace
}  // namespace dovetail::cores
