#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dovetail/column_type.h"
#include "pipeline/config/document.h"
#include "pipeline/config/model_spec.h"
#include "pipeline/flow/column_plan.h"
#include "pipeline/schema/json_schema.h"
#include "pipeline/schema/regex.h"
#include "text/chat_template.h"

namespace dovetail::pipeline {

// A field of the run's seed data.
struct SeedColumn {
  std::string field;
};

// A value that is drawn, together with the other columns of its group: PipelineSpec::samplers.
struct DrawnColumn {
  std::size_t index = 0;  // into samplers->columns()
  std::size_t group = 0;  // into samplers->groups()
};

enum class ValueType : std::uint8_t { kText, kInteger, kReal, kFlag, kJson };

// A template whose text is the value, read as what `as` says.
struct ExpressionColumn {
  text::ChatTemplate value;
  ValueType as = ValueType::kText;
};

struct PromptMessage {
  std::string role;  // "system", "user" or "assistant"
  text::ChatTemplate content;
};

struct PromptSpec {
  // At most one system message, at the front; the last one is the user's.
  std::vector<PromptMessage> messages;
  bool chat = true;  // false: the only message as it is, without the model's chat template
};

// What a model is asked for a column.
struct ModelCall {
  std::string model;  // alias
  PromptSpec prompt;
  SamplingSpec sampling;
  bool instruct = true;  // the form of the answer is said at the end of the prompt
};

// A model's answer as it is.
struct TextColumn {
  ModelCall call;
  bool strip = true;  // white space at both ends
};

// The fenced code in a model's answer.
struct CodeColumn {
  ModelCall call;
  std::string language;
  bool last = true;  // which of several blocks: the last, or the first
};

// The JSON in a model's answer, an instance of the schema.
struct StructuredColumn {
  ModelCall call;
  JsonSchema schema;
};

struct RubricOption {
  Json score;  // as it appears in the result
  std::string description;
};

// A score as a model may write it.
std::string spelled(const Json& score);

struct Rubric {
  std::string name, description;
  std::vector<RubricOption> options;
};

// The texts that an answer may be, white space before them included.
struct AnswerPattern {
  std::string regex;        // of the whole answer; empty: any text will do
  std::uint32_t bytes = 0;  // of the longest of them
};

// A model's verdict: {RUBRIC: {"reasoning": ..., "score": ...}, ...}. With `plain` the answer is
// nothing but an option of the only rubric, and there is no reasoning.
struct JudgeColumn {
  ModelCall call;
  std::vector<Rubric> rubrics;
  bool plain = false;
  AnswerPattern pattern;  // of the answer, with `plain`: white space, and an option
  JsonSchema schema;      // of the verdict
};

// A program that gets a value on its standard input and ends with 0 where it is valid.
struct CommandCheck {
  std::vector<std::string> arguments;  // of which the first is the program
  std::filesystem::path folder;        // in which it runs
  std::chrono::milliseconds timeout{};
  std::vector<std::string> withheld = {};  // environment variables that it does not get
};

// {"valid": true or false, "reason": null or what is wrong}. With `require` a value that is not
// valid is this column's failure instead.
struct ValidationColumn {
  std::string column;       // whose value is judged
  bool parse_json = false;  // it is a text that holds JSON
  std::variant<JsonSchema, Regex, CommandCheck> check;
  bool require = false;
};

// A value that a program's own code makes.
struct OwnColumn {
  struct Text {
    std::string field;
    text::ChatTemplate value;
  };
  std::string type;
  ColumnMaker make;
  std::vector<std::string> needs;  // columns that make() is given, by name
  std::vector<Text> texts;
  bool blocks = false;
};

enum class FailurePolicy : std::uint8_t { kDropRecord, kKeepNull };

struct ColumnDescription {
  std::string name;
  std::variant<SeedColumn, DrawnColumn, ExpressionColumn, TextColumn, CodeColumn, StructuredColumn,
               JudgeColumn, ValidationColumn, OwnColumn>
      what;
  std::vector<ColumnId> needs;
  std::optional<text::ChatTemplate> skip_if;  // "true" or "True": the value is null
  // Skipped as soon as a column that it needs is; else it sees null there.
  bool propagate_skip = true;
  bool drop = false;  // not in the results
  std::int32_t priority = 0;
  // Where a model's answer is not what the column wants: further answers to the same question, and
  // for each of them turns in which the model is told what is wrong.
  std::uint32_t retries = 0, corrections = 0;
  bool cache = true;  // answers may come from the cache, and go there
  FailurePolicy on_failure = FailurePolicy::kDropRecord;
  // All that the file says of how its values are made, its model included, but for other columns:
  // another text means other values.
  std::string recipe;

  // As the file calls it; "seed" for a field of the seed's data.
  std::string_view type() const;
  // What its model is asked; null where no model makes it.
  const ModelCall* call() const;
  // The alias of the model that makes its values; null where no model does.
  const std::string* model() const;
  // Whether making a value may take long, without any model: not for the thread that dispatches.
  bool blocks() const;
};

// The name in the results of the flag that says whether a column's text was ended by its limit of
// tokens: NAME_cut, of texts as a model wrote them; else empty. Answers of other types that were
// cut are whole values, or failures.
std::string cut_mark(const ColumnDescription& column);

}  // namespace dovetail::pipeline
