#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

// It may have no tokens at all: 0 is that.
Problem read_completion_tokens(std::string_view field, const Json& value, Draft& draft) {
  draft.request.no_output = value.is_number() && value == 0;
  if (draft.request.no_output) return std::nullopt;
  return read_max_tokens(field, value, draft.max_tokens);
}

constexpr Field kCompletionFields[] = {
    {"prompt", kCompletions,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_prompts(f, v, d.context.max_choices, d);
     }},
    {"max_tokens", kCompletions, read_completion_tokens},
    {"n_predict", kCompletions, read_completion_tokens},  // as llama.cpp names it
    {"echo", kCompletions,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.echo); }},
    {"suffix", kCompletions,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_string(f, v), d.suffix); }},
};

}  // namespace

std::span<const Field> completion_fields() { return kCompletionFields; }

Problem read_prompts(std::string_view field, const Json& value, std::size_t most, Draft& draft) {
  const std::uint32_t vocab = draft.context.backend.model.vocab_size;
  const std::size_t longest = draft.context.backend.model.max_context;
  if (value.is_string()) {
    draft.prompts.emplace_back(value.get<std::string>());
    return std::nullopt;
  }
  if (!value.is_array() || value.empty()) {
    return problem(bad_field(field,
                             "expected a string, an array of strings, an array of token ids or an "
                             "array of such arrays, got {}",
                             shown(value)));
  }
  if (value.front().is_number()) {
    auto ids = read_token_ids(field, value, vocab, longest);
    if (!ids) return std::move(ids.error());
    draft.prompts.emplace_back(std::move(*ids));
    return std::nullopt;
  }
  if (value.size() > most) {
    return problem(
        bad_field(field, "{} prompts are too many; expected at most {}", value.size(), most));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const Json& element = value[i];
    if (element.is_string() && value.front().is_string()) {
      draft.prompts.emplace_back(element.get<std::string>());
    } else if (element.is_array() && value.front().is_array()) {
      auto ids = read_token_ids(at, element, vocab, longest);
      if (!ids) return std::move(ids.error());
      draft.prompts.emplace_back(std::move(*ids));
    } else {
      return problem(bad_field(
          at, "expected a string or an array of token ids, the same kind as the first, got {}",
          shown(element)));
    }
  }
  return std::nullopt;
}

}  // namespace dovetail::serve
