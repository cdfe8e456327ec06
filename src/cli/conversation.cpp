#include "cli/conversation.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace dovetail::cli {
namespace {

Result<std::string> content_text(const Json& message, const std::string& at) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return std::string();
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array())
    return fail(ErrorKind::kInvalid, "{}.content: expected a string or an array of text parts", at);
  std::string text;
  for (const Json& part : *content) {
    const auto found = part.is_object() ? part.find("text") : part.end();
    if (found == part.end() || !found->is_string()) {
      return fail(ErrorKind::kInvalid, "{}.content: a part is no text, expected {}", at,
                  R"({"type": "text", "text": "..."})");
    }
    text += found->get_ref<const std::string&>();
  }
  return text;
}

std::string real(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, ignored);
  return found.empty() ? path : found.string();
}

bool has_role(const Json& message, std::string_view role) { return message.at("role") == role; }

}  // namespace

Conversation::Conversation(const std::string& system) : messages_(Json::array()) {
  if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
}

Result<Conversation> Conversation::from_json(std::string_view text) {
  constexpr std::string_view kValid =
      "expected a JSON array of messages, or an object that has one as \"messages\"";
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return fail(ErrorKind::kInvalid, "byte {}: it is no valid JSON, {}", error.byte, kValid);
  } catch (const Json::exception&) {
    return fail(ErrorKind::kInvalid,
                "a number is out of range, expected numbers that 64 bits can hold");
  }
  if (json.is_object() && json.contains("messages")) json = Json(json["messages"]);
  if (!json.is_array() || json.empty())
    return fail(ErrorKind::kInvalid, "it has no messages, {}", kValid);
  Conversation conversation;
  for (Json& message : json) {
    const std::string at = fmt::format("messages[{}]", conversation.messages_.size());
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (role == message.end() || !role->is_string())
      return fail(ErrorKind::kInvalid, "{}.role: expected a string such as user", at);
    Result<std::string> content = content_text(message, at);
    if (!content) return fail(content.error());
    message["content"] = *std::move(content);
    conversation.messages_.push_back(std::move(message));
  }
  return conversation;
}

std::string Conversation::to_request(const std::string& model) const {
  const Json request = {{"model", model}, {"messages", messages_}};
  return request.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string Conversation::system() const {
  if (messages_.empty() || !has_role(messages_.front(), "system")) return {};
  return messages_.front().at("content").get<std::string>();
}

bool Conversation::is_of(const std::string& path) const { return files_.contains(real(path)); }

void Conversation::note_file(const std::string& path) { files_.insert(real(path)); }

bool Conversation::ends_with_user() const {
  return !messages_.empty() && has_role(messages_.back(), "user");
}

void Conversation::add_user(std::string text) {
  messages_.push_back({{"role", "user"}, {"content", std::move(text)}});
}

void Conversation::add_answer(std::string text, std::string reasoning) {
  messages_.push_back({{"role", "assistant"}, {"content", std::move(text)}});
  if (!reasoning.empty()) messages_.back()["reasoning_content"] = std::move(reasoning);
}

bool Conversation::remove_answer() {
  Json rest = messages_;
  while (!rest.empty() && !has_role(rest.back(), "user")) rest.erase(rest.size() - 1);
  if (rest.empty()) return false;
  messages_ = std::move(rest);
  return true;
}

bool Conversation::remove_exchange() {
  if (!remove_answer()) return false;
  messages_.erase(messages_.size() - 1);
  return true;
}

}  // namespace dovetail::cli
