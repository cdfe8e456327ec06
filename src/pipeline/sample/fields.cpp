#include "pipeline/sample/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/near_match.h"

namespace dovetail::pipeline {
namespace {

// "POINTER: "
std::string before_message(std::string_view pointer) {
  return fmt::format("{}: ", pointer.empty() ? "/" : pointer);
}

}  // namespace

std::string pointer_to(std::string_view pointer, std::string_view key) {
  std::string text(pointer);
  text += '/';
  for (const char c : key) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += c;
    }
  }
  return text;
}

std::string pointer_to(std::string_view pointer, std::size_t index) {
  return fmt::format("{}/{}", pointer, index);
}

std::string shown(const Json& value) {
  constexpr std::size_t kMost = 80;  // bytes
  constexpr std::size_t kMostMembers = 20;
  if (value.is_structured() && value.size() > kMostMembers) {
    return fmt::format("{} of {}", value.is_array() ? "an array" : "an object", value.size());
  }
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

tl::unexpected<Error> invalid_field(std::string_view pointer, const Json& value,
                                    std::string_view valid) {
  return fail(ErrorKind::kInvalid, "{}{}; valid: {}", before_message(pointer), shown(value), valid);
}

Fields::Fields(const Json& object, std::string pointer)
    : object_(object), pointer_(std::move(pointer)) {
  if (!object_.is_object()) wrong("", "{}; valid: an object", shown(object_));
}

Fields::Fields(const Places& places, const Json& object, std::string pointer)
    : places_(&places), object_(object), pointer_(std::move(pointer)) {
  if (!object_.is_object()) wrong("", "{}; valid: an object", shown(object_));
}

std::string Fields::where(std::string_view pointer) const {
  return places_ != nullptr ? places_->where(pointer) : before_message(pointer);
}

const Json* Fields::find(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return has(key) ? &*object_.find(key) : nullptr;
}

bool Fields::has(std::string_view key) const {
  if (!object_.is_object()) return false;
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

bool Fields::failed(std::string_view key) const {
  return std::any_of(notes_.begin(), notes_.end(),
                     [&](const Note& note) { return note.key == key; });
}

void Fields::note(std::string_view key, std::string message) {
  // Nothing is to be found in what is no object.
  if (!object_.is_object() && !notes_.empty()) return;
  Note& added = notes_.emplace_back(Note{std::string(key), key.empty() || !has(key), {}});
  added.what.add(Error{ErrorKind::kInvalid, std::move(message)});
}

void Fields::reject(std::string_view key, std::string_view valid) {
  if (failed(key)) return;
  wrong(key, "{}; valid: {}", has(key) ? shown(object_.at(std::string(key))) : "missing", valid);
}

void Fields::wrong(const Error& error) { notes_.emplace_back().what.add(error); }

void Fields::take(const Status& inside) {
  if (!inside) notes_.emplace_back().what.add(inside);
}

void Fields::take(std::string_view key, const Error& failure) { take(key, Status(fail(failure))); }

void Fields::take(std::string_view key, const Status& several) {
  if (several || failed(key) || !object_.is_object()) return;
  notes_.emplace_back(Note{std::string(key), false, {}}).what.add(several);
}

template <class T>
std::optional<T> Fields::kept(std::string_view key, const Json& value, Wanted<T> wanted) {
  if (wanted) return *std::move(wanted);
  if (!failed(key)) wrong(key, "{}; valid: {}", shown(value), wanted.error());
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t least,
                                            std::int64_t most) {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : kept(key, *value, as_integer(*value, least, most));
}

std::optional<double> Fields::number(std::string_view key, const NumberRange& range) {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : kept(key, *value, as_number<double>(*value, range));
}

std::optional<double> Fields::number_of_float(std::string_view key, const NumberRange& range) {
  const Json* value = find(key);
  if (value == nullptr || !kept(key, *value, as_number<float>(*value, range))) return std::nullopt;
  return value->get<double>();
}

std::optional<bool> Fields::flag(std::string_view key) {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : kept(key, *value, as_bool(*value));
}

std::optional<std::string> Fields::text(std::string_view key) {
  const Json* value = find(key);
  return value == nullptr ? std::nullopt : kept(key, *value, as_string(*value));
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> result;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (value->is_array() && std::all_of(value->begin(), value->end(),
                                       [](const Json& item) { return item.is_string(); })) {
    for (const Json& item : *value) result.push_back(item.get<std::string>());
    return result;
  }
  reject(key, "a string or a list of strings");
  return std::nullopt;
}

std::vector<std::string> Fields::list(std::string_view key) {
  const Json* value = array(key);
  if (value == nullptr) return {};
  std::vector<std::string> result;
  for (const Json& item : *value) {
    if (item.is_string()) result.push_back(item.get<std::string>());
    if (result.empty() || !item.is_string() || result.back().empty()) break;
  }
  if (!result.empty() && result.size() == value->size() && !result.back().empty()) return result;
  reject(key, "a list of at least one string, none of them empty");
  return {};
}

std::optional<std::size_t> Fields::choice(std::string_view key,
                                          std::span<const std::string_view> names) {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), *value);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  wrong(key, "{}; {}", shown(Json(*value)), valid_names(*value, names));
  return std::nullopt;
}

std::optional<std::size_t> Fields::choice(std::string_view key,
                                          const std::vector<std::string>& names) {
  return choice(key, std::vector<std::string_view>(names.begin(), names.end()));
}

const Json* Fields::array(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_array()) return value;
  reject(key, "a list");
  return nullptr;
}

const Json* Fields::object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_object()) return value;
  reject(key, "an object");
  return nullptr;
}

const Json* Fields::require(std::string_view key, std::string_view valid) {
  const Json* value = find(key);
  if (value == nullptr) reject(key, valid);
  return value;
}

std::int64_t Fields::required_integer(std::string_view key, std::int64_t least, std::int64_t most) {
  if (require(key, "an integer") == nullptr) return 0;
  return integer(key, least, most).value_or(0);
}

double Fields::required_number(std::string_view key, const NumberRange& range) {
  if (require(key, "a number") == nullptr) return 0;
  return number(key, range).value_or(0);
}

std::size_t Fields::required_choice(std::string_view key, std::span<const std::string_view> names) {
  const std::string valid = valid_names("", names);
  if (require(key, std::string_view(valid).substr(std::string_view("valid: ").size())) == nullptr) {
    return 0;
  }
  return choice(key, names).value_or(0);
}

std::string Fields::required_text(std::string_view key, std::string_view valid) {
  auto value = text(key);
  if (!value || value->empty()) reject(key, valid);
  return value ? *std::move(value) : std::string();
}

void Fields::look_for_unknown(bool all_are_known) {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::vector<std::string> near = near_matches(key, known_);
    const std::size_t explained = std::erase_if(notes_, [&](const Note& note) {
      return note.missing && !near.empty() &&
             (note.key.empty() || std::find(near.begin(), near.end(), note.key) != near.end());
    });
    if (!all_are_known && explained == 0) continue;
    if (near.empty()) {
      wrong(key, "unknown key, expected one of {}", fmt::join(known_, ", "));
    } else {
      wrong(key, "unknown key, did you mean {}?", fmt::join(near, " or "));
    }
  }
}

Status Fields::finish(bool all_are_known) {
  if (!std::exchange(finished_, true) && object_.is_object()) look_for_unknown(all_are_known);
  Mistakes all;
  for (const Note& note : notes_) all.add(note.what.status());
  return all.status();
}

}  // namespace dovetail::pipeline
