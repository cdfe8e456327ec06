#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

Outcome<std::string> member_text(const std::string& field, const Json& item, const char* member) {
  const auto text = item.find(member);
  const std::string at = fmt::format("{}.{}", field, member);
  if (text == item.end()) return bad_field(at, "is missing");
  return read_string(at, *text);
}

// A string, or parts of text.
Outcome<std::string> content_text(const std::string& field, const Json& value) {
  constexpr std::array<std::string_view, 4> kTexts = {"input_text", "output_text", "text",
                                                      "reasoning_text"};
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array())
    return bad_field(field, "expected a string or an array of parts, got {}", shown(value));
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const Json& part = value[i];
    if (!part.is_object()) return bad_field(at, "expected an object, got {}", shown(part));
    const auto type = part.find("type");
    const bool known = type != part.end() && is_one_of(*type, kTexts);
    const bool refusal = type != part.end() && *type == "refusal";
    if (!known && !refusal) {
      return bad_field(at + ".type",
                       "{} is not supported; expected \"input_text\" or \"output_text\"",
                       type == part.end() ? "nothing" : shown(*type));
    }
    auto piece = member_text(at, part, refusal ? "refusal" : "text");
    if (!piece) return piece;
    text += *piece;
  }
  return text;
}

// The assistant's message to which calls and reasoning belong: the last one, if it is one.
Json& assistant_message(Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  return messages.back();
}

Problem add_call(const std::string& field, const Json& item, Json& messages) {
  Json call;
  for (const auto& [member, place] : {std::pair{"call_id", "/id"},
                                      {"name", "/function/name"},
                                      {"arguments", "/function/arguments"}}) {
    auto text = member_text(field, item, member);
    if (!text) return std::move(text.error());
    call[Json::json_pointer(place)] = *std::move(text);
  }
  call["type"] = "function";
  assistant_message(messages)["tool_calls"].push_back(std::move(call));
  return std::nullopt;
}

Problem add_result(const std::string& field, const Json& item, Json& messages) {
  auto id = member_text(field, item, "call_id");
  if (!id) return std::move(id.error());
  const auto output = item.find("output");
  if (output == item.end()) return problem(bad_field(field + ".output", "is missing"));
  auto text = content_text(field + ".output", *output);
  if (!text) return std::move(text.error());
  messages.push_back({{"role", "tool"}, {"tool_call_id", *id}, {"content", *std::move(text)}});
  return std::nullopt;
}

Problem add_reasoning(const std::string& field, const Json& item, Json& messages) {
  std::string all;
  for (const char* member : {"content", "summary"}) {
    const auto parts = item.find(member);
    if (parts == item.end() || !parts->is_array() || !all.empty()) continue;
    for (const Json& part : *parts)
      if (part.is_object() && part.contains("text") && part["text"].is_string())
        all += part["text"].get_ref<const std::string&>();
  }
  if (all.empty()) return std::nullopt;
  if (!item.is_object()) return problem(bad_field(field, "expected an object"));
  messages.push_back({{"role", "assistant"}, {"content", ""}, {"reasoning_content", all}});
  return std::nullopt;
}

Problem add_item(const std::string& field, const Json& item, Json& messages) {
  if (!item.is_object())
    return problem(bad_field(field, "expected an object, got {}", shown(item)));
  const auto given = item.find("type");
  const Json type = given == item.end() || given->is_null() ? Json("message") : *given;
  if (type == "function_call") return add_call(field, item, messages);
  if (type == "function_call_output") return add_result(field, item, messages);
  if (type == "reasoning") return add_reasoning(field, item, messages);
  if (type != "message") {
    return problem(bad_field(field + ".type",
                             "{} is not supported; expected \"message\", \"function_call\", "
                             "\"function_call_output\" or \"reasoning\"",
                             shown(type)));
  }
  auto role = member_text(field, item, "role");
  if (!role) return std::move(role.error());
  if (!item.contains("content")) return problem(bad_field(field + ".content", "is missing"));
  auto text = content_text(field + ".content", item["content"]);
  if (!text) return std::move(text.error());
  const bool goes_on = *role == "assistant" && !messages.empty() &&
                       messages.back()["role"] == "assistant" &&
                       messages.back()["content"].get_ref<const std::string&>().empty() &&
                       messages.back().contains("reasoning_content");
  if (goes_on) {
    messages.back()["content"] = *std::move(text);
  } else {
    messages.push_back({{"role", *std::move(role)}, {"content", *std::move(text)}});
  }
  return std::nullopt;
}

