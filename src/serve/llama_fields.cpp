#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

constexpr float kBanned = -100.0F;  // as OpenAI's clients say it
constexpr std::size_t kMostResponseFields = 64;
constexpr std::int64_t kNoSeed = 4294967295;  // -1 of 32 bits, as llama.cpp shows it

// --- prompts ---

// A string, or an array of strings and ids, which is one text. Only what begins with a string
// begins as the tokenizer has texts begin.
Outcome<std::vector<TokenId>> read_mixed(Name field, const Json& value, bool special,
                                         const Backend& backend) {
  if (value.is_string())
    return backend.encode(value.get_ref<const std::string&>(), special, special);
  if (!value.is_array()) {
    return bad_field(field, "expected a string, or an array of strings and token ids, got {}",
                     shown(value));
  }
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i].is_string()) {
      const auto part =
          backend.encode(value[i].get_ref<const std::string&>(), special && i == 0, special);
      ids.insert(ids.end(), part.begin(), part.end());
      continue;
    }
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!value[i].is_number())
      return bad_field(at, "expected a string or a token id, got {}", shown(value[i]));
    const auto id = read_integer(at, value[i], 0, std::int64_t{backend.model.vocab_size} - 1);
    if (!id) return tl::unexpected<ApiError>(id.error());
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

bool has_ids(const Json& value) {
  return value.is_array() &&
         std::any_of(value.begin(), value.end(), [](const Json& each) { return each.is_number(); });
}

// One prompt; {"prompt_string": ...} is as good as what stands in it.
Problem read_one_prompt(const std::string& field, const Json& value, Draft& draft) {
  if (value.is_string()) {
    draft.prompts.emplace_back(value.get<std::string>());
    return std::nullopt;
  }
  if (value.is_object()) {
    const auto text = value.find("prompt_string");
    if (text == value.end())
      return problem(bad_field(field + ".prompt_string", "is missing; expected a text"));
    for (const auto& [key, member] : value.items()) {
      if (key == "prompt_string" || member.is_null()) continue;
      const std::string at = fmt::format("{}.{}", field, key);
      if (key == "multimodal_data") {
        if (member != Json::array())
          return problem(bad_field(at, "is not supported; expected none"));
      } else if (auto found = draft.unknown.meet(at)) {
        return found;
      }
    }
    if (text->is_object())
      return problem(bad_field(field + ".prompt_string", "expected a text, got {}", shown(*text)));
    return read_one_prompt(field + ".prompt_string", *text, draft);
  }
  auto ids = read_mixed(field, value, true, draft.context.backend);
  if (!ids) return std::move(ids.error());
  draft.prompts.emplace_back(*std::move(ids));
  return std::nullopt;
}

Problem read_llama_prompt(Name field, const Json& value, Draft& draft) {
  if (!value.is_array() || has_ids(value)) return read_one_prompt(std::string(field), value, draft);
  const std::size_t most = draft.context.max_choices;
  if (value.empty() || value.size() > most) {
    return problem(bad_field(field, "{} prompts; expected 1 to {}", value.size(), most));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (auto found = read_one_prompt(fmt::format("{}[{}]", field, i), value[i], draft))
      return found;
  }
  return std::nullopt;
}

// Control tokens that files spell are text there.
template <std::optional<std::vector<TokenId>> LlamaDraft::*member>
Problem read_side(Name field, const Json& value, Draft& draft) {
  return store(read_mixed(field, value, false, draft.context.backend), draft.llama.*member);
}

Problem read_middle(Name field, const Json& value, Draft& draft) {
  const auto text = read_string(field, value);
  if (!text) return text.error();
  draft.llama.middle = draft.context.backend.encode(*text, false, true);
  return std::nullopt;
}

