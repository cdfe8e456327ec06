#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>

#include "dialog/format.h"
#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

using text::MarkedText;

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

// A chat's messages and the contents of those that have a text.
struct Chat {
  Json& messages;
  std::vector<MarkedText> contents = {};

  explicit Chat(Json& of) : messages(of) {
    for (const Json& message : messages)
      contents.push_back(MarkedText::from_outside(text_of(message)));
  }
  void set(std::size_t index, MarkedText content) {
    messages[index]["content"] = content.text;
    contents[index] = std::move(content);
  }
  void insert(std::size_t index, std::string_view role, MarkedText content) {
    const auto place = static_cast<std::ptrdiff_t>(index);
    messages.insert(messages.begin() + place, Json{{"role", role}, {"content", content.text}});
    contents.insert(contents.begin() + place, std::move(content));
  }
};

// One text behind another, where there is one.
MarkedText joined(MarkedText first, std::string_view between, const MarkedText& second) {
  if (first.text.empty()) return second;
  first.append_trusted(between);
  first.append(second);
  return first;
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

// The ids of calls and results as the model writes them. Those that have this form stay.
void rename_calls(Json& messages) {
  std::map<std::string, std::string> renamed;
  std::size_t index = 0;
  for (Json& message : messages) {
    if (has_calls(message)) {
      for (Json& call : message["tool_calls"]) {
        const std::string name = string_at(call["function"], "name");
        const std::string id = string_at(call, "id");
        const std::string own = name_index_id(name, index++);
        const std::string_view begin = std::string_view(own).substr(0, own.rfind(':') + 1);
        if (id.starts_with(begin)) continue;
        call["id"] = own;
        if (!id.empty()) renamed[id] = own;
      }
    } else if (is_role(message, "tool")) {
      const auto known = renamed.find(string_at(message, "tool_call_id"));
      if (known != renamed.end()) message["tool_call_id"] = known->second;
    }
  }
}

// Messages of the role tool as a user's. Templates that know no tools often ask for roles that
// alternate: results that follow each other, and what the user says then, are one message.
void write_results_as_text(Chat& chat) {
  Json messages = Json::array();
  std::vector<MarkedText> contents;
  bool in_results = false;
  for (std::size_t i = 0; i < chat.contents.size(); ++i) {
    Json& message = chat.messages[i];
    MarkedText content = std::move(chat.contents[i]);
    const bool is_result = is_role(message, "tool");
    if (is_result) {
      MarkedText text = MarkedText::trusted("<tool_response>\n");
      text.append(content);
      text.append_trusted("\n</tool_response>");
      content = std::move(text);
    }
    const bool joins = in_results && (is_result || is_role(message, "user"));
    if (joins) {
      contents.back() = joined(std::move(contents.back()), is_result ? "\n" : "\n\n", content);
    } else {
      messages.push_back(is_result ? Json{{"role", "user"}} : std::move(message));
      contents.push_back(std::move(content));
    }
    if (joins || is_result) messages.back()["content"] = contents.back().text;
    in_results = is_result;
  }
  chat.messages = std::move(messages);
  chat.contents = std::move(contents);
}

// Calls as text behind what the messages say.
void write_calls_as_text(const CallFormat& format, Chat& chat) {
  for (std::size_t i = 0; i < chat.contents.size(); ++i) {
    Json& message = chat.messages[i];
    if (!has_calls(message)) continue;
    const MarkedText calls = write_calls(format, message["tool_calls"]);
    message.erase("tool_calls");
    chat.set(i, joined(std::move(chat.contents[i]), "\n", calls));
  }
}

}  // namespace

MarkedText DialogFormat::written(const Json& calls) const {
  return write_calls(calls_, calls, writes_calls_ && arguments_as_text_);
}

MarkedText DialogFormat::explanation(const Json& tools) const {
  MarkedText out = MarkedText::trusted(
      "You may call functions. They are described here, one a line, as JSON; \"parameters\" is the "
      "JSON schema of the arguments:\n<tools>\n");
  for (const Json& tool : tools) {
    out.append_from_outside(tool.value("function", tool).dump());
    out.append_trusted("\n");
  }
  const Json example =
      Json::array({{{"id", calls_.ids == IdRule::kNine ? "a1B2c3D4e" : "call_1"},
                    {"function", {{"name", "NAME"}, {"arguments", {{"PARAMETER", "VALUE"}}}}}}});
  out.append_trusted(
      "</tools>\nTo call a function, write its name and its arguments in this form:\n");
  out.append(write_calls(calls_, example));
  if (calls_.parallel) out.append_trusted("\nSeveral calls can follow each other.");
  out.append_trusted(
      "\nThe result is given to you in the next message. Call a function only where it helps; "
      "else answer in words.");
  return out;
}

std::vector<MarkedText> DialogFormat::prepare(Json& variables, const Json& tools) const {
  const bool has_tools = tools.is_array() && !tools.empty();
  variables["tools"] = nullptr;
  if (has_tools && writes_tools_) variables[tools_variable_] = tools;
  Chat chat(variables["messages"]);
  name_results(chat.messages);
  if (writes_calls_) {
    if (calls_.ids == IdRule::kNameIndex) rename_calls(chat.messages);
    for (Json& message : chat.messages) {
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
    write_calls_as_text(calls_, chat);
  }
  if (!writes_results_) write_results_as_text(chat);
  if (!has_tools || writes_tools_) return std::move(chat.contents);
  const MarkedText text = explanation(tools);
  const bool any = !chat.contents.empty();
  if (any && is_system(chat.messages[0])) {
    chat.set(0, joined(std::move(chat.contents[0]), "\n\n", text));
  } else if (takes_system_ || !any || !is_role(chat.messages[0], "user")) {
    chat.insert(0, "system", text);
  } else {
    chat.set(0, joined(text, "\n\n", chat.contents[0]));
  }
  return std::move(chat.contents);
}

}  // namespace dovetail::dialog
