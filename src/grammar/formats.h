#pragma once

#include <string_view>

namespace dovetail::grammar {

// What a "format" asserts: that strings match a regular expression as a whole, or the bounds of
// numbers.
struct Format {
  std::string_view name;
  std::string_view pattern;  // empty: of numbers
  std::string_view low;      // whole numbers in decimal; empty: no bound
  std::string_view high;
};

// Null: an annotation, as the specification has it of formats that are not known.
const Format* find_format(std::string_view name);

}  // namespace dovetail::grammar
