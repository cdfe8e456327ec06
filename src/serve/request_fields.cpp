#include "serve/request_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/near_match.h"

namespace dovetail::serve {
namespace {

constexpr std::int32_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kMaxN = 128;
constexpr std::int32_t kMaxTopLogprobs = 20;
constexpr std::size_t kMaxStops = 32;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxStopIds = 256;
constexpr std::size_t kMaxLabelBytes = 512;
constexpr std::int32_t kMaxPriority = 1000;
constexpr double kMaxTimeout = 365.0 * 24 * 3600;  // seconds

template <class T, class To>
Problem store(Outcome<T> value, To& to) {
  if (!value) return std::move(value.error());
  to = static_cast<To>(std::move(*value));
  return std::nullopt;
}

template <class To>
Problem store_int(std::string_view field, const Json& value, std::int32_t least, std::int32_t most,
                  To& to) {
  auto number = read_integer(field, value, least, most);
  if (!number) return std::move(number.error());
  to = static_cast<std::int32_t>(*number);
  return std::nullopt;
}

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

Problem read_model(std::string_view field, const Json& value, Draft& draft) {
  auto name = read_string(field, value);
  if (!name) return std::move(name.error());
  if (*name == draft.context.served_name) return std::nullopt;
  ApiError error;
  error.status = 404;
  error.param = "model";
  error.code = "model_not_found";
  error.message = fmt::format("model: {} is not served here; expected \"{}\"", shown(value),
                              draft.context.served_name);
  return error;
}

// Inputs of one request for embeddings, as OpenAI bounds them, and documents of one to rank.
constexpr std::size_t kMostInputs = 2048;

std::size_t most_inputs(const Draft& draft) {
  return std::max<std::size_t>(draft.context.max_choices, kMostInputs);
}

// A string, an array of at most `most` strings, an array of ids, or an array of at most `most`
// arrays of ids.
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

Problem read_query(std::string_view field, const Json& value, Draft& draft) {
  return store(read_string(field, value), draft.query);
}

// An array of strings, or of objects that have them as "text".
Problem read_documents(std::string_view field, const Json& value, Draft& draft) {
  const std::size_t most = most_inputs(draft);
  if (!value.is_array() || value.empty() || value.size() > most) {
    const std::string got =
        value.is_array() ? fmt::format("{} documents", value.size()) : shown(value);
    return problem(bad_field(field, "expected an array of 1 to {} documents, got {}", most, got));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const bool wrapped = value[i].is_object() && value[i].size() == 1 && value[i].contains("text");
    auto text = read_string(wrapped ? at + ".text" : at, wrapped ? value[i]["text"] : value[i]);
    if (!text) return std::move(text.error());
    draft.ranking.documents.push_back(*std::move(text));
  }
  return std::nullopt;
}

Problem read_top(std::string_view field, const Json& value, Draft& draft) {
  auto top = read_integer(field, value, 1, kMaxTokens);
  if (!top) return std::move(top.error());
  draft.ranking.top = static_cast<std::size_t>(*top);
  return std::nullopt;
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

// -1 and null say "no limit".
Problem read_max_tokens(std::string_view field, const Json& value,
                        std::optional<std::int32_t>& to) {
  to = 0;
  if (value.is_null() || (!value.is_number_unsigned() && value == -1)) return std::nullopt;
  return store_int(field, value, 1, kMaxTokens, to);
}

Problem read_label(std::string_view field, const Json& value, std::string& to) {
  auto label = read_string(field, value);
  if (!label) return std::move(label.error());
  if (label->size() > kMaxLabelBytes) {
    return problem(bad_field(field, "{} bytes are too long; expected at most {}", label->size(),
                             kMaxLabelBytes));
  }
  to = *std::move(label);
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

// top_k also says -1 for "all".
Problem read_top_k(std::string_view field, const Json& value, Draft& draft) {
  auto found = store_int(field, value, -1, kMaxTokens, draft.request.sampling.top_k);
  draft.request.sampling.top_k = std::max(draft.request.sampling.top_k, 0);
  return found;
}

Problem read_encoding(std::string_view field, const Json& value, Draft& draft) {
  if (value != "float" && value != "base64") {
    return problem(
        bad_field(field, "{} is not supported; expected \"float\" or \"base64\"", shown(value)));
  }
  draft.base64 = value == "base64";
  return std::nullopt;
}

// Cutting an embedding short is right for models that were trained for it alone.
Problem read_dimensions(std::string_view field, const Json& value, Draft& draft) {
  const std::uint32_t all = draft.context.backend.model.embedding_size;
  if (value != all) {
    return problem(
        bad_field(field, "{} is not supported; expected {}, which is all", shown(value), all));
  }
  return std::nullopt;
}

enum Routes : std::uint8_t {
  kCompletions = 1,
  kChats = 2,
  kBoth = 3,
  kEmbeddings = 4,
  kReranks = 8,
  kAll = 15
};

struct Field {
  std::string_view name;
  Routes routes;
  Problem (*read)(std::string_view field, const Json& value, Draft& draft);
};

using Name = std::string_view;

constexpr Field kFields[] = {
    {"model", kAll, read_model},
    {"prompt", kCompletions,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_prompts(f, v, d.context.max_choices, d);
     }},
    {"input", kEmbeddings,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_prompts(f, v, most_inputs(d), d);
     }},
    {"encoding_format", kEmbeddings, read_encoding},
    {"dimensions", kEmbeddings, read_dimensions},
    {"query", kReranks, read_query},
    {"documents", kReranks, read_documents},
    {"top_n", kReranks, read_top},
    {"return_documents", kReranks,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.ranking.with_texts);
     }},
    {"messages", kChats,
     [](Name, const Json& v, Draft& d) -> Problem {
       return store(read_messages(v, d.unknown), d.chat.messages);
     }},
    {"stream", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.stream); }},
    {"stream_options", kBoth, read_stream_options},
    {"temperature", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_number(f, v, {0.0, 100.0}), d.request.sampling.temperature);
     }},
    {"top_p", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_number(f, v, {0.0, 1.0, true}), d.request.sampling.top_p);
     }},
    {"min_p", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_number(f, v, {0.0, 1.0}), d.request.sampling.min_p);
     }},
    {"top_k", kBoth, read_top_k},
    {"repetition_penalty", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_number(f, v, {0.0, 100.0, true}), d.request.sampling.repetition_penalty);
     }},
    {"repeat_penalty", kBoth,  // as llama.cpp names it
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_number(f, v, {0.0, 100.0, true}), d.request.sampling.repetition_penalty);
     }},
    {"presence_penalty", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_number(f, v, {-2.0, 2.0}), d.request.sampling.presence_penalty);
     }},
    {"frequency_penalty", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_number(f, v, {-2.0, 2.0}), d.request.sampling.frequency_penalty);
     }},
    {"logit_bias", kBoth, read_logit_bias},
    {"seed", kBoth, read_seed},
    {"n", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 1, kMaxN, d.request.n);
     }},
    {"max_tokens", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_max_tokens(f, v, d.max_tokens);
     }},
    {"max_completion_tokens", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_max_tokens(f, v, d.max_completion_tokens);
     }},
    {"min_tokens", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 0, kMaxTokens, d.request.min_tokens);
     }},
    {"ignore_eos", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.request.ignore_eos);
     }},
    {"stop", kBoth, read_stop},
    {"stop_token_ids", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_token_ids(f, v, d.context.backend.model.vocab_size, kMaxStopIds),
                    d.request.stop_ids);
     }},
    {"logprobs", kCompletions,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 0, kMaxTopLogprobs, d.request.logprobs);
     }},
    {"logprobs", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.logprobs); }},
    {"top_logprobs", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 0, kMaxTopLogprobs, d.top_logprobs);
     }},
    {"response_format", kBoth,
     [](Name f, const Json& v, Draft& d) { return store_format(read_response_format(f, v), d); }},
    {"guided_json", kBoth,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_json(f, v), d); }},
    {"guided_regex", kBoth,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_regex(f, v), d); }},
    {"guided_choice", kBoth,
     [](Name f, const Json& v, Draft& d) { return store_format(read_guided_choice(f, v), d); }},
    {"structured_outputs", kBoth,
     [](Name f, const Json& v, Draft& d) {
       return store_format(read_structured_outputs(f, v), d);
     }},
    {"chat_template_kwargs", kChats,
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
    {"parse_special", kChats,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_bool(f, v), d.chat.parse_special);
     }},
    // Who shares the server, and how; none of these changes a response.
    {"user", kAll,
     [](Name f, const Json& v, Draft& d) -> Problem { return read_label(f, v, d.request.tenant); }},
    {"cache_salt", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_label(f, v, d.request.cache_salt);
     }},
    {"priority", kBoth,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, -kMaxPriority, kMaxPriority, d.request.priority);
     }},
    {"timeout", kBoth, read_timeout},
};

