#include "pipeline/run/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

constexpr const char* kModels = R"(
models:
  gen: {endpoint: "http://localhost:1/v1", model: g, input_price: 2.0, output_price: 10.0}
  judge: {endpoint: "http://localhost:1/v1", model: j}
)";

std::string pipeline(int records, const std::string& more = "",
                     const std::string& columns = kJudgedColumns) {
  return fmt::format("records: {}\n{}{}{}", records, more, kModels, columns);
}

ScriptedModel::Script grades() {
  return [](const ModelRequest& request) {
    return answer(prompt_of(request).find('3') == std::string::npos ? "yes" : "no");
  };
}

TEST(Runner, MakesEveryCell) {
  const PipelineSpec spec = spec_of(pipeline(300));
  const RunFolder folder;
  ScriptedModel gen(8, writes()), judge(3, grades());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  ASSERT_EQ(session.lines.size(), 300U);
  for (std::size_t i = 0; i < session.lines.size(); ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ(
        session.lines[i],
        fmt::format(R"({{"i":{},"text":"<write {}>","grade":{{"good":{{"score":"{}"}}}},)"
                    R"("size":{}}})",
                    i, i, number.find('3') == std::string::npos ? "yes" : "no", number.size() + 8));
  }
  EXPECT_EQ(gen.asked().size(), 300U);
  EXPECT_EQ(judge.asked().size(), 300U);
  const RunProgress& progress = *session.progress;
  EXPECT_EQ(progress.end, RunEnd::kComplete);
  EXPECT_EQ(progress.finished, 300U);
  EXPECT_EQ(progress.columns[1].values, 300U);
  EXPECT_EQ(progress.columns[1].prompt_tokens, 3000U);
  EXPECT_NEAR(progress.cost, 300 * (10 * 2e-6 + 5 * 10e-6), 1e-9);
}

TEST(Runner, EveryCellHasItsOwnSeedWhateverTheSchedule) {
  std::map<std::string, std::uint64_t> seeds;
  for (const std::uint32_t slots : {1U, 16U}) {
    const PipelineSpec spec = spec_of(pipeline(50));
    const RunFolder folder;
    ScriptedModel gen(slots, writes()), judge(slots, grades());
    ASSERT_TRUE(is_lawful(run_session(spec, folder.path(), {gen.client(), judge.client()})));
    std::set<std::uint64_t> different;
    for (const ModelRequest& request : gen.asked()) {
      const auto [seen, fresh] = seeds.emplace(prompt_of(request), request.seed);
      EXPECT_EQ(seen->second, request.seed);
      different.insert(request.seed);
    }
    EXPECT_EQ(different.size(), 50U);
  }
}

// A judge is asked as soon as its text is there, while hundreds of texts still wait.
TEST(Runner, JudgesFollowAtOnce) {
  const PipelineSpec spec = spec_of(pipeline(500));
  const RunFolder folder;
  std::atomic<int> generated{0}, before_first_judge{-1};
  ScriptedModel gen(4, [&](const ModelRequest& request) {
    ++generated;
    return answer(prompt_of(request));
  });
  ScriptedModel judge(4, [&](const ModelRequest&) {
    int none = -1;
    before_first_judge.compare_exchange_strong(none, generated.load());
    return answer("yes");
  });
  ASSERT_TRUE(is_lawful(run_session(spec, folder.path(), {gen.client(), judge.client()})));
  EXPECT_GE(before_first_judge.load(), 1);
  EXPECT_LT(before_first_judge.load(), 250);
}

