#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"
#include "serve/message_blocks.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

// A function's result, as a message of its own.
Outcome<Json> result_message(const std::string& field, const Json& block, UnknownFields& unknown) {
  auto id = member_of(field, block, "tool_use_id");
  if (!id) return tl::unexpected<ApiError>(std::move(id.error()));
  Json message;
  message["role"] = "tool";
  message["tool_call_id"] = *std::move(id);
  message["content"] = "";
  const auto content = block.find("content");
  if (content == block.end() || content->is_null()) return message;
  auto text = content_text(field + ".content", *content, unknown);
  if (!text) return tl::unexpected<ApiError>(std::move(text.error()));
  message["content"] = *std::move(text);
  return message;
}

Outcome<Json> call_of(const std::string& field, const Json& block) {
  Json call;
  for (const char* member : {"id", "name"}) {
    auto text = member_of(field, block, member);
    if (!text) return tl::unexpected<ApiError>(std::move(text.error()));
    (std::string_view(member) == "id" ? call["id"] : call["function"]["name"]) = *std::move(text);
  }
  call["type"] = "function";
  const auto input = block.find("input");
  if (input != block.end() && !input->is_object() && !input->is_null()) {
    return bad_field(field + ".input", "expected an object, got {}", shown(*input));
  }
  const bool given = input != block.end() && input->is_object();
  call["function"]["arguments"] = given ? input->dump() : "{}";
  return call;
}

// Adds what one message of this API says: results of functions come first, as messages of their
// own.
Problem add_turn(const std::string& field, const Json& value, Draft& draft) {
  Json& messages = draft.chat.messages;
  UnknownFields& unknown = draft.unknown;
  if (!value.is_object()) {
    return problem(
        bad_field(field, "expected an object with \"role\" and \"content\", got {}", shown(value)));
  }
  const auto role = value.find("role");
  if (role == value.end() || (*role != "user" && *role != "assistant" && *role != "system")) {
    return problem(bad_field(field + ".role", "expected \"user\" or \"assistant\", got {}",
                             role == value.end() ? "nothing" : shown(*role)));
  }
  const auto content = value.find("content");
  const std::string at = field + ".content";
  if (content == value.end()) return problem(bad_field(at, "is missing"));
  // Gathered apart: a member that is added to a JSON object moves the others.
  std::string text;
  std::optional<std::string> reasoning;
  Json calls = Json::array();
  bool says = true;
  if (content->is_string()) {
    text = content->get<std::string>();
  } else if (content->is_array()) {
    says = content->empty();
    for (std::size_t i = 0; i < content->size(); ++i) {
      const std::string inside = fmt::format("{}[{}]", at, i);
      const Json& block = (*content)[i];
      const auto type = block_type(inside, block);
      if (!type) return type.error();
      if (*type == "tool_result" && *role == "user") {
        auto result = result_message(inside, block, unknown);
        if (!result) return std::move(result.error());
        messages.push_back(*std::move(result));
        continue;
      }
      if (*type == "redacted_thinking") continue;
      says = true;
      if (auto piece = block_text(inside, *type, block, unknown)) {
        if (!*piece) return std::move(piece->error());
        text += **piece;
      } else if (*type == "thinking" && *role == "assistant") {
        auto thought = member_of(inside, block, "thinking");
        if (!thought) return std::move(thought.error());
        reasoning = reasoning.value_or("") + *thought;
      } else if (*type == "tool_use" && *role == "assistant") {
        auto call = call_of(inside, block);
        if (!call) return std::move(call.error());
        calls.push_back(*std::move(call));
      } else {
        return problem(bad_field(
            inside + ".type",
            "{} is not supported; expected {}, of a user \"tool_result\", of an assistant "
            "\"tool_use\" or \"thinking\"",
            shown(Json(*type)), text_blocks()));
      }
    }
  } else {
    return problem(bad_field(at, "expected a string or an array, got {}", shown(*content)));
  }
  if (!says) return std::nullopt;
  Json message = {{"role", *role}, {"content", std::move(text)}};
  if (reasoning) message["reasoning_content"] = *std::move(reasoning);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  messages.push_back(std::move(message));
  return std::nullopt;
}