// Hints, which change no token: accepted at any value.
struct Hint {
  std::string_view name;
  Routes routes;
};

constexpr Hint kHints[] = {
    {"store", kBoth},
    {"metadata", kAll},
    {"service_tier", kBoth},
    {"prompt_cache_key", kBoth},
    {"prompt_cache_retention", kBoth},
    {"prompt_cache_options", kBoth},
    {"safety_identifier", kBoth},
    {"cache_control", kBoth},
    {"cache_prompt", kBoth},
    {"parallel_tool_calls", kChats},
    {"return_token_ids", kBoth},
    {"request_id", kAll},
};

// Fields that would change the answer and are not heeded: accepted at the values that ask for
// nothing.
struct Neutral {
  std::string_view name;
  Routes routes;
  std::string_view values;  // a JSON array
};

constexpr Neutral kNeutral[] = {
    {"best_of", kCompletions, "[1]"},
    {"suffix", kCompletions, "[\"\"]"},
    {"echo", kCompletions, "[false]"},
    {"tools", kChats, "[[]]"},
    {"tool_choice", kChats, R"(["none", "auto"])"},
    {"functions", kChats, "[[]]"},
    {"function_call", kChats, R"(["none", "auto"])"},
    {"modalities", kChats, R"([["text"]])"},
    {"audio", kChats, "[]"},
    {"prediction", kChats, "[]"},
    {"reasoning_effort", kChats, "[]"},
    {"verbosity", kChats, R"(["medium"])"},
    {"web_search_options", kChats, "[]"},
    {"include_stop_str_in_output", kBoth, "[false]"},
    {"skip_special_tokens", kBoth, "[true]"},
    {"spaces_between_special_tokens", kBoth, "[true]"},
    {"use_beam_search", kBoth, "[false]"},
    {"early_stopping", kBoth, "[false]"},
    {"length_penalty", kBoth, "[1]"},
    {"typical_p", kBoth, "[1]"},
    {"typ_p", kBoth, "[1]"},
    {"tfs_z", kBoth, "[1]"},
    {"top_a", kBoth, "[0]"},
    {"mirostat", kBoth, "[0]"},
    {"dynatemp_range", kBoth, "[0]"},
    {"xtc_probability", kBoth, "[0]"},
    {"dry_multiplier", kBoth, "[0]"},
    {"truncate_prompt_tokens", kAll, "[]"},
    {"prompt_logprobs", kBoth, "[]"},
    {"logits_processors", kBoth, "[[]]"},
    {"bad_words", kBoth, "[[]]"},
    {"allowed_token_ids", kBoth, "[]"},
    {"guided_grammar", kBoth, "[]"},
    {"grammar", kBoth, R"([""])"},
    {"samplers", kBoth, "[]"},
};

