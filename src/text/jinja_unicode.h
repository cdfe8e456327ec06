#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::text::jinja {

// Strings of templates are UTF-8. A byte that belongs to no valid sequence counts as one code point
// (U+DC00 + byte, as Python's surrogateescape has it) and is written back as the same byte.

struct CodePoint {
  char32_t value;
  uint32_t size;  // bytes it takes in the text, at least 1
};

// The code point that starts at byte `at` (at < text.size()).
CodePoint decode(std::string_view text, size_t at);

void append_code_point(std::string& out, char32_t value);

// Number of code points.
size_t length(std::string_view text);

// Byte offset of every code point, and the text's size as the last element.
std::vector<uint32_t> offsets(std::string_view text);

// Python's str.isspace() for one code point.
bool is_space(char32_t value);
bool is_alpha(char32_t value);
// Python's str.isprintable() for one code point.
bool is_printable(char32_t value);

// Cases, one code point for one: unlike in Python ß becomes no SS, and a final Σ becomes σ.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
// The first letter in title case, the rest in lower case.
std::string to_capitalized(std::string_view text);
// Python's str.title(): every run of letters capitalized.
std::string to_title(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
// Without the code points of `characters` at its ends; an empty `characters` means white space.
std::string_view strip(std::string_view text, std::string_view characters, Side side);

// Python's str.splitlines().
std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace dovetail::text::jinja
