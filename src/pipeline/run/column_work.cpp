#include "pipeline/run/column_work.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "pipeline/config/fields.h"

namespace dovetail::pipeline {
namespace {

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<bool> flag_of(std::string_view text) {
  if (text == "True" || text == "true") return true;
  if (text == "False" || text == "false") return false;
  return std::nullopt;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Json> typed(std::string_view text, ValueType type) {
  const std::string_view word = stripped(text);
  switch (type) {
    case ValueType::kText:
      return Json(std::string(text));
    case ValueType::kInteger:
      if (const auto value = number_of<std::int64_t>(word)) return Json(*value);
      return fail(ErrorKind::kInvalid, "{} is no whole number", shown(Json(std::string(text))));
    case ValueType::kReal:
      if (const auto value = number_of<double>(word); value && std::isfinite(*value))
        return Json(*value);
      return fail(ErrorKind::kInvalid, "{} is no number", shown(Json(std::string(text))));
    case ValueType::kFlag:
      if (const auto value = flag_of(word)) return Json(*value);
      return fail(ErrorKind::kInvalid, "{} is neither true nor false",
                  shown(Json(std::string(text))));
    case ValueType::kJson:
      break;
  }
  Json value = Json::parse(word, nullptr, false);
  if (value.is_discarded())
    return fail(ErrorKind::kInvalid, "{} is no JSON", shown(Json(std::string(text))));
  return value;
}

// A score as a model may write it.
std::string spelled(const Json& score) {
  return score.is_string() ? score.get<std::string>() : score.dump();
}

std::string options_of(const Rubric& rubric) {
  std::vector<std::string> options;
  for (const RubricOption& option : rubric.options) options.push_back(spelled(option.score));
  return fmt::format("{}", fmt::join(options, ", "));
}

// What a judge is told beside the prompt.
std::string instructions(const JudgeColumn& judge) {
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

const PromptSpec& prompt_of(const ColumnSpec& column) {
  if (const auto* text = std::get_if<TextColumn>(&column.what)) return text->prompt;
  return std::get<JudgeColumn>(column.what).prompt;
}

const SamplingSpec& sampling_of(const ColumnSpec& column) {
  if (const auto* text = std::get_if<TextColumn>(&column.what)) return text->sampling;
  return std::get<JudgeColumn>(column.what).sampling;
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

// The object in an answer that may stand between other words.
Result<Json> read_verdict(const JudgeColumn& judge, std::string_view text) {
  const std::size_t first = text.find('{'), last = text.rfind('}');
  Json given = first == std::string_view::npos || last == std::string_view::npos || last < first
                   ? Json(Json::value_t::discarded)
                   : Json::parse(text.substr(first, last - first + 1), nullptr, false);
  if (!given.is_object()) {
    return fail(ErrorKind::kInvalid, "the answer {} holds no JSON object",
                shown(Json(std::string(text))));
  }
  Json verdict = Json::object();
  for (const Rubric& rubric : judge.rubrics) {
    const auto found = given.find(rubric.name);
    const bool complete = found != given.end() && found->is_object() && found->contains("score");
    const RubricOption* option = complete ? find_option(rubric, (*found)["score"]) : nullptr;
    if (option == nullptr) {
      return fail(ErrorKind::kInvalid, "the answer has no score for '{}' that is one of {}: {}",
                  rubric.name, options_of(rubric), shown(given));
    }
    verdict[rubric.name] = {{"score", option->score},
                            {"reasoning", found->value("reasoning", Json(nullptr))}};
  }
  return verdict;
}

}  // namespace

Result<bool> is_skipped(const ColumnSpec& column, const Json& row) {
  if (!column.skip_if) return false;
  const auto text = column.skip_if->render(row);
  if (!text) return fail(text.error());
  return flag_of(stripped(*text)).value_or(false);
}

Result<Json> evaluate(const ExpressionColumn& column, const Json& row) {
  const auto text = column.value.render(row);
  if (!text) return fail(text.error());
  return typed(*text, column.as);
}

Result<ModelRequest> make_request(const ColumnSpec& column, const Json& row, std::uint64_t seed) {
  const PromptSpec& spec = prompt_of(column);
  ModelRequest request;
  auto prompt = spec.prompt.render(row);
  if (!prompt) return fail(prompt.error());
  request.prompt = *std::move(prompt);
  if (spec.system) {
    auto system = spec.system->render(row);
    if (!system) return fail(system.error());
    request.system = *std::move(system);
  }
  if (const auto* judge = std::get_if<JudgeColumn>(&column.what);
      judge != nullptr && !judge->plain) {
    request.prompt += instructions(*judge);
  }
  request.chat = spec.chat;
  request.sampling = sampling_of(column);
  request.seed = seed;
  return request;
}

Result<Json> read_answer(const ColumnSpec& column, const ModelAnswer& answer) {
  if (const auto* text = std::get_if<TextColumn>(&column.what)) {
    return Json(text->strip ? std::string(stripped(answer.text)) : answer.text);
  }
  const auto& judge = std::get<JudgeColumn>(column.what);
  return judge.plain ? read_plain(judge.rubrics.front(), answer.text)
                     : read_verdict(judge, answer.text);
}

}  // namespace dovetail::pipeline