TEST(Runner, AsksAgainForAnInvalidAnswerWithAnotherSeed) {
  const PipelineSpec spec = spec_of(pipeline(20));
  const RunFolder folder;
  std::mutex mutex;
  std::map<std::string, std::vector<std::uint64_t>> seeds;
  ScriptedModel gen(4, writes());
  ScriptedModel judge(4, [&](const ModelRequest& request) {
    const std::lock_guard lock(mutex);
    std::vector<std::uint64_t>& tries = seeds[prompt_of(request)];
    tries.push_back(request.seed);
    return answer(tries.size() < 3 ? "perhaps" : "yes");
  });
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.progress->columns[2].values, 20U);
  EXPECT_EQ(session.progress->columns[2].retries, 40U);
  for (const auto& [prompt, tries] : seeds) {
    EXPECT_EQ(std::set(tries.begin(), tries.end()).size(), 3U) << prompt;
  }
}

TEST(Runner, TellsTheModelWhatIsWrongWithItsAnswer) {
  std::string columns = kJudgedColumns;
  columns.replace(columns.find("corrections: 0"), 14, "corrections: 1");
  const PipelineSpec spec = spec_of(pipeline(6, "", columns));
  const RunFolder folder;
  ScriptedModel gen(4, writes());
  ScriptedModel judge(4, [&](const ModelRequest& request) {
    if (request.messages.size() == 1) return answer("maybe");
    EXPECT_EQ(request.messages.size(), 3U);
    EXPECT_EQ(request.messages[1].role, "assistant");
    EXPECT_EQ(request.messages[1].content, "maybe");
    EXPECT_NE(request.messages[2].content.find("none of yes, no"), std::string::npos);
    return answer("yes");
  });
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.progress->finished, 6U);
  EXPECT_EQ(session.progress->columns[2].retries, 6U);
  EXPECT_EQ(judge.asked().size(), 12U);
}

// Answers are kept: a session that has lost the cells made of them asks nobody.
TEST(Runner, TakesAnswersFromTheCache) {
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const PipelineSpec spec = spec_of(pipeline(40));
  const Session first = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(first));
  std::string columns = kJudgedColumns;
  // Another column that asks for the same.
  columns.replace(columns.find("description: is it"), 18, "description: or not");
  ScriptedModel silent(4, writes());
  const Session again = run_session(spec_of(pipeline(40, "", columns)), folder.path(),
                                    {silent.client(), silent.client()});
  ASSERT_TRUE(is_lawful(again));
  EXPECT_EQ(again.lines, first.lines);
  EXPECT_TRUE(silent.asked().empty());
  EXPECT_EQ(again.progress->columns[2].from_cache, 40U);
  columns.replace(columns.find("description: or not"), 19, "description: whatever");
  columns.replace(columns.find("corrections: 0"), 14, "corrections: 0\n    cache: false");
  ScriptedModel asked(4, grades());
  const Session third = run_session(spec_of(pipeline(40, "", columns)), folder.path(),
                                    {silent.client(), asked.client()});
  ASSERT_TRUE(is_lawful(third));
  EXPECT_EQ(third.lines, first.lines);
  EXPECT_EQ(asked.asked().size(), 40U);
}

// The first records by number that are accepted, whatever ended first, and few candidates beyond.
TEST(Runner, MakesAsManyRecordsAsAreToBeAccepted) {
  for (const std::uint32_t slots : {1U, 8U}) {
    const PipelineSpec spec = spec_of(fmt::format(
        "target_accepted: {{count: 30, candidates: 500, when: \"{{{{ grade.good.score == 'yes' "
        "}}}}\"}}\n{}{}",
        kModels, kJudgedColumns));
    const RunFolder folder;
    ScriptedModel gen(slots, writes());
    ScriptedModel judge(slots, [](const ModelRequest& request) {
      const char last = prompt_of(request)[prompt_of(request).size() - 2];
      return answer(last < '5' ? "yes" : "no");  // half of them
    });
    const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
    ASSERT_TRUE(session.progress);
    EXPECT_EQ(session.violations, std::vector<std::string>());
    EXPECT_EQ(session.progress->end, RunEnd::kComplete);
    EXPECT_EQ(session.progress->finished, 30U);
    ASSERT_EQ(session.lines.size(), 55U) << "0 to 4, 10 to 14, ... 50 to 54";
    EXPECT_EQ(session.lines[54].substr(0, 7), R"({"i":54)");
    EXPECT_EQ(session.lines[5], "- target_accepted: it does not meet the condition");
    EXPECT_LT(gen.asked().size(), 55U + 60U);
  }
}

