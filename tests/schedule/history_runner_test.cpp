#include <gtest/gtest.h>

#include <ostream>

#include "schedule/history_script.h"

namespace dovetail::schedule {
namespace {

constexpr std::string_view kOptions = "options slots=2 budget=8 block=4 blocks=4 context=16\n";

// Stands on the second line of a script, after the options.
struct Case {
  std::string_view statements;
  std::string_view fault;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.statements; }

class FaultyScript : public testing::TestWithParam<Case> {};

TEST_P(FaultyScript, IsReportedWithItsLine) {
  const auto fault = run_history(std::string(kOptions) + std::string(GetParam().statements), "x");
  ASSERT_TRUE(fault);
  EXPECT_EQ(*fault, GetParam().fault);
}

INSTANTIATE_TEST_SUITE_P(
    WrongExpectations, FaultyScript,
    testing::Values(
        Case{"add A prompt=4\nstep\nexpect rows A:0+4", "x:4: expected rows A:0+4, got A:0+4*"},
        Case{"add A prompt=4\nstep\nexpect rows A:0+3*", "x:4: expected rows A:0+3*, got A:0+4*"},
        Case{"add A prompt=4\nstep\nexpect rows | A:0+4*",
             "x:4: expected rows | A:0+4*, got A:0+4*"},
        Case{"add A prompt=4\nstep\nstep\nexpect rows A:4+1*",
             "x:5: expected rows A:4+1*, got | A:4+1*"},
        Case{"step\nadd A prompt=1\nexpect rows A:0+1*", "x:4: expected rows A:0+1*, got none"},
        Case{"add A prompt=4; add B prompt=4; step; expect rows B:0+4* A:0+4*",
             "x:2: expected rows B:0+4* A:0+4*, got A:0+4* B:0+4*"},
        Case{"add A prompt=4\nstep\nexpect tokens 5", "x:4: expected tokens 5, got 4"},
        Case{"expect free 3", "x:2: expected free 3, got 4"},
        Case{"expect running 1", "x:2: expected running 1, got 0"},
        Case{"add A prompt=4\nexpect waiting 0", "x:3: expected waiting 0, got 1"},
        Case{"expect preemptions 1", "x:2: expected preemptions 1, got 0"},
        Case{"add A prompt=4\nexpect idle", "x:3: expected idle, got 0 running and 1 waiting"},
        Case{"add A prompt=4\nstep\nexpect admitted none", "x:4: expected admitted none, got A"},
        Case{"add A prompt=4\nstep\nexpect preempted A", "x:4: expected preempted A, got none"},
        Case{"add A prompt=4\nstep\nexpect finished A", "x:4: expected finished A, got none"},
        Case{"add A prompt=4\nstep\nexpect slot A 1", "x:4: expected slot 1, got 0"},
        Case{"add A prompt=4\nplan\nexpect blocks A 1", "x:4: expected blocks 1, got 0"},
        Case{"add A prompt=4\nstep\nexpect generated A 2", "x:4: expected generated 2, got 1"},
        Case{"add A prompt=4 max=1\nstep\nexpect released none",
             "x:4: expected released none, got 0"},
        Case{"expect cached-blocks 1", "x:2: expected cached-blocks 1, got 0"},
        Case{"expect recomputed 1", "x:2: expected recomputed 1, got 0"},
        Case{"add A prompt=4 class=2\nstep\nexpect class 1", "x:4: expected class 1, got 2"},
        Case{"step\nexpect class 0", "x:3: the last plan is empty"},
        Case{"add A prompt=4\nstep\nexpect resumed A", "x:4: expected resumed A, got none"},
        Case{"add A prompt=4\nstep\nexpect cached A 4", "x:4: expected cached 4, got 0"},
        Case{"add A prompt=4\nstep 2\nexpect cached A 0",
             "x:4: A was not admitted by the last plan"},
        Case{"add A prompt=4\nuntil admitted A limit=0", "x:3: not admitted A after 0 steps"},
        Case{"add A prompt=4\nexpect slot A 0",
             "x:3: malformed: 'expect slot' needs a plan before"},
        Case{"step\nadd A prompt=4\nexpect slot A 0", "x:4: A has no row in the last plan"},
        Case{"add A prompt=4\nuntil idle limit=2", "x:3: not idle after 2 steps"},
        Case{"add A prompt=4\nuntil finished A limit=2", "x:3: not finished A after 2 steps"},
        Case{"add A prompt=4\nuntil preempted A limit=20", "x:3: not preempted A after 20 steps"},
        Case{"add A prompt=4\nexpect refused \"fit\"", "x:3: nothing was refused just before"},
        Case{"add A prompt=16\nstep",
             "x:3: the add before was refused: prompt: 16 tokens and at least one new token do not "
             "fit the context of 16 positions (4 cache blocks of 4)"},
        Case{"add A prompt=16\n",
             "x:2: the last add was refused: prompt: 16 tokens and at least one new token do not "
             "fit the context of 16 positions (4 cache blocks of 4)"},
        Case{"add A prompt=16\nexpect refused \"queue\"",
             "x:3: expected a refusal with \"queue\", got \"prompt: 16 tokens and at least one new "
             "token do not fit the context of 16 positions (4 cache blocks of 4)\""}));

INSTANTIATE_TEST_SUITE_P(
    Malformed, FaultyScript,
    testing::Values(
        Case{"\n\nwait", "x:4: malformed: 'wait' is no statement"},
        Case{"# a comment\nexpect", "x:3: malformed: expect what?"},
        Case{"step; expect much", "x:2: malformed: 'expect much' is no statement"},
        Case{"options slots=1", "x:2: malformed: 'options' twice"},
        Case{"add", "x:2: malformed: expected: add NAME prompt=NUMBER ..."},
        Case{"add 7 prompt=1", "x:2: malformed: expected: add NAME prompt=NUMBER ..."},
        Case{"add none prompt=1", "x:2: malformed: expected: add NAME prompt=NUMBER ..."},
        Case{"add A max=1", "x:2: malformed: add needs prompt=NUMBER, at least 1"},
        Case{"add A prompt=0", "x:2: malformed: add needs prompt=NUMBER, at least 1"},
        Case{"add A prompt=1 max=0", "x:2: malformed: max must be at least 1"},
        Case{"add A prompt=1 prompt=2", "x:2: malformed: 'prompt' twice"},
        Case{"add A prompt=four", "x:2: malformed: 'four' is no number"},
        Case{"add A prompt=4x", "x:2: malformed: '4x' is no number"},
        Case{"add A prompt=-4", "x:2: malformed: '-4' is no number"},
        Case{"add A prompt=4294967296", "x:2: malformed: '4294967296' is no number"},
        Case{"add A tokens=4",
             "x:2: malformed: 'tokens=4': expected prompt=, max=, priority=, tenant=, class=, "
             "family=, shared=, continues=, computes_all=..."},
        Case{"add A prompt=4 priority=high", "x:2: malformed: 'high' is no number"},
        Case{"add A prompt=4 priority=-1001", "x:2: malformed: priority must be in [-1000, 1000]"},
        Case{"add A prompt=4 shared=2", "x:2: malformed: only with prefix=1 do tokens matter"},
        Case{"add A prompt=4 shared=5",
             "x:2: malformed: no more tokens can be shared than the prompt has"},
        Case{"withhold", "x:2: malformed: expected: withhold NUMBER"},
        Case{"withhold -1", "x:2: malformed: '-1' is no number"},
        Case{"drafts A 1 right=1", "x:2: malformed: nothing called 'A' was added"},
        Case{"add A prompt=4; drafts A 1 right=2",
             "x:2: malformed: no more draft tokens can be right than there are"},
        Case{"add A prompt=4; drafts A",
             "x:2: malformed: expected: drafts NAME NUMBER right=NUMBER"},
        Case{"plan ahead", "x:2: malformed: no plan is in flight to be ahead of"},
        Case{"plan soon", "x:2: malformed: expected: plan or plan ahead"},
        Case{"add A prompt=4\nplan; plan ahead; plan ahead",
             "x:3: malformed: two plans are in flight: commit one first"},
        Case{"add A prompt=4\nstep\nexpect blocks A 0",
             "x:4: malformed: a block table can be seen between plan and commit only"},
        Case{"add A prompt=4; add A prompt=4", "x:2: malformed: 'A' twice"},
        Case{"cancel B", "x:2: malformed: nothing called 'B' was added"},
        Case{"add A prompt=1 max=1; step; finish A", "x:2: malformed: A has ended already"},
        Case{"step many", "x:2: malformed: 'many' is no number"},
        Case{"commit", "x:2: malformed: no plan is in flight"},
        Case{"add A prompt=4\nplan\nplan",
             "x:4: malformed: a plan is in flight: commit it first, or plan ahead"},
        Case{"add A prompt=4\nplan\nstep",
             "x:4: malformed: a plan is in flight: commit it first, or plan ahead"},
        Case{"plan; commit", "x:2: malformed: no plan is in flight"},
        Case{"add A prompt=4\nplan", "x:3: malformed: the script ends between plan and commit"},
        Case{"add A prompt=4\nplan\nexpect finished none",
             "x:4: malformed: 'expect finished' needs a commit before"},
        Case{"until",
             "x:2: malformed: expected: until idle limit=NUMBER or until "
             "finished|preempted|admitted "
             "NAME limit=NUMBER"},
        Case{"until idle soon", "x:2: malformed: 'soon': expected limit=..."},
        Case{"expect free", "x:2: malformed: expected: expect free NUMBER"},
        Case{"expect free 1 2", "x:2: malformed: too many words"},
        Case{"expect rows none", "x:2: malformed: 'expect rows' needs a plan before"},
        Case{"step\nexpect rows A",
             "x:3: malformed: 'A': expected: expect rows "
             "[NAME:FIRST+TOKENS[~DRAFTS][*]]... [| ...] or none"},
        Case{"step\nexpect rows B:0+4", "x:3: malformed: nothing called 'B' was added"},
        Case{"add A prompt=4\nstep\nexpect rows A:0+4+", "x:4: malformed: '4+' is no number"},
        Case{"step\nexpect admitted B", "x:3: malformed: nothing called 'B' was added"},
        Case{"expect released few", "x:2: malformed: 'few' is no number"},
        Case{"expect refused nothing",
             "x:2: malformed: expected: expect refused \"part of the message\""},
        Case{"expect refused \"half", "x:2: malformed: a quoted text does not end in its line"}));

TEST(HistoryRunner, OptionsMustBeSound) {
  const auto fault = [](std::string_view script) { return run_history(script, "x").value_or(""); };
  EXPECT_EQ(fault(""), "x:1: malformed: the script is empty");
  EXPECT_EQ(fault("step"), "x:1: malformed: the first statement must be 'options'");
  EXPECT_EQ(fault("options slots=1 budget=8 block=4 blocks=4"),
            "x:1: malformed: options need context=NUMBER, at least 1");
  EXPECT_EQ(fault("options slots=0 budget=8 block=4 blocks=4 context=8"),
            "x:1: malformed: options need slots=NUMBER, at least 1");
  EXPECT_EQ(fault("options slots=9 budget=8 block=4 blocks=4 context=8"),
            "x:1: malformed: the budget must be at least the slots");
  EXPECT_EQ(fault("options slots=1 budget=8 block=4 blocks=4 context=17"),
            "x:1: malformed: the context must fit the blocks");
  const std::string sound = "options slots=1 budget=8 block=4 blocks=4 context=8 ";
  EXPECT_EQ(fault(sound), "");
  EXPECT_EQ(fault(sound + "mixed=2"), "x:1: malformed: mixed=2: expected 0 or 1");
  EXPECT_EQ(fault(sound + "floor=0"), "x:1: malformed: options need floor=NUMBER, at least 1");
  EXPECT_EQ(fault(sound + "policy=lifo"),
            "x:1: malformed: policy=lifo: expected fcfs, priority or fair");
  EXPECT_EQ(fault(sound + "cost=1:2:3"),
            "x:1: malformed: expected cost=STEP:PREFILL:DECODE:CONTEXT[:FREE]");
  EXPECT_EQ(fault(sound + "cost=1:-2:3:4"), "x:1: malformed: a cost must be at least 0");
  EXPECT_EQ(fault(sound + "cost=1:0:3:4"), "x:1: malformed: a prefill token must cost something");
  EXPECT_EQ(fault(sound + "cost=1:2:3:4:five"), "x:1: malformed: 'five' is no number");
  EXPECT_EQ(fault(sound + "cost=1:2:3:nan"), "x:1: malformed: a cost must be at least 0");
  EXPECT_EQ(fault("options slots=1 budget=8 block=4 blocks=4000000000 context=17"),
            "x:1: malformed: slots, blocks and block must be at most 1048576");
}

TEST(HistoryRunner, AcceptsWhatHolds) {
  const auto fault = run_history(
      "# all of the language\n"
      "options slots=2 budget=8 block=4 blocks=4 context=16 threshold=8 queue=1 # and a comment\n"
      "add A prompt=4 max=2; plan; expect rows A:0+4*; commit\n"
      "add B prompt=4; add C prompt=1\n"
      "expect refused \"1 sequences # are waiting\"\n",
      "x");
  ASSERT_TRUE(fault);
  EXPECT_EQ(
      *fault,
      "x:5: expected a refusal with \"1 sequences # are waiting\", got \"the queue is full: 1 "
      "sequences are waiting\"");
  EXPECT_FALSE(run_history(
      "options slots=2 budget=8 block=4 blocks=4 context=16\r\n"
      "add A prompt=4 max=2; step; expect admitted A; expect slot A 0\r\n"
      "\tuntil idle limit=1; expect generated A 2; expect released 1 0; expect released none",
      "x"));
}

}  // namespace
}  // namespace dovetail::schedule
