#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "serve/request_fields.h"

namespace dovetail::serve {
namespace {

// A part of a content, by its type: where its text stands.
struct PartType {
  std::string_view type;
  std::array<const char*, 2> members;  // the first that the part has
  bool of_answers = false;             // of an assistant's messages alone
  bool reasoning = false;
};
constexpr PartType kPartTypes[] = {
    {"text", {"text", "text"}},
    // What /v1/responses calls it, some clients send here, too.
    {"input_text", {"text", "text"}},
    {"output_text", {"text", "text"}},
    {"refusal", {"refusal", "refusal"}, true},
    {"thinking", {"thinking", "text"}, true, true},
    {"reasoning", {"text", "reasoning"}, true, true},
};

// Adds to `reasoning` what parts of an assistant's message say of that; null: the message is of
// another role.
Outcome<std::string> read_content(const std::string& field, const Json& value,
                                  UnknownFields& unknown, std::string* reasoning) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) {
    return bad_field(field, "expected a string or an array of text parts, got {}", shown(value));
  }
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json& part = value[i];
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!part.is_object()) return bad_field(at, "expected an object, got {}", shown(part));
    const auto type = part.find("type");
    if (type == part.end()) return bad_field(at + ".type", "is missing; expected \"text\"");
    const bool of_answer = reasoning != nullptr;
    const auto* row =
        std::find_if(std::begin(kPartTypes), std::end(kPartTypes), [&](const PartType& each) {
          return *type == each.type && (of_answer || !each.of_answers);
        });
    if (row == std::end(kPartTypes)) {
      return bad_field(at + ".type", "{} is not supported; expected \"text\"{}", shown(*type),
                       of_answer ? ", \"refusal\" or \"thinking\"" : "");
    }
    const char* member = row->members[part.contains(row->members[0]) ? 0 : 1];
    if (!part.contains(member)) member = row->members[0];
    for (const auto& [key, unused] : part.items()) {
      if (key == "type" || key == member || key == "cache_control" || key == "annotations")
        continue;
      // Of Mistral's reasoning, and of Anthropic's.
      if (row->reasoning && (key == "closed" || key == "signature")) continue;
      if (auto found = unknown.meet(fmt::format("{}.{}", at, key)))
        return tl::unexpected<ApiError>(*std::move(found));
    }
    const auto content = part.find(member);
    const std::string inside = fmt::format("{}.{}", at, member);
    if (content == part.end()) return bad_field(inside, "is missing; expected a string");
    // Mistral's reasoning is parts of text.
    auto piece = row->reasoning && content->is_array()
                     ? read_content(inside, *content, unknown, nullptr)
                     : read_string(inside, *content);
    if (!piece) return tl::unexpected<ApiError>(std::move(piece.error()));
    (row->reasoning ? *reasoning : text) += *piece;
  }
  return text;
}

// What an assistant's message has besides, in a client that sends it back as it got it, and what
// changes nothing in any message.
bool says_nothing(std::string_view key, const Json& value) {
  constexpr std::array<std::string_view, 4> kOfAnswers = {"refusal", "annotations", "audio",
                                                          "function_call"};
  constexpr std::array<std::string_view, 2> kHints = {"cache_control", "id"};
  const bool nothing = (value.is_array() && value.empty()) ||
                       (value.is_string() && value.get_ref<const std::string&>().empty());
  return value.is_null() ||
         (nothing && std::find(kOfAnswers.begin(), kOfAnswers.end(), key) != kOfAnswers.end()) ||
         std::find(kHints.begin(), kHints.end(), key) != kHints.end();
}

Outcome<Json> read_message(const std::string& at, const Json& value, UnknownFields& unknown) {
  if (!value.is_object()) {
    return bad_field(at, "expected an object with \"role\" and \"content\", got {}", shown(value));
  }
  Json message = Json::object();
  if (!value.contains("role")) return bad_field(at + ".role", "is missing");
  const bool answer = value["role"] == "assistant";
  // Some clients leave out what a function that returned nothing has said.
  const bool may_be_empty = answer || value["role"] == "tool";
  if (!may_be_empty && !value.contains("content")) return bad_field(at + ".content", "is missing");
  std::string reasoning;
  for (const auto& [key, field] : value.items()) {
    const std::string name = fmt::format("{}.{}", at, key);
    if (key == "content" && !(may_be_empty && field.is_null())) {
      auto content = read_content(name, field, unknown, answer ? &reasoning : nullptr);
      if (!content) return tl::unexpected<ApiError>(std::move(content.error()));
      message[key] = std::move(*content);
    } else if (key == "role" ||
               ((key == "name" || key == "reasoning_content" || key == "tool_call_id") &&
                !field.is_null())) {
      auto text = read_string(name, field);
      if (!text) return tl::unexpected<ApiError>(std::move(text.error()));
      message[key] = std::move(*text);
    } else if (key == "tool_calls" && answer && !field.is_null()) {
      auto calls = read_tool_calls(name, field, unknown);
      if (!calls) return calls;
      if (!calls->empty()) message[key] = *std::move(calls);
    } else if (!says_nothing(key, field)) {
      if (auto found = unknown.meet(name)) return tl::unexpected<ApiError>(*std::move(found));
    }
  }
  if (!message.contains("content")) message["content"] = "";
  // A message that says its reasoning twice says it beside its content.
  if (!reasoning.empty() && !message.contains("reasoning_content"))
    message["reasoning_content"] = std::move(reasoning);
  return message;
}