TEST(Runner, SaysWhereTheTargetIsMissed) {
  const PipelineSpec spec =
      spec_of(fmt::format("target_accepted: {{count: 30, candidates: 40, when: \"false\"}}\n{}{}",
                          kModels, kJudgedColumns));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(session.progress);
  EXPECT_EQ(session.progress->end, RunEnd::kTargetMissed);
  EXPECT_EQ(session.progress->why, "0 of 40 candidates were accepted, target_accepted.count is 30");
}

// An answer costs 70,000 billionths. A thread of the model that has made room counts as one more
// request until it has handed its answer over.
constexpr std::size_t kInFlight = 4U + 4U;

TEST(Runner, EndsWhereItHasCostEnough) {
  const PipelineSpec spec = spec_of(pipeline(1000, "limits: {cost: 0.0007}\n"));
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
TEST(Runner, AsksForNoMoreThanItMayWhileItIsSlow) {
  const PipelineSpec spec = spec_of(pipeline(1000, "limits: {cost: 0.0007}\n"));
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

TEST(Runner, WhatEarlierSessionsCostCounts) {
  const char* const limit = "limits: {cost: 0.007}\n";  // 100 answers
  const PipelineSpec spec = spec_of(pipeline(1000, limit));
  const auto answers_of = [](const Session& session) {
    return static_cast<std::size_t>(session.progress->cost / 0.00007 + 0.5);
  };
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session first =
      run_session(spec_of(pipeline(60, limit)), folder.path(), {gen.client(), judge.client()});
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

TEST(Runner, ARunThatCostAllItMayIsComplete) {
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session made =
      run_session(spec_of(pipeline(2000, "")), folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(made.progress);
  const PipelineSpec spec = spec_of(pipeline(2000, "limits: {cost: 0.0007}\n"));
  const Session again = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(again.progress);
  EXPECT_EQ(again.progress->end, RunEnd::kComplete);
  EXPECT_EQ(again.lines, made.lines);
  EXPECT_EQ(again.violations, std::vector<std::string>());
}

TEST(Runner, RunsCommandsBesideEverythingElse) {
  const std::string columns = R"(
columns:
  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}
  - {name: text, type: llm-text, model: gen, prompt: "write {{ i }}"}
  - name: checked
    type: validation
    column: text
    command: [grep, -q, "3"]
)";
  const PipelineSpec spec = spec_of(pipeline(40, "", columns));
  const RunFolder folder;
  ScriptedModel gen(4, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), gen.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_NE(session.lines[31].find(R"("valid":true)"), std::string::npos) << session.lines[31];
  EXPECT_NE(session.lines[2].find(R"("valid":false)"), std::string::npos) << session.lines[2];
}

TEST(Runner, SeesNullInsteadOfBeingSkippedWhereTheColumnSaysSo) {
  const std::string columns = R"(
columns:
  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}
  - {name: text, type: llm-text, model: gen, prompt: "write {{ i }}", skip_if: "{{ i % 2 == 1 }}"}
  - {name: has, type: expression, propagate_skip: false, value: "{{ 'no' if text is none else 'yes' }}"}
)";
  const PipelineSpec spec = spec_of(pipeline(2, "", columns));
  const RunFolder folder;
  ScriptedModel gen(4, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), gen.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.lines[0], R"({"i":0,"text":"<write 0>","has":"yes"})");
  EXPECT_EQ(session.lines[1], R"({"i":1,"text":null,"has":"no"})");
}

