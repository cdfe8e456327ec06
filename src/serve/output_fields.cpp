#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

Problem read_stream_options(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_object()) {
    return problem(bad_field(field, "expected an object, got {}", shown(value)));
  }
  for (const auto& [key, option] : value.items()) {
    // The others are hints about the stream's form.
    if (key != "include_usage" || option.is_null()) continue;
    const std::string name = fmt::format("{}.{}", field, key);
    if (auto found = store(read_bool(name, option), draft.include_usage)) return found;
  }
  return std::nullopt;
}

// Where clients of llama.cpp's server say how to sample.
constexpr auto kOfLlamaClients = static_cast<Routes>(kBoth | kLlama);

constexpr Field kOutputFields[] = {
    {"stream", kOutputs,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.stream); }},
    {"stream_options", kOutputs, read_stream_options},
    {"max_tokens", static_cast<Routes>(kChats | kMessages),
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_max_tokens(f, v, d.max_tokens);
     }},
    {"response_format", kBoth,
     [](Name f, const Json& v, Draft& d) {
       return store_format(read_response_format(f, v, d.unknown), d);
     }},
    {"guided_json", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_json(f, v), d); }},
    {"guided_regex", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_regex(f, v), d); }},
    {"guided_choice", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_choice(f, v), d); }},
    {"guided_grammar", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_grammar(f, v), d); }},
    {"json_schema", kOutputs,  // this and the next as llama.cpp names them
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_json(f, v), d); }},
    {"grammar", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_grammar(f, v), d); }},
    {"regex", kOutputs,  // as SGLang names it
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_regex(f, v), d); }},
    {"samplers", kOfLlamaClients, read_samplers},
    {"repeat_last_n", kOfLlamaClients,
     [](Name f, const Json& v, Draft& d) -> Problem {
       d.penalty_window_field = f;
       return store_int(f, v, -1, kMaxTokens, d.penalty_window.emplace());
     }},
    {"structured_outputs", kOutputs,
     [](Name f, const Json& v, Draft& d) {
       return store_format(read_structured_outputs(f, v), d);
     }},
};

}  // namespace

std::span<const Field> output_fields() { return kOutputFields; }

Problem store_format(Outcome<std::optional<OutputFormat>> asked, Draft& draft) {
  if (!asked) return std::move(asked.error());
  if (!*asked) return std::nullopt;
  if (draft.format) {
    return problem(
        bad_field((*asked)->field, "contradicts {}; expected one of them", draft.format->field));
  }
  draft.format = *std::move(*asked);
  return std::nullopt;
}

Problem read_flat_form(std::string_view field, const Json& value, Draft& draft) {
  return store_format(read_flat_format(field, value, draft.unknown), draft);
}

// -1 and null say "no limit".
Problem read_max_tokens(std::string_view field, const Json& value,
                        std::optional<std::int32_t>& to) {
  to = 0;
  if (value.is_null() || (!value.is_number_unsigned() && value == -1)) return std::nullopt;
  return store_int(field, value, 1, kMaxTokens, to);
}

}  // namespace dovetail::serve
