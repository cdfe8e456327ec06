#include "pipeline/config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/near_match.h"

namespace dovetail::pipeline {

std::string shown(const Json& value) {
  constexpr std::size_t kMost = 80;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

Fields::Fields(const Document& document, const Json& value, std::string pointer)
    : document_(document), pointer_(std::move(pointer)) {
  if (value.is_object()) {
    object_ = &value;
  } else {
    note(pointer_, fmt::format("{} is no mapping of keys to values", shown(value)));
  }
}

const Json* Fields::find(std::string_view key) {
  known_.emplace_back(key);
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(std::string(key));
  if (found == object_->end() || found->is_null()) return nullptr;
  return &*found;
}

bool Fields::has(std::string_view key) const {
  if (object_ == nullptr) return false;
  const auto found = object_->find(std::string(key));
  return found != object_->end() && !found->is_null();
}

std::optional<std::string> Fields::text(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  wrong(key, "{} is no text", shown(*value));
  return std::nullopt;
}

std::string Fields::required_text(std::string_view key) {
  const auto value = text(key);
  if (!has(key) || (value && value->empty())) wrong(key, "expected a text here");
  return value.value_or("");
}

std::optional<bool> Fields::flag(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(key, "{} is neither true nor false", shown(*value));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t least,
                                            std::int64_t most) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() ||
                     value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)) &&
                    value->get<std::int64_t>() >= least && value->get<std::int64_t>() <= most;
  if (fits) return value->get<std::int64_t>();
  wrong(key, "{} is no whole number from {} to {}", shown(*value), least, most);
  return std::nullopt;
}

std::optional<double> Fields::real(std::string_view key, double least, double most,
                                   bool least_excluded) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const auto number = value->get<double>();
    const bool above = least_excluded ? number > least : number >= least;
    if (above && number <= most) return number;
  }
  wrong(key, "{} is no number {} {} to {}", shown(*value), least_excluded ? "above" : "from", least,
        most);
  return std::nullopt;
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
  wrong(key, "{} is no text and no list of texts", shown(*value));
  return std::nullopt;
}

std::optional<std::size_t> Fields::choice(std::string_view key,
                                          const std::vector<std::string>& names) {
  const auto value = text(key);
  if (!value) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), *value);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  wrong(key, "'{}' is none of {}", *value, fmt::join(names, ", "));
  return std::nullopt;
}

const Json* Fields::array(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_array()) return value;
  wrong(key, "{} is no list", shown(*value));
  return nullptr;
}

const Json* Fields::object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_object()) return value;
  wrong(key, "{} is no mapping of keys to values", shown(*value));
  return nullptr;
}

const Json* Fields::any(std::string_view key) { return find(key); }

void Fields::wrong(const Error& error) {
  Mistakes one;
  one.add(error);
  notes_.push_back({one.status(), std::nullopt});
}

void Fields::take(const Status& inside) {
  if (!inside) notes_.push_back({inside, std::nullopt});
}

void Fields::note(const std::string& pointer, std::string message,
                  std::optional<std::string> missing) {
  // Nothing is to be found in what is no object.
  if (object_ == nullptr && !notes_.empty()) return;
  wrong(Error{ErrorKind::kInvalid, document_.where(pointer) + std::move(message)});
  notes_.back().missing = std::move(missing);
}

void Fields::look_for_unknown(bool all_are_known) {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::vector<std::string> near = near_matches(key, known_);
    const std::size_t explained = std::erase_if(notes_, [&](const Note& note) {
      return note.missing && !near.empty() &&
             (note.missing->empty() ||
              std::find(near.begin(), near.end(), *note.missing) != near.end());
    });
    if (!all_are_known && explained == 0) continue;
    note(at(key), near.empty()
                      ? fmt::format("unknown key, expected one of {}", fmt::join(known_, ", "))
                      : fmt::format("unknown key, did you mean {}?", fmt::join(near, " or ")));
  }
}

Status Fields::finish(bool all_are_known) {
  if (!std::exchange(finished_, true) && object_ != nullptr) look_for_unknown(all_are_known);
  Mistakes all;
  for (const Note& note : notes_) all.add(note.what);
  return all.status();
}

}  // namespace dovetail::pipeline