TEST(Runner, DropsRecordsWithTheReason) {
  const PipelineSpec spec = spec_of(pipeline(9));
  const RunFolder folder;
  ScriptedModel gen(4, writes());
  ScriptedModel judge(4, [&](const ModelRequest& request) {
    return answer(prompt_of(request) == "grade <write 5>" ? "maybe" : "yes");
  });
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.progress->dropped, 1U);
  EXPECT_EQ(session.progress->finished, 8U);
  EXPECT_EQ(session.lines[5], R"(- grade: the answer "maybe" is none of yes, no)");
  // A later session of the complete run asks for nothing and says the same.
  ScriptedModel silent(1, [](const ModelRequest&) { return answer("not to be asked"); });
  const Session again = run_session(spec, folder.path(), {silent.client(), silent.client()});
  ASSERT_TRUE(is_lawful(again));
  EXPECT_EQ(again.lines, session.lines);
  EXPECT_TRUE(silent.asked().empty());
}

TEST(Runner, KeepsNullWhereThePolicySaysSo) {
  std::string columns = kJudgedColumns;
  columns.replace(columns.find("answer: option"), 0, "on_failure: keep\n    ");
  const PipelineSpec spec = spec_of(pipeline(3, "", columns));
  const RunFolder folder;
  ScriptedModel gen(4, writes());
  ScriptedModel judge(4, [&](const ModelRequest&) { return answer("maybe"); });
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.lines[1], R"({"i":1,"text":"<write 1>","grade":null,"size":9})");
  EXPECT_EQ(session.progress->columns[2].failed, 3U);
}

TEST(Runner, TriesUnreachableCellsOnceMoreAtTheEnd) {
  const PipelineSpec spec = spec_of(pipeline(10));
  const RunFolder folder;
  std::mutex mutex;
  std::map<std::string, int> asked;
  std::vector<std::string> order;
  ScriptedModel gen(4, [&](const ModelRequest& request) -> Result<ModelAnswer> {
    const std::lock_guard lock(mutex);
    const std::string prompt = prompt_of(request);
    order.push_back(prompt);
    if (prompt == "write 2" && ++asked[prompt] == 1) return fail(ErrorKind::kUnavailable, "away");
    if (prompt == "write 4") return fail(ErrorKind::kTimeout, "too slow");
    return answer(prompt);
  });
  ScriptedModel judge(4, grades());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  ASSERT_EQ(order.size(), 12U);
  EXPECT_EQ(std::set(order.begin() + 10, order.end()),
            (std::set<std::string>{"write 2", "write 4"}));
  EXPECT_EQ(session.lines[4], "- text: too slow");
  EXPECT_EQ(session.progress->finished, 9U);
}

// A window full of unreachable cells is no dead end.
TEST(Runner, UnreachableCellsDoNotBlockTheWindow) {
  const PipelineSpec spec = spec_of(pipeline(40, "window: 4\n"));
  const RunFolder folder;
  std::mutex mutex;
  std::map<std::string, int> asked;
  ScriptedModel gen(4, [&](const ModelRequest& request) -> Result<ModelAnswer> {
    const std::lock_guard lock(mutex);
    if (++asked[prompt_of(request)] == 1) return fail(ErrorKind::kUnavailable, "away");
    return answer(prompt_of(request));
  });
  ScriptedModel judge(4, [](const ModelRequest&) { return answer("no"); });
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.progress->finished, 40U);
}

TEST(Runner, EndsEarlyWhereEverythingFails) {
  const PipelineSpec spec = spec_of(pipeline(1000));
  const RunFolder folder;
  ScriptedModel gen(4, [&](const ModelRequest&) -> Result<ModelAnswer> {
    return fail(ErrorKind::kInvalid, "401 no such key");
  });
  ScriptedModel judge(4, grades());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.progress->end, RunEnd::kErrors);
  EXPECT_EQ(session.progress->why, "100 of the last 100 cells of models failed for good");
  EXPECT_LT(gen.asked().size(), 300U);
}

