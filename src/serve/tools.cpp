#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

constexpr std::size_t kMostTools = 512;
constexpr std::size_t kLongestName = 128;

bool is_name_letter(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

Problem check_name(const std::string& field, const std::string& name) {
  if (!name.empty() && name.size() <= kLongestName &&
      std::all_of(name.begin(), name.end(), is_name_letter))
    return std::nullopt;
  return problem(bad_field(field,
                           "{} is no name; expected 1 to {} letters, digits, \"_\", \"-\" or \".\"",
                           shown(Json(name)), kLongestName));
}

// {"type": "function", "function": {...}}: what stands under "function".
Outcome<Json> function_of(const std::string& field, const Json& value) {
  if (!value.is_object()) {
    return bad_field(field, "expected an object with \"type\": \"function\", got {}", shown(value));
  }
  const auto type = value.find("type");
  if (type != value.end() && *type != "function") {
    return bad_field(field + ".type", "{} is not supported; expected \"function\"", shown(*type));
  }
  const auto function = value.find("function");
  if (function == value.end()) return bad_field(field + ".function", "is missing");
  if (!function->is_object()) {
    return bad_field(field + ".function", "expected an object, got {}", shown(*function));
  }
  return *function;
}

Outcome<std::string> name_of(const std::string& field, const Json& function) {
  const auto name = function.find("name");
  if (name == function.end()) return bad_field(field + ".name", "is missing");
  auto text = read_string(field + ".name", *name);
  if (!text) return text;
  if (auto found = check_name(field + ".name", *text)) return tl::unexpected<ApiError>(*found);
  return text;
}

// A choice among some of the tools: {"mode": ..., "tools": [...]}.
Problem read_allowed(const std::string& field, const Json& value, Chat& chat) {
  const auto mode = value.is_object() ? value.find("mode") : value.end();
  const auto tools = value.is_object() ? value.find("tools") : value.end();
  if (!value.is_object() || mode == value.end() || tools == value.end() || !tools->is_array() ||
      (*mode != "auto" && *mode != "required")) {
    return problem(bad_field(
        field, "expected an object with \"mode\": \"auto\" or \"required\" and \"tools\", got {}",
        shown(value)));
  }
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const std::string at = fmt::format("{}.tools[{}]", field, i);
    const auto function = function_of(at, (*tools)[i]);
    if (!function) return function.error();
    auto name = name_of(at + ".function", *function);
    if (!name) return std::move(name.error());
    chat.chosen.push_back(*std::move(name));
  }
  if (chat.chosen.empty()) {
    return problem(bad_field(field + ".tools", "is empty; expected at least one function"));
  }
  chat.choice = *mode == "auto" ? dialog::ToolChoice::kAuto : dialog::ToolChoice::kRequired;
  return std::nullopt;
}

}  // namespace

Problem add_function(const FunctionFields& fields, UnknownFields& unknown, Chat& chat) {
  if (chat.callable.size() == kMostTools) {
    return problem(bad_field(fields.field, "is one too many; expected at most {}", kMostTools));
  }
  auto name = name_of(fields.field, fields.members);
  if (!name) return std::move(name.error());
  dialog::Tool tool;
  tool.name = *std::move(name);
  tool.place = fields.schema_field;
  tool.strict = unknown.strict();
  for (const auto& [key, member] : fields.members.items()) {
    const std::string inside = fmt::format("{}.{}", fields.field, key);
    if (key == "name" || member.is_null()) continue;
    if (key == "description") {
      if (auto found = store(read_string(inside, member), tool.description)) return found;
    } else if (key == "parameters") {
      if (!member.is_object()) {
        return problem(
            bad_field(fields.schema_field, "expected a JSON schema, got {}", shown(member)));
      }
      tool.parameters = member;
    } else if (key == "strict") {
      if (auto found = store(read_bool(inside, member), tool.strict)) return found;
    } else if (auto found = unknown.meet(inside)) {
      return found;
    }
  }
  const auto same = [&tool](const dialog::Tool& other) { return other.name == tool.name; };
  if (std::any_of(chat.callable.begin(), chat.callable.end(), same)) {
    return problem(bad_field(fields.field + ".name", "\"{}\" is there twice; expected other names",
                             tool.name));
  }
  Json shown_tool;
  shown_tool["type"] = "function";
  shown_tool["function"] = fields.members;
  chat.tools.push_back(std::move(shown_tool));
  chat.callable.push_back(std::move(tool));
  return std::nullopt;
}

