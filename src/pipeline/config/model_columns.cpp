#include <algorithm>
#include <set>
#include <string_view>

#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

void read_text_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, std::nullopt, draft);
  const bool strip = fields.flag("strip").value_or(true);
  if (call) draft.spec.what = TextColumn{*std::move(call), strip};
}

void read_code_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, 1, draft);
  CodeColumn column;
  column.language = fields.required_text("language");
  column.last = fields.choice("fence", {"last", "first"}).value_or(0) == 0;
  const bool instruct = fields.flag("instructions").value_or(true);
  if (!call) return;
  call->instruct = instruct;
  column.call = *std::move(call);
  draft.spec.what = std::move(column);
}

void read_structured_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, 1, draft);
  auto schema = read_schema(context, fields, draft);
  if (!fields.has("schema") && !fields.has("schema_file")) {
    fields.wrong("schema", "expected a JSON schema here, or schema_file");
  }
  const bool instruct = fields.flag("instructions").value_or(true);
  if (!call || !schema) return;
  call->instruct = instruct;
  draft.spec.what = StructuredColumn{*std::move(call), *std::move(schema)};
}

namespace {

// A mapping of scores to what they mean, or a list of scores.
std::vector<RubricOption> read_options(Fields& fields) {
  std::vector<RubricOption> options;
  const Json* given = fields.find("options");
  if (given != nullptr && given->is_object()) {
    for (const auto& [score, description] : given->items()) {
      if (!description.is_string()) fields.wrong("options", "{} is no text", shown(description));
      // Keys of a mapping are texts; scores are numbers if they look like numbers.
      const auto number = Json::parse(score, nullptr, false);
      options.push_back({number.is_number() ? number : Json(score),
                         description.is_string() ? description.get<std::string>() : ""});
    }
  } else if (given != nullptr && given->is_array()) {
    for (const Json& score : *given) {
      if (score.is_structured() || score.is_null()) {
        fields.wrong("options", "{} is no score: expected a number, a text, true or false",
                     shown(score));
      }
      options.push_back({score, ""});
    }
  }
  const bool has_some = given != nullptr && given->is_structured() && !given->empty();
  if (!has_some) {
    fields.wrong("options", "expected a list of scores, or a mapping of scores to descriptions");
  }
  std::set<std::string> seen;
  for (const RubricOption& option : options) {
    if (!seen.insert(spelled(option.score)).second) {
      fields.wrong("options", "the score {} is there twice", shown(option.score));
    }
  }
  return options;
}

bool mixes_kinds(const std::vector<RubricOption>& options) {
  const auto kind = [](const RubricOption& option) {
    return option.score.is_number() ? 0 : option.score.is_boolean() ? 1 : 2;
  };
  return std::any_of(options.begin(), options.end(), [&](const RubricOption& option) {
    return kind(option) != kind(options.front());
  });
}

// Scores of two kinds (1, na) all become texts: Arrow, for one, reads no column that holds numbers
// and texts. Says whether they did.
bool unify_kinds(std::vector<RubricOption>& options) {
  if (options.empty() || !mixes_kinds(options)) return false;
  for (RubricOption& option : options) option.score = spelled(option.score);
  return true;
}

std::vector<Rubric> read_rubrics(const ColumnContext& context, Fields& parent, ColumnDraft& draft) {
  std::vector<Rubric> rubrics;
  const Json* list = parent.array("rubrics");
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    Fields fields(context.document, (*list)[i], pointer_to(parent.at("rubrics"), i));
    Rubric rubric;
    rubric.name = fields.required_text("name");
    rubric.description = fields.text("description").value_or("");
    rubric.options = read_options(fields);
    if (unify_kinds(rubric.options)) {
      draft.spec.recipe += fmt::format("\n{}: scores are texts", rubric.name);
    }
    if (!rubric.name.empty() &&
        std::any_of(rubrics.begin(), rubrics.end(),
                    [&](const Rubric& other) { return other.name == rubric.name; })) {
      fields.wrong("name", "there is a rubric '{}' already", rubric.name);
    }
    parent.take(fields.finish());
    rubrics.push_back(std::move(rubric));
  }
  if (rubrics.empty() && (list != nullptr || !parent.has("rubrics")))
    parent.wrong("rubrics", "expected a list of rubrics here");
  return rubrics;
}