// By both policies: what was made without the failed cell goes with it, everything else stays.
TEST(Runner, MakesFailedCellsAnewWhereItIsAsked) {
  const auto columns = [](const char* policy) {
    return fmt::format(R"(
columns:
  - {{name: i, type: sampler, sampler: integer, params: {{low: 0, high: 1}}}}
  - {{name: text, type: llm-text, model: gen, prompt: "write {{{{ i }}}}", on_failure: {0}}}
  - {{name: other, type: llm-text, model: judge, prompt: "other {{{{ i }}}}"}}
  - {{name: more, type: llm-text, model: judge, prompt: "more {{{{ text }}}}"}}
  - {{name: size, type: expression, as: integer, value: "{{{{ text | length if text else 0 }}}}",
      propagate_skip: false}}
)",
                       policy);
  };
  for (const char* policy : {"keep", "drop"}) {
    const PipelineSpec spec = spec_of(pipeline(20, "", columns(policy)));
    const RunFolder folder, undisturbed;
    ScriptedModel judge(4, writes()), good(4, writes());
    ScriptedModel bad(4, [&](const ModelRequest& request) -> Result<ModelAnswer> {
      if (prompt_of(request).back() == '3') return fail(ErrorKind::kInvalid, "401 no such key");
      return writes()(request);
    });
    const Session first = run_session(spec, folder.path(), {bad.client(), judge.client()});
    ASSERT_TRUE(is_lawful(first));
    EXPECT_EQ(first.progress->columns[1].failed, 2U);
    const Session again = run_session(spec, folder.path(), {good.client(), judge.client()});
    ASSERT_TRUE(is_lawful(again));
    EXPECT_EQ(again.lines, first.lines);
    EXPECT_TRUE(good.asked().empty());
    RunLaws laws(spec);
    const Session retried =
        run_session(spec, folder.path(), {good.client(), judge.client()}, nullptr, &laws, true);
    ASSERT_TRUE(is_lawful(retried));
    EXPECT_EQ(good.asked().size(), 2U);
    const Session whole = run_session(spec, undisturbed.path(), {good.client(), judge.client()});
    EXPECT_EQ(retried.lines, whole.lines);
    const Session resumed = run_session(spec, folder.path(), {bad.client(), judge.client()});
    EXPECT_EQ(resumed.lines, whole.lines);
  }
}

TEST(Runner, SkipsWhatDependsOnASkippedCell) {
  const std::string columns = R"(
columns:
  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}
  - {name: text, type: llm-text, model: gen, prompt: "write {{ i }}", skip_if: "{{ i % 2 == 1 }}"}
  - {name: more, type: llm-text, model: judge, prompt: "more {{ text }}"}
  - {name: twice, type: expression, as: integer, value: "{{ i * 2 }}"}
)";
  const PipelineSpec spec = spec_of(pipeline(4, "", columns));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.lines[1], R"({"i":1,"text":null,"more":null,"twice":2})");
  EXPECT_EQ(session.lines[2], R"({"i":2,"text":"<write 2>","more":"<more <write 2>>","twice":4})");
  EXPECT_EQ(session.progress->columns[2].skipped, 2U);
  EXPECT_EQ(judge.asked().size(), 2U);
}

TEST(Runner, AChangedColumnIsMadeAnewWithWhatDependsOnIt) {
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session first =
      run_session(spec_of(pipeline(30)), folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(first));
  std::string columns = kJudgedColumns;
  columns.replace(columns.find("grade {{"), 5, "judge");
  ScriptedModel gen2(4, writes()), judge2(4, grades());
  const Session second = run_session(spec_of(pipeline(30, "", columns)), folder.path(),
                                     {gen2.client(), judge2.client()});
  ASSERT_TRUE(is_lawful(second));
  EXPECT_TRUE(gen2.asked().empty());
  EXPECT_EQ(judge2.asked().size(), 30U);
  EXPECT_EQ(second.lines, first.lines);
  columns.replace(columns.find("write {{"), 5, "paint");
  ScriptedModel gen3(4, writes()), judge3(4, grades());
  const Session third = run_session(spec_of(pipeline(30, "", columns)), folder.path(),
                                    {gen3.client(), judge3.client()});
  ASSERT_TRUE(is_lawful(third));
  EXPECT_EQ(gen3.asked().size(), 30U);
  EXPECT_EQ(judge3.asked().size(), 30U);
  EXPECT_EQ(third.lines[0].substr(0, 30), R"({"i":0,"text":"<paint 0>","gra)");
}

