#include "pipeline/sample/csv_types.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace dovetail::pipeline {
namespace {

// [-] digits without a leading zero [. digits] [e [+-] digits]. `whole`: without the latter two.
bool is_json_number(std::string_view text, bool& whole) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - start;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const std::size_t first = at;
  const std::size_t count = digits();
  if (count == 0 || (count > 1 && text[first] == '0')) return false;
  whole = at == text.size();
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

std::optional<std::int64_t> int_in(const std::string& field) {
  bool whole = false;
  if (!is_json_number(field, whole) || !whole) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> number_in(const std::string& field) {
  bool whole = false;
  if (!is_json_number(field, whole)) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> truth_in(const std::string& field) {
  if (field == "true" || field == "True" || field == "TRUE") return true;
  if (field == "false" || field == "False" || field == "FALSE") return false;
  return std::nullopt;
}

}  // namespace

void TypeGuess::see(const std::string& field) {
  if (field.empty()) return;
  seen_ = true;
  if (int_) int_ = int_in(field).has_value();
  if (number_ && !int_) number_ = number_in(field).has_value();
  if (truth_) truth_ = truth_in(field).has_value();
}

SeedType TypeGuess::type() const {
  if (!seen_) return SeedType::kString;
  if (int_) return SeedType::kInt;
  if (number_) return SeedType::kFloat;
  return truth_ ? SeedType::kBool : SeedType::kString;
}

std::optional<nlohmann::ordered_json> typed_field(const std::string& field, SeedType type) {
  using nlohmann::ordered_json;
  if (type == SeedType::kString) return ordered_json(field);
  if (field.empty()) return ordered_json();
  if (type == SeedType::kInt) {
    const auto value = int_in(field);
    return value ? std::optional<ordered_json>(*value) : std::nullopt;
  }
  if (type == SeedType::kFloat) {
    const auto value = number_in(field);
    return value ? std::optional<ordered_json>(*value) : std::nullopt;
  }
  const auto value = truth_in(field);
  return value ? std::optional<ordered_json>(*value) : std::nullopt;
}

}  // namespace dovetail::pipeline