Problem read_dialog(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_array() || value.empty()) {
    return problem(
        bad_field(field, "expected a non-empty array of messages, got {}", shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (auto found = add_turn(fmt::format("{}[{}]", field, i), value[i], draft)) return found;
  }
  // An assistant's words at the end are those with which the answer begins.
  draft.chat.continue_final_message = draft.chat.messages.back()["role"] == "assistant";
  return std::nullopt;
}

Problem read_system(std::string_view field, const Json& value, Draft& draft) {
  return store(content_text(std::string(field), value, draft.unknown), draft.chat.system);
}

// {"name", "description", "input_schema"} each; tools that the API's own servers run are refused.
Problem read_functions(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_array())
    return problem(bad_field(field, "expected an array, got {}", shown(value)));
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const Json& given = value[i];
    if (!given.is_object()) {
      return problem(bad_field(at, "expected an object, got {}", shown(given)));
    }
    const auto type = given.find("type");
    if (type != given.end() && !type->is_null() && *type != "custom") {
      return problem(bad_field(at + ".type", "{} is not supported; expected \"custom\" or none",
                               shown(*type)));
    }
    FunctionFields fields{at, at + ".input_schema", {}};
    for (const auto& [key, member] : given.items()) {
      if (key == "type" || key == "cache_control" || key == "input_examples") continue;
      fields.members[key == "input_schema" ? "parameters" : key] = member;
    }
    if (auto found = add_function(fields, draft.unknown, draft.chat)) return found;
  }
  return std::nullopt;
}

Problem read_choice(std::string_view field, const Json& value, Draft& draft) {
  const auto type = value.is_object() ? value.find("type") : value.end();
  if (!value.is_object() || type == value.end()) {
    return problem(bad_field(field, "expected an object with a \"type\", got {}", shown(value)));
  }
  Chat& chat = draft.chat;
  if (const auto alone = value.find("disable_parallel_tool_use"); alone != value.end()) {
    const auto off = read_bool(fmt::format("{}.disable_parallel_tool_use", field), *alone);
    if (!off) return off.error();
    chat.parallel = !*off;
  }
  if (*type == "auto") chat.choice = dialog::ToolChoice::kAuto;
  if (*type == "none") chat.choice = dialog::ToolChoice::kNone;
  if (*type == "any" || *type == "tool") chat.choice = dialog::ToolChoice::kRequired;
  if (!chat.choice) {
    return problem(bad_field(fmt::format("{}.type", field),
                             "expected \"auto\", \"any\", \"tool\" or \"none\", got {}",
                             shown(*type)));
  }
  if (*type != "tool") return std::nullopt;
  auto name = member_of(std::string(field), value, "name");
  if (!name) return std::move(name.error());
  chat.chosen = {*std::move(name)};
  return std::nullopt;
}

// Whether it thinks, and for how many tokens at most.
Problem read_thinking(std::string_view field, const Json& value, Draft& draft) {
  const auto type = value.is_object() ? value.find("type") : value.end();
  constexpr std::array<std::string_view, 3> kTypes = {"enabled", "adaptive", "disabled"};
  if (type == value.end() || !is_one_of(*type, kTypes)) {
    return problem(bad_field(field, "expected an object with a \"type\", one of {}, got {}",
                             fmt::join(kTypes, ", "), shown(value)));
  }
  draft.reasons = *type != "disabled";
  const auto budget = value.find("budget_tokens");
  if (*type != "enabled" || budget == value.end() || budget->is_null()) return std::nullopt;
  return read_reasoning_budget(fmt::format("{}.budget_tokens", field), *budget, draft);
}

// {"format": {"type": "json_schema", "schema": ...}, "effort": ...}.
Problem read_output(std::string_view field, const Json& value, Draft& draft) {
  constexpr Member kMembers[] = {{"format", read_flat_form}, {"effort", read_effort}};
  return read_members(field, value, kMembers, draft);
}

// Messages that the server would keep for later requests. Clients know this error's code and then
// send all messages with each request.
Problem refuse_thread(std::string_view field, const Json&, Draft&) {
  ApiError error =
      bad_field(field, "is not supported; expected all messages in each request").value();
  error.code = "thread_unsupported_request";
  return error;
}

constexpr Field kMessageFields[] = {
    {"messages", kMessages, read_dialog},
    {"system", kMessages, read_system},
    {"stop_sequences", kMessages,
     [](std::string_view f, const Json& v, Draft& d) { return read_stop(f, v, d.request); }},
    {"tools", kMessages, read_functions},
    {"tool_choice", kMessages, read_choice},
    {"thinking", kMessages, read_thinking},
    {"output_config", kMessages, read_output},
    {"thread", kMessages, refuse_thread},
    {"output_format", kMessages, read_flat_form},
};

}  // namespace

std::span<const Field> message_fields() { return kMessageFields; }

}  // namespace dovetail::serve
