#include "pipeline/run/runner.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

TEST(Runner, MakesEveryCell) {
  const PipelineSpec spec = spec_of(judged_pipeline(300));
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
    const PipelineSpec spec = spec_of(judged_pipeline(50));
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
  const PipelineSpec spec = spec_of(judged_pipeline(500));
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
  const PipelineSpec spec = spec_of(judged_pipeline(20));
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
  // What a cell has cost is all its attempts.
  const auto store = open_run(spec, folder.path(), OpenMode::kResume);
  std::uint64_t cost = 0, tokens = 0;
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    const auto cells = store->read_record(record);
    ASSERT_TRUE(cells);
    for (const CellResult& cell : *cells) {
      cost += cell.provenance.cost;
      tokens += cell.provenance.prompt_tokens + cell.provenance.completion_tokens;
    }
  }
  EXPECT_NEAR(static_cast<double>(cost) / 1e9, session.progress->cost, 1e-9);
  std::uint64_t answered = 0;
  for (const ColumnCounts& counts : session.progress->columns)
    answered += counts.prompt_tokens + counts.completion_tokens;
  EXPECT_EQ(tokens, answered);
  for (const auto& [prompt, tries] : seeds) {
    EXPECT_EQ(std::set(tries.begin(), tries.end()).size(), 3U) << prompt;
  }
}

TEST(Runner, TellsTheModelWhatIsWrongWithItsAnswer) {
  std::string columns = kJudgedColumns;
  columns.replace(columns.find("corrections: 0"), 14, "corrections: 1");
  const PipelineSpec spec = spec_of(judged_pipeline(6, "", columns));
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
  const PipelineSpec spec = spec_of(judged_pipeline(40));
  const Session first = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(first));
  std::string columns = kJudgedColumns;
  // Another column that asks for the same.
  columns.replace(columns.find("description: is it"), 18, "description: or not");
  ScriptedModel silent(4, writes());
  const Session again = run_session(spec_of(judged_pipeline(40, "", columns)), folder.path(),
                                    {silent.client(), silent.client()});
  ASSERT_TRUE(is_lawful(again));
  EXPECT_EQ(again.lines, first.lines);
  EXPECT_TRUE(silent.asked().empty());
  EXPECT_EQ(again.progress->columns[2].from_cache, 40U);
  columns.replace(columns.find("description: or not"), 19, "description: whatever");
  columns.replace(columns.find("corrections: 0"), 14, "corrections: 0\n    cache: false");
  ScriptedModel asked(4, grades());
  const Session third = run_session(spec_of(judged_pipeline(40, "", columns)), folder.path(),
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
        kJudgedModels, kJudgedColumns));
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
                          kJudgedModels, kJudgedColumns));
  const RunFolder folder;
  ScriptedModel gen(4, writes()), judge(4, grades());
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(session.progress);
  EXPECT_EQ(session.progress->end, RunEnd::kTargetMissed);
  EXPECT_EQ(session.progress->why, "0 of 40 candidates were accepted, target_accepted.count is 30");
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
  const PipelineSpec spec = spec_of(judged_pipeline(40, "", columns));
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
  const PipelineSpec spec = spec_of(judged_pipeline(2, "", columns));
  const RunFolder folder;
  ScriptedModel gen(4, writes());
  const Session session = run_session(spec, folder.path(), {gen.client(), gen.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.lines[0], R"({"i":0,"text":"<write 0>","has":"yes"})");
  EXPECT_EQ(session.lines[1], R"({"i":1,"text":null,"has":"no"})");
}

TEST(Runner, SkipsWhatDependsOnASkippedCell) {
  const std::string columns = R"(
columns:
  - {name: i, type: sampler, sampler: integer, params: {low: 0, high: 1}}
  - {name: text, type: llm-text, model: gen, prompt: "write {{ i }}", skip_if: "{{ i % 2 == 1 }}"}
  - {name: more, type: llm-text, model: judge, prompt: "more {{ text }}"}
  - {name: twice, type: expression, as: integer, value: "{{ i * 2 }}"}
)";
  const PipelineSpec spec = spec_of(judged_pipeline(4, "", columns));
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
      run_session(spec_of(judged_pipeline(30)), folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(first));
  std::string columns = kJudgedColumns;
  columns.replace(columns.find("grade {{"), 5, "judge");
  ScriptedModel gen2(4, writes()), judge2(4, grades());
  const Session second = run_session(spec_of(judged_pipeline(30, "", columns)), folder.path(),
                                     {gen2.client(), judge2.client()});
  ASSERT_TRUE(is_lawful(second));
  EXPECT_TRUE(gen2.asked().empty());
  EXPECT_EQ(judge2.asked().size(), 30U);
  EXPECT_EQ(second.lines, first.lines);
  columns.replace(columns.find("write {{"), 5, "paint");
  ScriptedModel gen3(4, writes()), judge3(4, grades());
  const Session third = run_session(spec_of(judged_pipeline(30, "", columns)), folder.path(),
                                    {gen3.client(), judge3.client()});
  ASSERT_TRUE(is_lawful(third));
  EXPECT_EQ(gen3.asked().size(), 30U);
  EXPECT_EQ(judge3.asked().size(), 30U);
  EXPECT_EQ(third.lines[0].substr(0, 30), R"({"i":0,"text":"<paint 0>","gra)");
}

// Stopped at any number of answers, by either way to stop, and resumed until it is complete: the
// records are those of a run that nobody stopped, and no answer that was kept is asked for again.
RC_GTEST_PROP(RunnerProperty, StopsAndResumes, ()) {
  const int records = *rc::gen::inRange(1, 40);
  const int window = *rc::gen::inRange(1, 70);
  const PipelineSpec spec = spec_of(judged_pipeline(
      records,
      fmt::format("window: {}\n{}", window, *rc::gen::arbitrary<bool>() ? "order: fair\n" : "")));
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
    const Session session = run_session(spec_of(judged_pipeline(30, "", columns)), folder.path(),
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

}  // namespace
}  // namespace dovetail::pipeline
