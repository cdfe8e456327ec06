#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/dialog_store.h"
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

Problem push_call(const std::string& field, const Json& item, std::string name,
                  std::string arguments, Json& messages) {
  auto id = member_text(field, item, "call_id");
  if (!id) return std::move(id.error());
  Json call = {{"id", *std::move(id)}, {"type", "function"}};
  call["function"] = {{"name", std::move(name)}, {"arguments", std::move(arguments)}};
  assistant_message(messages)["tool_calls"].push_back(std::move(call));
  return std::nullopt;
}

Problem add_call(const std::string& field, const Json& item, Draft& draft) {
  auto name = member_text(field, item, "name");
  if (!name) return std::move(name.error());
  auto arguments = member_text(field, item, "arguments");
  if (!arguments) return std::move(arguments.error());
  return push_call(field, item, *std::move(name), *std::move(arguments), draft.chat.messages);
}

// A call whose argument is a text: that of a function with one parameter.
Problem add_custom_call(const std::string& field, const Json& item, Draft& draft) {
  auto name = member_text(field, item, "name");
  if (!name) return std::move(name.error());
  auto input = member_text(field, item, "input");
  if (!input) return std::move(input.error());
  const Json arguments = {{"input", *std::move(input)}};
  return push_call(field, item, *std::move(name), arguments.dump(), draft.chat.messages);
}

Problem add_shell_call(const std::string& field, const Json& item, Draft& draft) {
  const auto action = item.find("action");
  if (action == item.end() || !action->is_object()) {
    return problem(bad_field(field + ".action", "expected an object, got {}",
                             action == item.end() ? "nothing" : shown(*action)));
  }
  return push_call(field, item, "local_shell", action->dump(), draft.chat.messages);
}

Problem add_result(const std::string& field, const Json& item, Draft& draft) {
  // Of a shell's output "id" is the call's where there is no other.
  const bool by_id = !item.contains("call_id") && item["type"] == "local_shell_call_output";
  auto id = member_text(field, item, by_id ? "id" : "call_id");
  if (!id) return std::move(id.error());
  const auto output = item.find("output");
  if (output == item.end()) return problem(bad_field(field + ".output", "is missing"));
  // A function that returned nothing.
  auto text =
      output->is_null() ? Outcome<std::string>("") : content_text(field + ".output", *output);
  if (!text) return std::move(text.error());
  draft.chat.messages.push_back(
      {{"role", "tool"}, {"tool_call_id", *id}, {"content", *std::move(text)}});
  return std::nullopt;
}

Problem add_reasoning(const std::string& field, const Json& item, Draft& draft) {
  std::string all;
  for (const char* member : {"content", "summary"}) {
    const auto parts = item.find(member);
    if (parts == item.end() || !parts->is_array() || !all.empty()) continue;
    for (const Json& part : *parts)
      if (part.is_object() && part.contains("text") && part["text"].is_string())
        all += part["text"].get_ref<const std::string&>();
  }
  if (all.empty()) {
    // What another server wrote for itself alone.
    const auto sealed = item.find("encrypted_content");
    if (sealed != item.end() && !sealed->is_null())
      draft.unknown.ignore(field + ".encrypted_content");
    return std::nullopt;
  }
  draft.chat.messages.push_back(
      {{"role", "assistant"}, {"content", ""}, {"reasoning_content", all}});
  return std::nullopt;
}

// What another server did, of which nothing can be shown.
Problem leave_out(const std::string& field, const Json& item, Draft& draft) {
  if (draft.unknown.strict())
    return problem(bad_field(field + ".type", "{} is not supported", shown(item["type"])));
  draft.unknown.ignore(fmt::format("{} ({})", field, item["type"].get_ref<const std::string&>()));
  return std::nullopt;
}

Problem add_item(const std::string& field, const Json& item, Draft& draft);

