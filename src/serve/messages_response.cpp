#include <nlohmann/json.hpp>
#include <utility>

#include "serve/answers.h"

namespace dovetail::serve {
namespace {

using Kind = dialog::AnswerEvent::Kind;

std::string named_event(Json json) {
  const std::string name = json["type"].get<std::string>();
  return "event: " + name + "\n" + sse(json);
}

std::string_view stop_reason(const ChoiceState& choice) {
  if (*choice.finish == FinishReason::kLength) return "max_tokens";
  if (asks_for_calls(choice)) return "tool_use";
  return choice.stop_string.empty() ? "end_turn" : "stop_sequence";
}

Json stop_sequence(const ChoiceState& choice) {
  return choice.stop_string.empty() ? Json(nullptr) : Json(choice.stop_string);
}

// Prompt tokens that were computed, and those that were found: in this API they do not overlap.
Json message_usage(const Answers& answers) {
  const TokenCounts counts = token_counts(answers);
  Json usage;
  usage["input_tokens"] = counts.prompt - counts.cached;
  usage["cache_creation_input_tokens"] = 0;
  usage["cache_read_input_tokens"] = counts.cached;
  usage["output_tokens"] = counts.completion;
  return usage;
}

Json message_of(const Answers& answers) {
  Json message;
  message["id"] = answers.label.id;
  message["type"] = "message";
  message["role"] = "assistant";
  message["model"] = answers.label.model;
  message["content"] = Json::array();
  message["stop_reason"] = nullptr;
  message["stop_sequence"] = nullptr;
  message["usage"] = message_usage(answers);
  return message;
}

Json block_of(Kind kind, const CallState* call) {
  Json block;
  if (kind == Kind::kReasoning) {
    block["type"] = "thinking";
    block["thinking"] = "";
    block["signature"] = "";
  } else if (kind == Kind::kContent) {
    block["type"] = "text";
    block["text"] = "";
  } else {
    block["type"] = "tool_use";
    block["id"] = call->id;
    block["name"] = call->name;
    block["input"] = Json::object();
  }
  return block;
}

bool is_open(const ChoiceState& choice, Kind kind) {
  return choice.open && choice.open->kind == kind;
}

std::string end_block(ChoiceState& choice) {
  if (!choice.open) return {};
  choice.open.reset();
  Json json;
  json["type"] = "content_block_stop";
  json["index"] = choice.parts++;
  return named_event(std::move(json));
}

std::string begin_block(ChoiceState& choice, Kind kind, const CallState* call) {
  std::string out = end_block(choice);
  choice.open = OpenPart{kind, {}, {}, 0};
  Json json;
  json["type"] = "content_block_start";
  json["index"] = choice.parts;
  json["content_block"] = block_of(kind, call);
  return out + named_event(std::move(json));
}

std::string block_delta(const ChoiceState& choice, const char* type, const char* member,
                        const std::string& text) {
  Json json;
  json["type"] = "content_block_delta";
  json["index"] = choice.parts;
  json["delta"]["type"] = type;
  json["delta"][member] = text;
  return named_event(std::move(json));
}

std::string open_message(Answers& answers) {
  Json json;
  json["type"] = "message_start";
  json["message"] = message_of(answers);
  return named_event(std::move(json));
}

std::string add_to_message(Answers& answers, std::size_t index, const News& news) {
  ChoiceState& choice = answers.choices[index];
  std::string out;
  for (const dialog::AnswerEvent& event : news.events) {
    switch (event.kind) {
      case Kind::kReasoning:
        if (!is_open(choice, event.kind)) out += begin_block(choice, event.kind, nullptr);
        out += block_delta(choice, "thinking_delta", "thinking", event.text);
        break;
      case Kind::kContent:
        if (!is_open(choice, event.kind)) out += begin_block(choice, event.kind, nullptr);
        out += block_delta(choice, "text_delta", "text", event.text);
        break;
      case Kind::kCallBegin:
        out += begin_block(choice, event.kind, &choice.calls[event.call]);
        break;
      case Kind::kArguments:
        out += block_delta(choice, "input_json_delta", "partial_json", event.text);
        break;
      case Kind::kCallEnd:
        out += end_block(choice);
        break;
    }
  }
  return out;
}

std::string close_message(Answers& answers) {
  ChoiceState& choice = answers.choices.front();
  std::string out = end_block(choice);
  Json json;
  json["type"] = "message_delta";
  json["delta"]["stop_reason"] = stop_reason(choice);
  json["delta"]["stop_sequence"] = stop_sequence(choice);
  json["usage"] = message_usage(answers);
  out += named_event(std::move(json));
  return out + named_event({{"type", "message_stop"}});
}

std::string fail_message(const ApiError& error) {
  return "event: error\ndata: " + error_body(error, ErrorShape::kMessages) + "\n\n";
}

std::vector<std::string> message_body(Answers& answers) {
  ChoiceState& choice = answers.choices.front();
  Json message = message_of(answers);
  Json& content = message["content"];
  if (!choice.reasoning.empty()) {
    Json block = block_of(Kind::kReasoning, nullptr);
    block["thinking"] = std::move(choice.reasoning);
    content.push_back(std::move(block));
  }
  if (!choice.text.empty()) {
    Json block = block_of(Kind::kContent, nullptr);
    block["text"] = std::move(choice.text);
    content.push_back(std::move(block));
  }
  for (const CallState& call : choice.calls) {
    Json block = block_of(Kind::kCallBegin, &call);
    // A call that was cut has no whole object yet.
    Json input = Json::parse(call.arguments, nullptr, false);
    if (input.is_object()) block["input"] = std::move(input);
    content.push_back(std::move(block));
  }
  message["stop_reason"] = stop_reason(choice);
  message["stop_sequence"] = stop_sequence(choice);
  return {dump(message)};
}

}  // namespace

// Anthropic's Messages API.
const Dialect kMessagesDialect = {.id_begin = "msg_",
                                  .open = open_message,
                                  .add = add_to_message,
                                  .close = close_message,
                                  .fail = fail_message,
                                  .body = message_body};

}  // namespace dovetail::serve
