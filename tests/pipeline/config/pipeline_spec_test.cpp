#include "pipeline/config/pipeline_spec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/option_table.h"
#include "pipeline/sample/sampler_set.h"
#include "support/sampling_samples.h"
#include "support/temp_folder.h"

namespace dovetail::pipeline {
namespace {

Result<std::vector<std::string>> two_fields(const SeedSpec&, const std::filesystem::path&) {
  return std::vector<std::string>{"question", "truth"};
}

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
  - {name: answer, type: llm-text, model: solver, prompt: "{{ question }}", chat: false, retries: 5, on_failure: keep,
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
  for (const ColumnDescription& column : spec->columns) names.push_back(column.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"question", "truth", "answer", "verdict", "same", "dice"}));
  EXPECT_EQ(spec->columns[3].needs, (std::vector<ColumnId>{0, 2}));
  EXPECT_EQ(spec->columns[4].needs, (std::vector<ColumnId>{1, 2}));
  EXPECT_EQ(spec->columns[5].needs, (std::vector<ColumnId>{4})) << "skip_if is read as well";
  EXPECT_EQ(spec->columns[2].retries, 5U);
  EXPECT_EQ(spec->columns[2].on_failure, FailurePolicy::kKeepNull);
  EXPECT_EQ(std::get<TextColumn>(spec->columns[2].what).call.sampling.stop,
            std::vector<std::string>{"\n"});
  EXPECT_EQ(std::get<LocalModel>(spec->models[spec->model("solver")].where).path,
            "folder/../model");
  EXPECT_EQ(std::get<LocalModel>(spec->models[spec->model("solver")].where).engine.max_num_seqs,
            32U);
  // Of a column, and of the model that makes it.
  EXPECT_NE(spec->columns[2].recipe.find("max_tokens"), std::string::npos);
  EXPECT_NE(spec->columns[2].recipe.find("../model"), std::string::npos);
  EXPECT_EQ(spec->columns[2].recipe.find("max-num-seqs"), std::string::npos);
  EXPECT_NE(spec->columns[0].recipe.find("problems.jsonl"), std::string::npos);
  const auto& remote = std::get<RemoteModel>(spec->models[spec->model("judge")].where);
  // A model that moves is the same model.
  EXPECT_NE(spec->columns[3].recipe.find(remote.model), std::string::npos);
  for (const std::string& url : remote.base_urls) {
    EXPECT_EQ(spec->columns[3].recipe.find(url), std::string::npos);
  }
  EXPECT_EQ(remote.timeout.count(), 2500);
  EXPECT_EQ(remote.api_key_env, "KEY");
  const auto& judge = std::get<JudgeColumn>(spec->columns[3].what);
  EXPECT_EQ(judge.rubrics.at(0).options.at(1).score, 5);
  EXPECT_EQ(judge.rubrics.at(0).options.at(1).description, "yes");
}

TEST(PipelineSpec, ReadsWhatEveryRequestToAnEndpointCarries) {
  const auto spec = parse_pipeline(R"(
records: 1
models:
  m: {endpoint: "http://a/v1", model: x, headers: {X-Team: data, X-Trace: ""},
      extra_body: {chat_template_kwargs: {enable_thinking: false}, seed: null}}
  n: {endpoint: "http://a/v1", model: x}
columns:
  - {name: c, type: expression, value: "1"}
)",
                                   "f.yaml", two_fields);
  ASSERT_TRUE(spec) << spec.error().message;
  const auto& remote = std::get<RemoteModel>(spec->models[0].where);
  EXPECT_EQ(remote.headers, (std::vector<std::pair<std::string, std::string>>{{"X-Team", "data"},
                                                                              {"X-Trace", ""}}));
  EXPECT_EQ(remote.extra_body.dump(),
            R"({"chat_template_kwargs":{"enable_thinking":false},"seed":null})");
  EXPECT_TRUE(std::get<RemoteModel>(spec->models[1].where).extra_body.is_null());
}