// [{"filename": ..., "text": ...}]
Problem read_extra(Name field, const Json& value, Draft& draft) {
  if (!value.is_array()) {
    return problem(bad_field(
        field, R"(expected an array of objects with "filename" and "text", got {})", shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!value[i].is_object())
      return problem(bad_field(at, "expected an object, got {}", shown(value[i])));
    if (!value[i].contains("text")) return problem(bad_field(at + ".text", "is missing"));
    LlamaDraft::File file;
    for (const auto& [key, member] : value[i].items()) {
      const std::string name = fmt::format("{}.{}", at, key);
      Problem found;
      if (key == "text") {
        found = store(read_string(name, member), file.text);
      } else if (key == "filename") {
        if (!member.is_null()) found = store(read_string(name, member), file.name);
      } else if (key != "time") {  // when an editor took it
        found = draft.unknown.meet(name);
      }
      if (found) return found;
    }
    draft.llama.files.push_back(std::move(file));
  }
  return std::nullopt;
}

// --- sampling ---

// As elsewhere, but that what is beyond a range is its end, as llama.cpp has it.
Problem read_clamped(Name field, const Json& value, Draft& draft) {
  Json here = value;
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (field == "top_p" && number <= 0) {
      draft.llama.only_likeliest = true;  // no share of the probability
      return std::nullopt;
    }
    if (number < 0) here = 0;
    if (number > 1 && (field == "top_p" || field == "min_p")) here = 1;
  }
  const std::uint32_t vocab = draft.context.backend.model.vocab_size;
  return read_parameter(*find_parameter(kLlama, field), field, here, vocab, draft.request);
}

// -1: another one each time.
Problem read_llama_seed(Name field, const Json& value, Draft& draft) {
  draft.request.sampling.seed.reset();
  if (value == -1 || value == kNoSeed) return std::nullopt;
  const std::uint32_t vocab = draft.context.backend.model.vocab_size;
  return read_parameter(*find_parameter(kLlama, field), field, value, vocab, draft.request);
}

// An empty text ends nothing.
Problem read_llama_stop(Name field, const Json& value, Draft& draft) {
  Json list = value.is_array() ? value : Json::array({value});
  std::erase_if(list.get_ref<Json::array_t&>(), [](const Json& each) { return each == Json(""); });
  return read_stop(field, list, draft.request);
}

// A number, or false: never.
Outcome<float> read_bias(Name field, const Json& value) {
  if (value == false) return kBanned;
  if (!value.is_number())
    return bad_field(field, "expected a number or false, got {}", shown(value));
  return read_number(field, value, {-100.0, 100.0});
}

// A text counts as each of its tokens.
Problem add_bias(Name field, const Json& token, const Json& value, Draft& draft) {
  const auto bias = read_bias(field, value);
  if (!bias) return bias.error();
  const Backend& backend = draft.context.backend;
  auto& to = draft.request.sampling.logit_bias;
  if (token.is_string()) {
    for (const TokenId id : backend.encode(token.get_ref<const std::string&>(), false, false))
      to.emplace_back(id, *bias);
    return std::nullopt;
  }
  if (!token.is_number()) {
    return problem(bad_field(field, "expected a token id or a text, got {}", shown(token)));
  }
  const auto id = read_integer(field, token, 0, std::int64_t{backend.model.vocab_size} - 1);
  if (!id) return id.error();
  to.emplace_back(static_cast<TokenId>(*id), *bias);
  return std::nullopt;
}

