#include <algorithm>
#include <array>
#include <cmath>

#include "pipeline/schema/schema_program.h"

namespace dovetail::pipeline {

std::uint8_t type_bit(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, SchemaTypes>, 7> kTypes = {{
      {"null", kNulls},
      {"boolean", kBooleans},
      {"integer", kIntegers},
      {"number", kNumbers},
      {"string", kStrings},
      {"array", kArrays},
      {"object", kObjects},
  }};
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& type) { return type.first == name; });
  return found == kTypes.end() ? std::uint8_t{0} : static_cast<std::uint8_t>(found->second);
}

std::uint8_t types_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return kNulls;
    case Json::value_t::boolean:
      return kBooleans;
    case Json::value_t::string:
      return kStrings;
    case Json::value_t::array:
      return kArrays;
    case Json::value_t::object:
      return kObjects;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return kIntegers | kNumbers;
    case Json::value_t::number_float: {
      const double number = value.get<double>();
      return std::floor(number) == number && std::isfinite(number)
                 ? static_cast<std::uint8_t>(kIntegers | kNumbers)
                 : std::uint8_t{kNumbers};
    }
    default:
      return 0;
  }
}

long double number_of(const Json& number) {
  if (number.is_number_unsigned()) return static_cast<long double>(number.get<std::uint64_t>());
  if (number.is_number_integer()) return static_cast<long double>(number.get<std::int64_t>());
  return number.get<double>();
}

bool same_value(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [name, member] : a.items()) {
      const auto found = b.find(name);
      if (found == b.end() || !same_value(member, *found)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_value);
  }
  // The library compares whole numbers with and without a sign by their bits.
  if (a.is_number() && b.is_number()) return number_of(a) == number_of(b);
  return a == b;
}

bool fits_alone(const SchemaNode& node, const Json& value) {
  const std::uint8_t types = types_of(value);
  if (node.fixed == false || (node.types && (*node.types & types) == 0)) return false;
  if ((types & kNumbers) != 0) {
    const long double number = number_of(value);
    if (node.minimum && number < number_of(*node.minimum)) return false;
    if (node.maximum && number > number_of(*node.maximum)) return false;
    if (node.exclusive_minimum && number <= number_of(*node.exclusive_minimum)) return false;
    if (node.exclusive_maximum && number >= number_of(*node.exclusive_maximum)) return false;
  }
  return true;
}

}  // namespace dovetail::pipeline