TEST(Runner, AnErrorOfTheWriterEndsTheRun) {
  const PipelineSpec spec = spec_of(pipeline(100));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  auto store = Store::open((folder.path() / "run.db").string(), OpenMode::kCreate);
  ASSERT_TRUE(store);
  std::vector<ColumnSpec> columns;
  for (const ColumnDescription& column : spec.columns) columns.push_back({column.name, {}, false});
  ASSERT_TRUE((*store)->reconcile(columns));
  RunPorts ports;
  ports.models = {gen.client(), judge.client()};
  ports.draw = [](ColumnId, RecordId record, Json& row) {
    row["i"] = record;
    return Status();
  };
  ports.store = store->get();
  ports.emit = [](const FinishedRecord& record) -> Status {
    if (record.record < 10) return {};
    return fail(ErrorKind::kIo, "results.jsonl: no space left");
  };
  const auto ended = run_pipeline(spec, ports);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "results.jsonl: no space left");
}

TEST(Runner, AnErrorAfterRecordsWerePassedOnEndsTheRun) {
  const PipelineSpec spec = spec_of(pipeline(100));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const auto store = open_run(spec, folder.path(), OpenMode::kCreate);
  RunPorts ports;
  ports.models = {gen.client(), judge.client()};
  ports.store = store.get();
  ports.emitted = [] { return Status(fail(ErrorKind::kIo, "results.jsonl: no space left")); };
  const Session session = run_with(spec, std::move(ports));
  ASSERT_FALSE(session.progress);
  EXPECT_EQ(session.progress.error().message, "results.jsonl: no space left");
  EXPECT_FALSE(session.lines.empty());
}

// With commits an hour apart, nothing but haste ends it.
TEST(Runner, TheEndWaitsForNoFurtherCommit) {
  const PipelineSpec spec = spec_of(pipeline(20));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  StoreOptions options;
  options.commit_every = std::chrono::hours(1);
  const auto store = Store::open((folder.path() / "run.db").string(), OpenMode::kCreate, options);
  ASSERT_TRUE(store);
  std::vector<ColumnSpec> columns;
  for (const ColumnDescription& column : spec.columns) columns.push_back({column.name, {}, false});
  ASSERT_TRUE((*store)->reconcile(columns));
  std::size_t emitted = 0;
  RunPorts ports;
  ports.models = {gen.client(), judge.client()};
  ports.store = store->get();
  ports.emitted = [&] {
    ++emitted;
    return Status();
  };
  const Session session = run_with(spec, std::move(ports));
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.lines.size(), 20U);
  EXPECT_GE(emitted, 1U);
}

