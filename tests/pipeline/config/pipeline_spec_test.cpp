#include "pipeline/config/pipeline_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dovetail::pipeline {
namespace {

Result<std::vector<std::string>> two_fields(const Json&, const std::filesystem::path&) {
  return std::vector<std::string>{"question", "truth"};
}

const std::string kModels = R"(
records: 10
models:
  solver: {path: models/demo}
  judge:
    endpoint: [http://a:1/v1, https://b/v1]
    model: big
    max_parallel: 8
)";

std::string with_columns(const std::string& columns) { return kModels + "columns:\n" + columns; }

TEST(PipelineSpec, ReadsAFile) {
  const auto spec = parse_pipeline(R"(
name: sums
records: 1000
random_seed: 7
window: 50
order: fair
seed: {path: problems.jsonl}
models:
  solver: {path: ../model, engine: {max-num-seqs: 32}, sampling: {temperature: 0}}
  judge: {endpoint: "http://127.0.0.1:8000/v1", model: m, api_key_env: KEY, requests_per_minute: 60, timeout: 2.5}
columns:
  - {name: verdict, type: llm-judge, model: judge, prompt: "{{ question }} {{ answer }}", system_prompt: Judge.,
     rubrics: [{name: right, description: "Is it?", options: {1: no, 5: yes}}]}
  - {name: answer, type: llm-text, model: solver, prompt: "{{ question }}", chat: false, retries: 5, on_failure: "null",
     sampling: {max_tokens: 8, stop: "\n"}}
  - {name: same, type: expression, value: "{{ answer == truth }}", as: flag, priority: -3, drop: true}
  - {name: dice, type: sampler, sampler: integer, params: {low: 1, high: 6}, skip_if: "{{ same }}"}
)",
                                   "folder/sums.yaml", two_fields);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->records, 1000U);
  EXPECT_EQ(spec->window, 50U);
  EXPECT_TRUE(spec->fair);
  std::vector<std::string> names;
  for (const ColumnSpec& column : spec->columns) names.push_back(column.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"question", "truth", "answer", "verdict", "same", "dice"}));
  EXPECT_EQ(spec->columns[3].needs, (std::vector<ColumnId>{0, 2}));
  EXPECT_EQ(spec->columns[4].needs, (std::vector<ColumnId>{1, 2}));
  EXPECT_EQ(spec->columns[5].needs, (std::vector<ColumnId>{4})) << "skip_if is read as well";
  EXPECT_EQ(spec->columns[2].retries, 5U);
  EXPECT_EQ(spec->columns[2].on_failure, FailurePolicy::kKeepNull);
  EXPECT_EQ(std::get<TextColumn>(spec->columns[2].what).sampling.stop,
            std::vector<std::string>{"\n"});
  EXPECT_EQ(std::get<LocalModel>(spec->models[spec->model("solver")].where).path,
            "folder/../model");
  EXPECT_EQ(std::get<LocalModel>(spec->models[spec->model("solver")].where).engine.max_num_seqs,
            32U);
  // Of a column, and of the model that makes it.
  EXPECT_NE(spec->columns[2].recipe.find("max_tokens"), std::string::npos);
  EXPECT_NE(spec->columns[2].recipe.find("max-num-seqs"), std::string::npos);
  EXPECT_NE(spec->columns[0].recipe.find("problems.jsonl"), std::string::npos);
  const auto& remote = std::get<RemoteModel>(spec->models[spec->model("judge")].where);
  EXPECT_EQ(remote.timeout.count(), 2500);
  EXPECT_EQ(remote.api_key_env, "KEY");
  const auto& judge = std::get<JudgeColumn>(spec->columns[3].what);
  EXPECT_EQ(judge.rubrics.at(0).options.at(1).score, 5);
  EXPECT_EQ(judge.rubrics.at(0).options.at(1).description, "yes");
}