// A text that stands nowhere in the messages, and that no template trims: put behind a message's
// content, it shows where that ends in the prompt, whatever the template does around it.
std::string mark_outside(const Json& messages) {
  const std::string all = messages.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string mark = "(the answer goes on here)";
  while (all.find(mark) != std::string::npos) mark.insert(mark.size() - 1, 1, '!');
  return mark;
}

// Roles that templates have a form for, or that are given one here.
constexpr std::array<std::string_view, 5> kUsualRoles = {"system", "developer", "user", "assistant",
                                                         "tool"};

bool has_usual_role(const Json& message) {
  const auto role = message["role"].get<std::string>();
  return std::find(kUsualRoles.begin(), kUsualRoles.end(), role) != kUsualRoles.end();
}

// Whether the prompt has the content of each of these messages: those of usual roles are not asked
// after. `variables` are those of a prompt that the template rendered.
bool shows_all(Json variables, const Backend& backend) {
  const std::string mark = mark_outside(variables["messages"]);
  std::size_t marks = 0;
  for (Json& message : variables["messages"]) {
    if (has_usual_role(message)) continue;
    message["content"] = message["content"].get<std::string>() + mark;
    ++marks;
  }
  if (marks == 0) return true;
  const auto text = backend.render_chat(variables, {});
  if (!text) return false;
  std::size_t at = 0;
  while (marks > 0 && (at = text->text.find(mark, at)) != std::string::npos) {
    at += mark.size();
    --marks;
  }
  return marks == 0;
}

// A template that does not know a role often leaves out what its message says.
Problem check_roles(const Chat& chat, const Json& variables, const Backend& backend) {
  if (shows_all(variables, backend)) return std::nullopt;
  for (std::size_t i = 0; i < chat.messages.size(); ++i) {
    if (has_usual_role(chat.messages[i])) continue;
    return problem(bad_field(fmt::format("messages[{}].role", i),
                             "the model's chat template leaves out what {} says; expected one of "
                             "{}",
                             shown(chat.messages[i]["role"]), fmt::join(kUsualRoles, ", ")));
  }
  return std::nullopt;
}

}  // namespace

Outcome<Json> read_messages(const Json& value, UnknownFields& unknown) {
  if (!value.is_array() || value.empty()) {
    return bad_field("messages", "expected a non-empty array of messages, got {}", shown(value));
  }
  Json messages = Json::array();
  for (std::size_t i = 0; i < value.size(); ++i) {
    auto message = read_message(fmt::format("messages[{}]", i), value[i], unknown);
    if (!message) return message;
    messages.push_back(std::move(*message));
  }
  return messages;
}

Outcome<Json> read_template_variables(const Json& value) {
  constexpr std::string_view kField = "chat_template_kwargs";
  constexpr std::array<std::string_view, 6> kReserved = {
      "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};
  if (!value.is_object()) return bad_field(kField, "expected an object, got {}", shown(value));
  for (const auto& [key, unused] : value.items()) {
    if (std::find(kReserved.begin(), kReserved.end(), key) != kReserved.end()) {
      return bad_field(kField, "\"{}\" is set by the server; expected other names", key);
    }
  }
  return value;
}

Outcome<ChatPrompt> render_chat(const Chat& chat, const RequestContext& context) {
  const Backend& backend = context.backend;
  if (!backend.render_chat || !backend.dialog) {
    return bad_field("messages",
                     "the model {} has no chat template; use /v1/completions, or start the server "
                     "with a template",
                     backend.model.name);
  }
  const bool continues = chat.continue_final_message;
  if (continues && chat.add_generation_prompt.value_or(false)) {
    return bad_field("continue_final_message",
                     "contradicts \"add_generation_prompt\": true; expected one of them");
  }
  Json variables = chat.template_variables;
  Json& messages = variables["messages"] = chat.messages;
  std::string mark;
  if (continues) {
    mark = mark_outside(messages);
    messages.back()["content"].get_ref<std::string&>() += mark;
  }
  for (const auto& [key, value] : chat.reasoning_variables.items())
    if (!variables.contains(key)) variables[key] = value;
  const auto contents = backend.dialog->prepare(variables, chat.tools);
  variables["documents"] = chat.documents;
  variables["add_generation_prompt"] = chat.add_generation_prompt.value_or(!continues);
  variables["bos_token"] = backend.model.bos_text;
  variables["eos_token"] = backend.model.eos_text;
  auto text = backend.render_chat(variables, contents);
  if (!text) return bad_field("messages", "{}", text.error().message);
  if (auto lost = check_roles(chat, variables, backend))
    return tl::unexpected<ApiError>(*std::move(lost));
  ChatPrompt prompt;
  if (context.calls != nullptr) {
    prompt.pieces = find_kept(chat.messages, *text, *backend.dialog, *context.calls);
  }
  if (chat.parse_special) text->untrusted.clear();
  prompt.text = *std::move(text);
  if (!continues) return prompt;
  const std::string& whole = prompt.text.text;
  const std::size_t end = whole.find(mark);
  if (end == std::string::npos || whole.find(mark, end + mark.size()) != std::string::npos) {
    return bad_field("continue_final_message",
                     "the chat template does not write the last message once as it is, so that "
                     "nothing can continue it; expected false");
  }
  prompt.text.truncate(end);
  std::erase_if(prompt.pieces, [end](const auto& piece) { return piece.span.end > end; });
  return prompt;
}

}  // namespace dovetail::serve
