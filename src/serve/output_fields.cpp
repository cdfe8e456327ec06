#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

constexpr std::int32_t kMaxN = 128;
constexpr std::size_t kMaxStops = 32;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxStopIds = 256;
constexpr std::int32_t kMaxPriority = 1000;
constexpr double kMaxTimeout = 365.0 * 24 * 3600;  // seconds

Problem read_seed(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_number_integer()) {
    return problem(bad_field(field, "expected an integer of 64 bits, got {}", shown(value)));
  }
  draft.request.sampling.seed = value.is_number_unsigned()
                                    ? value.get<std::uint64_t>()
                                    : static_cast<std::uint64_t>(value.get<std::int64_t>());
  return std::nullopt;
}

Problem read_logit_bias(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_object()) {
    return problem(
        bad_field(field, "expected an object from token id to bias, got {}", shown(value)));
  }
  const std::uint32_t vocab = draft.context.backend.model.vocab_size;
  for (const auto& [key, bias] : value.items()) {
    TokenId id = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (failure != std::errc() || end != key.data() + key.size() || id < 0 ||
        static_cast<std::uint32_t>(id) >= vocab) {
      return problem(bad_field(field, "{} is not a token id; expected \"0\" to \"{}\"",
                               shown(Json(key)), vocab - 1));
    }
    auto number = read_number(fmt::format("{}[\"{}\"]", field, key), bias, {-100.0, 100.0});
    if (!number) return std::move(number.error());
    draft.request.sampling.logit_bias.emplace_back(id, *number);
  }
  return std::nullopt;
}

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

// Seconds; what is less than a millisecond is one.
Problem read_timeout(std::string_view field, const Json& value, Draft& draft) {
  const auto seconds = read_number(field, value, {0.0, kMaxTimeout, true});
  if (!seconds) return seconds.error();
  const double milliseconds = std::ceil(static_cast<double>(*seconds) * 1000.0);
  draft.request.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
  return std::nullopt;
}

constexpr Field kOutputFields[] = {
    {"stream", kOutputs,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.stream); }},
    {"stream_options", kOutputs, read_stream_options},
    {"logit_bias", kOutputs, read_logit_bias},
    {"seed", kOutputs, read_seed},
    {"n", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 1, kMaxN, d.request.n);
     }},
    {"max_tokens", static_cast<Routes>(kChats | kMessages),
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_max_tokens(f, v, d.max_tokens);
     }},
    {"min_tokens", kOutputs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 0, kMaxTokens, d.request.min_tokens);
     }},
    {"ignore_eos", kOutputs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.request.ignore_eos);
     }},
    {"stop", kOutputs, read_stop},
    {"stop_token_ids", kOutputs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_token_ids(f, v, d.context.backend.model.vocab_size, kMaxStopIds),
                    d.request.stop_ids);
     }},
    {"prompt_logprobs", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 0, kMaxTopLogprobs, d.request.prompt_logprobs);
     }},
    {"response_format", kBoth,
     [](Name f, const Json& v, Draft& d) { return store_format(read_response_format(f, v), d); }},
    {"guided_json", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_json(f, v), d); }},
    {"guided_regex", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_regex(f, v), d); }},
    {"guided_choice", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_choice(f, v), d); }},
    {"guided_grammar", kOutputs,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_grammar(f, v), d); }},
    {"grammar", kOutputs,  // as llama.cpp names it
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_grammar(f, v), d); }},
    {"structured_outputs", kOutputs,
     [](Name f, const Json& v, Draft& d) {
       return store_format(read_structured_outputs(f, v), d);
     }},
    {"cache_salt", kOutputs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_label(f, v, d.request.cache_salt);
     }},
    {"priority", kOutputs,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, -kMaxPriority, kMaxPriority, d.request.priority);
     }},
    {"timeout", kOutputs, read_timeout},
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
  return store_format(read_flat_format(field, value), draft);
}

Problem read_stop(std::string_view field, const Json& value, Draft& draft) {
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.size() > kMaxStops) {
    return problem(bad_field(field, "{} stop strings are too many; expected at most {}",
                             list.size(), kMaxStops));
  }
  for (const Json& element : list) {
    if (!element.is_string()) {
      return problem(
          bad_field(field, "expected a string or an array of strings, got {}", shown(element)));
    }
    const auto& text = element.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      return problem(bad_field(field, "{} has {} bytes; expected 1 to {}", shown(element),
                               text.size(), kMaxStopBytes));
    }
    draft.request.stop.push_back(text);
  }
  return std::nullopt;
}

// -1 and null say "no limit".
Problem read_max_tokens(std::string_view field, const Json& value,
                        std::optional<std::int32_t>& to) {
  to = 0;
  if (value.is_null() || (!value.is_number_unsigned() && value == -1)) return std::nullopt;
  return store_int(field, value, 1, kMaxTokens, to);
}

}  // namespace dovetail::serve