Problem read_input(std::string_view field, const Json& value, Draft& draft) {
  Json& messages = draft.chat.messages;
  if (value.is_string()) {
    messages.push_back({{"role", "user"}, {"content", value}});
    return std::nullopt;
  }
  if (!value.is_array() || value.empty()) {
    return problem(
        bad_field(field, "expected a string or a non-empty array of items, got {}", shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i)
    if (auto found = add_item(fmt::format("{}[{}]", field, i), value[i], messages)) return found;
  return std::nullopt;
}

// Functions alone: {"type": "function", "name", "description", "parameters", "strict"}.
Problem read_flat_tools(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_array())
    return problem(bad_field(field, "expected an array, got {}", shown(value)));
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const bool function =
        value[i].is_object() && value[i].contains("type") && value[i]["type"] == "function";
    if (!function) {
      return problem(bad_field(at + ".type", "{} is not supported; expected \"function\"",
                               value[i].is_object() && value[i].contains("type")
                                   ? shown(value[i]["type"])
                                   : shown(value[i])));
    }
    FunctionFields fields{at, at + ".parameters", value[i]};
    fields.members.erase("type");
    if (auto found = add_function(fields, draft.unknown, draft.chat)) return found;
  }
  return std::nullopt;
}

// As that of chats, but that names stand beside the type.
Problem read_flat_choice(std::string_view field, const Json& value, Draft& draft) {
  const auto nested = [](const Json& flat) {
    Json out = flat;
    if (flat.is_object() && flat.contains("name")) {
      out["function"]["name"] = flat["name"];
      out.erase("name");
    }
    return out;
  };
  Json choice = nested(value);
  if (choice.is_object() && choice.contains("tools") && choice["tools"].is_array())
    for (Json& tool : choice["tools"]) tool = nested(tool);
  return read_tool_choice(field, choice, draft.chat);
}

// {"format": ..., "verbosity": ...}.
Problem read_text_form(std::string_view field, const Json& value, Draft& draft) {
  constexpr Member kMembers[] = {{"format", read_flat_form}, {"verbosity", read_verbosity}};
  return read_members(field, value, kMembers, draft);
}

// {"effort": ..., "summary": ...}: reasoning is given as it is.
Problem read_reasoning(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_object())
    return problem(bad_field(field, "expected an object, got {}", shown(value)));
  const auto effort = value.find("effort");
  if (effort == value.end() || effort->is_null()) return std::nullopt;
  return read_effort(fmt::format("{}.effort", field), *effort, draft);
}

// Texts that name parts of a response; the others are of what is not made here.
Problem read_include(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_array())
    return problem(bad_field(field, "expected an array of strings, got {}", shown(value)));
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto part = read_string(fmt::format("{}[{}]", field, i), value[i]);
    if (!part) return part.error();
    if (*part == "message.output_text.logprobs") draft.logprobs = true;
  }
  return std::nullopt;
}

constexpr Field kResponsesFields[] = {
    {"input", kResponses, read_input},
    {"instructions", kResponses,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_string(f, v), d.chat.system);
     }},
    {"previous_response_id", kResponses,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_string(f, v), d.chat.previous);
     }},
    {"store", kResponses,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.chat.keep);
     }},
    {"max_output_tokens", kResponses,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_max_tokens(f, v, d.max_tokens);
     }},
    {"tools", kResponses, read_flat_tools},
    {"tool_choice", kResponses, read_flat_choice},
    {"text", kResponses, read_text_form},
    {"include", kResponses, read_include},
    {"reasoning", kResponses, read_reasoning},
};

}  // namespace

std::span<const Field> responses_fields() { return kResponsesFields; }

}  // namespace dovetail::serve