Routes route_of(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat:
      return kChats;
    case Endpoint::kEmbedding:
      return kEmbeddings;
    case Endpoint::kRerank:
      return kReranks;
    case Endpoint::kCompletion:
      break;
  }
  return kCompletions;
}

// Those that a route reads, for near matches.
std::vector<std::string> names_of(Routes route) {
  std::vector<std::string> names;
  for (const Field& field : kFields)
    if ((field.routes & route) != 0) names.emplace_back(field.name);
  return names;
}

}  // namespace

Problem UnknownFields::meet(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kMost = 16;
  constexpr std::size_t kLongest = 64;
  const std::string shown_name(name.substr(0, kLongest));
  if (strict_) {
    const std::vector<std::string> near = near_matches(shown_name, known);
    return problem(bad_field(
        name, "unknown or unsupported field \"{}\"{}", shown_name,
        near.empty() ? std::string() : fmt::format(", did you mean {}", fmt::join(near, ", "))));
  }
  if (names_.size() < kMost) names_.push_back(shown_name);
  return std::nullopt;
}

std::string UnknownFields::text() const {
  std::string text = fmt::format("{}", fmt::join(names_, ", "));
  // A header's value is what it is read for by programs: no byte of it may end the line.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

Problem read_field(Endpoint endpoint, std::string_view name, const Json& value, Draft& draft) {
  const auto route = route_of(endpoint);
  for (const Field& field : kFields) {
    if (field.name != name || (field.routes & route) == 0) continue;
    const bool limit = name == "max_tokens" || name == "max_completion_tokens";
    return value.is_null() && !limit ? std::nullopt : field.read(name, value, draft);
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
    return problem(bad_field(name, "{} is not supported; expected {}", shown(value), accepted));
  }
  return draft.unknown.meet(name, names_of(route));
}

}  // namespace dovetail::serve
