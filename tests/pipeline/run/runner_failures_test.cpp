#include <gtest/gtest.h>

#include "pipeline/run/runner.h"
#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

TEST(RunnerFailures, DropsRecordsWithTheReason) {
  const PipelineSpec spec = spec_of(judged_pipeline(9));
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

TEST(RunnerFailures, KeepsNullWhereThePolicySaysSo) {
  std::string columns = kJudgedColumns;
  columns.replace(columns.find("answer: option"), 0, "on_failure: keep\n    ");
  const PipelineSpec spec = spec_of(judged_pipeline(3, "", columns));
  const RunFolder folder;
  ScriptedModel gen(4, writes());
  ScriptedModel judge(4, [&](const ModelRequest&) { return answer("maybe"); });
  const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
  ASSERT_TRUE(is_lawful(session));
  EXPECT_EQ(session.lines[1], R"({"i":1,"text":"<write 1>","grade":null,"size":9})");
  EXPECT_EQ(session.progress->columns[2].failed, 3U);
}

TEST(RunnerFailures, TriesUnreachableCellsOnceMoreAtTheEnd) {
  const PipelineSpec spec = spec_of(judged_pipeline(10));
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
TEST(RunnerFailures, UnreachableCellsDoNotBlockTheWindow) {
  const PipelineSpec spec = spec_of(judged_pipeline(40, "window: 4\n"));
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

TEST(RunnerFailures, EndsEarlyWhereEverythingFails) {
  const PipelineSpec spec = spec_of(judged_pipeline(1000));
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
TEST(RunnerFailures, MakesFailedCellsAnewWhereItIsAsked) {
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
    const PipelineSpec spec = spec_of(judged_pipeline(20, "", columns(policy)));
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

}  // namespace
}  // namespace dovetail::pipeline
