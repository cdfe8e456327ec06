#include "cli/input_record.h"

#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/near_match.h"
#include "cli/values.h"
#include "engine/sampling_members.h"

namespace dovetail::cli {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kShown = 60;
constexpr std::int64_t kMaxPriority = 1000;
constexpr float kMaxTimeout = 365.0F * 24 * 3600;  // seconds

// A value as a message shows it.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

tl::unexpected<Error> wrong(std::string_view field, const Json& value, std::string_view expected) {
  return fail(ErrorKind::kInvalid, "{}: {} is not valid, expected {}", field, shown(value),
              expected);
}

// The line being read, before its prompt is encoded.
struct Draft {
  InputRecord record;
  Json prompt, messages;
};

Status read_string(std::string_view field, const Json& value, std::string& to) {
  if (!value.is_string()) return wrong(field, value, "a string");
  to = value.get<std::string>();
  return {};
}

Status read_bool(std::string_view field, const Json& value, bool& to) {
  if (!value.is_boolean()) return wrong(field, value, "true or false");
  to = value.get<bool>();
  return {};
}

Status read_int(std::string_view field, const Json& value, std::int64_t least, std::int64_t most,
                std::int32_t& to) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMostInt32));
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < least || number > most)
    return wrong(field, value, fmt::format("an integer from {} to {}", least, most));
  to = static_cast<std::int32_t>(number);
  return {};
}

Status read_number(std::string_view field, const Json& value, float least, float most, bool above,
                   float& to) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  const bool inside =
      (above ? number > static_cast<double>(least) : number >= static_cast<double>(least)) &&
      number <= static_cast<double>(most);
  const auto narrow = static_cast<float>(inside ? number : 0.0);
  if (!inside || (above && narrow <= least)) {
    return wrong(field, value,
                 fmt::format("a number {}{} to {}", above ? "above " : "from ", least, most));
  }
  to = narrow;
  return {};
}

Status read_ids(std::string_view field, const Json& value, std::vector<TokenId>& to) {
  if (!value.is_array()) return wrong(field, value, "an array of token ids");
  to.clear();
  for (const Json& element : value) {
    TokenId id = 0;
    const std::string at = fmt::format("{}[{}]", field, to.size());
    if (const Status ok = read_int(at, element, 0, kMostInt32, id); !ok) return ok;
    to.push_back(id);
  }
  return {};
}

Status read_stop(std::string_view field, const Json& value, Draft& draft) {
  std::vector<std::string> stops;
  for (const Json& element : value.is_array() ? value : Json::array({value})) {
    if (!element.is_string() || element.get_ref<const std::string&>().empty())
      return wrong(field, element, "a non-empty string or an array of such strings");
    stops.push_back(element.get<std::string>());
  }
  draft.record.request.stop = std::move(stops);
  return {};
}

Status read_seed(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_number_unsigned())
    return wrong(field, value,
                 fmt::format("an integer from 0 to {}", std::numeric_limits<std::uint64_t>::max()));
  draft.record.request.sampling.seed = value.get<std::uint64_t>();
  return {};
}

Status read_logit_bias(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_object()) return wrong(field, value, "an object from token id to bias");
  auto& biases = draft.record.request.sampling.logit_bias;
  biases.clear();
  for (const auto& [key, bias] : value.items()) {
    const Result<std::int64_t> id = parse_integer(key, 0, kMostInt32);
    if (!id) return fail(ErrorKind::kInvalid, "{}: {}", field, id.error().message);
    float number = 0.0F;
    const std::string at = fmt::format("{}.{}", field, key);
    if (const Status ok = read_number(at, bias, -100.0F, 100.0F, false, number); !ok) return ok;
    biases.emplace_back(static_cast<TokenId>(*id), number);
  }
  return {};
}

