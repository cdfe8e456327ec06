#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

// What an answer is to be based on, where the template has a place for it: objects such as
// {"title", "text"}, as the template reads them.
Problem read_documents(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_array()) {
    return problem(bad_field(field, "expected an array of objects, got {}", shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i].is_object()) continue;
    return problem(
        bad_field(fmt::format("{}[{}]", field, i), "expected an object, got {}", shown(value[i])));
  }
  const auto& names = draft.context.backend.template_names;
  if (!value.empty() && !std::binary_search(names.begin(), names.end(), "documents")) {
    return problem(bad_field(field,
                             "the model's chat template has no place for documents; expected none, "
                             "or their texts in a message"));
  }
  if (!value.empty()) draft.chat.documents = value;
  return std::nullopt;
}

constexpr Field kChatFields[] = {
    {"messages", kChats,
     [](Name, const Json& v, Draft& d) -> Problem {
       return store(read_messages(v, d.unknown), d.chat.messages);
     }},
    {"tools", kChats,
     [](Name f, const Json& v, Draft& d) { return read_tools(f, v, d.unknown, d.chat); }},
    {"tool_choice", kChats,
     [](Name f, const Json& v, Draft& d) { return read_tool_choice(f, v, d.chat); }},
    {"parallel_tool_calls", static_cast<Routes>(kChats | kResponses),
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.chat.parallel);
     }},
    {"reasoning_effort", kChats, read_effort},
    {"verbosity", kChats, read_verbosity},
    {"enable_thinking", kDialogs,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.reasons); }},
    // As vLLM, llama.cpp and templates name it.
    {"thinking_token_budget", kDialogs, read_reasoning_budget},
    {"thinking_budget_tokens", kDialogs, read_reasoning_budget},
    {"reasoning_budget", kDialogs, read_reasoning_budget},
    {"thinking_budget", kDialogs, read_reasoning_budget},
    {"reasoning_budget_message", kDialogs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_string(f, v), d.reasoning_budget_message);
     }},
    {"include_reasoning", kDialogs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.show_reasoning);
     }},
    {"parse_special", kDialogs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.chat.parse_special);
     }},
    {"max_completion_tokens", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_max_tokens(f, v, d.max_completion_tokens);
     }},
    {"n_predict", kChats,  // as llama.cpp names it
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_max_tokens(f, v, d.max_completion_tokens);
     }},
    {"documents", kChats, read_documents},
    {"logprobs", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.logprobs); }},
    {"top_logprobs", static_cast<Routes>(kChats | kResponses),
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 0, kMaxTopLogprobs, d.top_logprobs);
     }},
    {"chat_template_kwargs", kDialogs,
     [](Name, const Json& v, Draft& d) -> Problem {
       return store(read_template_variables(v), d.chat.template_variables);
     }},
    {"add_generation_prompt", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.chat.add_generation_prompt);
     }},
    {"continue_final_message", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.chat.continue_final_message);
     }},
};

}  // namespace

std::span<const Field> chat_fields() { return kChatFields; }

Problem read_reasoning_budget(std::string_view field, const Json& value, Draft& draft) {
  return store_int(field, value, -1, kMaxTokens, draft.reasoning_budget);
}

// As OpenAI names it. Most templates of reasoning models know a switch alone.
Problem read_effort(std::string_view field, const Json& value, Draft& draft) {
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                        "high", "xhigh",   "max"};
  const bool known = is_one_of(value, kEfforts);
  if (!known) {
    return problem(
        bad_field(field, "expected one of {}, got {}", fmt::join(kEfforts, ", "), shown(value)));
  }
  draft.chat.reasoning_variables["reasoning_effort"] = value;
  draft.reasons = value != "none";
  return std::nullopt;
}

Problem read_verbosity(std::string_view field, const Json& value, Draft& draft) {
  constexpr std::array<std::string_view, 3> kVerbosities = {"low", "medium", "high"};
  if (!is_one_of(value, kVerbosities)) {
    return problem(bad_field(field, "expected one of {}, got {}", fmt::join(kVerbosities, ", "),
                             shown(value)));
  }
  const auto& names = draft.context.backend.template_names;
  if (std::binary_search(names.begin(), names.end(), "verbosity")) {
    draft.chat.reasoning_variables["verbosity"] = value;
  } else if (value != "medium") {
    draft.unknown.ignore(field);
  }
  return std::nullopt;
}

}  // namespace dovetail::serve
