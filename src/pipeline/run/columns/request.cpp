#include <cassert>

#include "pipeline/run/column_work.h"
#include "pipeline/run/columns/words.h"

namespace dovetail::pipeline {
namespace {

std::string judge_instructions(const JudgeColumn& judge) {
  if (judge.plain) {
    return fmt::format("\n\nAnswer with nothing but one of {}.", options_of(judge.rubrics.front()));
  }
  std::string text = "\n\nJudge by these rubrics:\n";
  std::string form;
  for (const Rubric& rubric : judge.rubrics) {
    text += fmt::format("\n{}: {}\n", rubric.name, rubric.description);
    for (const RubricOption& option : rubric.options) {
      text += fmt::format("  {}{}{}\n", spelled(option.score),
                          option.description.empty() ? "" : ": ", option.description);
    }
    form += fmt::format("{}\"{}\": {{\"reasoning\": \"...\", \"score\": one of {}}}",
                        form.empty() ? "" : ", ", rubric.name, options_of(rubric));
  }
  return text + "\nAnswer with nothing but a JSON object: {" + form + "}";
}

// What is said at the end of the prompt about the form of the answer.
std::string instructions(const ColumnDescription& column) {
  if (const auto* judge = std::get_if<JudgeColumn>(&column.what)) return judge_instructions(*judge);
  if (const auto* code = std::get_if<CodeColumn>(&column.what)) {
    return fmt::format("\n\nAnswer with one fenced code block in {}.", code->language);
  }
  if (const auto* structured = std::get_if<StructuredColumn>(&column.what)) {
    return "\n\nAnswer with nothing but JSON that fits this JSON schema:\n" +
           structured->schema.source().dump();
  }
  return "";
}

// What a correction asks for.
std::string wanted(const ColumnDescription& column) {
  if (const auto* code = std::get_if<CodeColumn>(&column.what)) {
    return fmt::format("one fenced code block in {}", code->language);
  }
  const auto* judge = std::get_if<JudgeColumn>(&column.what);
  return judge != nullptr && judge->plain
             ? fmt::format("one of {}", options_of(judge->rubrics.front()))
             : "the corrected JSON";
}

// The attempts at the end that the next request is to correct; nothing where no request is left.
std::optional<std::span<const FailedAttempt>> corrected(const ColumnDescription& column,
                                                        std::span<const FailedAttempt> failed) {
  std::uint32_t fresh = 1;
  std::size_t chain = 0;
  for (const FailedAttempt& attempt : failed) {
    if (attempt.answer && chain < column.corrections) {
      ++chain;
    } else {
      chain = 0;
      ++fresh;
    }
  }
  if (fresh > 1 + column.retries) return std::nullopt;
  return failed.last(chain);
}

}  // namespace

const Json* answer_schema(const ColumnDescription& column) {
  if (const auto* structured = std::get_if<StructuredColumn>(&column.what)) {
    return &structured->schema.source();
  }
  const auto* judge = std::get_if<JudgeColumn>(&column.what);
  return judge != nullptr && !judge->plain ? &judge->schema.source() : nullptr;
}

AnswerPattern answer_pattern(const ColumnDescription& column) {
  const auto* judge = std::get_if<JudgeColumn>(&column.what);
  return judge == nullptr ? AnswerPattern() : judge->pattern;
}

bool may_ask_again(const ColumnDescription& column, std::span<const FailedAttempt> failed) {
  return corrected(column, failed).has_value();
}

Result<ModelRequest> make_request(const ColumnDescription& column, const Json& row,
                                  std::uint64_t seed, std::span<const FailedAttempt> failed) {
  const ModelCall& call = *column.call();
  ModelRequest request;
  request.sampling = call.sampling;
  request.seed = seed;
  if (const Json* schema = answer_schema(column)) request.schema = *schema;
  request.pattern = answer_pattern(column);
  for (const PromptMessage& message : call.prompt.messages) {
    auto content = message.content.render_marked(row);
    if (!content) return fail(content.error());
    const bool is_last = &message == &call.prompt.messages.back();
    if (is_last && call.instruct) content->append_trusted(instructions(column));
    auto trusted = content->trusted_spans();
    request.messages.push_back({message.role, std::move(content->text), std::move(trusted)});
  }
  if (!call.prompt.chat) {
    request.prompt = std::move(request.messages.back().content);
    request.messages.clear();
    return request;
  }
  const auto chain = corrected(column, failed);
  if (!chain) return fail(ErrorKind::kInternal, "{}: no attempt is left", column.name);
  for (const FailedAttempt& attempt : *chain) {
    request.messages.push_back({"assistant", *attempt.answer});
    request.messages.push_back(
        {"user", fmt::format("This answer cannot be used: {}\nAnswer again, with nothing but {}.",
                             attempt.error, wanted(column))});
  }
  return request;
}

}  // namespace dovetail::pipeline