// Stopped at any number of answers, by either way to stop, and resumed until it is complete: the
// records are those of a run that nobody stopped, and no answer that was kept is asked for again.
RC_GTEST_PROP(RunnerProperty, StopsAndResumes, ()) {
  const int records = *rc::gen::inRange(1, 40);
  const int window = *rc::gen::inRange(1, 70);
  const PipelineSpec spec =
      spec_of(pipeline(records, fmt::format("window: {}\n{}", window,
                                            *rc::gen::arbitrary<bool>() ? "order: fair\n" : "")));
  const auto gen_slots = *rc::gen::inRange<std::uint32_t>(1, 9);
  const auto judge_slots = *rc::gen::inRange<std::uint32_t>(1, 9);
  const RunFolder whole;
  ScriptedModel gen(gen_slots, writes()), judge(judge_slots, grades());
  const Session reference = run_session(spec, whole.path(), {gen.client(), judge.client()});
  RC_ASSERT(reference.progress.has_value());
  RC_ASSERT(reference.lines.size() == static_cast<std::size_t>(records));

  const RunFolder folder;
  RunLaws laws(spec);
  std::atomic<int> answers{0};
  std::size_t kept = 0;
  for (int session_number = 0;; ++session_number) {
    RC_ASSERT(session_number < 400);
    const int stop_after = *rc::gen::inRange(20, 160);
    const StopLevel level = *rc::gen::element(StopLevel::kFinish, StopLevel::kNow);
    answers = 0;
    const auto counts = [&](ScriptedModel::Script script) {
      return [&answers, script](const ModelRequest& request) {
        ++answers;
        return script(request);
      };
    };
    ScriptedModel gen2(gen_slots, counts(writes())), judge2(judge_slots, counts(grades()));
    const Session session = run_session(
        spec, folder.path(), {gen2.client(), judge2.client()},
        [&] { return answers.load() >= stop_after ? level : StopLevel::kNone; }, &laws);
    RC_ASSERT(session.progress.has_value());
    RC_ASSERT(session.violations == std::vector<std::string>());
    for (std::size_t i = 0; i < session.lines.size(); ++i) {
      RC_ASSERT(session.lines[i] == reference.lines[i]);
    }
    if (level == StopLevel::kFinish) kept += static_cast<std::size_t>(answers.load());
    if (session.progress->end == RunEnd::kComplete) break;
  }
  // What came of sessions that were allowed to finish was never repeated.
  RC_ASSERT(kept <= 2 * static_cast<std::size_t>(records));
}

// A run of twelve records, the first of which is not answered before others have been emitted, or
// ten seconds have passed.
Session run_with_a_slow_first(const PipelineSpec& spec, Store& store, bool in_order, bool resumes,
                              int stop_after = 1000) {
  std::mutex mutex;
  std::condition_variable emitted;
  int count = 0;
  ScriptedModel gen(4, [&](const ModelRequest& request) {
    if (prompt_of(request) == "write 0" && !in_order) {
      std::unique_lock lock(mutex);
      emitted.wait_for(lock, std::chrono::seconds(10), [&] { return count > 0; });
    }
    return answer(fmt::format("<{}>", prompt_of(request)));
  });
  ScriptedModel judge(4, [](const ModelRequest&) { return answer("yes"); });
  RunPorts ports;
  ports.store = &store;
  ports.models = {gen.client(), judge.client()};
  ports.in_order = in_order;
  ports.resumes = resumes;
  ports.emitted = [&]() -> Status {
    const std::lock_guard lock(mutex);
    ++count;
    emitted.notify_all();
    return {};
  };
  ports.stop = [&] {
    const std::lock_guard lock(mutex);
    return count >= stop_after ? StopLevel::kFinish : StopLevel::kNone;
  };
  return run_with(spec, ports);
}

TEST(Runner, UnorderedRecordsAreEmittedAsTheyFinish) {
  const PipelineSpec spec = spec_of(fmt::format("records: 12\nwindow: 4\n{}{}", R"(
models:
  gen: {endpoint: "http://localhost:1/v1", model: g}
  judge: {endpoint: "http://localhost:1/v1", model: j}
)",
                                                kJudgedColumns));
  const RunFolder in_order, unordered;
  const auto first = open_run(spec, in_order.path(), OpenMode::kCreate);
  const Session expected = run_with_a_slow_first(spec, *first, true, false);
  ASSERT_TRUE(is_lawful(expected));
  ASSERT_EQ(expected.lines.size(), 12U);

  const auto second = open_run(spec, unordered.path(), OpenMode::kCreate);
  const Session stopped = run_with_a_slow_first(spec, *second, false, false, 1);
  EXPECT_TRUE(is_lawful(stopped));
  ASSERT_FALSE(stopped.lines.empty());
  EXPECT_NE(stopped.lines.front(), expected.lines.front()) << "the first record is slow";

  // Each record once, and the same of it, also by a run that was stopped in between.
  const Session resumed = run_with_a_slow_first(spec, *second, false, true);
  EXPECT_TRUE(is_lawful(resumed));
  EXPECT_THAT(resumed.lines, ::testing::UnorderedElementsAreArray(expected.lines));
  // And in order again, where that is asked for.
  const Session ordered = run_with_a_slow_first(spec, *second, true, true);
  EXPECT_TRUE(is_lawful(ordered));
  EXPECT_EQ(ordered.lines, expected.lines);
}

