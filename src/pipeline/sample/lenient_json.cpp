#include "pipeline/sample/lenient_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

// A pair of quotes, and what its use is called.
struct Quotes {
  std::string_view opening, closing;
  std::string_view repair;  // empty: as it should be
};
constexpr std::array<Quotes, 4> kQuotes = {{{"\"", "\"", ""},
                                            {"'", "'", "single quotes"},
                                            {"\u201C", "\u201D", "typographic quotes"},
                                            {"\u2018", "\u2019", "typographic quotes"}}};

const Quotes* quotes_at(std::string_view text) {
  for (const Quotes& quotes : kQuotes) {
    if (text.starts_with(quotes.opening)) return &quotes;
  }
  return nullptr;
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool LenientJson::fail_with(std::string message) {
  if (error_.empty()) error_ = std::move(message);
  return false;
}

void LenientJson::repaired(std::string_view what) {
  if (std::find(repairs_.begin(), repairs_.end(), what) == repairs_.end()) {
    repairs_.emplace_back(what);
  }
}

std::optional<Json> LenientJson::read() {
  Json value;
  skip_space();
  if (!read_value(value, 1)) return std::nullopt;
  return value;
}

void LenientJson::skip_space() {
  while (!end()) {
    if (std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) {
      ++at_;
    } else if (starts("//")) {
      repaired("comment");
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (starts("/*")) {
      repaired("comment");
      const auto close = text_.find("*/", at_ + 2);
      at_ = close == std::string_view::npos ? text_.size() : close + 2;
    } else {
      return;
    }
  }
}

bool LenientJson::read_value(Json& out, int depth) {
  if (end()) return fail_with("the text ends where a value is due");
  if (depth > kDeepest) return fail_with(fmt::format("values nested more than {} deep", kDeepest));
  const char c = peek();
  if (c == '{') return read_object(out, depth);
  if (c == '[') return read_array(out, depth);
  if (const Quotes* quotes = quotes_at(text_.substr(at_))) {
    if (!quotes->repair.empty()) repaired(quotes->repair);
    at_ += quotes->opening.size();
    std::string text;
    if (!read_string(text, quotes->closing, false)) return false;
    out = std::move(text);
    return true;
  }
  if (is_digit(c) || c == '-' || c == '+' || c == '.') return read_number(out);
  if (is_letter(c)) return read_word(out);
  return fail_with("no value");
}

void LenientJson::close() { open_.pop_back(); }

// What follows a member or an element: a comma or the end of the object or array.
bool LenientJson::read_separator(bool& closed) {
  const char closing = open_.back();
  closed = true;
  bool comma = false;
  for (;;) {
    skip_space();
    if (end()) {
      repaired("missing closing bracket");
      close();
      return true;
    }
    if (peek() == closing) {
      if (comma) repaired("trailing comma");
      ++at_;
      close();
      return true;
    }
    if (peek() != ',') break;
    if (comma) repaired("doubled comma");
    comma = true;
    ++at_;
  }
  if (peek() == '}' || peek() == ']') {
    // The bracket of an outer value: this one's is missing. It is left for the outer one.
    if (open_.find(peek()) == std::string::npos) return fail_with("a bracket that nothing opened");
    repaired("missing closing bracket");
    close();
    return true;
  }
  closed = false;
  if (comma) return true;
  const char c = peek();
  const bool value_follows = quotes_at(text_.substr(at_)) != nullptr || c == '{' || c == '[' ||
                             is_digit(c) || c == '-' || is_letter(c);
  if (!value_follows) return fail_with("no comma and no closing bracket");
  repaired("missing comma");
  return true;
}

bool LenientJson::read_object(Json& out, int depth) {
  ++at_;
  open_ += '}';
  out = Json::object();
  skip_space();
  if (!end() && peek() == '}') {
    ++at_;
    close();
    return true;
  }
  for (bool closed = false; !closed;) {
    skip_space();
    if (end()) return read_separator(closed);
    std::string key;
    if (!read_key(key)) return false;
    skip_space();
    if (end()) {
      repaired("cut-off member dropped");
      return read_separator(closed);
    }
    if (peek() != ':') return fail_with("no colon behind a key");
    ++at_;
    skip_space();
    if (end()) {
      repaired("cut-off member dropped");
      return read_separator(closed);
    }
    Json value;
    if (!read_value(value, depth + 1)) return false;
    // A linear search for every key would be quadratic: the number of members is bounded.
    constexpr std::size_t kMostKeys = 4096;
    if (out.size() >= kMostKeys) {
      return fail_with(fmt::format("more than {} keys in one object", kMostKeys));
    }
    out[key] = std::move(value);
    if (!read_separator(closed)) return false;
  }
  return true;
}

bool LenientJson::read_array(Json& out, int depth) {
  ++at_;
  open_ += ']';
  out = Json::array();
  skip_space();
  if (!end() && peek() == ']') {
    ++at_;
    close();
    return true;
  }
  for (bool closed = false; !closed;) {
    skip_space();
    if (end()) return read_separator(closed);
    Json value;
    if (!read_value(value, depth + 1)) return false;
    out.push_back(std::move(value));
    if (!read_separator(closed)) return false;
  }
  return true;
}

bool LenientJson::read_key(std::string& key) {
  if (const Quotes* quotes = quotes_at(text_.substr(at_))) {
    if (!quotes->repair.empty()) repaired(quotes->repair);
    at_ += quotes->opening.size();
    return read_string(key, quotes->closing, true);
  }
  const std::size_t start = at_;
  while (!end() && (is_letter(peek()) || is_digit(peek()) || peek() == '-' ||
                    static_cast<signed char>(peek()) < 0)) {
    ++at_;
  }
  if (at_ == start) return fail_with("no key");
  key = text_.substr(start, at_ - start);
  repaired("unquoted key");
  return true;
}

// Whether the closing quote at at_ ends the string, or is one of its characters that was not
// escaped: by what follows.
bool LenientJson::ends_string(std::string_view closing, bool is_key) const {
  std::size_t next = at_ + closing.size();
  bool line_end = false;
  while (next < text_.size() &&
         std::string_view(" \t\r\n").find(text_[next]) != std::string_view::npos) {
    line_end |= text_[next++] == '\n';
  }
  if (next == text_.size()) return true;
  if (is_key) return text_[next] == ':';
  // Only an empty stack is a string on its own: nothing may follow.
  if (open_.empty()) return false;
  return std::string_view(",}]").find(text_[next]) != std::string_view::npos || line_end ||
         text_.substr(next).starts_with("//") || text_.substr(next).starts_with("/*");
}

bool LenientJson::read_string(std::string& out, std::string_view closing, bool is_key) {
  for (bool was_quoted = false;;) {
    if (end()) {
      // It is a key whose colon is missing, rather than one that was cut off.
      if (is_key && was_quoted) return fail_with("no colon behind a key");
      repaired("missing closing quote");
      return true;
    }
    const char c = peek();
    if (starts(closing)) {
      if (ends_string(closing, is_key)) {
        at_ += closing.size();
        return true;
      }
      repaired("unescaped quote");
      was_quoted = true;
      out += closing;
      at_ += closing.size();
    } else if (c == '\\') {
      read_escape(out);
    } else {
      if (static_cast<unsigned char>(c) < 0x20) repaired("unescaped control character");
      out += c;
      ++at_;
    }
  }
}

void LenientJson::read_escape(std::string& out) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  ++at_;
  if (end()) {
    repaired("invalid escape");
    return;
  }
  const auto known = kNames.find(peek());
  if (known != std::string_view::npos) {
    out += kMeanings[known];
    ++at_;
    return;
  }
  if (peek() == 'u' && read_unicode(out)) return;
  repaired("invalid escape");
  // \' is a quote; any other backslash most likely stands for itself, as in formulas.
  out += peek() == '\'' ? text_[at_++] : '\\';
}

bool LenientJson::read_unicode(std::string& out) {
  const auto unit_at = [&](std::size_t at) -> std::int32_t {
    if (at + 6 > text_.size() || text_[at] != '\\' || text_[at + 1] != 'u') return -1;
    std::int32_t unit = 0;
    for (std::size_t i = at + 2; i < at + 6; ++i) {
      const int digit = hex_digit(text_[i]);
      if (digit < 0) return -1;
      unit = unit * 16 + digit;
    }
    return unit;
  };
  const std::size_t start = at_ - 1;
  const std::int32_t high = unit_at(start);
  if (high < 0) return false;
  at_ = start + 6;
  if (high < 0xD800 || high > 0xDFFF) {
    text::append_utf8(out, static_cast<char32_t>(high));
    return true;
  }
  const std::int32_t low = high < 0xDC00 ? unit_at(at_) : -1;
  if (low >= 0xDC00 && low <= 0xDFFF) {
    at_ += 6;
    text::append_utf8(out, static_cast<char32_t>(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00));
  } else {
    repaired("invalid escape");
    text::append_utf8(out, 0xFFFD);
  }
  return true;
}

bool LenientJson::read_number(Json& out) {
  const std::size_t start = at_;
  std::string number;  // as JSON has it
  const auto digits = [&] {
    const std::size_t before = number.size();
    while (!end() && is_digit(peek())) number += text_[at_++];
    return number.size() - before;
  };
  if (peek() == '+' || peek() == '-') {
    if (peek() == '-') {
      number += '-';
    } else {
      repaired("number written otherwise");
    }
    ++at_;
    if (starts("Infinity") || starts("inf")) return read_word(out);
  }
  const std::size_t first = number.size();
  std::size_t whole = digits();
  while (whole > 1 && number[first] == '0') {
    number.erase(first, 1);
    --whole;
    repaired("number written otherwise");
  }
  bool real = false;
  if (!end() && peek() == '.') {
    real = true;
    if (whole == 0) number += '0';
    number += text_[at_++];
    const std::size_t fraction = digits();
    if (whole == 0 && fraction == 0) return fail_with("no value");
    if (whole == 0 || fraction == 0) repaired("number written otherwise");
    if (fraction == 0) number += '0';
  } else if (whole == 0) {
    return fail_with("no value");
  }
  if (!end() && (peek() == 'e' || peek() == 'E')) {
    real = true;
    number += text_[at_++];
    if (!end() && (peek() == '+' || peek() == '-')) number += text_[at_++];
    if (digits() == 0) return fail_with("a number without digits in its exponent");
  }
  // "12abc" and "1.2.3" are no numbers.
  if (!end() && (is_letter(peek()) || peek() == '.')) {
    at_ = start;
    return fail_with("no value");
  }
  const char* begin = number.data();
  const char* finish = begin + number.size();
  if (!real) {
    std::int64_t value = 0;
    if (std::from_chars(begin, finish, value).ec == std::errc()) {
      out = value;
      return true;
    }
    std::uint64_t large = 0;
    if (number.front() != '-' && std::from_chars(begin, finish, large).ec == std::errc()) {
      out = large;
      return true;
    }
  }
  double value = 0;
  const auto result = std::from_chars(begin, finish, value);
  // Beyond the range: too large is an error, as for other readers; too small is zero.
  if (result.ec == std::errc::result_out_of_range) {
    const auto exponent = number.find_first_of("eE");
    if (exponent == std::string::npos || number[exponent + 1] != '-') {
      return fail_with("a number out of range");
    }
    value = 0;
  }
  out = value;
  return true;
}

bool LenientJson::read_word(Json& out) {
  const std::size_t start = at_;
  while (!end() && (is_letter(peek()) || is_digit(peek()))) ++at_;
  const std::string_view word = text_.substr(start, at_ - start);
  if (word == "true" || word == "false") {
    out = word == "true";
  } else if (word == "null") {
    out = nullptr;
  } else if (word == "True" || word == "False") {
    repaired("Python literal");
    out = word == "True";
  } else if (word == "None") {
    repaired("Python literal");
    out = nullptr;
  } else if (word == "NaN" || word == "nan" || word == "Infinity" || word == "inf" ||
             word == "undefined") {
    repaired("value that JSON lacks");
    out = nullptr;
  } else {
    at_ = start;
    return fail_with("no value");
  }
  return true;
}

}  // namespace dovetail::pipeline
