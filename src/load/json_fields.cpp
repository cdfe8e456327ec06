#include "load/json_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "load/quote.h"

namespace dovetail::load {
namespace {

constexpr int kDeepest = 64;

// Whether brackets nest deeper than kDeepest. Asked before the parser builds anything, since the
// destructor of a deep tree recurses. Strings are skipped; what is not JSON is left to the parser.
bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// `valid`: what the text should be, in messages.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view file,
                                  std::size_t most_bytes, std::string_view valid) {
  using nlohmann::json;
  if (text.size() > most_bytes) {
    return fail(ErrorKind::kInvalid, "{}: {} bytes of JSON; valid: at most {}", file, text.size(),
                most_bytes);
  }
  if (nests_too_deep(text)) {
    return fail(ErrorKind::kInvalid, "{}: JSON nested more than {} deep; valid: at most {}", file,
                kDeepest, kDeepest);
  }
  std::unordered_set<std::string> keys;
  std::string twice;
  const json::parser_callback_t watch_keys = [&](int depth, json::parse_event_t event,
                                                 json& parsed) {
    if (event == json::parse_event_t::key && depth == 1) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.insert(key).second && twice.empty()) twice = quote(key);
    }
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text.begin(), text.end(), watch_keys);
  } catch (const json::parse_error& error) {
    return fail(ErrorKind::kInvalid, "{}: not JSON from byte {} on; valid: {}", file, error.byte,
                valid);
  } catch (const json::exception& error) {
    // Numbers out of every range end here.
    return fail(ErrorKind::kInvalid, "{}: not JSON: {}; valid: {}", file, quote(error.what()),
                valid);
  }
  if (!twice.empty()) {
    return fail(ErrorKind::kInvalid, "{}: {}: given twice; valid: once", file, twice);
  }
  return parsed;
}

Result<nlohmann::json> refuse_kind(const nlohmann::json& parsed, std::string_view file,
                                   std::string_view valid) {
  return fail(ErrorKind::kInvalid, "{}: {}; valid: {}", file, text_of(parsed), valid);
}

}  // namespace

std::string with_python_words(std::string_view text) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  out.reserve(text.size());
  bool quoted = false;
  while (!text.empty()) {
    const auto* word =
        quoted ? std::end(kWords)
               : std::find_if(std::begin(kWords), std::end(kWords),
                              [&](std::string_view one) { return text.starts_with(one); });
    if (word != std::end(kWords)) {
      out += '"';
      out += *word;
      out += '"';
      text.remove_prefix(word->size());
      continue;
    }
    // What a backslash escapes ends no string.
    const std::size_t count = quoted && text.front() == '\\' && text.size() > 1 ? 2 : 1;
    if (text.front() == '"') quoted = !quoted;
    out += text.substr(0, count);
    text.remove_prefix(count);
  }
  return out;
}

Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file,
                                         std::size_t most_bytes) {
  constexpr std::string_view kValid = "a JSON object";
  auto parsed = parse_json(text, file, most_bytes, kValid);
  return parsed && !parsed->is_object() ? refuse_kind(*parsed, file, kValid) : std::move(parsed);
}

Result<nlohmann::json> parse_json_array(std::string_view text, std::string_view file,
                                        std::size_t most_bytes) {
  constexpr std::string_view kValid = "a JSON array";
  auto parsed = parse_json(text, file, most_bytes, kValid);
  return parsed && !parsed->is_array() ? refuse_kind(*parsed, file, kValid) : std::move(parsed);
}

std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return "an object";
  return value.dump();
}

const nlohmann::json* JsonFields::find(std::string_view key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::reject(std::string_view key, std::string_view value, std::string_view valid,
                        ErrorKind kind) {
  if (error_) return;
  error_ = Error{kind, fmt::format("{}: {}{}: {}; valid: {}", file_, prefix_, key, value, valid)};
}

void JsonFields::take_failure(const Status& status) {
  if (!error_ && !status) error_ = status.error();
}

Status JsonFields::status() const {
  if (error_) return fail(*error_);
  return {};
}

template <class T>
std::optional<T> JsonFields::kept(std::string_view key, const nlohmann::json& value,
                                  Wanted<T> wanted) {
  if (wanted) return *std::move(wanted);
  reject(key, text_of(value), wanted.error());
  return std::nullopt;
}

bool JsonFields::is_null(std::string_view key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

std::uint32_t JsonFields::required_count(std::string_view key, std::uint32_t low,
                                         std::uint32_t high) {
  const auto value = optional_count(key, low, high);
  if (!value) reject(key, "missing", fmt::format("an integer from {} to {}", low, high));
  return value.value_or(0);
}

std::optional<std::uint32_t> JsonFields::optional_count(std::string_view key, std::uint32_t low,
                                                        std::uint32_t high) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = kept(key, *value, as_integer(*value, low, high));
  return number ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
}

std::optional<std::int32_t> JsonFields::optional_int(std::string_view key, std::int32_t low,
                                                     std::int32_t high) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = kept(key, *value, as_integer(*value, low, high));
  return number ? std::optional(static_cast<std::int32_t>(*number)) : std::nullopt;
}

std::optional<float> JsonFields::optional_float(std::string_view key, float low, float high) {
  const auto* value = find(key);
  const RangeOf<float> range = {low, high};
  return value == nullptr ? std::nullopt : kept(key, *value, as_number<float>(*value, range));
}

std::optional<bool> JsonFields::optional_bool(std::string_view key) {
  const auto* value = find(key);
  return value == nullptr ? std::nullopt : kept(key, *value, as_bool(*value));
}

std::optional<std::string> JsonFields::optional_string(std::string_view key) {
  const auto* value = find(key);
  return value == nullptr ? std::nullopt : kept(key, *value, as_string(*value));
}

std::vector<std::int32_t> JsonFields::optional_ids(std::string_view key, std::uint32_t below) {
  std::vector<std::int32_t> ids;
  const auto* value = find(key);
  if (value == nullptr) return ids;
  const auto add = [&](const nlohmann::json& id) {
    const auto number = kept(key, id, as_integer(id, 0, std::int64_t{below} - 1));
    if (number) ids.push_back(static_cast<std::int32_t>(*number));
  };
  if (value->is_array()) {
    for (const auto& id : *value) add(id);
  } else {
    add(*value);
  }
  return ids;
}

}  // namespace dovetail::load
