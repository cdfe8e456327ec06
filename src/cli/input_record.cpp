#include "cli/input_record.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "base/near_match.h"
#include "cli/values.h"
#include "serve/json_input.h"
#include "serve/parameter_fields.h"

namespace dovetail::cli {
namespace {

using serve::bad_field;
using serve::Problem;
using serve::shown;

constexpr int kDeepest = 64;
// Ids of tokens are held to the model's when the request is.
constexpr std::uint32_t kAnyId = std::uint32_t{1} << 31U;

// The line being read, before its prompt is encoded.
struct Draft {
  InputRecord record;
  Json prompt, messages;
};

template <class T, class To>
Problem store(serve::Outcome<T> value, To& to) {
  if (!value) return std::move(value.error());
  to = static_cast<To>(*std::move(value));
  return std::nullopt;
}

Problem read_id(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_string() && !value.is_number_integer()) {
    return problem(bad_field(field, "expected a string or an integer, got {}", shown(value)));
  }
  draft.record.id = value;
  return std::nullopt;
}

Problem read_prompt(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_string() && !value.is_array()) {
    return problem(
        bad_field(field, "expected a string or an array of token ids, got {}", shown(value)));
  }
  draft.prompt = value;
  return std::nullopt;
}

Problem read_messages(std::string_view field, const Json& value, Draft& draft) {
  if (!value.is_array() || value.empty()) {
    return problem(
        bad_field(field, "expected a non-empty array of messages, got {}", shown(value)));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Json& message = value[i];
    for (const char* part : {"role", "content"}) {
      const auto found = message.is_object() ? message.find(part) : message.end();
      if (found == message.end() || !found->is_string()) {
        return problem(bad_field(fmt::format("{}[{}]", field, i),
                                 "expected an object with the strings \"role\" and \"content\", "
                                 "got {}",
                                 shown(message)));
      }
    }
  }
  draft.messages = value;
  return std::nullopt;
}

// The fields beside the parameters of requests, which lines have as HTTP has them.
struct Field {
  std::string_view name;
  Problem (*read)(std::string_view field, const Json& value, Draft& draft);
};
using Name = std::string_view;

constexpr std::array kFields = {
    Field{"id", read_id},
    Field{"prompt", read_prompt},
    Field{"messages", read_messages},
    Field{"expect",
          [](Name f, const Json& v, Draft& d) {
            return store(serve::read_string(f, v), d.record.expect.emplace());
          }},
    Field{"metadata",
          [](Name, const Json& v, Draft& d) -> Problem {
            d.record.metadata = v;
            return std::nullopt;
          }},
    Field{"max_tokens",
          [](Name f, const Json& v, Draft& d) {
            return store(serve::read_integer(f, v, 0, kMostInt32), d.record.request.max_tokens);
          }},
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
    return fail(ErrorKind::kInvalid, "expected an object with \"prompt\", got {}", shown(value));
  return value;
}

Status read_field(const std::string& name, const Json& value, Draft& draft) {
  const auto own = std::find_if(kFields.begin(), kFields.end(),
                                [&](const Field& field) { return field.name == name; });
  const serve::Parameter* parameter = serve::find_parameter(serve::kInputLines, name);
  if (own != kFields.end() || parameter != nullptr) {
    if (value.is_null()) return {};
    const Problem found = parameter != nullptr ? serve::read_parameter(*parameter, name, value,
                                                                       kAnyId, draft.record.request)
                                               : own->read(name, value, draft);
    return found ? fail(ErrorKind::kInvalid, "{}", found->message) : Status();
  }
  std::vector<std::string> names;
  for (const Field& field : kFields) names.emplace_back(field.name);
  for (const serve::Parameter& known : serve::parameters())
    if ((known.routes & serve::kInputLines) != 0) names.emplace_back(known.name);
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
    auto ids = serve::read_token_ids("prompt", draft.prompt, kAnyId, draft.prompt.size());
    if (!ids) return fail(ErrorKind::kInvalid, "{}", ids.error().message);
    draft.record.request.prompt = *std::move(ids);
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