const std::string kSamplers = R"(
records: 10
random_seed: 3
seed: {path: x.csv}
columns:
  - {name: sum, type: expression, value: "{{ low + high }}", as: integer}
  - {name: high, type: sampler, sampler: integer, params: {low: 1, high: 9}}
  - {name: low, type: sampler, sampler: integer, params: {low: 1, high: 9},
     conditional_params: {"truth == 'x'": {low: 2, high: 3}}}
  - {name: kind, type: sampler, sampler: category, params: {values: [x, y]}, skip_if: "{{ low > 3 }}"}
)";

TEST(PipelineSpec, LinksSamplersThatAreDrawnTogether) {
  const auto spec = parse_pipeline(
      kSamplers + "constraints: [{column: low, operator: '<', other: high}]", "f.yaml", two_fields);
  ASSERT_TRUE(spec) << spec.error().message;
  std::map<std::string, const ColumnDescription*> columns;
  for (const ColumnDescription& column : spec->columns) columns[column.name] = &column;
  const auto& low = std::get<DrawnColumn>(columns["low"]->what);
  const auto& high = std::get<DrawnColumn>(columns["high"]->what);
  EXPECT_EQ(low.group, high.group);
  EXPECT_EQ(columns["low"]->needs, columns["high"]->needs) << "what either of them reads";
  EXPECT_EQ(columns["low"]->needs, std::vector<ColumnId>{1}) << "truth";
  EXPECT_EQ(columns["low"]->recipe, columns["high"]->recipe);
  EXPECT_NE(columns["low"]->recipe.find("low < high"), std::string::npos);
  EXPECT_EQ(spec->samplers->columns()[high.index].name, "high");
  const auto& kind = std::get<DrawnColumn>(columns["kind"]->what);
  EXPECT_NE(kind.group, low.group);
  ASSERT_EQ(columns["kind"]->needs.size(), 1U);
  EXPECT_EQ(spec->columns[columns["kind"]->needs[0]].name, "low");

  Json row = {{"question", "q"}, {"truth", "x"}};
  for (std::uint64_t record = 0; record < 50; ++record) {
    ASSERT_TRUE(spec->samplers->draw_group(low.group, record, row));
    EXPECT_LT(row["low"], row["high"]);
    EXPECT_GE(row["low"], 2);
    EXPECT_LE(row["low"], 3);
  }
  // Without the constraint each is alone.
  const auto apart = parse_pipeline(kSamplers, "f.yaml", two_fields);
  ASSERT_TRUE(apart) << apart.error().message;
  EXPECT_EQ(apart->samplers->groups().size(), 3U);
}

TEST(PipelineSpec, ReadsTargetsAndLimits) {
  const auto spec = parse_pipeline(R"(
target_accepted: {count: 5, when: "{{ a == 'x' }}", candidates: 20}
limits: {cost: 1.5, errors: {share: 0.25, window: 8}, stall: 2.5}
models: {m: {endpoint: "http://h/v1", model: m, output_price: 2}}
columns:
  - {name: a, type: expression, value: x}
)",
                                   "f.yaml", two_fields);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->records, 20U);
  ASSERT_TRUE(spec->target);
  EXPECT_EQ(spec->target->count, 5U);
  EXPECT_EQ(spec->target->needs, std::vector<ColumnId>{0});
  EXPECT_EQ(spec->limits.cost, 1.5);
  EXPECT_EQ(spec->limits.error_share, 0.25);
  EXPECT_EQ(spec->limits.error_window, 8U);
  EXPECT_EQ(spec->limits.stall.count(), 2500);
}

