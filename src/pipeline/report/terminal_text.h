#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// Text for terminals. Widths are in columns of the terminal: 2 for wide characters (East Asian,
// emoji), 0 for marks that combine, 1 for others.

struct TerminalStyle {
  std::size_t width = 80;  // of the terminal
  bool colour = false;
  bool unicode = true;  // false: ASCII only, but for what the data holds
};

// What a model or a file says, safe to be shown: valid UTF-8 without control characters (a line
// end becomes a space where `lines` is false), so that no text moves the cursor or sets colours.
std::string printable(std::string_view text, bool lines = false);

// Of printable text without line ends and escape sequences.
std::size_t display_width(std::string_view text);
// At most so wide; what is cut ends in "…" (in "." without unicode).
std::string shorten(std::string_view text, std::size_t width, bool unicode = true);
// Filled with spaces behind or in front; longer text stays as it is.
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);
// Lines of at most `width`, broken at spaces where there are any; line ends of the text stay.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

// 1234567 -> "1,234,567".
std::string grouped(std::uint64_t number);
// Three digits: "950", "1.23k", "45.6M".
std::string compact(double number);
// "0.4s", "12s", "3m14s", "2h05m", "3d04h".
std::string duration_text(std::chrono::microseconds duration);
// 1e-9 of a currency: "0", "0.000012", "0.0123", "4.21", "1,234.50".
std::string cost_text(std::uint64_t nano);
// "12.3%".
std::string percent_text(std::uint64_t part, std::uint64_t whole);

}  // namespace dovetail::pipeline
