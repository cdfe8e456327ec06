#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/config/pipeline_spec.h"
#include "support/places.h"

namespace dovetail::pipeline {
namespace {

Result<std::vector<std::string>> question_and_truth(const SeedSpec&, const std::filesystem::path&) {
  return std::vector<std::string>{"question", "truth"};
}

std::string error_of(const std::string& yaml, const std::filesystem::path& file = "f.yaml") {
  const auto spec = parse_pipeline(yaml, file, question_and_truth);
  if (spec) return "";
  EXPECT_EQ(spec.error().kind, ErrorKind::kInvalid);
  return spec.error().message;
}

using Cases = std::vector<std::pair<std::string, std::string>>;

TEST(PipelineErrors, OfTheWholeFile) {
  const std::string columns = "columns: [{name: a, type: expression, value: x}]\n";
  const Cases cases = {
      {"- 1", "f.yaml:1:1: [1]; valid: an object"},
      {"", "f.yaml: null; valid: an object"},
      {columns, "f.yaml:1:1: /records: expected the number of records here"},
      {"records: 0\n" + columns, "f.yaml:1:1: /records: 0; valid: an integer from 1 to 1000000000"},
      {"records: 1\n", "f.yaml:1:1: /columns: expected a list of columns here"},
      {"records: 1\ncolumns: []", "f.yaml:2:1: /columns: there are no columns"},
      {"records: 1\nname: ../../x\n" + columns,
       "f.yaml:2:1: /name: \"../../x\" is no name of a file, which the run's folder has: up to 200 "
       "bytes, no / and no control characters, not a . first (the folder may be elsewhere: "
       "--output)"},
      {"records: 1\nrecord: 2\n" + columns,
       "f.yaml:2:1: /record: unknown key, did you mean records?"},
      {"records: 1\norder: random\n" + columns,
       "f.yaml:2:1: /order: \"random\"; valid: finish-first, fair"},
      {"records: 1\norder: \"fa\\nir\"\n" + columns,
       "f.yaml:2:1: /order: \"fa\\nir\"; valid: finish-first, fair (did you mean 'fair'?)"},
      {"records: 1\nwindow: 1.5\n" + columns,
       "f.yaml:2:1: /window: 1.5; valid: an integer from 1 to 1000000000"},
      {"records: 1\nmodels: {m: {}}\n" + columns,
       "f.yaml:2:10: /models/m: expected either path (a model in this process) or endpoint (one or "
       "several URLs)"},
      {"records: 1\nmodels: {m: {path: x, endpoint: y}}\n" + columns,
       "f.yaml:2:10: /models/m: expected either path (a model in this process) or endpoint (one or "
       "several URLs)"},
      {"records: 1\nmodels: {m: {pth: x}}\n" + columns,
       "f.yaml:2:14: /models/m/pth: unknown key, did you mean path?"},
      {"records: 1\nmodels: {m: {path: x, engine: {kv_blocks: 0}}}\n" + columns,
       "f.yaml:2:32: /models/m/engine/kv_blocks: unknown key, did you mean kv-blocks?"},
      {"records: 1\nmodels: {m: {path: x, engine: {threads: -1}}}\n" + columns,
       "f.yaml:2:32: /models/m/engine/threads: -1; valid: an integer from 0 to 1024"},
      {"records: 1\nmodels: {m: {endpoint: 'ftp://x', model: a}}\n" + columns,
       "f.yaml:2:14: /models/m/endpoint: 'ftp://x' is no URL that begins with http:// or https://"},
      {"records: 1\nmodels: {m: {endpoint: 'http://x'}}\n" + columns,
       "f.yaml:2:10: /models/m/model: missing; valid: a string that is not empty"},
      {"records: 1\nmodels: {m: {path: x, max_parallel: 3}}\n" + columns,
       "f.yaml:2:23: /models/m/max_parallel: unknown key, expected one of sampling, path, engine"},
      {"records: 1\nmodels: {m: {path: x, sampling: {temperature: -1}}}\n" + columns,
       "f.yaml:2:34: /models/m/sampling/temperature: -1; valid: a number from 0 to 100"},
      // Nothing is left of it in the float that a model draws with.
      {"records: 1\nmodels: {m: {path: x, sampling: {top_p: 1e-60}}}\n" + columns,
       "f.yaml:2:34: /models/m/sampling/top_p: 1e-60; valid: a number above 0 and at most 1"},
      {"records: 1\nmodels: {m: {endpoint: 'http://x', model: a, headers: {'X Y': b}}}\n" + columns,
       "f.yaml:2:46: /models/m/headers: \"X Y\" is no name of a header"},
      {"records: 1\nmodels: {m: {endpoint: 'http://x', model: a, headers: {X: 5}}}\n" + columns,
       "f.yaml:2:46: /models/m/headers: the value of X is no text of one line"},
      {"records: 1\nmodels: {m: {endpoint: 'http://x', model: a, headers: {X: \"a\\nb\"}}}\n" +
           columns,
       "f.yaml:2:46: /models/m/headers: the value of X is no text of one line"},
      {"records: 1\nmodels: {m: {endpoint: 'http://x', model: a, extra_body: {n: 2}}}\n" + columns,
       "f.yaml:2:46: /models/m/extra_body: n is set by the column and its model, not here"},
      // Seeds.
      {"records: 1\nseed: {path: ''}\n" + columns,
       "f.yaml:2:8: /seed/path: \"\"; valid: a file, a folder or a pattern such as data/*.csv"},
      {"records: 1\nseed: {path: x.csv, ordre: shuffled}\n" + columns,
       "f.yaml:2:21: /seed/ordre: unknown key, did you mean order?"},
      {"records: 1\nseed:\n  path: x.csv\n  order: random\n" + columns,
       "f.yaml:4:3: /seed/order: \"random\"; valid: ordered, shuffled"},
      {"records: 1\nseed:\n  path: x.csv\n  filter: 'a >'\n" + columns,
       "f.yaml:4:3: /seed/filter: condition 'a >':1:8: expected an expression, found }}"},
      {"records: 1\nseed: {path: x.csv, range: {start: 3, end: 2}}\n" + columns,
       "f.yaml:2:39: /seed/range/end: 2; valid: more than start, 3 (the row of end is left out)"},
      {"records: 1\nseed: {path: x.csv}\ncolumns: [{name: truth, type: expression, value: x}]",
       "f.yaml:3:12: /columns/0/name: there is a column 'truth' already"},
      // Limits and targets.
      {"records: 1\nlimits: {cost: 5}\n" + columns,
       "f.yaml:2:10: /limits/cost: no model has a price: input_price, output_price"},
      {"records: 1\nlimits: {errors: {share: 2}}\n" + columns,
       "f.yaml:2:19: /limits/errors/share: 2; valid: a number from 0 to 1"},
      {"records: 1\nlimits: {errors: {windows: 2}}\n" + columns,
       "f.yaml:2:19: /limits/errors/windows: unknown key, did you mean window?"},
      {"records: 1\nlimits: {stall: 0}\n" + columns,
       "f.yaml:2:10: /limits/stall: 0; valid: a number from 0.001 to 10000000"},
      {"target_accepted: {when: x, candidates: 2}\n" + columns,
       "f.yaml:1:1: /target_accepted/count: expected the number of accepted records here"},
      {"target_accepted: {count: 1, candidates: 2}\n" + columns,
       "f.yaml:1:1: /target_accepted/when: expected a template here"},
      {"target_accepted: {count: 1, when: x}\n" + columns,
       "f.yaml:1:1: /target_accepted/candidates: expected the most records that are tried here"},
      {"target_accepted: {count: 3, when: x, candidates: 2}\n" + columns,
       "f.yaml:1:38: /target_accepted/candidates: 2 are fewer than count, 3"},
      {"target_accepted:\n  count: 1\n  candidates: 2\n  when: '{{ aa }}'\n" + columns,
       "f.yaml:4:3: /target_accepted/when: there is no column 'aa'; there are a"},
      {"records: 1\ntarget_accepted: {count: 1, when: x, candidates: 2}\n" + columns,
       "f.yaml:1:1: /records: target_accepted says how many: candidates"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(yaml), message) << yaml;
}

TEST(PipelineErrors, AllOfThem) {
  const std::string yaml =
      "records: 0\n"
      "naem: x\n"
      "limits: {stall: 0, errors: {share: 2, window: 0}}\n"
      "models:\n"
      "  a: {endpoint: 'ftp://x', model: m, max_paralel: 3}\n"
      "  b: {path: x, sampling: {temperature: -1, top_k: -1}}\n"
      "columns:\n"
      "  - {name: t, type: llm-text, model: c, prompt: '{{ nobody }}', retries: 1000}\n"
      "  - {name: u, type: llm-text, model: a, prompt: '{{ t }}'}\n"
      "  - {name: v, type: llm-judge, model: b, prompt: x, rubrics: [{nme: r, options: [1, "
      "[2]]}]}\n"
      "  - {name: w, type: samplr}\n"
      "  - {name: x, type: sampler, sampler: uniform, params: {low: 2, high: 1}}\n"
      "constraints:\n"
      "  - {column: x, operator: '<', other: z}\n"
      "figures:\n"
      "  - {name: f, share_of: '{{ v.r }} {{ gone }}'}\n";
  EXPECT_EQ(
      error_of(yaml),
      "f.yaml:1:1: /records: 0; valid: an integer from 1 to 1000000000\n"
      "f.yaml:3:29: /limits/errors/share: 2; valid: a number from 0 to 1\n"
      "f.yaml:3:39: /limits/errors/window: 0; valid: an integer from 1 to 1000000\n"
      "f.yaml:3:10: /limits/stall: 0; valid: a number from 0.001 to 10000000\n"
      "f.yaml:2:1: /naem: unknown key, did you mean name?\n"
      "f.yaml:5:7: /models/a/endpoint: 'ftp://x' is no URL that begins with http:// or https://\n"
      "f.yaml:5:38: /models/a/max_paralel: unknown key, did you mean max_parallel?\n"
      "f.yaml:6:27: /models/b/sampling/temperature: -1; valid: a number from 0 to 100\n"
      "f.yaml:6:44: /models/b/sampling/top_k: -1; valid: an integer from 0 to 2147483647\n"
      "f.yaml:8:31: /columns/0/model: there is no model 'c', expected one of: a, b\n"
      "f.yaml:8:65: /columns/0/retries: 1000; valid: an integer from 0 to 100\n"
      "f.yaml:10:72: /columns/2/rubrics/0/options: [2] is no score: expected a number, a text, "
      "true "
      "or false\n"
      "f.yaml:10:64: /columns/2/rubrics/0/nme: unknown key, did you mean name?\n"
      "f.yaml:11:15: /columns/3/type: \"samplr\"; valid: sampler, expression, llm-text, llm-code, "
      "llm-structured, llm-judge, validation (did you mean 'sampler'?)\n"
      "f.yaml:12:65: /columns/4/params/high: 1; valid: at least low, 2\n"
      "f.yaml:8:41: /columns/0/prompt: there is no column 'nobody'; there are t, u, v, w, x\n"
      "f.yaml:16:15: /figures/0/share_of: there is no column 'gone'; there are t, u, v, w, x\n"
      "f.yaml:14:32: /constraints/0/other: there is no column 'z'; there are t, u, v, w, x");
}

// Of templates, samplers, schemas and seeds too, in one column and in several.
TEST(PipelineErrors, AllOfEachColumn) {
  const std::string yaml =
      "records: 1\n"
      "seed: {pth: x.csv, infer_types: 3, range: {start: -1, end: 0}}\n"
      "models: {m: {path: x}}\n"
      "columns:\n"
      "  - {name: a, type: expression, value: '{{ x', skip_if: '{% if %}'}\n"
      "  - {name: b, type: llm-text, model: m, prompt: '{{ }}', system_prompt: '{% for %}'}\n"
      "  - {name: c, type: sampler, sampler: integer, params: {low: x, high: y, hig: 1},\n"
      "     conditional_params: {'a >': {low: 1}, 'a > 1': {low: 3, high: 2}}, convert_to: txt}\n"
      "  - {name: d, type: sampler, sampler: gaussian, params: {mean: m, stdev: 1, min: 2, max: "
      "1}}\n"
      "  - {name: e, type: sampler, sampler: subcategory, params: {category: c, values: {x: [], "
      "y: 1}}}\n"
      "  - {name: f, type: llm-structured, model: m, prompt: x, schema: {typ: string, properties: "
      "{g: {minimum: x, type: [text]}}}}\n";
  EXPECT_EQ(
      error_of(yaml),
      "f.yaml:2:20: /seed/infer_types: 3; valid: true or false\n"
      "f.yaml:2:44: /seed/range/start: -1; valid: an integer from 0 to 9223372036854775807\n"
      "f.yaml:2:55: /seed/range/end: 0; valid: an integer from 1 to 9223372036854775807\n"
      "f.yaml:2:8: /seed/pth: unknown key, did you mean path?\n"
      "f.yaml:5:48: /columns/0/skip_if: skip_if:1:7: expected an expression, found %}\n"
      "f.yaml:5:33: /columns/0/value: value:1:1: {{ is never closed: expected }}\n"
      "f.yaml:6:58: /columns/1/system_prompt: system_prompt:1:8: expected a name to assign to, "
      "found %}\n"
      "f.yaml:6:41: /columns/1/prompt: prompt:1:4: expected an expression, found }}\n"
      "f.yaml:7:57: /columns/2/params/low: \"x\"; valid: an integer from -9223372036854775808 to "
      "9223372036854775807\n"
      "f.yaml:7:65: /columns/2/params/high: \"y\"; valid: an integer from -9223372036854775808 to "
      "9223372036854775807\n"
      "f.yaml:7:74: /columns/2/params/hig: unknown key, did you mean high?\n"
      "f.yaml:8:6: /columns/2/conditional_params: condition 'a >':1:8: expected an expression, "
      "found }}\n"
      "f.yaml:8:27: /columns/2/conditional_params/a >/high: missing; valid: an integer\n"
      "f.yaml:8:62: /columns/2/conditional_params/a > 1/high: 2; valid: at least low, 3\n"
      "f.yaml:9:58: /columns/3/params/mean: \"m\"; valid: a number from -1e+100 to 1e+100\n"
      "f.yaml:9:67: /columns/3/params/stdev: unknown key, did you mean stddev?\n"
      "f.yaml:10:83: /columns/4/params/values/x: []; valid: a list of at least one value\n"
      "f.yaml:10:90: /columns/4/params/values/y: 1; valid: a list of at least one value\n"
      "f.yaml:11:67: /columns/5/schema/typ: unknown keyword, did you mean type?\n"
      "f.yaml:11:97: /columns/5/schema/properties/g/minimum: \"x\" is no number\n"
      "f.yaml:11:109: /columns/5/schema/properties/g/type: \"text\" is no type; there are null, "
      "boolean, integer, number, string, array and object");
}

TEST(PipelineErrors, AllOfASchemaFile) {
  const std::filesystem::path folder = testing::TempDir();
  const std::filesystem::path schema = folder / "all_of_a_schema_file.json";
  std::ofstream(schema) << "{\"typ\": 1,\n \"minimum\": \"x\"}";
  const std::string yaml =
      "records: 1\nmodels: {m: {path: x}}\ncolumns:\n"
      "  - {name: a, type: llm-structured, model: m, prompt: x, schema_file: "
      "all_of_a_schema_file.json}\n";
  const std::string at = fmt::format("{}:4:58: /columns/0/schema_file: {}",
                                     (folder / "f.yaml").string(), schema.string());
  EXPECT_EQ(error_of(yaml, folder / "f.yaml"),
            at + ":1:2: /typ: unknown keyword, did you mean type?\n" + at +
                ":2:2: /minimum: \"x\" is no number");
}

// One mistake is not told twice, as what follows from it.
TEST(PipelineErrors, NothingThatFollowsFromAnother) {
  const std::string head = "records: 1\n";
  const Cases cases = {
      {head + "columns:\n  - {nme: a, type: expression, value: x}\n"
              "  - {name: b, type: expression, value: '{{ a }}'}\n",
       "f.yaml:3:6: /columns/0/nme: unknown key, did you mean name?"},
      {head + "seed: {path: ''}\ncolumns: [{name: b, type: expression, value: '{{ a }}'}]\n",
       "f.yaml:2:8: /seed/path: \"\"; valid: a file, a folder or a pattern such as data/*.csv"},
      {head + "columns: {a: 1}\n", "f.yaml:2:1: /columns: {\"a\":1}; valid: a list"},
      {head + "columns: [7]\n", "f.yaml:2:11: /columns/0: 7; valid: an object"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(yaml), message) << yaml;
}

TEST(PipelineErrors, TheMarkOfACutTextIsNoColumn) {
  const std::string yaml =
      "records: 1\nmodels: {m: {path: x}}\ncolumns:\n"
      "  - {name: t, type: llm-text, model: m, prompt: x}\n"
      "  - {name: t_cut, type: expression, value: x";
  EXPECT_EQ(
      error_of(yaml + "}\n"),
      "f.yaml:5:6: /columns/1/name: the results say under 't_cut' whether the text of 't' was "
      "cut by max_tokens; expected another name, or drop: true");
  EXPECT_EQ(error_of(yaml + ", drop: true}\n"), "");
}

// The column's fields begin at line 5, column 6.
std::string with_column(const std::string& fields) {
  return "records: 10\n"
         "seed: {path: x.csv}\n"
         "models: {solver: {path: models/demo}, judge: {path: models/other}}\n"
         "columns:\n"
         "  - {" +
         fields + "}\n";
}

TEST(PipelineErrors, OfColumns) {
  const std::string text = "name: a, type: llm-text, model: solver, prompt: x, ";
  const std::string judge = "name: a, type: llm-judge, model: judge, prompt: x, ";
  const std::string validation = "name: a, type: validation, column: truth, ";
  const Cases cases = {
      {"type: expression, value: x",
       "f.yaml:5:5: /columns/0/name: missing; valid: a string that is not empty"},
      {"name: a",
       "f.yaml:5:5: /columns/0/type: expected one of sampler, expression, llm-text, llm-code, "
       "llm-structured, llm-judge, validation"},
      {"name: a, type: llm",
       "f.yaml:5:15: /columns/0/type: \"llm\"; valid: sampler, expression, llm-text, llm-code, "
       "llm-structured, llm-judge, validation"},
      {"name: a b, type: expression, value: x",
       "f.yaml:5:6: /columns/0/name: \"a b\" is no name of a column: letters, digits and _, not a "
       "digit first"},
      {"name: 1a, type: expression, value: x",
       "f.yaml:5:6: /columns/0/name: \"1a\" is no name of a column: letters, digits and _, not a "
       "digit first"},
      {"name: truth, type: expression, value: x",
       "f.yaml:5:6: /columns/0/name: there is a column 'truth' already"},
      {"name: a, type: expression", "f.yaml:5:5: /columns/0/value: expected a template here"},
      {"name: a, type: expression, value: x, valeu: y",
       "f.yaml:5:43: /columns/0/valeu: unknown key, did you mean value?"},
      {"name: a, type: expression, value: x, as: number",
       "f.yaml:5:43: /columns/0/as: \"number\"; valid: text, integer, real, flag, json"},
      {"name: a, type: expression, value: '{{ 1 + }}'",
       "f.yaml:5:33: /columns/0/value: value:1:8: expected an expression, found }}"},
      {"name: a, type: expression, value: '{{ trut }}'",
       "f.yaml:5:33: /columns/0/value: there is no column 'trut', did you mean truth?"},
      {"name: a, type: expression, value: '{{ other }}'",
       "f.yaml:5:33: /columns/0/value: there is no column 'other'; there are question, truth, a"},
      {"name: a, type: expression, value: x, skip_if: '{{ questions }}'",
       "f.yaml:5:43: /columns/0/skip_if: there is no column 'questions', did you mean question?"},
      {"name: a, type: expression, value: '{{ a }}'",
       "f.yaml:5:5: /columns/0: columns need each other in a circle: a needs a"},
      {"name: a, type: expression, value: x, priority: 2000",
       "f.yaml:5:43: /columns/0/priority: 2000; valid: an integer from -1000 to 1000"},
      {"name: a, type: expression, value: x, on_failure: ignore",
       "f.yaml:5:43: /columns/0/on_failure: \"ignore\"; valid: drop, keep"},
      {"name: a, type: expression, value: x, retries: 1",
       "f.yaml:5:43: /columns/0/retries: unknown key, expected one of name, type, skip_if, "
       "propagate_skip, drop, priority, on_failure, value, as"},
      {"name: a, type: llm-text, model: solvr, prompt: x",
       "f.yaml:5:31: /columns/0/model: there is no model 'solvr', did you mean solver?"},
      {"name: a, type: llm-text, model: gpt, prompt: x",
       "f.yaml:5:31: /columns/0/model: there is no model 'gpt', expected one of: solver, judge"},
      {"name: a, type: llm-text, model: solver",
       "f.yaml:5:5: /columns/0/prompt: expected a template here, or messages"},
      {text + "sampling: {temprature: 1}",
       "f.yaml:5:68: /columns/0/sampling/temprature: unknown key, did you mean temperature?"},
      {text + "chat: false, system_prompt: y",
       "f.yaml:5:70: /columns/0/system_prompt: a prompt without chat has none"},
      {text + "messages: [{role: user, content: x}]",
       "f.yaml:5:46: /columns/0/prompt: either this or messages"},
      {text + "cache: maybe", "f.yaml:5:57: /columns/0/cache: \"maybe\"; valid: true or false"},
      {"name: a, type: llm-text, model: solver, messages: []",
       "f.yaml:5:46: /columns/0/messages: expected a message of the user's"},
      {"name: a, type: llm-text, model: solver, messages: [{role: bot, content: x}]",
       "f.yaml:5:58: /columns/0/messages/0/role: \"bot\"; valid: system, user, assistant"},
      {"name: a, type: llm-text, model: solver, messages: [{role: user}]",
       "f.yaml:5:57: /columns/0/messages/0/content: expected a template here"},
      {"name: a, type: llm-text, model: solver, messages: [{role: user, content: x, name: y}]",
       "f.yaml:5:82: /columns/0/messages/0/name: unknown key, expected one of role, content"},
      {"name: a, type: llm-text, model: solver, messages: [{role: system, content: x}]",
       "f.yaml:5:46: /columns/0/messages: expected a message of the user's"},
      {"name: a, type: llm-text, model: solver, messages: [{role: user, content: x}, {role: "
       "system, "
       "content: x}]",
       "f.yaml:5:84: /columns/0/messages/1/role: a system message is the first one or none"},
      {"name: a, type: llm-text, model: solver, messages: [{role: user, content: x}, {role: "
       "assistant, content: x}]",
       "f.yaml:5:84: /columns/0/messages/1/role: the last message is the user's: the model answers "
       "it"},
      {"name: a, type: llm-text, model: solver, messages: [{role: user, content: '{{ qestion }}'}]",
       "f.yaml:5:70: /columns/0/messages/0/content: there is no column 'qestion', did you mean "
       "question?"},
      {"name: a, type: llm-text, model: solver, chat: false, messages: [{role: user, content: x}]",
       "f.yaml:5:59: /columns/0/messages: a prompt without chat has none"},
      {"name: a, type: llm-code, model: solver, prompt: x",
       "f.yaml:5:5: /columns/0/language: missing; valid: a string that is not empty"},
      {"name: a, type: llm-code, model: solver, prompt: x, language: sql, fence: second",
       "f.yaml:5:72: /columns/0/fence: \"second\"; valid: last, first"},
      {"name: a, type: llm-code, model: solver, prompt: x, language: sql, chat: false, "
       "corrections: "
       "2",
       "f.yaml:5:85: /columns/0/corrections: a prompt without chat has no turns to correct an "
       "answer in"},
      {"name: a, type: llm-structured, model: solver, prompt: x",
       "f.yaml:5:5: /columns/0/schema: expected a JSON schema here, or schema_file"},
      {"name: a, type: llm-structured, model: solver, prompt: x, schema: {typ: string}",
       "f.yaml:5:72: /columns/0/schema/typ: unknown keyword, did you mean type?"},
      {"name: a, type: llm-structured, model: solver, prompt: x, schema: {properties: {b: "
       "{minimum: "
       "2, maximum: 1}}}",
       "f.yaml:5:101: /columns/0/schema/properties/b/maximum: 1 is too small for the lower bound "
       "2: nothing can fit"},
      {"name: a, type: llm-structured, model: solver, prompt: x, schema: {}, schema_file: y",
       "f.yaml:5:75: /columns/0/schema_file: either this or schema"},
      {"name: a, type: llm-structured, model: solver, prompt: x, schema_file: nowhere.json",
       "f.yaml:5:63: /columns/0/schema_file: nowhere.json: no such file"},
      {judge, "f.yaml:5:5: /columns/0/rubrics: expected a list of rubrics here"},
      {judge + "rubrics: [{name: r}]",
       "f.yaml:5:67: /columns/0/rubrics/0/options: expected a list of scores, or a mapping of "
       "scores to descriptions"},
      {judge + "rubrics: [{name: r, options: [[1]]}]",
       "f.yaml:5:77: /columns/0/rubrics/0/options: [1] is no score: expected a number, a text, "
       "true or false"},
      {judge + "rubrics: [{name: r, options: [1, 1]}]",
       "f.yaml:5:77: /columns/0/rubrics/0/options: the score 1 is there twice"},
      {judge + "rubrics: [{name: r, options: {1: 2}}]",
       "f.yaml:5:77: /columns/0/rubrics/0/options: 2 is no text"},
      {judge + "rubrics: [{name: r, options: [1]}, {name: r, options: [1]}]",
       "f.yaml:5:93: /columns/0/rubrics/1/name: there is a rubric 'r' already"},
      {judge + "rubrics: [{name: r, option: [1]}]",
       "f.yaml:5:77: /columns/0/rubrics/0/option: unknown key, did you mean options?"},
      {"name: a, type: llm-text, modle: solver, prompt: x",
       "f.yaml:5:31: /columns/0/modle: unknown key, did you mean model?"},
      {"name: a, type: llm-text, prompt: x, retries: 1, strip: true, cache: true",
       "f.yaml:5:5: /columns/0/model: missing; valid: a string that is not empty"},
      {"name: a, type: llm-judge, prompt: x, corrections: 1, answer: json, instructions: true",
       "f.yaml:5:5: /columns/0/model: missing; valid: a string that is not empty\n"
       "f.yaml:5:5: /columns/0/rubrics: expected a list of rubrics here"},
      {"name: a, type: llm-code, prompt: x, fence: last, instructions: true, corrections: 1",
       "f.yaml:5:5: /columns/0/model: missing; valid: a string that is not empty\n"
       "f.yaml:5:5: /columns/0/language: missing; valid: a string that is not empty"},
      {judge + "answer: option, rubrics: [{name: r, options: [1]}, {name: s, options: [1]}]",
       "f.yaml:5:57: /columns/0/answer: an answer that is an option has one rubric, not 2"},
      {judge + "answer: option, rubrics: [{name: r, options: [a, ' b']}]",
       "f.yaml:5:73: /columns/0/rubrics: \" b\": with answer: option, no option has white space at "
       "an end"},
      {"name: a, type: validation, regex: x",
       "f.yaml:5:5: /columns/0/column: missing; valid: a string that is not empty"},
      {"name: a, type: validation, column: trut, regex: x",
       "f.yaml:5:33: /columns/0/column: there is no column 'trut', did you mean truth?"},
      {validation,
       "f.yaml:5:5: /columns/0: expected one of schema, schema_file, regex and command"},
      {validation + "regex: x, schema: {}",
       "f.yaml:5:5: /columns/0: expected one of schema, schema_file, regex and command"},
      {validation + "regex: '('",
       "f.yaml:5:48: /columns/0/regex: no regular expression: missing closing parenthesis at byte "
       "1"},
      {validation + "regex: x, parse_json: true",
       "f.yaml:5:58: /columns/0/parse_json: goes with a schema"},
      {validation + "regex: x, timeout: 3", "f.yaml:5:58: /columns/0/timeout: goes with a command"},
      {validation + "command: python3 check.py",
       "f.yaml:5:48: /columns/0/command: \"python3 check.py\" is no list of a program and its "
       "arguments; a text for the shell needs shell: true"},
      {validation + "command: []",
       "f.yaml:5:48: /columns/0/command: [] is no list of a program and its arguments; a text for "
       "the shell needs shell: true"},
      {validation + "command: [a, 1]",
       "f.yaml:5:48: /columns/0/command: [\"a\",1]; valid: a string or a list of strings"},
      {validation + "command: [a], shell: true",
       "f.yaml:5:48: /columns/0/command: [\"a\"] is no text for the shell"},
      {validation + "command: ['']",
       "f.yaml:5:48: /columns/0/command: expected the name of a program first"},
      {validation + "command: [a], timeout: -1",
       "f.yaml:5:62: /columns/0/timeout: -1; valid: a number from 0.001 to 3600"},
      {validation + "schema: {format: hostname}",
       "f.yaml:5:57: /columns/0/schema/format: the format \"hostname\" is not checked; those that "
       "are: date, time, date-time, uuid, ipv4, email"},
      {"name: a, type: sampler",
       "f.yaml:5:5: /columns/0/sampler: missing; valid: a string that is not empty"},
      {"name: a, type: sampler, sampler: unifrom",
       "f.yaml:5:30: /columns/0/sampler: 'unifrom'; valid: category, subcategory, uniform, "
       "gaussian, integer, bernoulli, bernoulli_mixture, binomial, poisson, exponential, "
       "lognormal, gamma, beta, datetime, timedelta, uuid, person (did you mean 'uniform'?)"},
      {"name: a, type: sampler, sampler: integer, params: {low: 1}",
       "f.yaml:5:48: /columns/0/params/high: missing; valid: an integer"},
      {"name: a, type: sampler, sampler: integer, params: {low: 1, high: x}",
       "f.yaml:5:65: /columns/0/params/high: \"x\"; valid: an integer from -9223372036854775808 to "
       "9223372036854775807"},
      {"name: a, type: sampler, sampler: integer, params: {low: 1, hihg: 2}",
       "f.yaml:5:65: /columns/0/params/hihg: unknown key, did you mean high?"},
      {"name: a, type: sampler, sampler: category, params: {values: []}",
       "f.yaml:5:58: /columns/0/params/values: []; valid: a list of at least one value"},
      {"name: a, type: sampler, sampler: integer, params: {low: 1, high: 2}, conditional_params: "
       "{'truht > 1': {low: 1, high: 2}}",
       "f.yaml:5:75: /columns/0/conditional_params: there is no column 'truht', did you mean "
       "truth?"},
      {"name: a, type: sampler, sampler: integer, params: {low: 1, high: 2}, conditional_params: "
       "{'truth >': {low: 1, high: 2}}",
       "f.yaml:5:75: /columns/0/conditional_params: condition 'truth >':1:12: expected an "
       "expression, found }}"},
      {"name: a, type: sampler, sampler: integer, params: {low: 1, high: 2}, convert_to: text",
       "f.yaml:5:75: /columns/0/convert_to: 'text'; valid: int, float, str, bool"},
      {"name: a, type: sampler, sampler: subcategory, params: {category: trut, values: {x: [1]}}",
       "f.yaml:5:52: /columns/0/params: there is no column 'trut', did you mean truth?"},
  };
  for (const auto& [fields, message] : cases) {
    EXPECT_EQ(error_of(with_column(fields)), message) << fields;
  }
}

TEST(PipelineErrors, BetweenColumns) {
  const std::string head = "records: 1\nseed: {path: x.csv}\n";
  const std::string numbers =
      "columns:\n"
      "  - {name: low, type: sampler, sampler: integer, params: {low: 1, high: 9}}\n"
      "  - {name: high, type: sampler, sampler: integer, params: {low: 1, high: 9}}\n"
      "  - {name: sum, type: expression, value: '{{ low + high }}', as: integer}\n";
  const Cases cases = {
      {"columns:\n"
       "  - {name: a, type: expression, value: '{{ b }}'}\n"
       "  - {name: b, type: expression, value: '{{ c }}'}\n"
       "  - {name: c, type: validation, column: b, regex: x}\n",
       "f.yaml:5:5: /columns/1: columns need each other in a circle: b needs c needs b"},
      {"columns:\n"
       "  - {name: a, type: sampler, sampler: timedelta, params: {min: 1, max: 2, reference: b}}\n"
       "  - {name: b, type: expression, value: '{{ a }}'}\n",
       "f.yaml:4:5: /columns/0: columns need each other in a circle: a needs b needs a"},
      {"columns:\n"
       "  - {name: a, type: sampler, sampler: category, params: {values: [x, y]}}\n"
       "  - {name: b, type: sampler, sampler: subcategory, params: {category: a, values: {x: "
       "[1]}}}\n",
       "f.yaml:5:52: /columns/1/params: column 'b': no list for the value \"y\" of its category "
       "'a'; valid: a list for each of its values"},
      {"columns:\n"
       "  - {name: a, type: sampler, sampler: category, params: {values: [x, y]}}\n"
       "  - {name: b, type: sampler, sampler: subcategory, params: {category: a, values: {x: "
       "[1]}}}\n"
       "  - {name: c, type: sampler, sampler: subcategory, params: {category: a, values: {y: "
       "[1]}}}\n",
       "f.yaml:5:52: /columns/1/params: column 'b': no list for the value \"y\" of its category "
       "'a'; valid: a list for each of its values\n"
       "f.yaml:6:52: /columns/2/params: column 'c': no list for the value \"x\" of its category "
       "'a'; valid: a list for each of its values"},
      {numbers + "constraints: [{column: low, operator: '<', other: hihg}]",
       "f.yaml:7:44: /constraints/0/other: there is no column 'hihg', did you mean high?"},
      {numbers + "constraints: [{column: low, operator: '=<', other: high}]",
       "f.yaml:7:29: /constraints/0/operator: \"=<\"; valid: <, <=, >, >=, ==, !=, lt, le, gt, ge, "
       "eq, ne (did you mean '<='?)"},
      {numbers + "constraints: [{column: low, operator: '<'}]",
       "f.yaml:7:15: /constraints/0/value: missing; valid: a number or text, or another column in "
       "'other'"},
      {numbers + "constraints: [{column: 1, operator: '<', other: 2, value: 3, valu: 4}]",
       "f.yaml:7:16: /constraints/0/column: 1; valid: a string\n"
       "f.yaml:7:42: /constraints/0/other: 2; valid: a string\n"
       "f.yaml:7:62: /constraints/0/valu: unknown key, did you mean value?"},
      {numbers + "constraints: [{column: question, operator: '<', other: truth}]",
       "f.yaml:7:15: /constraints/0: no column of 'question < truth' is a sampler, so nothing can "
       "be drawn again"},
      {numbers + "constraints: [{column: low, operator: '<', value: 3, note: x}]",
       "f.yaml:7:54: /constraints/0/note: unknown key, expected one of column, "
       "operator, value, other"},
      // `other` is drawn only once `sum` is known, which needs `low`, with which `other` is drawn.
      {numbers + "  - {name: other, type: sampler, sampler: integer, params: {low: 1, high: 9},\n"
                 "     conditional_params: {'sum > 3': {low: 2, high: 3}}}\n"
                 "constraints: [{column: low, operator: '<', other: other}]",
       "f.yaml:4:5: /columns/0: columns need each other in a circle: low needs sum needs low"},
      {"columns:\n"
       "  - {name: low, type: sampler, sampler: integer, params: {low: 1, high: 9}, skip_if: x}\n"
       "  - {name: high, type: sampler, sampler: integer, params: {low: 1, high: 9}}\n"
       "constraints: [{column: low, operator: '<', other: high}]",
       "f.yaml:4:77: /columns/0/skip_if: a column that constraints tie to other sampler columns is "
       "drawn with them, so it has no skip_if"},
      {"columns:\n"
       "  - {name: low, type: sampler, sampler: integer, params: {low: 1, high: 9}}\n"
       "  - name: high\n"
       "    type: sampler\n"
       "    propagate_skip: false\n"
       "    sampler: integer\n"
       "    params: {low: 1, high: 9}\n"
       "constraints: [{column: low, operator: '<', other: high}]",
       "f.yaml:7:5: /columns/1/propagate_skip: a column that constraints tie to other sampler "
       "columns is drawn with them, so it has no propagate_skip"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(error_of(head + yaml), message) << yaml;
}

// Bytes and lines of a file that has every key, changed and moved.
TEST(PipelineErrors, TakesAnyBytes) {
  std::ifstream in(test::source_dir() + "/tests/pipeline/config/files/every_key.yaml");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  ASSERT_GT(lines.size(), 100U);
  EXPECT_TRUE(rc::check([&] {
    std::vector<std::string> bad = lines;
    const auto line = [&] { return *rc::gen::inRange<std::size_t>(0, bad.size()); };
    const int edits = *rc::gen::inRange(1, 4);
    for (int i = 0; i < edits; ++i) {
      std::string& text = bad[line()];
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          text[*rc::gen::inRange<std::size_t>(0, text.size())] =
              static_cast<char>(*rc::gen::inRange(0, 256));
          break;
        case 1:
          text.erase(*rc::gen::inRange<std::size_t>(0, text.size()), 1);
          break;
        case 2:
          std::swap(text, bad[line()]);
          break;
        default:
          text += bad[line()];
          break;
      }
    }
    const std::string yaml = fmt::format("{}", fmt::join(bad, ""));
    const auto spec = parse_pipeline(yaml, "f.yaml", question_and_truth);
    if (spec) return;
    RC_ASSERT(spec.error().message.starts_with("f.yaml:"));
    std::istringstream mistakes(spec.error().message);
    for (std::string mistake; std::getline(mistakes, mistake);) {
      RC_ASSERT(mistake.starts_with("f.yaml:"));
    }
  }));
}

}  // namespace
}  // namespace dovetail::pipeline
