#include "serve/json_input.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace dovetail::serve {
namespace {

tl::unexpected<ApiError> bad_json(std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.code = "invalid_json";
  return tl::unexpected<ApiError>(std::move(error));
}

// Bounds what the parser below may build, in one pass over the bytes. Knows only strings and
// brackets: what is malformed in any other way is left to the parser.
class Scan {
 public:
  explicit Scan(std::string_view body) : body_(body) {}

  std::optional<std::string> problem() {
    for (; at_ < body_.size(); ++at_) {
      const char c = body_[at_];
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        if (depth_ == kMaxJsonDepth) {
          return fmt::format("the body nests deeper than {} levels at byte {}", kMaxJsonDepth, at_);
        }
        levels_[static_cast<std::size_t>(depth_++)] = Level{c == '{', 1};
      } else if (c == '}' || c == ']') {
        if (depth_ > 0) --depth_;
      } else if (c == ',' && depth_ > 0) {
        Level& level = levels_[static_cast<std::size_t>(depth_ - 1)];
        if (level.is_object && ++level.members > kMaxJsonMembers) {
          return fmt::format("an object of the body has more than {} members at byte {}",
                             kMaxJsonMembers, at_);
        }
      }
    }
    return std::nullopt;
  }

 private:
  struct Level {
    bool is_object = false;
    int members = 1;
  };

  void skip_string() {
    for (++at_; at_ < body_.size() && body_[at_] != '"'; ++at_) {
      if (body_[at_] == '\\') ++at_;
    }
  }

  std::string_view body_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::array<Level, kMaxJsonDepth> levels_;
};

constexpr std::size_t kEscapeSize = 6;  // of "\\ud83d"

// The half of a surrogate pair that the escape at `at` is: 0xD8 the first, 0xDC the second; else 0.
int surrogate_at(std::string_view text, std::size_t at) {
  if (text.size() - at < kEscapeSize || text[at] != '\\' || text[at + 1] != 'u') return 0;
  if (text[at + 2] != 'd' && text[at + 2] != 'D') return 0;
  for (std::size_t i = at + 2; i < at + kEscapeSize; ++i)
    if (std::isxdigit(static_cast<unsigned char>(text[i])) == 0) return 0;
  const char half = text[at + 3];
  if (half < '8') return 0;
  const bool first =
      half == '8' || half == '9' || half == 'a' || half == 'A' || half == 'b' || half == 'B';
  return first ? 0xD8 : 0xDC;
}

// The body with U+FFFD in place of halves of surrogate pairs that stand alone, which clients send
// that cut strings anywhere. Nothing: there are none. Every byte keeps its place.
std::optional<std::string> without_lone_surrogates(std::string_view body) {
  std::optional<std::string> out;
  for (std::size_t at = body.find('\\'); at != std::string_view::npos && at + 1 < body.size();
       at = body.find('\\', at)) {
    const int half = surrogate_at(body, at);
    if (half == 0) {
      at += 2;  // with what is escaped, which may be a backslash
      continue;
    }
    const bool pair = half == 0xD8 && surrogate_at(body, at + kEscapeSize) == 0xDC;
    if (!pair) {
      if (!out) out = std::string(body);
      out->replace(at, kEscapeSize, "\\ufffd");
    }
    at += pair ? 2 * kEscapeSize : kEscapeSize;
  }
  return out;
}

// Looks at the keys of all objects as the parser has decoded them, whatever their spelling: the
// parser itself keeps the last of equal ones.
class DuplicateKeys {
 public:
  // A callback of Json::parse().
  bool operator()(int /*depth*/, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      objects_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      objects_.pop_back();
    } else if (event == Json::parse_event_t::key && !found_) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!objects_.back().insert(key).second) found_ = key;
    }
    return true;
  }

  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::set<std::string>> objects_;  // the keys so far of those that are open
  std::optional<std::string> found_;
};

}  // namespace

Outcome<Json> parse_body(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return bad_json("the body is empty; expected a JSON object");
  }
  if (auto problem = Scan(body).problem()) return bad_json(std::move(*problem));
  const std::optional<std::string> replaced = without_lone_surrogates(body);
  if (replaced) body = *replaced;
  try {
    DuplicateKeys keys;
    Json json = Json::parse(body.begin(), body.end(), std::ref(keys));
    if (keys.found()) {
      return bad_json(fmt::format("the field {} appears twice in one object; expected it once",
                                  shown(Json(*keys.found()))));
    }
    if (!json.is_object()) {
      return bad_json(fmt::format("the body is {}; expected a JSON object", json.type_name()));
    }
    return json;
  } catch (const Json::parse_error& e) {
    return bad_json(fmt::format("the body is not valid JSON in UTF-8: error at byte {} of {}",
                                std::min(e.byte, body.size()), body.size()));
  } catch (const Json::exception&) {  // a number that no double can hold
    return bad_json("the body is not valid JSON: a number is out of range");
  }
}

std::string shown(const Json& value) {
  constexpr std::size_t kMaxShown = 60;
  if (value.is_array()) return fmt::format("an array of {} elements", value.size());
  if (value.is_object()) return fmt::format("an object of {} members", value.size());
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > kMaxShown)
      return Json(text.substr(0, kMaxShown)).dump(-1, ' ', false, Json::error_handler_t::ignore) +
             "...";
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_one_of(const Json& value, std::span<const std::string_view> texts) {
  const auto* text = value.get_ptr<const std::string*>();
  return text != nullptr && std::find(texts.begin(), texts.end(), *text) != texts.end();
}

Json shortest(float number) { return Json::parse(fmt::format("{}", number)); }

namespace {

// `is_kind`: the value is of the kind that is wanted, whatever its range.
template <class T>
Outcome<T> outcome(std::string_view field, const Json& value, Wanted<T> wanted,
                   bool is_kind = false) {
  if (wanted) return *std::move(wanted);
  if (is_kind)
    return bad_field(field, "{} is out of range; expected {}", shown(value), wanted.error());
  return bad_field(field, "expected {}, got {}", wanted.error(), shown(value));
}

}  // namespace

Outcome<bool> read_bool(std::string_view field, const Json& value) {
  return outcome(field, value, as_bool(value));
}

Outcome<std::int64_t> read_integer(std::string_view field, const Json& value, std::int64_t least,
                                   std::int64_t most) {
  // Some clients write 4 as 4.0.
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::abs(number) <= kExact && number == std::trunc(number))
      return read_integer(field, Json(static_cast<std::int64_t>(number)), least, most);
  }
  return outcome(field, value, as_integer(value, least, most), value.is_number_integer());
}

Outcome<std::string> read_string(std::string_view field, const Json& value) {
  return outcome(field, value, as_string(value));
}

Outcome<float> read_number(std::string_view field, const Json& value, const NumberRange& range) {
  return outcome(field, value, as_number<float>(value, range), value.is_number());
}

Outcome<std::vector<std::int32_t>> read_token_ids(std::string_view field, const Json& value,
                                                  std::uint32_t vocab_size, std::size_t most) {
  if (!value.is_array()) {
    return bad_field(field, "expected an array of token ids, got {}", shown(value));
  }
  if (value.size() > most) {
    return bad_field(field, "{} token ids are too many; expected at most {}", value.size(), most);
  }
  std::vector<std::int32_t> ids;
  ids.reserve(value.size());
  for (const Json& element : value) {
    auto id = read_integer(fmt::format("{}[{}]", field, ids.size()), element, 0,
                           static_cast<std::int64_t>(vocab_size) - 1);
    if (!id) return tl::unexpected<ApiError>(std::move(id.error()));
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

}  // namespace dovetail::serve