TEST(PipelineSpec, SaysWhereAndWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"- 1", "f.yaml:1:1: [1] is no mapping of keys to values"},
      {"columns: []", "f.yaml:1:1: /records: expected the number of records here"},
      {"records: 0\ncolumns: []",
       "f.yaml:1:1: /records: 0 is no whole number from 1 to 1000000000"},
      {"records: 1\n", "/columns: expected a list of columns here"},
      {"records: 1\ncolumns: []", "f.yaml:2:1: /columns: there are no columns"},
      {"records: 1\nrecord: 2\ncolumns: []",
       "f.yaml:2:1: /record: unknown key, did you mean records?"},
      {"records: 1\nmodels: {m: {}}\ncolumns: []", "/models/m: expected either path"},
      {"records: 1\nmodels: {m: {endpoint: 'ftp://x', model: a}}\ncolumns: []",
       "'ftp://x' is no URL"},
      {"records: 1\nmodels: {m: {path: x, max_parallel: 3}}\ncolumns: []",
       "f.yaml:2:23: /models/m/max_parallel: unknown key"},
      {with_columns("  - {type: expression}"), "/columns/0/name: expected a text here"},
      {with_columns("  - {name: a}"), "/columns/0/type: expected one of sampler, expression"},
      {with_columns("  - {name: a, type: llm}"), "'llm' is none of sampler"},
      {with_columns("  - {name: 'a b', type: expression, value: x}"),
       "'a b' is no name of a column"},
      {with_columns(
           "  - {name: a, type: expression, value: x}\n  - {name: a, type: expression, value: x}"),
       "f.yaml:11:5: /columns/1: there is a column 'a' already"},
      {with_columns("  - {name: a, type: expression, value: '{{ b }}'}"),
       "a template reads 'b', which is no column"},
      {with_columns("  - {name: topic, type: expression, value: '{{ topik }}'}"),
       "did you mean topic?"},
      {with_columns("  - {name: a, type: expression, value: '{{ b }}'}\n"
                    "  - {name: b, type: expression, value: '{{ c }}'}\n"
                    "  - {name: c, type: expression, value: '{{ b }}'}"),
       "f.yaml:11:5: /columns/1: columns need each other in a circle: b needs c needs b"},
      {with_columns("  - {name: a, type: expression, value: '{{ a }}'}"), "a needs a"},
      {with_columns("  - {name: a, type: expression, value: '{{ 1 + }}'}"),
       "/columns/0/value: value:1:"},
      {with_columns("  - {name: a, type: llm-text, model: solvr, prompt: x}"),
       "there is no model 'solvr'"},
      {with_columns("  - {name: a, type: llm-text, model: solver}"),
       "/columns/0/prompt: expected a template here"},
      {with_columns(
           "  - {name: a, type: llm-text, model: solver, prompt: x, sampling: {temprature: 1}}"),
       "/columns/0/sampling/temprature: unknown key, did you mean temperature?"},
      {with_columns("  - {name: a, type: llm-text, model: solver, prompt: x, chat: false, "
                    "system_prompt: y}"),
       "a prompt without chat has none"},
      {with_columns("  - {name: a, type: llm-judge, model: judge, prompt: x}"),
       "expected a list of rubrics here"},
      {with_columns(
           "  - {name: a, type: llm-judge, model: judge, prompt: x, rubrics: [{name: r}]}"),
       "/columns/0/rubrics/0/options: expected a list of scores"},
      {with_columns(
           "  - {name: a, type: llm-judge, model: judge, prompt: x, answer: option, rubrics: "
           "[{name: r, options: [1]}, {name: s, options: [1]}]}"),
       "an answer that is an option has one rubric, not 2"},
  };
  for (const auto& [yaml, message] : cases) {
    const auto spec = parse_pipeline(yaml, "f.yaml", two_fields);
    ASSERT_FALSE(spec) << yaml;
    EXPECT_EQ(spec.error().kind, ErrorKind::kInvalid);
    EXPECT_NE(spec.error().message.find(message), std::string::npos) << yaml << "\n"
                                                                     << spec.error().message;
    EXPECT_EQ(spec.error().message.find('\n'), std::string::npos);
  }
}

TEST(PipelineSpec, PassesOnWhatIsWrongWithSeedData) {
  const auto spec = parse_pipeline(
      "records: 1\nseed: {path: nowhere.csv}\ncolumns: []", "f.yaml",
      [](const Json& section, const auto&) -> Result<std::vector<std::string>> {
        return fail(ErrorKind::kNotFound, "{}: no such file", section["path"].get<std::string>());
      });
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().message, "f.yaml:2:1: /seed: nowhere.csv: no such file");
}

}  // namespace
}  // namespace dovetail::pipeline