// An item of a response that is kept, by its id: Vercel's AI SDK sends what it got in that way.
Problem add_reference(const std::string& field, const Json& item, Draft& draft) {
  const RequestContext& context = draft.context;
  const auto id = member_text(field, item, "id");
  if (!id) return id.error();
  const auto kept =
      context.dialogs != nullptr ? context.dialogs->item(*id, context.key) : std::nullopt;
  if (!kept) {
    auto error = bad_field(field + ".id",
                           "{} is not kept here; expected the id of an item of a response of this "
                           "server",
                           shown(item["id"]));
    error.value().status = 404;
    return problem(std::move(error));
  }
  return add_item(field, *kept, draft);
}

Problem add_message(const std::string& field, const Json& item, Draft& draft) {
  Json& messages = draft.chat.messages;
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

struct ItemType {
  Name type;
  Problem (*add)(const std::string& field, const Json& item, Draft& draft);
};
constexpr ItemType kItemTypes[] = {
    {"message", add_message},
    {"function_call", add_call},
    {"function_call_output", add_result},
    {"reasoning", add_reasoning},
    {"item_reference", add_reference},
    {"custom_tool_call", add_custom_call},
    {"custom_tool_call_output", add_result},
    {"local_shell_call", add_shell_call},
    {"local_shell_call_output", add_result},
    {"web_search_call", leave_out},
    {"file_search_call", leave_out},
    {"computer_call", leave_out},
    {"computer_call_output", leave_out},
    {"compaction", leave_out},
};

Problem add_item(const std::string& field, const Json& item, Draft& draft) {
  if (!item.is_object())
    return problem(bad_field(field, "expected an object, got {}", shown(item)));
  const auto given = item.find("type");
  const Json type = given == item.end() || given->is_null() ? Json("message") : *given;
  for (const ItemType& row : kItemTypes)
    if (type == row.type) return row.add(field, item, draft);
  std::string expected;
  for (const ItemType& row : kItemTypes)
    expected += fmt::format("{}\"{}\"", expected.empty() ? "" : ", ", row.type);
  return problem(
      bad_field(field + ".type", "{} is not supported; expected one of {}", shown(type), expected));
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
    if (auto found = add_item(fmt::format("{}[{}]", field, i), value[i], draft)) return found;
  return std::nullopt;
}

// Functions: {"type": "function", "name", "description", "parameters", "strict"}. What the server
// of OpenAI would run itself (web search) or reads in another way (custom tools, namespaces) is
// left out, as llama.cpp does, and named: clients such as Codex send it beside their functions.
Problem read_flat_tools(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_array())
    return problem(bad_field(field, "expected an array, got {}", shown(value)));
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const auto type = value[i].is_object() ? value[i].find("type") : value[i].end();
    if (type == value[i].end() || !type->is_string())
      return problem(bad_field(at + ".type", "expected \"function\", got {}", shown(value[i])));
    if (*type != "function") {
      if (draft.unknown.strict()) {
        return problem(
            bad_field(at + ".type", "{} is not supported; expected \"function\"", shown(*type)));
      }
      draft.unknown.ignore(fmt::format("{} ({})", at, type->get_ref<const std::string&>()));
      continue;
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

// {"effort": ..., "max_tokens": ..., "summary": ...}: reasoning is given as it is.
Problem read_reasoning(std::string_view field, const Json& value, Draft& draft) {
  constexpr auto kAny = [](Name, const Json&, Draft&) -> Problem { return std::nullopt; };
  constexpr Member kMembers[] = {{"effort", read_effort},
                                 {"max_tokens", read_reasoning_budget},
                                 {"summary", kAny},
                                 {"generate_summary", kAny}};
  return read_members(field, value, kMembers, draft);
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

Problem read_truncation(std::string_view field, const Json& value, Draft& draft) {
  if (value != "auto" && value != "disabled") {
    return problem(bad_field(field, "expected \"auto\" or \"disabled\", got {}", shown(value)));
  }
  draft.truncate = value == "auto";
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
    {"truncation", kResponses, read_truncation},
};

}  // namespace

std::span<const Field> responses_fields() { return kResponsesFields; }

}  // namespace dovetail::serve
