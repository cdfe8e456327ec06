#include <nlohmann/json.hpp>

#include "serve/answers.h"
#include "serve/choice_body.h"
#include "serve/token_text.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kObject = "text_completion";

Json completion_logprobs(const Answers& answers, ChoiceState& choice,
                         std::span<const OutputToken> tokens) {
  if (answers.generation.requests.front().logprobs < 0 || tokens.empty()) return {};
  Json json;
  json["tokens"] = Json::array();
  json["token_logprobs"] = Json::array();
  json["top_logprobs"] = Json::array();
  json["text_offset"] = Json::array();
  for (const OutputToken& token : tokens) {
    const std::string bytes = answers.token_bytes(token.id);
    Json top = Json::object();
    for (const TokenLogprob& other : token.top) {
      // Two tokens may be spelled alike: the first, more probable one stays.
      const std::string label = token_label(answers.token_bytes(other.id));
      if (!top.contains(label)) top[label] = shown_logprob(other.logprob);
    }
    json["tokens"].push_back(token_label(bytes));
    json["token_logprobs"].push_back(shown_logprob(token.logprob));
    json["top_logprobs"].push_back(std::move(top));
    json["text_offset"].push_back(choice.text_offset);
    choice.text_offset += code_points(bytes);
  }
  return json;
}

std::string open_completion(Answers&) { return {}; }

std::string add_completion(Answers& answers, std::size_t index, const News& news) {
  ChoiceState& state = answers.choices[index];
  Json logprobs = completion_logprobs(answers, state, news.tokens);
  std::string text;
  for (const dialog::AnswerEvent& event : news.events) text += event.text;
  if (text.empty() && logprobs.is_null() && !news.finished) return {};
  Json choice;
  choice["index"] = index;
  choice["text"] = std::move(text);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = news.finished ? Json(finish_word(state)) : Json(nullptr);
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

const Dialect kCompletionDialect = {"cmpl-",         "text/event-stream", open_completion,
                                    add_completion,  close_completion,    failed_stream,
                                    completion_body, completion_logprobs};

}  // namespace dovetail::serve