// Seconds; what is less than a millisecond is one.
Status read_timeout(std::string_view field, const Json& value, Draft& draft) {
  float seconds = 0.0F;
  if (const Status ok = read_number(field, value, 0.0F, kMaxTimeout, true, seconds); !ok) return ok;
  const double milliseconds = std::ceil(static_cast<double>(seconds) * 1000.0);
  draft.record.request.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
  return {};
}

Status read_id(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_string() && !value.is_number_integer())
    return wrong(field, value, "a string or an integer");
  draft.record.id = value;
  return {};
}

Status read_prompt(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_string() && !value.is_array())
    return wrong(field, value, "a string or an array of token ids");
  draft.prompt = value;
  return {};
}

Status read_messages(std::string_view field, const Json& value, Draft& draft) {
  constexpr std::string_view kExpected = "an object with the strings \"role\" and \"content\"";
  if (!value.is_array() || value.empty())
    return wrong(field, value, "a non-empty array of messages");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json& message = value[i];
    const std::string at = fmt::format("{}[{}]", field, i);
    if (!message.is_object()) return wrong(at, message, kExpected);
    for (const char* part : {"role", "content"}) {
      const auto found = message.find(part);
      if (found == message.end() || !found->is_string()) return wrong(at, message, kExpected);
    }
  }
  draft.messages = value;
  return {};
}

Status read_sampling(const SamplingRow& row, const Json& value, SamplingParams& sampling) {
  if (row.whole) {
    std::int32_t number = 0;
    const auto least = static_cast<std::int64_t>(row.least);
    const auto most = static_cast<std::int64_t>(row.most);
    if (const Status ok = read_int(row.name, value, least, most, number); !ok) return ok;
    set_sampling_value(sampling, row, number);
    return {};
  }
  float number = 0.0F;
  const auto least = static_cast<float>(row.least);
  const auto most = static_cast<float>(row.most);
  if (const Status ok = read_number(row.name, value, least, most, row.least_excluded, number); !ok)
    return ok;
  set_sampling_value(sampling, row, static_cast<double>(number));
  return {};
}

// The fields beside those of the table of sampling parameters.
struct Field {
  std::string_view name;
  Status (*read)(std::string_view field, const Json& value, Draft& draft);
};
using Name = std::string_view;

constexpr std::array kFields = {
    Field{"id", read_id},
    Field{"prompt", read_prompt},
    Field{"messages", read_messages},
    Field{"expect", [](Name f, const Json& v,
                       Draft& d) { return read_string(f, v, d.record.expect.emplace()); }},
    Field{"metadata",
          [](Name, const Json& v, Draft& d) -> Status {
            d.record.metadata = v;
            return {};
          }},
    Field{"max_tokens",
          [](Name f, const Json& v, Draft& d) {
            return read_int(f, v, 0, kMostInt32, d.record.request.max_tokens);
          }},
    Field{"min_tokens",
          [](Name f, const Json& v, Draft& d) {
            return read_int(f, v, 0, kMostInt32, d.record.request.min_tokens);
          }},
    Field{"logit_bias", read_logit_bias},
    Field{"seed", read_seed},
    Field{"stop", read_stop},
    Field{"stop_token_ids", [](Name f, const Json& v,
                               Draft& d) { return read_ids(f, v, d.record.request.stop_ids); }},
    Field{"ignore_eos", [](Name f, const Json& v,
                           Draft& d) { return read_bool(f, v, d.record.request.ignore_eos); }},
    Field{"logprobs", [](Name f, const Json& v,
                         Draft& d) { return read_int(f, v, 0, 20, d.record.request.logprobs); }},
    Field{"priority",
          [](Name f, const Json& v, Draft& d) {
            return read_int(f, v, -kMaxPriority, kMaxPriority, d.record.request.priority);
          }},
    Field{"timeout", read_timeout},
    Field{"user", [](Name f, const Json& v,
                     Draft& d) { return read_string(f, v, d.record.request.tenant); }},
    Field{"cache_salt", [](Name f, const Json& v,
                           Draft& d) { return read_string(f, v, d.record.request.cache_salt); }},
    Field{"n", [](Name f, const Json& v,
                  Draft& d) { return read_int(f, v, 1, 128, d.record.request.n); }},
};

