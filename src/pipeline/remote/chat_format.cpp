#include "pipeline/remote/chat_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/json_value.h"

namespace dovetail::pipeline {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLongestErrorText = 500;
// The JSON library walks values by recursion; no answer needs more.
constexpr int kDeepestNesting = 200;

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kLongestErrorText)) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (!control) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (line.ends_with(' ')) line.pop_back();
  if (text.size() > kLongestErrorText) line += "...";
  // Once through the writer: what is not UTF-8, or was cut in the middle of a character, is
  // replaced.
  return json::parse(json(line).dump(-1, ' ', false, json::error_handler_t::replace));
}

// Parses what is not nested too deeply; discarded otherwise, as where it is not JSON.
json parse_shallow(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestNesting) return json(json::value_t::discarded);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return json::parse(text, nullptr, false);
}

template <class T>
void set(ordered_json& body, const char* name, const std::optional<T>& value) {
  if (value) body[name] = *value;
}

Status check_numbers(const ChatSampling& sampling) {
  for (const SamplingRow& row : kSamplingRows) {
    const std::optional<double>& value = sampling.values[row];
    if (value && !std::isfinite(*value)) {
      return fail(ErrorKind::kInvalid, "{}: {} is not a number", row.name, *value);
    }
  }
  if (sampling.max_tokens && *sampling.max_tokens < 1) {
    return fail(ErrorKind::kInvalid, "max_tokens: {} is not positive", *sampling.max_tokens);
  }
  return {};
}

// Reads fields of one answer and keeps the first complaint.
class Reader {
 public:
  // The field, or nullptr where it is missing or null.
  static const json* find(const json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto field = object.find(name);
    return field == object.end() || field->is_null() ? nullptr : &*field;
  }

  std::string text(const json& object, const char* name, std::string_view path) {
    const json* field = find(object, name);
    if (field == nullptr) return "";
    if (const auto* value = field->get_ptr<const std::string*>()) return *value;
    complain(fmt::format("{}{} is a {}, not a string", path, name, field->type_name()));
    return "";
  }

  std::int64_t count(const json& object, const char* name, std::string_view path) {
    const json* field = find(object, name);
    if (field == nullptr) return 0;
    if (const auto value = as_integer(*field, 0, INT64_MAX)) return *value;
    complain(fmt::format("{}{} is {}, not a count", path, name, one_line(shown(*field))));
    return 0;
  }

  const json* object(const json& parent, const char* name, std::string_view path) {
    const json* field = find(parent, name);
    if (field == nullptr || field->is_object()) return field;
    complain(fmt::format("{}{} is a {}, not an object", path, name, field->type_name()));
    return nullptr;
  }

  void complain(std::string what) {
    if (problem.empty()) problem = std::move(what);
  }

  static std::string shown(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  std::string problem;
};

std::optional<ChatUsage> read_usage(const json& body, Reader& reader) {
  const json* usage = reader.object(body, "usage", "");
  if (usage == nullptr) return std::nullopt;
  ChatUsage result;
  result.prompt_tokens = reader.count(*usage, "prompt_tokens", "usage.");
  result.completion_tokens = reader.count(*usage, "completion_tokens", "usage.");
  if (const json* details = reader.object(*usage, "prompt_tokens_details", "usage.")) {
    result.cached_tokens = reader.count(*details, "cached_tokens", "usage.prompt_tokens_details.");
  }
  if (const json* details = reader.object(*usage, "completion_tokens_details", "usage.")) {
    result.reasoning_tokens =
        reader.count(*details, "reasoning_tokens", "usage.completion_tokens_details.");
  }
  return result;
}

ordered_json messages_of(const ChatRequest& request) {
  ordered_json messages = ordered_json::array();
  for (const ChatMessage& message : request.messages) {
    ordered_json one = {{"role", message.role}, {"content", message.content}};
    if (!message.name.empty()) one["name"] = message.name;
    messages.push_back(std::move(one));
  }
  return messages;
}

// What the first choice of a chat says.
void read_message(const json& choice, Reader& reader, ChatAnswer& answer) {
  const json* message = reader.object(choice, "message", "choices[0].");
  if (message == nullptr) return;
  answer.content = reader.text(*message, "content", "choices[0].message.");
  answer.reasoning = reader.text(*message, "reasoning_content", "choices[0].message.");
  if (answer.reasoning.empty()) {
    answer.reasoning = reader.text(*message, "reasoning", "choices[0].message.");
  }
  const bool says_something = Reader::find(*message, "content") != nullptr ||
                              Reader::find(*message, "refusal") != nullptr ||
                              !answer.reasoning.empty() || !answer.finish_reason.empty();
  if (!says_something) reader.complain("choices[0].message has no content");
}

}  // namespace

