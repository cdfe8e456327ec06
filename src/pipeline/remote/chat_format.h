#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sampling_table.h"

namespace dovetail::pipeline {

struct ChatMessage {
  std::string role;
  std::string content;
  std::string name;  // left out where empty
};

struct ChatSampling {
  // Sent under their names, of which not all are OpenAI's.
  SamplingValues values;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> reasoning_budget;         // under vLLM's name
  std::optional<std::string> reasoning_budget_message;  // under Dovetail's
  std::optional<std::int64_t> seed;
  std::vector<std::string> stop;
};

// Which of the two interfaces a request is for, and an answer is from.
enum class AnswerForm : std::uint8_t { kChat, kCompletion };

struct ChatRequest {
  std::string model;
  std::vector<ChatMessage> messages;
  // Instead of messages: a completion of this text as it is, for .../completions.
  std::optional<std::string> prompt;
  ChatSampling sampling;
  // Null: left out. The order of a schema's properties is the order in which models write them.
  nlohmann::ordered_json response_format;
  // Merged into the body last, as a JSON merge patch (RFC 7396): null removes a field. It must not
  // touch `messages` or `prompt`, ask for a stream or for more than one choice.
  nlohmann::ordered_json extra_body;

  AnswerForm form() const { return prompt ? AnswerForm::kCompletion : AnswerForm::kChat; }
};

struct ChatUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;     // of the prompt's
  std::int64_t reasoning_tokens = 0;  // of the completion's
};

struct ChatAnswer {
  std::string content;  // empty where the message has none
  std::string reasoning;
  std::string finish_reason;  // "stop", "length", ...; empty where the server says none
  std::string model;
  std::string id;
  std::optional<ChatUsage> usage;
};

// The extra body as a whole file would have it checked: kInvalid with what must not be in it.
Status check_extra_body(const nlohmann::ordered_json& extra);

// The body of POST .../chat/completions, or .../completions. kInvalid where a field is not what it
// must be, or a text is not UTF-8; the message names the field.
Result<std::string> chat_body(const ChatRequest& request);

// The first choice of an answer. Strict: what is there must have its type, and there must
// be a choice with a message whose content is a string, or null beside reasoning, a refusal or a
// finish reason; in a completion, a choice whose text is a string. kInvalid with the field and what
// it is instead; never throws, whatever the body.
Result<ChatAnswer> parse_chat_answer(std::string_view body, AnswerForm form = AnswerForm::kChat);

// What an error body says, in one line: {"error": {"message", "type", "code"}}, {"error": "..."},
// {"message": "..."}, {"detail": ...}, or the body's own beginning.
std::string error_text(std::string_view body);

}  // namespace dovetail::pipeline
