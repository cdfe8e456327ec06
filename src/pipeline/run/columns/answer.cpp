#include <algorithm>

#include "pipeline/run/column_work.h"
#include "pipeline/run/columns/words.h"
#include "pipeline/sample/code_fence.h"
#include "pipeline/sample/fields.h"
#include "pipeline/sample/json_extract.h"

namespace dovetail::pipeline {
namespace {

Result<Json> read_text(const TextColumn& column, const ModelAnswer& answer) {
  return Json(column.strip ? std::string(stripped(answer.text)) : answer.text);
}

Result<Json> read_code(const CodeColumn& column, const ModelAnswer& answer) {
  CodeFenceOptions options;
  options.language = column.language;
  options.last = column.last;
  // A model may end right after its code, but half of a program is none.
  options.unclosed = !answer.cut;
  auto code = extract_code(answer.text, options);
  if (!code) return fail(code.error());
  return Json(*std::move(code));
}

// Brackets that are missing since the answer was cut are no slip to mend.
Result<Json> json_in(const ModelAnswer& answer, JsonWanted wanted) {
  auto extracted = extract_json(answer.text, {.wanted = wanted, .repair = !answer.cut});
  if (!extracted) return fail(extracted.error());
  return std::move(extracted->value);
}

Result<Json> read_structured(const StructuredColumn& column, const ModelAnswer& answer) {
  const Json& schema = column.schema.source();
  const Json type = schema.is_object() ? schema.value("type", Json()) : Json();
  const JsonWanted wanted = type == Json("object")  ? JsonWanted::kObject
                            : type == Json("array") ? JsonWanted::kArray
                                                    : JsonWanted::kAny;
  auto value = json_in(answer, wanted);
  if (!value) return value;
  if (const Status fits = column.schema.check(*value); !fits) {
    return fail(ErrorKind::kInvalid, "the answer does not fit the schema: {}",
                fits.error().message);
  }
  return value;
}

// The option that is meant by what the model wrote.
const RubricOption* find_option(const Rubric& rubric, const Json& given) {
  const auto found =
      std::find_if(rubric.options.begin(), rubric.options.end(), [&](const RubricOption& option) {
        return option.score == given || spelled(option.score) == spelled(given);
      });
  return found == rubric.options.end() ? nullptr : &*found;
}

Result<Json> read_plain(const Rubric& rubric, std::string_view text) {
  const std::string word(stripped(text));
  const RubricOption* option = find_option(rubric, Json(word));
  if (option == nullptr) {
    return fail(ErrorKind::kInvalid, "the answer {} is none of {}", shown(Json(word)),
                options_of(rubric));
  }
  return Json{{rubric.name, {{"score", option->score}}}};
}

// What the rubrics ask for of what the model wrote, scores as the file has them.
Result<Json> read_verdict(const JudgeColumn& judge, const ModelAnswer& answer) {
  const auto given = json_in(answer, JsonWanted::kObject);
  if (!given) return given;
  Json verdict = Json::object();
  for (const Rubric& rubric : judge.rubrics) {
    const auto found = given->find(rubric.name);
    if (found == given->end()) continue;
    if (!found->is_object()) {
      verdict[rubric.name] = *found;
      continue;
    }
    Json& one = verdict[rubric.name] = Json::object();
    for (const char* key : {"reasoning", "score"}) {
      if (found->contains(key)) one[key] = (*found)[key];
    }
    const RubricOption* option =
        one.contains("score") ? find_option(rubric, one["score"]) : nullptr;
    if (option != nullptr) one["score"] = option->score;
  }
  if (const Status fits = judge.schema.check(verdict); !fits) {
    return fail(ErrorKind::kInvalid, "the verdict does not fit the rubrics: {}",
                fits.error().message);
  }
  return verdict;
}

Result<Json> read_judge(const JudgeColumn& judge, const ModelAnswer& answer) {
  return judge.plain ? read_plain(judge.rubrics.front(), answer.text) : read_verdict(judge, answer);
}

}  // namespace

Result<Json> read_answer(const ColumnDescription& column, const ModelAnswer& answer) {
  if (const auto* code = std::get_if<CodeColumn>(&column.what)) return read_code(*code, answer);
  if (const auto* structured = std::get_if<StructuredColumn>(&column.what)) {
    return read_structured(*structured, answer);
  }
  if (const auto* judge = std::get_if<JudgeColumn>(&column.what)) return read_judge(*judge, answer);
  return read_text(std::get<TextColumn>(column.what), answer);
}

}  // namespace dovetail::pipeline