Problem read_tools(std::string_view field, const Json& value, UnknownFields& unknown, Chat& chat) {
  if (!value.is_array()) {
    return problem(bad_field(field, "expected an array of functions, got {}", shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    auto function = function_of(at, value[i]);
    if (!function) return std::move(function.error());
    const FunctionFields fields{at + ".function", at + ".function.parameters",
                                *std::move(function)};
    if (auto found = add_function(fields, unknown, chat)) return found;
  }
  return std::nullopt;
}

Problem read_tool_choice(std::string_view field, const Json& value, Chat& chat) {
  struct Word {
    std::string_view word;
    dialog::ToolChoice choice;
  };
  constexpr Word kWords[] = {{"none", dialog::ToolChoice::kNone},
                             {"auto", dialog::ToolChoice::kAuto},
                             {"required", dialog::ToolChoice::kRequired}};
  for (const Word& each : kWords) {
    if (value != each.word) continue;
    chat.choice = each.choice;
    return std::nullopt;
  }
  if (!value.is_object()) {
    return problem(bad_field(
        field, "expected \"none\", \"auto\", \"required\" or a function by its name, got {}",
        shown(value)));
  }
  const std::string name(field);
  if (value.contains("type") && value["type"] == "allowed_tools") {
    const bool nested = value.contains("allowed_tools");
    return read_allowed(nested ? name + ".allowed_tools" : name,
                        nested ? value["allowed_tools"] : value, chat);
  }
  const auto function = function_of(name, value);
  if (!function) return function.error();
  auto chosen = name_of(name + ".function", *function);
  if (!chosen) return std::move(chosen.error());
  chat.chosen = {*std::move(chosen)};
  chat.choice = dialog::ToolChoice::kRequired;
  return std::nullopt;
}

Problem settle_tools(Chat& chat) {
  constexpr std::string_view kField = "tool_choice";
  if (chat.callable.empty()) {
    if (chat.choice == dialog::ToolChoice::kRequired || !chat.chosen.empty()) {
      return problem(bad_field(kField, "asks for a call, but \"tools\" has no functions"));
    }
    chat.choice = dialog::ToolChoice::kNone;
    return std::nullopt;
  }
  if (!chat.choice) chat.choice = dialog::ToolChoice::kAuto;
  if (chat.chosen.empty()) return std::nullopt;
  std::vector<dialog::Tool> kept;
  for (const std::string& name : chat.chosen) {
    const auto at = std::find_if(chat.callable.begin(), chat.callable.end(),
                                 [&name](const dialog::Tool& tool) { return tool.name == name; });
    if (at == chat.callable.end()) {
      return problem(bad_field(kField, "\"{}\" is none of \"tools\"", name));
    }
    kept.push_back(*at);
  }
  chat.callable = std::move(kept);
  return std::nullopt;
}

Outcome<Json> read_tool_calls(const std::string& field, const Json& value, UnknownFields& unknown) {
  if (!value.is_array() || value.size() > kMostTools) {
    return bad_field(field, "expected an array of at most {} calls, got {}", kMostTools,
                     shown(value));
  }
  Json calls = Json::array();
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const auto function = function_of(at, value[i]);
    if (!function) return tl::unexpected<ApiError>(function.error());
    auto name = name_of(at + ".function", *function);
    if (!name) return tl::unexpected<ApiError>(std::move(name.error()));
    Json call;
    for (const auto& [key, member] : value[i].items()) {
      if (key == "type" || key == "function" || key == "index" || member.is_null()) continue;
      const std::string inside = fmt::format("{}.{}", at, key);
      if (key == "id") {
        auto id = read_string(inside, member);
        if (!id) return tl::unexpected<ApiError>(std::move(id.error()));
        call["id"] = *std::move(id);
      } else if (auto found = unknown.meet(inside)) {
        return tl::unexpected<ApiError>(*std::move(found));
      }
    }
    call["type"] = "function";
    call["function"]["name"] = *std::move(name);
    const auto arguments = function->find("arguments");
    const std::string inside = at + ".function.arguments";
    if (arguments == function->end() || arguments->is_null()) {
      call["function"]["arguments"] = "{}";
    } else if (arguments->is_string() || arguments->is_object()) {
      call["function"]["arguments"] =
          arguments->is_string() ? arguments->get<std::string>() : arguments->dump();
    } else {
      return bad_field(inside, "expected JSON text, got {}", shown(*arguments));
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace dovetail::serve