// Also of records that are read from the store, and of answers that come from the cache.
TEST(Runner, MarksTextsThatWereCut) {
  const RunFolder folder;
  const auto cuts = [](const ModelRequest& request) -> Result<ModelAnswer> {
    ModelAnswer result = answer(fmt::format("<{}>", prompt_of(request)));
    result.cut = prompt_of(request).ends_with('7');
    return result;
  };
  std::string columns = kJudgedColumns;
  for (const bool changed : {false, false, true}) {
    // The grades are made anew, and their record's text is read from the store.
    if (changed) columns.replace(columns.find("grade {{"), 5, "judge");
    ScriptedModel gen(4, cuts), judge(4, grades());
    const Session session = run_session(spec_of(pipeline(30, "", columns)), folder.path(),
                                        {gen.client(), judge.client()});
    ASSERT_TRUE(is_lawful(session));
    ASSERT_EQ(session.lines.size(), 30U);
    for (std::size_t i = 0; i < session.lines.size(); ++i) {
      const bool cut = session.lines[i].find(R"("text_cut":true)") != std::string::npos;
      EXPECT_EQ(cut, i % 10 == 7) << session.lines[i];
    }
    EXPECT_EQ(session.progress->columns[1].cut, 3U);
  }
}

TEST(OrderedEmitter, ReadsBackWhatItDidNotKeep) {
  const PipelineSpec spec = spec_of(pipeline(50));
  const RunFolder folder;
  auto store = Store::open((folder.path() / "run.db").string(), OpenMode::kCreate);
  ASSERT_TRUE(store);
  std::vector<ColumnSpec> columns;
  for (const ColumnDescription& column : spec.columns) columns.push_back({column.name, {}, false});
  ASSERT_TRUE((*store)->reconcile(columns));
  std::vector<std::string> lines;
  OrderedEmitter emitter(
      spec, **store,
      [&](const FinishedRecord& record) -> Status {
        lines.push_back(record.reason.empty() ? record.row.dump() : record.reason);
        return {};
      },
      2);
  for (RecordId record = 49;; --record) {
    std::vector<CellResult> cells = {
        {record, 0, CellState::kValue, std::to_string(record), {}},
        {record, 1, CellState::kValue, "\"t\"", {.cut = record % 2 == 1}},
        {record,
         2,
         record == 7 ? CellState::kDropped : CellState::kSkipped,
         record == 7 ? "why" : "",
         {}},
        {record, 3, CellState::kValue, "1", {}},
    };
    (*store)->put(cells, {});
    ASSERT_TRUE((*store)->flush());
    auto opened = restore(spec, cells);
    ASSERT_TRUE(opened);
    emitter.add(record, 50 - record, *std::move(opened));
    ASSERT_TRUE(emitter.durable(49 - record));
    if (record == 0) break;
    EXPECT_TRUE(lines.empty());
  }
  EXPECT_TRUE(lines.empty()) << "the last batch is not durable";
  EXPECT_TRUE(emitter.durable(50, 20).value());
  EXPECT_EQ(lines.size(), 20U);
  EXPECT_FALSE(emitter.durable(50, 30).value());
  ASSERT_EQ(lines.size(), 50U);
  EXPECT_EQ(lines[7], "why");
  EXPECT_EQ(lines[49], R"({"i":49,"text":"t","text_cut":true,"grade":null,"size":1})");
  EXPECT_EQ(lines[48], R"({"i":48,"text":"t","text_cut":false,"grade":null,"size":1})");
}

}  // namespace
}  // namespace dovetail::pipeline
