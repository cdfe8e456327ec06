#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/field_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

// Names of Ollama's that are another's here.
struct Option {
  Name name;
  Name here;
};
constexpr Option kRenamed[] = {{"num_predict", "max_tokens"}};

// Of how a model is run, which the server decides at its start.
constexpr std::array<Name, 12> kOfTheMachine = {"num_ctx",  "num_keep",   "num_batch",  "num_gpu",
                                                "main_gpu", "num_thread", "use_mmap",   "use_mlock",
                                                "low_vram", "numa",       "vocab_only", "f16_kv"};

// What a request says of itself is no option.
constexpr std::array<Name, 10> kNoOptions = {"echo",   "logprobs",       "model",          "n",
                                             "prompt", "stream",         "stream_options", "suffix",
                                             "user",   "prompt_logprobs"};

// Values with a meaning of Ollama's own, such as those beyond a range, which are its end.
struct Value {
  Name name;
  bool (*is)(double value);
  std::string_view here;  // JSON; empty: the option says nothing
};
constexpr Value kValues[] = {
    // As many as the context has room for.
    {"num_predict", [](double v) { return v == -2; }, "-1"},
    {"temperature", [](double v) { return v < 0; }, "0"},
    {"top_k", [](double v) { return v < 0; }, "0"},
    {"top_p", [](double v) { return v > 1; }, "1"},
    {"min_p", [](double v) { return v < 0; }, "0"},
    {"min_p", [](double v) { return v > 1; }, "1"},
    // A seed that differs each time.
    {"seed", [](double v) { return v == -1; }, ""},
};

// {"temperature": ..., "num_predict": ...}: fields as those beside it are elsewhere.
Problem read_options(Name field, const Json& value, Draft& draft) {
  if (!value.is_object())
    return problem(bad_field(field, "expected an object, got {}", shown(value)));
  bool only_likeliest = false;
  for (const auto& [key, option] : value.items()) {
    if (option.is_null() ||
        std::find(kOfTheMachine.begin(), kOfTheMachine.end(), key) != kOfTheMachine.end())
      continue;
    if (std::find(kNoOptions.begin(), kNoOptions.end(), key) != kNoOptions.end()) {
      if (auto found = draft.unknown.meet(fmt::format("{}.{}", field, key))) return found;
      continue;
    }
    // No share of the probability is the likeliest token alone.
    if (key == "top_p" && option.is_number() && option.get<double>() <= 0) {
      only_likeliest = true;
      continue;
    }
    Json here = option;
    for (const Value& each : kValues) {
      if (each.name == key && option.is_number() && each.is(option.get<double>()))
        here = Json::parse(each.here.empty() ? "null" : each.here);
    }
    if (here.is_null()) continue;
    Name name = key;
    for (const Option& renamed : kRenamed)
      if (renamed.name == key) name = renamed.here;
    const std::string at = fmt::format("{}.{}", field, key);
    if (auto found = read_field_as(Endpoint::kCompletion, name, at, here, draft)) return found;
  }
  if (only_likeliest) draft.request.sampling.top_k = 1;
  return std::nullopt;
}

// "json", or a schema.
Problem read_format(Name field, const Json& value, Draft& draft) {
  if (value == Json("")) return std::nullopt;
  if (value == "json")
    return store_format(OutputFormat{std::string(field), GrammarKind::kJsonObject, ""}, draft);
  if (!value.is_object()) {
    return problem(bad_field(field, "expected \"json\" or a JSON schema, got {}", shown(value)));
  }
  return store_format(OutputFormat{std::string(field), GrammarKind::kJsonSchema, value.dump(),
                                   draft.unknown.strict()},
                      draft);
}

// A switch, or how hard.
Problem read_think(Name field, const Json& value, Draft& draft) {
  if (value.is_string()) return read_effort(field, value, draft);
  return store(read_bool(field, value), draft.reasons);
}

// Messages as OpenAI's, but that calls have objects as arguments and no ids, reasoning is called
// thinking, and results name their function.
Problem read_ollama_messages(Name field, const Json& value, Draft& draft) {
  Json messages = value;
  if (messages.is_array()) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Json& message = messages[i];
      if (!message.is_object()) continue;
      const auto rename = [&message](const char* from, const char* to) {
        if (!message.contains(from)) return;
        message[to] = message[from];
        message.erase(from);
      };
      rename("thinking", "reasoning_content");
      rename("tool_name", "name");
      if (message.contains("images") && !message["images"].is_null() &&
          message["images"] != Json::array()) {
        return problem(
            bad_field(fmt::format("{}[{}].images", field, i), "is not supported; expected none"));
      }
      message.erase("images");
    }
  }
  return store(read_messages(messages, draft.unknown), draft.chat.messages);
}

Problem read_generate_prompt(Name field, const Json& value, Draft& draft) {
  auto text = read_string(field, value);
  if (!text) return std::move(text.error());
  draft.prompts.emplace_back(*std::move(text));
  return std::nullopt;
}

// Whether an answer goes on where the context is full: here it ends there.
Problem read_shift(Name field, const Json& value, Draft& draft) {
  const auto shifts = read_bool(field, value);
  if (!shifts) return shifts.error();
  if (*shifts) draft.unknown.ignore(field);
  return std::nullopt;
}

constexpr auto kOllamaAnswers = static_cast<Routes>(kOllamaChats | kOllamaGenerates);

constexpr Field kOllamaFields[] = {
    {"messages", kOllamaChats, read_ollama_messages},
    {"tools", kOllamaChats,
     [](Name f, const Json& v, Draft& d) { return read_tools(f, v, d.unknown, d.chat); }},
    {"prompt", kOllamaGenerates, read_generate_prompt},
    {"system", kOllamaGenerates,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store(read_string(f, v), d.chat.system);
     }},
    {"raw", kOllamaGenerates,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.raw); }},
    {"format", kOllama, read_format},
    {"options", kOllama, read_options},
    {"think", kOllama, read_think},
    {"stream", kOllama,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.stream); }},
    // What follows the answer, which then stands between the two texts.
    {"suffix", kOllamaGenerates,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_string(f, v), d.suffix); }},
    {"logprobs", kOllamaAnswers,
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.logprobs); }},
    {"top_logprobs", kOllamaAnswers,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return store_int(f, v, 0, kMaxTopLogprobs, d.top_logprobs);
     }},
    {"truncate", static_cast<Routes>(kOllamaAnswers | kOllamaEmbeds),
     [](Name f, const Json& v, Draft& d) -> Problem { return store(read_bool(f, v), d.truncate); }},
    {"shift", kOllamaAnswers, read_shift},
    {"prompt", kOllamaEmbeddings, read_generate_prompt},
    {"input", kOllamaEmbeds,
     [](Name f, const Json& v, Draft& d) -> Problem {
       return read_prompts(f, v, most_inputs(d), d);
     }},
};

}  // namespace

std::span<const Field> ollama_fields() { return kOllamaFields; }

}  // namespace dovetail::serve
