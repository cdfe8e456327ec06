#include "serve/request_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

constexpr Field kCommonFields[] = {
    {"model", kAll, read_model},
};

// The first that has a field of a route is the one that counts: llama.cpp's are those of
// completions, but where its own say otherwise.
std::array<std::span<const Field>, 9> tables() {
  return {llama_fields(),   kCommonFields,      output_fields(), completion_fields(), chat_fields(),
          message_fields(), responses_fields(), ollama_fields(), pooled_fields()};
}

// Hints, which change no token: accepted at any value.
struct Hint {
  std::string_view name;
  Routes routes;
};

constexpr Hint kHints[] = {
    {"store", kBoth},
    {"metadata", kAllButOllama},
    {"service_tier", kOutputs},
    {"prompt_cache_key", kOutputs},
    {"prompt_cache_retention", kOutputs},
    {"prompt_cache_options", kOutputs},
    {"safety_identifier", kOutputs},
    {"cache_control", kOutputs},
    {"cache_prompt", kOutputs},
    {"return_token_ids", kOutputs},
    {"request_id", kAllButOllama},
    {"container", kMessages},
    {"keep_alive", kOllama},
    {"id_slot", kOutputs},
    {"n_keep", kOutputs},
    {"timings_per_token", kOutputs},
    {"guided_decoding_backend", kOutputs},
    {"client_metadata", kResponses},
    {"context_management", kMessages},
    {"betas", kMessages},
    {"inference_geo", kMessages},
    {"n_discard", kLlama},
    {"n_cache_reuse", kLlama},
    {"t_max_prompt_ms", kLlama},
    {"sse_ping_interval", kLlama},
    {"backend_sampling", kLlama},
    {"verbose", kLlama},
    // Of samplers that are off.
    {"dynatemp_exponent", kLlama},
    {"xtc_threshold", kLlama},
    {"dry_base", kLlama},
    {"dry_allowed_length", kLlama},
    {"dry_penalty_last_n", kLlama},
    {"dry_sequence_breakers", kLlama},
    {"mirostat_tau", kLlama},
    {"mirostat_eta", kLlama},
    {"adaptive_decay", kLlama},
};

// Fields that would change the answer and are not heeded: accepted at the values that ask for
// nothing.
struct Neutral {
  std::string_view name;
  Routes routes;
  std::string_view values;  // a JSON array
};

// What llama.cpp's server does not know its clients may say to it, as it is set for others.
constexpr auto kOfOthers = static_cast<Routes>(kOutputs & ~kLlama);

constexpr Neutral kNeutral[] = {
    {"best_of", kBoth, "[1]"},
    {"functions", kChats, "[[]]"},
    {"function_call", kChats, R"(["none", "auto"])"},
    {"modalities", kChats, R"([["text"]])"},
    {"audio", kChats, "[]"},
    {"prediction", kChats, "[]"},
    {"web_search_options", kChats, "[]"},
    {"include_stop_str_in_output", kOfOthers, "[false]"},
    {"skip_special_tokens", kOfOthers, "[true]"},
    {"spaces_between_special_tokens", kOfOthers, "[true]"},
    {"use_beam_search", kOfOthers, "[false]"},
    {"early_stopping", kOfOthers, "[false]"},
    {"length_penalty", kOfOthers, "[1]"},
    {"typical_p", kOutputs, "[1]"},
    {"typ_p", kOfOthers, "[1]"},
    {"tfs_z", kOfOthers, "[1]"},
    {"top_a", kOfOthers, "[0]"},
    {"mirostat", kOutputs, "[0]"},
    {"dynatemp_range", kOutputs, "[0]"},
    {"xtc_probability", kOutputs, "[0]"},
    {"dry_multiplier", kOutputs, "[0]"},
    {"truncate_prompt_tokens", static_cast<Routes>(kAllButOllama & ~kLlama), "[]"},
    {"relevant_spans", kCohereReranks, "[]"},
    {"logits_processors", kOfOthers, "[[]]"},
    {"custom_logit_processor", kOfOthers, "[]"},
    {"no_repeat_ngram_size", kOfOthers, "[0]"},
    {"n_probs", kOutputs, "[0]"},
    {"min_keep", kOutputs, "[0]"},
    {"t_max_predict_ms", kOutputs, "[0, -1]"},
    {"lora", kOutputs, "[[]]"},
    {"lora_path", kOfOthers, "[]"},
    {"ebnf", kOfOthers, "[]"},
    {"guided_whitespace_pattern", kOfOthers, "[]"},
    {"add_special_tokens", kCompletions, "[true]"},
    {"add_special_tokens", kDialogs, "[false]"},
    {"chat_template", kDialogs, "[]"},
    {"separate_reasoning", kDialogs, "[true]"},
    {"mm_processor_kwargs", kDialogs, "[{}]"},
    {"session_params", kOfOthers, "[]"},
    {"bad_words", kOfOthers, "[[]]"},
    {"allowed_token_ids", kOfOthers, "[]"},
    {"samplers", kOutputs, "[]"},
    {"mcp_servers", kMessages, "[[]]"},
    {"template", kOllamaGenerates, R"([""])"},
    {"context", kOllamaGenerates, "[[]]"},
    {"images", kOllamaGenerates, "[[]]"},
    {"background", kResponses, "[false]"},
    {"conversation", kResponses, "[]"},
    {"prompt", kResponses, "[]"},
    {"max_tool_calls", kResponses, "[]"},
    {"reasoning_format", kChats, R"(["auto", "deepseek"])"},
    {"image_data", kLlama, "[[]]"},
    {"grammar_lazy", kLlama, "[false]"},
    {"grammar_triggers", kLlama, "[[]]"},
    {"preserved_tokens", kLlama, "[[]]"},
};

