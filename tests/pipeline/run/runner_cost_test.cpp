#include <gtest/gtest.h>

#include "pipeline/run/runner.h"
#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

// An answer costs 70,000 billionths. A thread of the model that has made room counts as one more
// request until it has handed its answer over.
constexpr std::size_t kInFlight = 4U + 4U;

TEST(RunnerCost, EndsWhereItHasCostEnough) {
  const PipelineSpec spec = spec_of(judged_pipeline(1000, "limits: {cost: 0.0007}\n"));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(session.progress);
  EXPECT_EQ(session.progress->end, RunEnd::kCost);
  EXPECT_GE(gen.asked().size(), 10U);
  EXPECT_LE(gen.asked().size(), 9U + kInFlight);
}

// What has been answered and not been heard counts: no pause of the runner's thread makes it ask
// for more. Room comes after the answer here.
TEST(RunnerCost, AsksForNoMoreThanItMayWhileItIsSlow) {
  const PipelineSpec spec = spec_of(judged_pipeline(1000, "limits: {cost: 0.0007}\n"));
  const RunFolder folder;
  const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
  std::atomic<std::uint32_t> in_flight{0};
  std::function<void()> wake;
  ScriptedModel gen(4, writes()), judge(4, grades());
  ModelClient slow = gen.client();
  slow.on_room = [&](std::function<void()> given) { wake = std::move(given); };
  slow.room = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return 4 - in_flight.load();
  };
  slow.submit = [&, submit = slow.submit](const ModelRequest& request, AnswerSink sink) {
    ++in_flight;
    return submit(request, [&, sink = std::move(sink)](Result<ModelAnswer> answer) {
      sink(std::move(answer));
      --in_flight;
      wake();
    });
  };
  RunPorts ports;
  ports.store = store.get();
  ports.models = {slow, judge.client()};
  const Session session = run_with(spec, std::move(ports));
  ASSERT_TRUE(session.progress);
  EXPECT_EQ(session.progress->end, RunEnd::kCost);
  EXPECT_GE(gen.asked().size(), 10U);
  EXPECT_LE(gen.asked().size(), 9U + 4U);
}

TEST(RunnerCost, WhatEarlierSessionsCostCounts) {
  const char* const limit = "limits: {cost: 0.007}\n";  // 100 answers
  const PipelineSpec spec = spec_of(judged_pipeline(1000, limit));
  const auto answers_of = [](const Session& session) {
    return static_cast<std::size_t>(session.progress->cost / 0.00007 + 0.5);
  };
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session first = run_session(spec_of(judged_pipeline(60, limit)), folder.path(),
                                    {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(first));
  EXPECT_EQ(answers_of(first), 60U);
  // Killed, so to speak, sooner or later.
  ScriptedModel gen2(4, writes());
  const auto stop = [&] { return gen2.asked().size() >= 10 ? StopLevel::kNow : StopLevel::kNone; };
  const Session killed = run_session(spec, folder.path(), {gen2.client(), judge.client()}, stop);
  ASSERT_TRUE(killed.progress);
  const std::size_t paid = answers_of(killed);
  EXPECT_GE(paid, 60U);
  EXPECT_LE(paid, 60U + gen2.asked().size());
  ScriptedModel gen3(4, writes());
  const Session last = run_session(spec, folder.path(), {gen3.client(), judge.client()});
  ASSERT_TRUE(last.progress);
  EXPECT_EQ(last.progress->end, RunEnd::kCost);
  EXPECT_EQ(answers_of(last), paid + gen3.asked().size());
  EXPECT_GE(answers_of(last), 100U);
  EXPECT_LE(answers_of(last), paid < 100 ? 99U + kInFlight : paid);
  EXPECT_GE(last.lines.size(), 60U);
  ScriptedModel silent(4, writes());
  const Session again = run_session(spec, folder.path(), {silent.client(), silent.client()});
  ASSERT_TRUE(again.progress);
  EXPECT_EQ(again.progress->end, RunEnd::kCost);
  EXPECT_EQ(again.progress->cost, last.progress->cost);
  EXPECT_TRUE(silent.asked().empty());
  EXPECT_EQ(again.lines, last.lines) << "what has been made is passed on all the same";
  EXPECT_EQ(again.violations, std::vector<std::string>());
}

TEST(RunnerCost, ARunThatCostAllItMayIsComplete) {
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session made = run_session(spec_of(judged_pipeline(2000, "")), folder.path(),
                                   {gen.client(), judge.client()});
  ASSERT_TRUE(made.progress);
  const PipelineSpec spec = spec_of(judged_pipeline(2000, "limits: {cost: 0.0007}\n"));
  const Session again = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(again.progress);
  EXPECT_EQ(again.progress->end, RunEnd::kComplete);
  EXPECT_EQ(again.lines, made.lines);
  EXPECT_EQ(again.violations, std::vector<std::string>());
}

}  // namespace
}  // namespace dovetail::pipeline