TEST(PipelineSpec, ReadsWhatBecomesOfCells) {
  const auto spec = parse_pipeline(R"(
records: 1
models: {m: {path: x}}
columns:
  - {name: text, type: llm-text, model: m, prompt: x}
  - {name: code, type: llm-code, model: m, prompt: x, language: c, cache: false, propagate_skip: false}
  - {name: json, type: llm-structured, model: m, prompt: x, schema: {}, corrections: 3, retries: 0}
  - {name: bare, type: llm-code, model: m, prompt: x, language: c, chat: false}
  - {name: check, type: validation, column: code, command: [cc], timeout: 0.5, on_failure: keep}
  - {name: match, type: validation, column: code, regex: x}
)",
                                   "folder/f.yaml", two_fields);
  ASSERT_TRUE(spec) << spec.error().message;
  using Attempts = std::pair<std::uint32_t, std::uint32_t>;
  const std::vector<Attempts> attempts = {{2, 0}, {2, 1}, {0, 3}, {2, 0}, {0, 0}, {0, 0}};
  const std::vector<std::string> types = {"llm-text", "llm-code",   "llm-structured",
                                          "llm-code", "validation", "validation"};
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    EXPECT_EQ(Attempts(spec->columns[i].retries, spec->columns[i].corrections), attempts[i]) << i;
    EXPECT_EQ(spec->columns[i].cache, i != 1);
    EXPECT_EQ(spec->columns[i].propagate_skip, i != 1);
    EXPECT_EQ(spec->columns[i].blocks(), i == 4);
    EXPECT_EQ(spec->columns[i].type(), types[i]);
    EXPECT_EQ(spec->columns[i].model() == nullptr, i >= 4);
    EXPECT_EQ(spec->columns[i].on_failure == FailurePolicy::kKeepNull, i == 4);
  }
  const auto& check = std::get<ValidationColumn>(spec->columns[4].what);
  EXPECT_EQ(std::get<CommandCheck>(check.check).folder, "folder");
  EXPECT_EQ(std::get<CommandCheck>(check.check).timeout.count(), 500);
}

// What is said of a column's values changes its recipe; what is said of its work does not.
TEST(PipelineSpec, KnowsWhatChangesValues) {
  const std::string plain = "name: a, type: llm-text, model: m, prompt: x";
  const auto recipe = [](const std::string& model, const std::string& column) {
    const auto spec = parse_pipeline("records: 1\nmodels: {m: {endpoint: 'http://h', model: b" +
                                         model + "}}\ncolumns: [{" + column + "}]",
                                     "f.yaml", two_fields);
    EXPECT_TRUE(spec) << spec.error().message;
    return spec.value().columns.front().recipe;
  };
  const std::string before = recipe("", plain);
  for (const char* model :
       {", max_parallel: 3", ", timeout: 3", ", input_price: 3", ", requests_per_minute: 3",
        ", tokens_per_minute: 3", ", api_key_env: K"}) {
    EXPECT_EQ(recipe(model, plain), before) << model;
  }
  for (const char* column : {", priority: 3", ", drop: true", ", cache: false", ", retries: 3"}) {
    EXPECT_EQ(recipe("", plain + column), before) << column;
  }
  for (const char* model : {", sampling: {top_k: 3}"}) EXPECT_NE(recipe(model, plain), before);
  for (const char* column : {", strip: false", ", sampling: {top_k: 3}", ", system_prompt: y"}) {
    EXPECT_NE(recipe("", plain + column), before) << column;
  }
}

// A model in this process is held to the options, which makes other answers.
TEST(PipelineSpec, KnowsThatAModelHereIsHeldToOptions) {
  const auto recipe = [](const std::string& where, const std::string& answer) {
    const auto spec = parse_pipeline("records: 1\nmodels: {m: {" + where +
                                         "}}\ncolumns: [{name: a, type: llm-judge, model: m, "
                                         "prompt: x, answer: " +
                                         answer + ", rubrics: [{name: r, options: [1, 2]}]}]",
                                     "f.yaml", two_fields);
    EXPECT_TRUE(spec) << spec.error().message;
    return spec.value().columns.front().recipe;
  };
  const std::string pattern = "(?:1|2)";
  EXPECT_NE(recipe("path: x", "option").find(pattern), std::string::npos);
  EXPECT_EQ(recipe("path: x", "json").find(pattern), std::string::npos);
  EXPECT_EQ(recipe("endpoint: 'http://h', model: b", "option").find(pattern), std::string::npos);
}