Routes route_of(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat:
      return kChats;
    case Endpoint::kResponses:
      return kResponses;
    case Endpoint::kMessages:
      return kMessages;
    case Endpoint::kOllamaChat:
      return kOllamaChats;
    case Endpoint::kOllamaGenerate:
      return kOllamaGenerates;
    case Endpoint::kOllamaEmbed:
      return kOllamaEmbeds;
    case Endpoint::kOllamaEmbedding:
      return kOllamaEmbeddings;
    case Endpoint::kEmbedding:
      return kEmbeddings;
    case Endpoint::kRerank:
      return kReranks;
    case Endpoint::kCohereRerank:
      return kCohereReranks;
    case Endpoint::kLlamaCompletion:
      return kLlamaCompletions;
    case Endpoint::kLlamaInfill:
      return kLlamaInfills;
    case Endpoint::kCompletion:
      break;
  }
  return kCompletions;
}

// Those that a route reads, for near matches.
std::vector<std::string> names_of(Routes route) {
  std::vector<std::string> names;
  const auto add = [&names](std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  };
  for (const Parameter& parameter : parameters())
    if ((parameter.routes & route) != 0) add(parameter.name);
  for (const auto table : tables())
    for (const Field& field : table)
      if ((field.routes & route) != 0) add(field.name);
  return names;
}

const Field* find_field(Routes route, std::string_view name) {
  for (const auto table : tables())
    for (const Field& field : table)
      if (field.name == name && (field.routes & route) != 0) return &field;
  return nullptr;
}

}  // namespace

Problem read_field(Endpoint endpoint, std::string_view name, const Json& value, Draft& draft) {
  return read_field_as(endpoint, name, name, value, draft);
}

Problem read_field_as(Endpoint endpoint, std::string_view name, std::string_view field,
                      const Json& value, Draft& draft) {
  const auto route = route_of(endpoint);
  if (const Field* row = find_field(route, name)) {
    const bool limit = name == "max_tokens" || name == "max_completion_tokens";
    return value.is_null() && !limit ? std::nullopt : row->read(field, value, draft);
  }
  if (const Parameter* parameter = find_parameter(route, name)) {
    if (value.is_null()) return std::nullopt;
    const std::uint32_t vocab = draft.context.backend.model.vocab_size;
    return read_parameter(*parameter, field, value, vocab, draft.request);
  }
  for (const Hint& hint : kHints)
    if (hint.name == name && (hint.routes & route) != 0) return std::nullopt;
  for (const Neutral& neutral : kNeutral) {
    if (neutral.name != name || (neutral.routes & route) == 0) continue;
    const Json values = Json::parse(neutral.values);
    if (value.is_null() || std::find(values.begin(), values.end(), value) != values.end()) {
      return std::nullopt;
    }
    std::string accepted = "null";
    for (const Json& each : values) accepted += " or " + each.dump();
    return problem(bad_field(field, "{} is not supported; expected {}", shown(value), accepted));
  }
  return draft.unknown.meet(field, names_of(route));
}

KnownFields known_fields(Endpoint endpoint) {
  const auto route = route_of(endpoint);
  KnownFields known;
  known.read = names_of(route);
  const auto is_read = [&known](std::string_view name) {
    return std::find(known.read.begin(), known.read.end(), name) != known.read.end();
  };
  for (const Hint& hint : kHints)
    if ((hint.routes & route) != 0 && !is_read(hint.name)) known.hints.emplace_back(hint.name);
  for (const Neutral& neutral : kNeutral) {
    if ((neutral.routes & route) != 0 && !is_read(neutral.name))
      known.neutral.emplace_back(neutral.name, neutral.values);
  }
  return known;
}

Problem read_model(std::string_view field, const Json& value, Draft& draft) {
  auto name = read_string(field, value);
  if (!name) return std::move(name.error());
  const ServedNames& served = draft.context.served;
  if (served.has(*name)) return std::nullopt;
  return served.refuse("model", shown(value));
}

bool is_dialog(Endpoint endpoint, const Draft& draft) {
  constexpr unsigned kWithMessages = kDialogs | kOllamaChats;
  return (route_of(endpoint) & kWithMessages) != 0 ||
         (endpoint == Endpoint::kOllamaGenerate && !draft.raw && draft.suffix.empty());
}

Problem read_members(std::string_view field, const Json& value, std::span<const Member> members,
                     Draft& draft) {
  if (!value.is_object())
    return problem(bad_field(field, "expected an object, got {}", shown(value)));
  for (const auto& [key, member] : value.items()) {
    if (member.is_null()) continue;
    const std::string at = fmt::format("{}.{}", field, key);
    const auto known = std::find_if(members.begin(), members.end(),
                                    [&key = key](const Member& each) { return each.name == key; });
    auto found = known == members.end() ? draft.unknown.meet(at) : known->read(at, member, draft);
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace dovetail::serve
