#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>

#include "dialog/format.h"
#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

bool is_role(const Json& message, std::string_view role) {
  return string_at(message, "role") == role;
}

bool is_system(const Json& message) {
  return is_role(message, "system") || is_role(message, "developer");
}

bool has_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return is_role(message, "assistant") && calls != message.end() && calls->is_array() &&
         !calls->empty();
}

// Text parts of a content, joined.
std::string text_of(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string out;
  if (!content->is_array()) return out;
  for (const Json& part : *content) {
    if (part.is_object()) out += string_at(part, "text");
  }
  return out;
}

// Puts a text ahead of what a message says, or behind it.
void add_text(Json& message, const std::string& text, bool ahead) {
  Json& content = message["content"];
  if (content.is_array()) {
    const Json part = {{"type", "text"}, {"text", ahead ? text + "\n\n" : "\n\n" + text}};
    content.insert(ahead ? content.begin() : content.end(), part);
    return;
  }
  const std::string before = text_of(message);
  if (before.empty()) {
    content = text;
  } else {
    content = ahead ? text + "\n\n" + before : before + "\n\n" + text;
  }
}

// Templates of some families write the function's name with its result.
void name_results(Json& messages) {
  std::map<std::string, Json> names;
  for (Json& message : messages) {
    if (has_calls(message)) {
      for (const Json& call : message["tool_calls"]) {
        const std::string id = string_at(call, "id");
        if (!id.empty()) names[id] = call.at("function").at("name");
      }
    } else if (is_role(message, "tool") && !message.contains("name")) {
      const auto name = names.find(string_at(message, "tool_call_id"));
      if (name != names.end()) message["name"] = name->second;
    }
  }
}

// Messages of the role tool as a user's. Templates that know no tools often ask for roles that
// alternate: results that follow each other, and what the user says then, are one message.
void write_results_as_text(Json& messages) {
  Json out = Json::array();
  bool in_results = false;
  for (Json& message : messages) {
    const bool is_result = is_role(message, "tool");
    if (is_result) {
      const std::string text = "<tool_response>\n" + text_of(message) + "\n</tool_response>";
      if (in_results) {
        out.back()["content"] = out.back()["content"].get<std::string>() + "\n" + text;
      } else {
        out.push_back({{"role", "user"}, {"content", text}});
      }
    } else if (in_results && is_role(message, "user")) {
      const Json results = std::move(out.back());
      out.back() = std::move(message);
      add_text(out.back(), results["content"].get<std::string>(), true);
    } else {
      out.push_back(std::move(message));
    }
    in_results = is_result;
  }
  messages = std::move(out);
}

}  // namespace

std::string DialogFormat::explanation(const Json& tools) const {
  std::string out =
      "You may call functions. They are described here, one a line, as JSON; \"parameters\" is the "
      "JSON schema of the arguments:\n<tools>\n";
  for (const Json& tool : tools) out += tool.value("function", tool).dump() + "\n";
  const Json example =
      Json::array({{{"id", calls_.ids == IdRule::kNine ? "a1B2c3D4e" : "call_1"},
                    {"function", {{"name", "NAME"}, {"arguments", {{"PARAMETER", "VALUE"}}}}}}});
  out += "</tools>\nTo call a function, write its name and its arguments in this form:\n";
  out += write_calls(calls_, example);
  if (calls_.parallel) out += "\nSeveral calls can follow each other.";
  out +=
      "\nThe result is given to you in the next message. Call a function only where it helps; "
      "else answer in words.";
  return out;
}

void DialogFormat::write_calls_as_text(Json& messages) const {
  for (Json& message : messages) {
    if (!has_calls(message)) continue;
    const std::string before = text_of(message);
    const std::string calls = write_calls(calls_, message["tool_calls"]);
    message["content"] = before.empty() ? calls : before + "\n" + calls;
    message.erase("tool_calls");
  }
}

void DialogFormat::prepare(Json& variables, const Json& tools) const {
  const bool has_tools = tools.is_array() && !tools.empty();
  variables["tools"] = has_tools && writes_tools_ ? tools : Json();
  Json& messages = variables["messages"];
  name_results(messages);
  if (writes_calls_) {
    for (Json& message : messages) {
      if (!has_calls(message)) continue;
      if (text_of(message).empty()) message["content"] = content_as_null_ ? Json() : Json("");
      if (arguments_as_text_) continue;
      for (Json& call : message["tool_calls"]) {
        Json& arguments = call["function"]["arguments"];
        if (!arguments.is_string()) continue;
        Json parsed = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
        if (parsed.is_object()) arguments = std::move(parsed);
      }
    }
  } else {
    write_calls_as_text(messages);
  }
  if (!writes_results_) write_results_as_text(messages);
  if (!has_tools || writes_tools_) return;
  const std::string text = explanation(tools);
  const auto first = messages.begin();
  if (first != messages.end() && is_system(*first)) {
    add_text(*first, text, false);
  } else if (takes_system_ || first == messages.end() || !is_role(*first, "user")) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
  } else {
    add_text(*first, text, true);
  }
}

}  // namespace dovetail::dialog
