#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tl/expected.hpp>

namespace dovetail {

// A value of JSON as a field wants it, or what would be valid, in words: "an integer from 1 to 9".
template <class T>
using Wanted = tl::expected<T, std::string>;

// Of numbers, finite. Messages have the bounds as a Bound is written.
template <class Bound>
struct RangeOf {
  Bound least = 0;
  Bound most = 0;
  bool least_excluded = false;
};
using NumberRange = RangeOf<double>;

// What each room reads of JSON, YAML as JSON among it, goes through these; it says itself where the
// value stands. Json: nlohmann's, with objects in either order.
template <class Json>
Wanted<std::int64_t> as_integer(const Json& value, std::int64_t least, std::int64_t most) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool is_held = value.is_number_integer() && (!value.is_number_unsigned() ||
                                                     value.template get<std::uint64_t>() <= kMost);
  if (is_held) {
    const auto number = value.template get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  return tl::make_unexpected(fmt::format("an integer from {} to {}", least, most));
}

// A finite number. Judged as the float or double that will be used: what rounds to an excluded
// bound is out.
template <class Number, class Json, class Bound = double>
Wanted<Number> as_number(const Json& value, const RangeOf<Bound>& range) {
  if (value.is_number()) {
    const auto number = value.template get<Number>();
    const auto wide = static_cast<double>(number), least = static_cast<double>(range.least);
    const bool is_above = range.least_excluded ? wide > least : wide >= least;
    if (std::isfinite(number) && is_above && wide <= static_cast<double>(range.most)) return number;
  }
  return tl::make_unexpected(
      range.least_excluded
          ? fmt::format("a number above {} and at most {}", range.least, range.most)
          : fmt::format("a number from {} to {}", range.least, range.most));
}

template <class Json>
Wanted<bool> as_bool(const Json& value) {
  if (value.is_boolean()) return value.template get<bool>();
  return tl::make_unexpected(std::string("true or false"));
}

template <class Json>
Wanted<std::string> as_string(const Json& value) {
  if (value.is_string()) return value.template get<std::string>();
  return tl::make_unexpected(std::string("a string"));
}

}  // namespace dovetail