// Columns that read some of the columns before them, put into the file in any order.
TEST(PipelineSpec, PutsColumnsAfterThoseTheyNeed) {
  EXPECT_TRUE(rc::check([] {
    const auto count = *rc::gen::inRange<std::size_t>(1, 12);
    std::vector<std::set<std::size_t>> needs(count);
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < count; ++i) {
      std::string value = "x";
      for (std::size_t j = 0; j < i; ++j) {
        if (*rc::gen::inRange(0, 3) != 0) continue;
        needs[i].insert(j);
        value += fmt::format("{{{{ c{} }}}}", j);
      }
      lines.push_back(fmt::format("  - {{name: c{}, type: expression, value: '{}'}}\n", i, value));
    }
    for (std::size_t i = count; i > 1; --i) {
      std::swap(lines[i - 1], lines[*rc::gen::inRange<std::size_t>(0, i)]);
    }
    const auto spec = parse_pipeline(fmt::format("records: 1\ncolumns:\n{}", fmt::join(lines, "")),
                                     "f.yaml", two_fields);
    RC_ASSERT(spec.has_value());
    RC_ASSERT(spec->columns.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      std::set<std::size_t> read;
      for (const ColumnId need : spec->columns[i].needs) {
        RC_ASSERT(need < i);
        read.insert(std::stoul(spec->columns[need].name.substr(1)));
      }
      RC_ASSERT(read == needs[std::stoul(spec->columns[i].name.substr(1))]);
    }
  }));
}

TEST(PipelineSpec, ReadsSchemasFromFiles) {
  const test::TempFolder folder;
  const auto parse = [&](const std::string& schema) {
    folder.write("s.json", schema);
    return parse_pipeline(
        "records: 1\nseed: {path: x.csv}\ncolumns:\n"
        "  - {name: v, type: validation, column: truth, schema_file: s.json}",
        folder.path() / "f.yaml", two_fields);
  };
  const std::string at = (folder.path() / "f.yaml").string() + ":4:48: /columns/0/schema_file: ";
  const std::string file = (folder.path() / "s.json").string();
  const auto integers = parse(R"({"type": "integer"})");
  ASSERT_TRUE(integers) << integers.error().message;
  const auto strings = parse("{\n \"type\": \"string\"}");
  ASSERT_TRUE(strings);
  EXPECT_NE(integers->columns[2].recipe, strings->columns[2].recipe) << "the file's text counts";
  EXPECT_EQ(parse("{\n  \"typ\": 1}").error().message,
            at + file + ":2:3: /typ: unknown keyword, did you mean type?");
  EXPECT_EQ(parse("{\n  \"typ\": [}").error().message.substr(0, at.size() + file.size()),
            at + file);
}

TEST(PipelineSpec, PassesOnWhatIsWrongWithSeedData) {
  const auto spec =
      parse_pipeline("records: 1\nseed: {path: nowhere.csv}\ncolumns: []", "f.yaml",
                     [](const SeedSpec& seed, const auto&) -> Result<std::vector<std::string>> {
                       return fail(ErrorKind::kNotFound, "{}: no such file", seed.path);
                     });
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().message, "f.yaml:2:1: /seed: nowhere.csv: no such file");
}

// Arrow reads no column of two kinds.
TEST(PipelineSpec, ScoresOfSeveralKindsAreTexts) {
  const auto scores_of = [](const std::string& options) {
    const auto spec = parse_pipeline(
        "records: 1\nmodels: {m: {path: x}}\ncolumns:\n  - {name: j, type: llm-judge, model: m, "
        "prompt: x, rubrics: [{name: r, options: " +
            options + "}]}\n",
        "f.yaml", nullptr);
    EXPECT_TRUE(spec) << spec.error().message;
    Json scores = Json::array();
    for (const auto& option : std::get<JudgeColumn>(spec->columns[0].what).rubrics[0].options) {
      scores.push_back(option.score);
    }
    return scores.dump();
  };
  EXPECT_EQ(scores_of("{1: bad, 2.5: good}"), "[1,2.5]");
  EXPECT_EQ(scores_of("{1: bad, na: none}"), R"(["1","na"])");
  EXPECT_EQ(scores_of("[true, 1]"), R"(["true","1"])");
  EXPECT_EQ(scores_of("[yes, no]"), R"(["yes","no"])");
}