Status check_extra_body(const ordered_json& extra) {
  if (extra.is_null()) return {};
  if (!extra.is_object()) {
    return fail(ErrorKind::kInvalid, "extra_body: is a {}, not an object", extra.type_name());
  }
  for (const char* name : {"messages", "prompt"}) {
    if (extra.contains(name)) {
      return fail(ErrorKind::kInvalid, "extra_body.{0}: the {0} come from the column", name);
    }
  }
  if (extra.contains("stream") && extra["stream"] != false && !extra["stream"].is_null()) {
    return fail(ErrorKind::kInvalid, "extra_body.stream: answers are not streamed");
  }
  if (extra.contains("n") && extra["n"] != 1 && !extra["n"].is_null()) {
    return fail(ErrorKind::kInvalid, "extra_body.n: one choice is read per request");
  }
  return {};
}

Result<std::string> chat_body(const ChatRequest& request) {
  if (request.messages.empty() != request.prompt.has_value()) {
    return request.prompt ? fail(ErrorKind::kInvalid, "prompt: there are messages, too")
                          : fail(ErrorKind::kInvalid, "messages: there are none");
  }
  if (Status good = check_numbers(request.sampling); !good) return fail(good.error());
  ordered_json body;
  body["model"] = request.model;
  if (request.prompt) {
    body["prompt"] = *request.prompt;
  } else {
    body["messages"] = messages_of(request);
  }
  const ChatSampling& sampling = request.sampling;
  for (const SamplingRow& row : kSamplingRows) {
    const std::optional<double>& value = sampling.values[row];
    if (!value) continue;
    ordered_json& number = body[std::string(row.name)];
    if (row.whole()) {
      number = static_cast<std::int64_t>(*value);
    } else {
      number = *value;
    }
  }
  set(body, "max_tokens", sampling.max_tokens);
  set(body, "thinking_token_budget", sampling.reasoning_budget);
  set(body, "reasoning_budget_message", sampling.reasoning_budget_message);
  set(body, "seed", sampling.seed);
  if (!sampling.stop.empty()) body["stop"] = sampling.stop;
  if (!request.response_format.is_null()) body["response_format"] = request.response_format;
  if (Status good = check_extra_body(request.extra_body); !good) return fail(good.error());
  if (!request.extra_body.is_null()) body.merge_patch(request.extra_body);
  try {
    return body.dump();
  } catch (const json::exception&) {
    return fail(ErrorKind::kInvalid, "{}: a text is not valid UTF-8",
                request.prompt ? "prompt" : "messages");
  }
}

Result<ChatAnswer> parse_chat_answer(std::string_view text, AnswerForm form) {
  const json body = parse_shallow(text);
  if (body.is_discarded()) {
    return fail(ErrorKind::kInvalid, "the answer is not JSON: {}",
                text.empty() ? "(empty)" : one_line(text));
  }
  if (!body.is_object()) {
    return fail(ErrorKind::kInvalid, "the answer is a {}, not an object", body.type_name());
  }
  if (Reader::find(body, "error") != nullptr) {
    return fail(ErrorKind::kInvalid, "the answer is an error: {}", error_text(text));
  }
  const json* choices = Reader::find(body, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) {
    return fail(ErrorKind::kInvalid, "the answer has no choices: {}", one_line(text));
  }
  const json& choice = choices->front();
  const char* part = form == AnswerForm::kChat ? "message" : "text";
  if (Reader::find(choice, part) == nullptr) {
    return fail(ErrorKind::kInvalid, "the answer has no choices[0].{}: {}", part, one_line(text));
  }
  Reader reader;
  ChatAnswer answer;
  answer.finish_reason = reader.text(choice, "finish_reason", "choices[0].");
  if (form == AnswerForm::kChat) {
    read_message(choice, reader, answer);
  } else {
    answer.content = reader.text(choice, "text", "choices[0].");
  }
  answer.model = reader.text(body, "model", "");
  answer.id = reader.text(body, "id", "");
  answer.usage = read_usage(body, reader);
  if (!reader.problem.empty()) return fail(ErrorKind::kInvalid, "the answer: {}", reader.problem);
  return answer;
}

std::string error_text(std::string_view text) {
  const json body = parse_shallow(text);
  if (!body.is_object()) return text.empty() ? "(empty body)" : one_line(text);
  const json* error = Reader::find(body, "error");
  const json& where = error != nullptr && error->is_object() ? *error : body;
  for (const char* name : {"message", "error", "detail"}) {
    const json* field = Reader::find(where, name);
    if (field == nullptr) continue;
    std::string said = field->is_string() ? field->get<std::string>() : Reader::shown(*field);
    const json* code = Reader::find(where, "code");
    if (code != nullptr && code->is_string()) {
      said += fmt::format(" ({})", code->get_ref<const std::string&>());
    }
    return one_line(said);
  }
  return one_line(text);
}

}  // namespace dovetail::pipeline
