#include "pipeline/sample/sampler_convert.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;

constexpr std::array<double, 16> kPowers = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

double with_decimals(double whole, double power) {
  return whole == 0 ? 0 : whole / power;  // no negative zero
}

// The number with so many decimals that is nearest to x in one direction: below (-1), or above
// (+1). A large number times its power is rounded itself, so that the whole number nearest to the
// product may lie on the wrong side of x; the next one does not.
double beside(double x, int decimals, double direction) {
  const double near = round_decimals(x, decimals);
  if (!((near - x) * direction < 0)) return near;
  const double power = kPowers[static_cast<std::size_t>(decimals)];
  return with_decimals(std::nearbyint(x * power) + direction, power);
}

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

std::optional<ordered_json> to_int(const ordered_json& value) {
  if (value.is_number_integer()) return value;
  if (value.is_boolean()) return ordered_json(value.get<bool>() ? 1 : 0);
  std::optional<double> number;
  if (value.is_number_float()) number = value.get<double>();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    std::int64_t whole = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error == std::errc() && end == text.data() + text.size()) return ordered_json(whole);
    number = number_of(text);
  }
  if (!number || !(std::abs(*number) < 0x1p63)) return std::nullopt;
  return ordered_json(static_cast<std::int64_t>(std::nearbyint(*number)));
}

}  // namespace

double round_decimals(double x, int decimals) {
  const double power = kPowers[static_cast<std::size_t>(decimals)];
  const double scaled = x * power;
  return std::abs(scaled) < 0x1p53 ? with_decimals(std::nearbyint(scaled), power) : x;
}

double ceil_decimals(double x, int decimals) { return beside(x, decimals, 1); }

double floor_decimals(double x, int decimals) { return beside(x, decimals, -1); }

std::string category_key(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::optional<ordered_json> convert(const ordered_json& value, Conversion conversion) {
  switch (conversion) {
    case Conversion::kNone:
      return value;
    case Conversion::kInt:
      return to_int(value);
    case Conversion::kFloat:
      if (value.is_number()) return ordered_json(value.get<double>());
      if (value.is_boolean()) return ordered_json(value.get<bool>() ? 1.0 : 0.0);
      if (value.is_string()) {
        const auto number = number_of(value.get_ref<const std::string&>());
        if (number) return ordered_json(*number);
      }
      return std::nullopt;
    case Conversion::kString:
      return ordered_json(category_key(value));
    case Conversion::kBool:
      if (value.is_boolean()) return value;
      if (value.is_number()) return ordered_json(value.get<double>() != 0);
      if (value.is_string()) {
        const auto& text = value.get_ref<const std::string&>();
        if (text == "true" || text == "True" || text == "1") return ordered_json(true);
        if (text == "false" || text == "False" || text == "0") return ordered_json(false);
      }
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace dovetail::pipeline
