#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::text {

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;  // bytes it takes, 1 to 4
};

// The code point at byte `at` of valid UTF-8; at < text.size().
CodePoint code_point_at(std::string_view text, std::size_t at);

void append_utf8(std::string& out, char32_t value);
std::string to_utf8(char32_t value);
std::u32string to_utf32(std::string_view valid);

// Whether `text` is valid UTF-8 (Unicode 15, table 3-7).
bool is_valid_utf8(std::string_view text);

// `text` with every maximal ill-formed part replaced by U+FFFD (Unicode 15, section 3.9), as
// Python's bytes.decode(errors="replace") and Rust's String::from_utf8_lossy do.
std::string repair_utf8(std::string_view text);

// How many bytes at the end of `text` may still become a character.
std::size_t unfinished_size(std::string_view text);

// repair_utf8() of bytes that come in portions. What may still become a character is held back.
class Utf8Repair {
 public:
  // Appends the text that is certain now to `out`.
  void push(std::string_view bytes, std::string& out);
  // Ends the text: an unfinished character becomes U+FFFD.
  void finish(std::string& out);

 private:
  std::array<char, 4> held_{};
  std::size_t held_size_ = 0;
};

// Unicode's White_Space property, what Rust's char::is_whitespace() and Oniguruma's \s go by.
bool is_white_space(char32_t value);
// General categories.
bool is_number(char32_t value);              // N
bool is_mark(char32_t value);                // M
bool is_nonspacing_mark(char32_t value);     // Mn
bool is_control_or_private(char32_t value);  // Cc, Cf, Co
bool is_punctuation(char32_t value);         // P, and the ASCII symbols
// What \w matches: letters, marks, decimal digits, connector punctuation and other alphabetics.
bool is_word(char32_t value);

}  // namespace dovetail::text