// Parses one JSON object whose own fields are distinct and that is not nested too deeply.
Result<Json> parse_object(std::string_view line) {
  bool too_deep = false;
  std::string repeated;
  std::set<std::string> seen;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) too_deep = true;
    if (event == Json::parse_event_t::key && depth == 1 &&
        !seen.insert(parsed.get<std::string>()).second)
      repeated = parsed.get<std::string>();
    return !too_deep;  // what is too deep is left out
  };
  Json value;
  try {
    value = Json::parse(line, watch);
  } catch (const Json::parse_error& error) {
    return fail(ErrorKind::kInvalid, "byte {}: it is no valid JSON, expected one object per line",
                error.byte);
  } catch (const Json::exception&) {
    return fail(ErrorKind::kInvalid,
                "a number is out of range, expected numbers that 64 bits can hold");
  }
  if (too_deep)
    return fail(ErrorKind::kInvalid, "it is nested too deeply, expected at most {} levels",
                kDeepest);
  if (!repeated.empty())
    return fail(ErrorKind::kInvalid, "{}: the field stands there twice", repeated);
  if (!value.is_object())
    return fail(ErrorKind::kInvalid, "{} is not valid, expected an object with \"prompt\"",
                shown(value));
  return value;
}

Status read_field(const std::string& name, const Json& value, Draft& draft) {
  std::vector<std::string> names;
  for (const Field& field : kFields) {
    if (field.name == name) return value.is_null() ? Status() : field.read(name, value, draft);
    names.emplace_back(field.name);
  }
  for (const SamplingRow& row : kSamplingRows) {
    if (row.name == name) {
      return value.is_null() ? Status() : read_sampling(row, value, draft.record.request.sampling);
    }
    names.emplace_back(row.name);
  }
  const std::vector<std::string> near = near_matches(name, names);
  if (near.empty()) {
    return fail(ErrorKind::kInvalid,
                "unknown field {}, expected one of {}; fields of your own go into metadata",
                shown(Json(name)), fmt::join(names, ", "));
  }
  return fail(ErrorKind::kInvalid, "unknown field {}, did you mean {}", shown(Json(name)),
              fmt::join(near, ", "));
}

}  // namespace

Result<std::vector<TokenId>> encode_prompt(const std::string& prompt,
                                           const RecordContext& context) {
  if (!context.chat) return context.encode(prompt);
  Json messages = Json::array();
  if (!context.system.empty())
    messages.push_back({{"role", "system"}, {"content", context.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return context.encode_chat(messages);
}

Result<InputRecord> read_record(std::string_view line, std::size_t index,
                                const RecordContext& context) {
  const Result<Json> object = parse_object(line);
  if (!object) return fail(object.error());
  Draft draft;
  draft.record.index = index;
  draft.record.request = context.defaults;
  if (std::optional<std::uint64_t>& seed = draft.record.request.sampling.seed) *seed += index;
  for (const auto& [name, value] : object->items()) {
    if (const Status ok = read_field(name, value, draft); !ok) return fail(ok.error());
  }
  if (draft.prompt.is_null() == draft.messages.is_null()) {
    return fail(ErrorKind::kInvalid, "it has {}, expected one of \"prompt\" and \"messages\"",
                draft.prompt.is_null() ? "neither" : "both");
  }
  if (draft.prompt.is_array()) {
    if (const Status ok = read_ids("prompt", draft.prompt, draft.record.request.prompt); !ok)
      return fail(ok.error());
    return std::move(draft.record);
  }
  Result<std::vector<TokenId>> prompt =
      draft.messages.is_null() ? encode_prompt(draft.prompt.get<std::string>(), context)
                               : context.encode_chat(draft.messages);
  if (!prompt) return fail(prompt.error());
  draft.record.request.prompt = *std::move(prompt);
  return std::move(draft.record);
}

}  // namespace dovetail::cli