// [[token or text, bias]], {token or text: bias}
Problem read_llama_bias(Name field, const Json& value, Draft& draft) {
  draft.request.sampling.logit_bias.clear();
  if (value.is_object()) {
    for (const auto& [key, bias] : value.items()) {
      TokenId id = 0;
      const char* const end = key.data() + key.size();
      const auto [at, failure] = std::from_chars(key.data(), end, id);
      const bool is_id = failure == std::errc() && at == end;
      const std::string name = fmt::format("{}[\"{}\"]", field, key.substr(0, 60));
      if (auto found = add_bias(name, is_id ? Json(id) : Json(key), bias, draft)) return found;
    }
    return std::nullopt;
  }
  if (!value.is_array()) {
    return problem(
        bad_field(field, "expected an array of pairs of a token and a bias, or an object, got {}",
                  shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!value[i].is_array() || value[i].size() != 2) {
      return problem(
          bad_field(at, "expected a pair of a token and a bias, got {}", shown(value[i])));
    }
    if (auto found = add_bias(at, value[i][0], value[i][1], draft)) return found;
  }
  return std::nullopt;
}

// It has no effect up to 0, and is not heeded beyond.
Problem read_sigma(Name field, const Json& value, Draft&) {
  if (value.is_number() && value.get<double>() <= 0) return std::nullopt;
  return problem(
      bad_field(field, "{} is not supported; expected 0 or less, which is off", shown(value)));
}

// Below 0 it is off.
Problem read_adaptive_target(Name field, const Json& value, Draft& draft) {
  if (!value.is_number())
    return problem(bad_field(field, "expected a number, got {}", shown(value)));
  draft.llama.adaptive = value.get<double>() >= 0;
  return std::nullopt;
}

// --- limits and formats ---

template <std::size_t place>
Problem read_limit(Name field, const Json& value, Draft& draft) {
  if (value.is_null()) return std::nullopt;
  return store_int(field, value, -1, kMaxTokens, draft.llama.limits[place].emplace());
}

template <std::size_t place>
Problem read_probabilities(Name field, const Json& value, Draft& draft) {
  return store_int(field, value, 0, kMaxTopLogprobs, draft.llama.probabilities[place].emplace());
}

Problem read_choices(Name field, const Json& value, Draft& draft) {
  const auto most = static_cast<std::int32_t>(std::min(draft.context.max_choices, 128U));
  return store_int(field, value, 1, most, draft.request.n);
}

Problem read_llama_grammar(Name field, const Json& value, Draft& draft) {
  return store(read_guided_grammar(field, value), draft.llama.grammar);
}

// Without a word it is any object.
Problem read_llama_schema(Name field, const Json& value, Draft& draft) {
  if (value == Json::object()) {
    draft.llama.schema = OutputFormat{std::string(field), GrammarKind::kJsonObject, ""};
    return std::nullopt;
  }
  return store(read_guided_json(field, value), draft.llama.schema);
}

Problem read_predict_limit(Name field, const Json& value, Draft& draft) {
  const auto number = read_integer(field, value, -1, kMaxTokens);
  if (!number) return number.error();
  draft.llama.form.predict_limit = std::chrono::milliseconds(std::max<std::int64_t>(*number, 0));
  return std::nullopt;
}

Problem read_response_fields(Name field, const Json& value, Draft& draft) {
  if (!value.is_array() || value.size() > kMostResponseFields) {
    return problem(bad_field(field, "expected an array of at most {} names, got {}",
                             kMostResponseFields, shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    auto name = read_string(fmt::format("{}[{}]", field, i), value[i]);
    if (!name) return std::move(name.error());
    draft.llama.form.fields.push_back(*std::move(name));
  }
  return std::nullopt;
}

// Events that say how far a prompt is are not sent.
Problem read_progress(Name field, const Json& value, Draft& draft) {
  const auto asked = read_bool(field, value);
  if (!asked) return asked.error();
  if (*asked) draft.unknown.ignore(field);
  return std::nullopt;
}

// No name is the model's, too: editors send what is not set.
Problem read_llama_model(Name field, const Json& value, Draft& draft) {
  if (value == Json("")) return std::nullopt;
  return read_model(field, value, draft);
}

constexpr Field kLlamaFields[] = {
    {"model", kLlama, read_llama_model},
    {"prompt", kLlamaCompletions, read_llama_prompt},
    {"prompt", kLlamaInfills, read_middle},
    {"input_prefix", kLlamaInfills, read_side<&LlamaDraft::before>},
    {"input_suffix", kLlamaInfills, read_side<&LlamaDraft::after>},
    {"input_extra", kLlamaInfills, read_extra},
    {"n_predict", kLlama, read_limit<0>},
    {"max_completion_tokens", kLlama, read_limit<1>},
    {"max_tokens", kLlama, read_limit<2>},
    {"n_cmpl", kLlama, read_choices},
    {"n", kLlama, read_choices},
    {"temperature", kLlama, read_clamped},
    {"top_k", kLlama, read_clamped},
    {"top_p", kLlama, read_clamped},
    {"min_p", kLlama, read_clamped},
    {"seed", kLlama, read_llama_seed},
    {"stop", kLlama, read_llama_stop},
    {"logit_bias", kLlama, read_llama_bias},
    {"top_n_sigma", kLlama, read_sigma},
    {"adaptive_target", kLlama, read_adaptive_target},
    {"n_probs", kLlama, read_probabilities<0>},
    {"logprobs", kLlama, read_probabilities<1>},
    {"post_sampling_probs", kLlama,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.llama.post_sampling);
     }},
    {"grammar", kLlama, read_llama_grammar},
    {"json_schema", kLlama, read_llama_schema},
    {"n_indent", kLlama,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_integer(f, v, 0, kMaxTokens), d.llama.form.least_indent);
     }},
    {"t_max_predict_ms", kLlama, read_predict_limit},
    {"return_tokens", kLlama,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.llama.form.tokens);
     }},
    {"timings_per_token", kLlama,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.llama.form.timings);
     }},
    {"response_fields", kLlama, read_response_fields},
    {"return_progress", kLlama, read_progress},
};

}  // namespace

std::span<const Field> llama_fields() { return kLlamaFields; }

}  // namespace dovetail::serve
