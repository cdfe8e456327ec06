#include "families/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dovetail::families {

Fields::Fields(const load::Container& container, const load::StoredTensors& tensors,
               std::string family, const nlohmann::json* text, std::string prefix)
    : file_(container.name),
      family_(std::move(family)),
      tensors_(tensors),
      described_(container.described) {
  if (const auto* gguf = std::get_if<load::GgufFile>(&container.configuration)) {
    gguf_.emplace(*gguf, file_);
  } else {
    json_.emplace(*text, file_, std::move(prefix));
    const auto& whole = *std::get<std::shared_ptr<const nlohmann::json>>(container.configuration);
    if (&whole != text) outer_.emplace(whole, file_);
  }
}

std::string Fields::gguf_key(std::string_view rest) {
  asked_.emplace_back(rest);
  return fmt::format("{}.{}", family_, rest);
}

std::string Fields::name(Key key) {
  const std::string_view rest = gguf() ? key.gguf : key.hf;
  if (rest.empty()) return {};
  if (gguf()) return gguf_key(rest);
  asked_.emplace_back(rest);
  return std::string(spelled(rest));
}

std::string_view Fields::spelled(std::string_view hf) const {
  const auto found = std::find_if(spellings_.begin(), spellings_.end(),
                                  [&](const auto& pair) { return pair.first == hf; });
  return found == spellings_.end() ? hf : found->second;
}

std::optional<std::uint32_t> Fields::supposed(Key key) const {
  if (gguf() || has(key) || is_null(key)) return std::nullopt;
  const auto found = std::find_if(supposed_.begin(), supposed_.end(),
                                  [&](const auto& pair) { return pair.first == key.hf; });
  return found == supposed_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<bool> Fields::outer_flag(std::string_view hf) {
  if (!outer_) return std::nullopt;
  const auto out = outer_->optional_bool(hf);
  take_failure(outer_->status());
  return out;
}

bool Fields::asked(Key key) const {
  return std::find(asked_.begin(), asked_.end(), gguf() ? key.gguf : key.hf) != asked_.end();
}

bool Fields::is_array(Key key) const {
  if (!gguf()) {
    const nlohmann::json* found = json_->find(spelled(key.hf));
    return found != nullptr && found->is_array();
  }
  return gguf_->is_array(fmt::format("{}.{}", family_, key.gguf));
}

bool Fields::is_null(Key key) const { return !gguf() && json_->is_null(spelled(key.hf)); }

bool Fields::has(Key key) const {
  const std::string_view rest = gguf() ? key.gguf : key.hf;
  if (rest.empty()) return false;
  return gguf() ? gguf_->has(fmt::format("{}.{}", family_, rest)) : json_->has(spelled(rest));
}

const load::StoredTensor* Fields::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::uint32_t Fields::required_count(Key key, std::uint32_t low, std::uint32_t high) {
  if (const auto usual = supposed(key)) return *usual;
  return gguf() ? gguf_->required_count(name(key), low, high)
                : json_->required_count(name(key), low, high);
}

std::optional<std::uint32_t> Fields::count(Key key, std::uint32_t low, std::uint32_t high) {
  const std::string field = name(key);
  if (field.empty()) return std::nullopt;
  return gguf() ? gguf_->optional_count(field, low, high) : json_->optional_count(field, low, high);
}

std::uint32_t Fields::required_uniform(Key key, std::uint32_t low, std::uint32_t high) {
  const auto value = uniform(key, low, high);
  if (!value) {
    reject(key, "missing", fmt::format("an integer from {} to {}", low, high), ErrorKind::kInvalid);
  }
  return value.value_or(0);
}

std::optional<std::uint32_t> Fields::uniform(Key key, std::uint32_t low, std::uint32_t high) {
  const std::string field = name(key);
  if (field.empty()) return std::nullopt;
  if (const auto usual = supposed(key)) return usual;
  return gguf() ? gguf_->optional_uniform_count(field, low, high)
                : json_->optional_count(field, low, high);
}

float Fields::required_number(Key key, float low, float high) {
  const auto value = number(key, low, high);
  if (!value) {
    reject(key, "missing",
           fmt::format("a {} from {} to {}", gguf() ? "float" : "number", low, high),
           ErrorKind::kInvalid);
  }
  return value.value_or(low);
}

std::optional<float> Fields::number(Key key, float low, float high) {
  const std::string field = name(key);
  if (field.empty()) return std::nullopt;
  return gguf() ? gguf_->optional_float(field, low, high) : json_->optional_float(field, low, high);
}

std::optional<bool> Fields::flag(Key key) {
  const std::string field = name(key);
  if (field.empty()) return std::nullopt;
  return gguf() ? gguf_->optional_bool(field) : json_->optional_bool(field);
}

std::optional<std::string> Fields::text(Key key) {
  const std::string field = name(key);
  if (field.empty()) return std::nullopt;
  if (!gguf()) return json_->optional_string(field);
  const auto text = gguf_->optional_string(field);
  if (!text) return std::nullopt;
  return std::string(*text);
}

const nlohmann::json* Fields::member(std::string_view hf) {
  if (gguf()) return nullptr;
  asked_.emplace_back(hf);
  return json_->find(spelled(hf));
}

std::vector<std::uint32_t> Fields::counts(Key key, std::size_t layers, std::uint32_t high) {
  const std::string field = name(key);
  if (!gguf() || field.empty()) return {};
  std::vector<std::uint32_t> out = gguf_->counts(field, layers, high);
  if (!out.empty() && out.size() < layers) {
    reject(key, fmt::format("{} values", out.size()),
           fmt::format("one for each of {} layers", layers), ErrorKind::kInvalid);
  }
  return out;
}

std::vector<bool> Fields::flags(Key key, std::size_t layers) {
  std::vector<bool> out;
  const std::string field = name(key);
  if (field.empty()) return out;
  if (gguf()) {
    out = gguf_->bools(field);
    if (!out.empty() && out.size() < layers) {
      reject(key, fmt::format("{} values", out.size()),
             fmt::format("one for each of {} layers", layers), ErrorKind::kInvalid);
    }
    return out;
  }
  const nlohmann::json* list = json_->find(field);
  if (list == nullptr) return out;
  if (!list->is_array() || list->size() < layers) {
    reject(key, load::text_of(*list), fmt::format("a list of {} values", layers),
           ErrorKind::kInvalid);
    return out;
  }
  for (const nlohmann::json& value : *list) {
    if (!value.is_boolean() && value != 0 && value != 1) {
      reject(key, load::text_of(value), "0 or 1", ErrorKind::kInvalid);
      return {};
    }
    out.push_back(value.is_boolean() ? value.get<bool>() : value == 1);
  }
  return out;
}

void Fields::reject(Key key, std::string_view value, std::string_view valid, ErrorKind kind) {
  if (error_) return;
  if (gguf()) {
    gguf_->reject(fmt::format("{}.{}", family_, key.gguf), value, valid, kind);
  } else {
    json_->reject(spelled(key.hf), value, valid, kind);
  }
}

void Fields::take_failure(const Status& status) {
  if (!error_ && this->status() && !status) error_ = status.error();
}

Status Fields::status() const {
  if (error_) return fail(*error_);
  return gguf() ? gguf_->status() : json_->status();
}

}  // namespace dovetail::families
