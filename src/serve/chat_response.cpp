#include <nlohmann/json.hpp>
#include <utility>

#include "serve/answers.h"
#include "serve/choice_body.h"
#include "serve/token_logprobs.h"

namespace dovetail::serve {
namespace {

using Kind = dialog::AnswerEvent::Kind;
constexpr std::string_view kChunk = "chat.completion.chunk";

Json chat_logprobs(const Answers& answers, ChoiceState&, std::span<const OutputToken> tokens) {
  if (answers.generation.requests.front().logprobs < 0 || tokens.empty()) return {};
  Json json;
  json["content"] = dialog_logprobs(tokens, answers.token_bytes);
  json["refusal"] = nullptr;
  return json;
}

std::string chat_chunk(const Answers& answers, std::size_t index, Json delta, Json logprobs,
                       Json finish, Json of_prompt = nullptr) {
  Json choice;
  choice["index"] = index;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish);
  Json json = envelope(answers, kChunk);
  json["choices"] = Json::array({std::move(choice)});
  if (!of_prompt.is_null()) json["prompt_logprobs"] = std::move(of_prompt);
  if (answers.generation.include_usage) json["usage"] = nullptr;
  return sse(json);
}

// A call as OpenAI's API has it.
Json call_json(const CallState& call) {
  Json json;
  json["id"] = call.id;
  json["type"] = "function";
  json["function"]["name"] = call.name;
  json["function"]["arguments"] = call.arguments;
  return json;
}

// What of an event a client of a stream gets; null: nothing.
Json delta_of(const ChoiceState& state, const dialog::AnswerEvent& event) {
  Json delta = Json::object();
  Json call;
  call["index"] = event.call;
  switch (event.kind) {
    case Kind::kContent:
      delta["content"] = event.text;
      return delta;
    case Kind::kReasoning:
      delta["reasoning_content"] = event.text;
      return delta;
    case Kind::kCallBegin:
      call.update(call_json(state.calls[event.call]));
      break;
    case Kind::kArguments:
      call["function"]["arguments"] = event.text;
      break;
    case Kind::kCallEnd:
      return nullptr;
  }
  delta["tool_calls"] = Json::array({std::move(call)});
  return delta;
}

std::string open_chat(Answers& answers) {
  std::string out;
  for (std::size_t index = 0; index < answers.choices.size(); ++index) {
    Json delta;
    delta["role"] = "assistant";
    delta["content"] = "";
    out += chat_chunk(answers, index, std::move(delta), nullptr, nullptr);
  }
  return out;
}

std::string add_chat(Answers& answers, std::size_t index, const News& news) {
  ChoiceState& state = answers.choices[index];
  std::string out;
  // They come with the first text, or alone where the text is yet to come.
  Json logprobs = chat_logprobs(answers, state, news.tokens);
  Json of_prompt = news.of_prompt;
  for (const dialog::AnswerEvent& event : news.events) {
    Json delta = delta_of(state, event);
    if (delta.is_null()) continue;
    out += chat_chunk(answers, index, std::move(delta), std::exchange(logprobs, nullptr), nullptr,
                      std::exchange(of_prompt, nullptr));
  }
  if (!logprobs.is_null() || !of_prompt.is_null()) {
    Json delta = Json::object();
    delta["content"] = "";
    out += chat_chunk(answers, index, std::move(delta), std::move(logprobs), nullptr,
                      std::move(of_prompt));
  }
  if (news.finished) {
    out += chat_chunk(answers, index, Json::object(), nullptr, Json(finish_word(state)));
  }
  return out;
}

std::string close_chat(Answers& answers) {
  std::string out;
  if (answers.generation.include_usage) {
    Json json = envelope(answers, kChunk);
    json["choices"] = Json::array();
    json["usage"] = usage_json(answers);
    out = sse(json);
  }
  return out += kStreamDone;
}

std::vector<std::string> chat_body(Answers& answers) {
  return body_of_choices(answers, "chat.completion", [](ChoiceState& choice, Json& json) {
    Json& message = json["message"];
    message["role"] = "assistant";
    const bool calls = !choice.calls.empty();
    message["content"] =
        choice.text.empty() && calls ? Json(nullptr) : Json(std::move(choice.text));
    message["refusal"] = nullptr;
    if (!choice.reasoning.empty()) message["reasoning_content"] = std::move(choice.reasoning);
    for (const CallState& call : choice.calls) message["tool_calls"].push_back(call_json(call));
  });
}

}  // namespace

const Dialect kChatDialect = {"chatcmpl-", "text/event-stream", open_chat, add_chat,
                              close_chat,  failed_stream,       chat_body, chat_logprobs};

}  // namespace dovetail::serve