// The reasoning comes first, so that a model which writes in order thinks before it decides.
Json schema_of(const std::vector<Rubric>& rubrics, bool plain) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  for (const Rubric& rubric : rubrics) {
    Json scores = Json::array();
    for (const RubricOption& option : rubric.options) scores.push_back(option.score);
    Json one = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    if (!plain) {
      one["properties"]["reasoning"] = {{"type", "string"}};
      one["required"].push_back("reasoning");
    }
    one["properties"]["score"] = {{"enum", std::move(scores)}};
    one["required"].push_back("score");
    one["additionalProperties"] = false;
    schema["properties"][rubric.name] = std::move(one);
    schema["required"].push_back(rubric.name);
  }
  schema["additionalProperties"] = false;
  return schema;
}

// Of an answer that is nothing but an option. Models begin with a space or a line break, more often
// than not; without a bound, one could go on with them for ever.
constexpr std::string_view kLead = "[ \\n]{0,2}";
constexpr std::uint32_t kLeadBytes = 2;

AnswerPattern pattern_of(const Rubric& rubric) {
  AnswerPattern pattern;
  pattern.regex = fmt::format("{}(?:", kLead);
  std::size_t longest = 0;
  for (const RubricOption& option : rubric.options) {
    const std::string text = spelled(option.score);
    if (&option != &rubric.options.front()) pattern.regex += '|';
    for (const char letter : text) {
      constexpr std::string_view kSpecial = "\\^$.*+?()[]{}|";
      if (kSpecial.find(letter) != std::string_view::npos) pattern.regex += '\\';
      pattern.regex += letter;
    }
    longest = std::max(longest, text.size());
  }
  pattern.regex += ')';
  pattern.bytes = kLeadBytes + static_cast<std::uint32_t>(longest);
  return pattern;
}

// Answers are read without the white space around them.
void check_plain(const Rubric& rubric, Fields& fields) {
  for (const RubricOption& option : rubric.options) {
    const std::string text = spelled(option.score);
    constexpr std::string_view kSpace = " \t\r\n\f\v";
    if (!text.empty() && (kSpace.find(text.front()) != std::string_view::npos ||
                          kSpace.find(text.back()) != std::string_view::npos)) {
      fields.wrong("rubrics", "{}: with answer: option, no option has white space at an end",
                   shown(option.score));
    }
  }
}

}  // namespace

void read_judge_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, 1, draft);
  const bool plain = fields.choice("answer", {"json", "option"}).value_or(0) == 1;
  std::vector<Rubric> rubrics = read_rubrics(context, fields, draft);
  if (plain && rubrics.size() > 1) {
    fields.wrong("answer", "an answer that is an option has one rubric, not {}", rubrics.size());
  }
  if (plain && fields.ok()) check_plain(rubrics.front(), fields);
  // A bare option is asked for by the prompt itself.
  const bool instruct = fields.flag("instructions").value_or(!plain);
  if (!call || !fields.ok()) return;
  call->instruct = instruct;
  auto schema = JsonSchema::compile(schema_of(rubrics, plain), fields.at("rubrics"));
  if (!schema) {
    fields.wrong("rubrics", "{}", schema.error().message);
    return;
  }
  AnswerPattern pattern = plain ? pattern_of(rubrics.front()) : AnswerPattern();
  draft.spec.what = JudgeColumn{*std::move(call), std::move(rubrics), plain, std::move(pattern),
                                *std::move(schema)};
}

}  // namespace dovetail::pipeline
