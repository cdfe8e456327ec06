#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dovetail/engine.h"
#include "pipeline/config/document.h"
#include "pipeline/flow/column_plan.h"
#include "text/chat_template.h"

namespace dovetail::pipeline {

// What a pipeline file says, checked as far as it can be without opening models and data. The text
// of a template is parsed here, and every name in it is a column.

// How answers are sampled; what is absent is the model's default.
struct SamplingSpec {
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k, max_tokens;
  std::vector<std::string> stop;
};

// A model in this process.
struct LocalModel {
  std::filesystem::path path;  // as the program runs it: relative ones stood relative to the file
  EngineOptions engine;
};

// The same model behind one or several OpenAI-compatible endpoints.
struct RemoteModel {
  std::vector<std::string> base_urls;  // "http://host:8000/v1"
  std::string model;
  std::string api_key_env;  // the environment variable that holds the key; empty: none
  std::uint32_t max_parallel = 0;
  std::optional<double> requests_per_minute, tokens_per_minute;
  std::chrono::milliseconds timeout{};
  double input_price = 0.0, output_price = 0.0;  // per million tokens
};

struct ModelSpec {
  std::string alias;
  std::variant<LocalModel, RemoteModel> where;
  SamplingSpec sampling;
};

// A field of the run's seed data.
struct SeedColumn {
  std::string field;
};

// A value that is drawn; `params` are read by parse_sampler().
struct SamplerColumn {
  std::string kind;
  Json params;
};

enum class ValueType : std::uint8_t { kText, kInteger, kReal, kFlag, kJson };

// A template whose text is the value, read as what `as` says.
struct ExpressionColumn {
  text::ChatTemplate value;
  ValueType as = ValueType::kText;
};

struct PromptSpec {
  text::ChatTemplate prompt;
  std::optional<text::ChatTemplate> system;
  bool chat = true;  // false: the prompt as it is, without the model's chat template
};

// A model's answer as it is.
struct TextColumn {
  std::string model;
  PromptSpec prompt;
  SamplingSpec sampling;
  bool strip = true;  // white space at both ends
};

struct RubricOption {
  Json score;  // as it appears in the result
  std::string description;
};

struct Rubric {
  std::string name, description;
  std::vector<RubricOption> options;
};

// A model's verdict: {RUBRIC: {"score": ..., "reasoning": ...}, ...}. With `plain` the answer is
// nothing but an option of the only rubric, and there is no reasoning.
struct JudgeColumn {
  std::string model;
  PromptSpec prompt;
  SamplingSpec sampling;
  std::vector<Rubric> rubrics;
  bool plain = false;
};

enum class FailurePolicy : std::uint8_t { kDropRecord, kKeepNull };

struct ColumnSpec {
  std::string name;
  std::variant<SeedColumn, SamplerColumn, ExpressionColumn, TextColumn, JudgeColumn> what;
  std::vector<ColumnId> needs;
  std::optional<text::ChatTemplate> skip_if;  // "true" or "True": the value is null
  bool drop = false;                          // not in the results
  std::int32_t priority = 0;
  std::uint32_t retries = 2;  // further answers when one is not what the column wants
  // All that the file says of how its values are made, its model included, but for other columns:
  // another text means other values.
  std::string recipe;

  // The alias of the model that makes its values; null where no model does.
  const std::string* model() const;
  FailurePolicy on_failure = FailurePolicy::kDropRecord;
};

struct PipelineSpec {
  std::string name;
  std::filesystem::path file;  // relative paths in it start at its folder
  std::uint64_t records = 0;
  std::uint64_t seed = 0;    // of everything that is drawn
  std::uint64_t window = 0;  // open records, at most
  bool fair = false;
  std::optional<Json> seed_data;  // the section `seed`, read by open_seed()
  std::vector<ModelSpec> models;
  std::vector<ColumnSpec> columns;  // every one needs only columns before it

  // Index in `models`; the alias is known to be there.
  std::size_t model(const std::string& alias) const;
};

// `seed_fields`: the columns of the data that the section `seed` describes, asked for once where
// there is such a section. Errors are kInvalid with file, line, column and JSON pointer.
using SeedFields = std::function<Result<std::vector<std::string>>(
    const Json& section, const std::filesystem::path& folder)>;
Result<PipelineSpec> parse_pipeline(std::string_view yaml, const std::filesystem::path& file,
                                    const SeedFields& seed_fields);

}  // namespace dovetail::pipeline
