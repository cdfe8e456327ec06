#include <nlohmann/json.hpp>

#include "serve/answers.h"
#include "serve/choice_body.h"
#include "serve/token_logprobs.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kObject = "text_completion";

Json logprobs_of_completion(const Answers& answers, ChoiceState& choice,
                            std::span<const OutputToken> tokens) {
  if (answers.generation.requests.front().logprobs < 0 || tokens.empty()) return {};
  return completion_logprobs(tokens, choice.text_offset, answers.token_bytes);
}

std::string open_completion(Answers&) { return {}; }

std::string add_completion(Answers& answers, std::size_t index, const News& news) {
  ChoiceState& state = answers.choices[index];
  Json logprobs = news.echoed;
  const Json more = logprobs_of_completion(answers, state, news.tokens);
  if (logprobs.is_null()) {
    logprobs = more;
  } else {
    for (const auto& [name, values] : more.items())
      logprobs[name].insert(logprobs[name].end(), values.begin(), values.end());
  }
  std::string text;
  for (const dialog::AnswerEvent& event : news.events) text += event.text;
  if (text.empty() && logprobs.is_null() && news.of_prompt.is_null() && !news.finished) return {};
  Json choice;
  choice["index"] = index;
  choice["text"] = std::move(text);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = news.finished ? Json(finish_word(state)) : Json(nullptr);
  if (!news.of_prompt.is_null()) choice["prompt_logprobs"] = news.of_prompt;
  Json json = envelope(answers, kObject);
  json["choices"] = Json::array({std::move(choice)});
  if (answers.generation.include_usage) json["usage"] = nullptr;
  return sse(json);
}

std::string close_completion(Answers& answers) {
  std::string out;
  if (answers.generation.include_usage) {
    Json json = envelope(answers, kObject);
    json["choices"] = Json::array();
    json["usage"] = usage_json(answers);
    out = sse(json);
  }
  return out += kStreamDone;
}

std::vector<std::string> completion_body(Answers& answers) {
  return body_of_choices(answers, kObject, [](ChoiceState& choice, Json& json) {
    json["text"] = std::move(choice.text);
  });
}

}  // namespace

const Dialect kCompletionDialect = {"cmpl-",         "text/event-stream",   open_completion,
                                    add_completion,  close_completion,      failed_stream,
                                    completion_body, logprobs_of_completion};

}  // namespace dovetail::serve