TEST(PipelineSpec, ReadsTheTableOfSamplingParameters) {
  const auto parse = [](const SamplingRow& row, double value) {
    const std::string number =
        row.whole() ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
    return parse_pipeline(
        fmt::format("records: 1\nmodels: {{m: {{path: x, sampling: {{{}: {}}}}}}}\n"
                    "columns: [{{name: a, type: llm-text, model: m, prompt: x}}]",
                    row.name, number),
        "f.yaml", two_fields);
  };
  for (const SamplingRow& row : kSamplingRows) {
    const auto spec = parse(row, test::sample_of(row));
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->models[0].sampling.values[row], test::sample_of(row)) << row.name;
    for (const double value : {test::too_little(row), test::too_much(row)}) {
      const auto refused = parse(row, value);
      ASSERT_FALSE(refused) << row.name;
      const std::string& message = refused.error().message;
      EXPECT_NE(message.find(fmt::format("/models/m/sampling/{}: ", row.name)), std::string::npos)
          << message;
      EXPECT_TRUE(message.ends_with(fmt::format(" {}", row.most))) << message;
    }
  }
}

TEST(PipelineSpec, ReadsTheTableOfEngineOptions) {
  const auto parse = [](const engine::OptionRow& row, const std::string& value) {
    return parse_pipeline(fmt::format("records: 1\nmodels: {{m: {{path: x, engine: {{{}: {}}}}}}}\n"
                                      "columns: [{{name: a, type: llm-text, model: m, prompt: x}}]",
                                      engine::option_name(row), value),
                          "f.yaml", two_fields);
  };
  for (const engine::OptionRow& row : engine::kOptionRows) {
    const std::string name = engine::option_name(row);
    if (!row.in_pipelines) {
      EXPECT_FALSE(parse(row, "1")) << name;
      continue;
    }
    const bool flag = row.kind() == engine::OptionKind::kFlag;
    const auto least = static_cast<std::int64_t>(row.least);
    const auto most = static_cast<std::int64_t>(row.most);
    for (const std::int64_t number : {least, most}) {
      const bool on = number != least;
      const auto spec = parse(row, flag ? fmt::format("{}", on) : fmt::format("{}", number));
      ASSERT_TRUE(spec) << spec.error().message;
      const EngineOptions& options = std::get<LocalModel>(spec->models[0].where).engine;
      auto expected = flag ? static_cast<double>(on) : static_cast<double>(number);
      // A step has room for a token of each sequence, whatever is given.
      if (name == "max-num-batched-tokens")
        expected = std::max(expected, static_cast<double>(options.max_num_seqs));
      EXPECT_EQ(engine::option_value(options, row), expected) << name;
    }
    std::vector<std::string> wrong = {"1.5", "\"1\"", "[1]"};
    for (const std::int64_t number : {least - 1, most + 1}) {
      wrong.push_back(fmt::format("{}", number));
    }
    if (!flag) wrong.push_back("true");
    for (const std::string& value : wrong) {
      const auto refused = parse(row, value);
      ASSERT_FALSE(refused) << name << ": " << value;
      EXPECT_EQ(refused.error().message,
                fmt::format(
                    "f.yaml:2:32: /models/m/engine/{}: {}; valid: {}", name, value,
                    flag ? "true or false" : fmt::format("an integer from {} to {}", least, most)));
    }
  }
}

}  // namespace
}  // namespace dovetail::pipeline
