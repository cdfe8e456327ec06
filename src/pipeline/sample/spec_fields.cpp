#include "pipeline/sample/spec_fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "pipeline/sample/mistakes.h"

namespace dovetail::pipeline {

using nlohmann::ordered_json;

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

std::string text_of(const ordered_json& value) {
  constexpr std::size_t kLongest = 60;
  if (value.is_structured() && value.size() > 20) {
    return fmt::format("{} of {}", value.is_array() ? "an array" : "an object", value.size());
  }
  std::string text = value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

tl::unexpected<Error> invalid_field(std::string_view pointer, const ordered_json& value,
                                    std::string_view valid) {
  return fail(ErrorKind::kInvalid, "{}: {}; valid: {}", pointer.empty() ? "/" : pointer,
              text_of(value), valid);
}

SpecFields::SpecFields(const ordered_json& object, std::string pointer)
    : object_(object), pointer_(std::move(pointer)) {
  if (object_.is_object()) return;
  failures_.emplace_back().what.add(invalid_field(pointer_, object_, "an object").value());
}

const ordered_json* SpecFields::find(std::string_view key) {
  known_.emplace_back(key);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const ordered_json* SpecFields::require(std::string_view key, std::string_view valid) {
  const ordered_json* value = find(key);
  if (value == nullptr) {
    note(key, fail(ErrorKind::kInvalid, "{}: missing; valid: {}", pointer(key), valid).value(),
         true);
  }
  return value;
}

void SpecFields::note(std::string_view key, const Error& error, bool missing) {
  if (!object_.is_object() || failed(key)) return;
  Failure& failure = failures_.emplace_back();
  failure.key = key;
  failure.what.add(error);
  failure.missing = missing;
}

void SpecFields::reject(std::string_view key, std::string_view valid) {
  if (!object_.is_object()) return;
  const auto found = object_.find(key);
  const ordered_json missing;
  note(key, invalid_field(pointer(key), found == object_.end() ? missing : *found, valid).value());
}

void SpecFields::take(std::string_view key, const Error& failure) { note(key, failure); }

void SpecFields::take(std::string_view key, const Status& several) {
  if (several || failed(key)) return;
  Failure& failure = failures_.emplace_back();
  failure.key = key;
  failure.what.add(several);
}

bool SpecFields::failed(std::string_view key) const {
  return std::any_of(failures_.begin(), failures_.end(),
                     [&](const Failure& failure) { return failure.key == key; });
}

std::optional<double> SpecFields::optional_number(std::string_view key, double low, double high) {
  const ordered_json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (number >= low && number <= high) return number;
  if (std::isinf(high)) {
    reject(key, std::isinf(low) ? "a number" : fmt::format("a number of at least {}", low));
  } else {
    reject(key, fmt::format("a number from {} to {}", low, high));
  }
  return std::nullopt;
}

double SpecFields::number(std::string_view key, double low, double high) {
  if (require(key, "a number") == nullptr) return 0;
  return optional_number(key, low, high).value_or(0);
}

std::optional<std::int64_t> SpecFields::optional_integer(std::string_view key, std::int64_t low,
                                                         std::int64_t high) {
  const ordered_json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() || value->get<std::uint64_t>() <= std::uint64_t{INT64_MAX}) &&
      value->get<std::int64_t>() >= low && value->get<std::int64_t>() <= high;
  if (fits) return value->get<std::int64_t>();
  reject(key, fmt::format("an integer from {} to {}", low, high));
  return std::nullopt;
}

std::int64_t SpecFields::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  if (require(key, "an integer") == nullptr) return 0;
  return optional_integer(key, low, high).value_or(0);
}

bool SpecFields::boolean(std::string_view key, bool otherwise) {
  const ordered_json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  reject(key, "true or false");
  return otherwise;
}

std::optional<std::string> SpecFields::optional_string(std::string_view key) {
  const ordered_json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  reject(key, "a string");
  return std::nullopt;
}

std::string SpecFields::string(std::string_view key) {
  if (require(key, "a string") == nullptr) return {};
  return optional_string(key).value_or(std::string());
}

std::vector<std::string> SpecFields::optional_strings(std::string_view key) {
  const ordered_json* value = find(key);
  std::vector<std::string> strings;
  if (value == nullptr) return strings;
  if (!value->is_array() || value->empty()) {
    reject(key, "a list of strings");
    return strings;
  }
  for (const ordered_json& item : *value) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      reject(key, "a list of strings that are not empty");
      return {};
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::optional<std::size_t> SpecFields::optional_choice(std::string_view key,
                                                       std::span<const std::string_view> names) {
  const ordered_json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string name = value->is_string() ? value->get<std::string>() : text_of(*value);
  const auto found = std::find(names.begin(), names.end(), name);
  if (value->is_string() && found != names.end()) {
    return static_cast<std::size_t>(found - names.begin());
  }
  note(key, fail(ErrorKind::kInvalid, "{}: {}; {}", pointer(key), text_of(*value),
                 valid_names(name, names))
                .value());
  return std::nullopt;
}

std::size_t SpecFields::choice(std::string_view key, std::span<const std::string_view> names) {
  if (require(key, valid_names("", names).substr(std::string_view("valid: ").size())) == nullptr) {
    return 0;
  }
  return optional_choice(key, names).value_or(0);
}

Status SpecFields::finish() {
  Mistakes all;
  Mistakes unknown;
  if (object_.is_object()) {
    std::vector<std::string> known = known_;
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    const std::vector<std::string_view> names(known.begin(), known.end());
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string_view near = near_match(key, names);
      std::erase_if(failures_, [&](const Failure& failure) {
        return failure.missing && !near.empty() && failure.key == near;
      });
      unknown.add(
          fail(ErrorKind::kInvalid, "{}: unknown key; {}", pointer(key), valid_names(key, known))
              .value());
    }
  }
  for (const Failure& failure : failures_) all.add(failure.what.status());
  all.add(unknown.status());
  return all.status();
}

}  // namespace dovetail::pipeline
