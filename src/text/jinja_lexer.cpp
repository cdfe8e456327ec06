#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja_unicode.h"
#include "text/jinja_value.h"

namespace dovetail::text::jinja {
namespace {

// Longest first.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

bool is_name_start(CodePoint point) {
  return point.value == '_' ||
         (point.value < 0x80 ? (point.value | 32) >= 'a' && (point.value | 32) <= 'z'
                             : is_alpha(point.value));
}

bool is_name_part(CodePoint point) {
  return is_name_start(point) || (point.value >= '0' && point.value <= '9');
}

[[noreturn]] void fail_at(size_t offset, std::string message) {
  throw JinjaError{ErrorKind::kInvalid, std::move(message), offset};
}

int hex_value(char c) {
  if (is_digit_char(c)) return c - '0';
  const char lower = static_cast<char>(c | 32);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The escapes of a Python string literal; what is none of them stays as it is, backslash included.
std::string unescape(std::string_view text, size_t offset) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at];
      continue;
    }
    const char kind = text[++at];
    constexpr std::string_view kFrom = "abfnrtv\\'\"";
    constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t simple = kFrom.find(kind); simple != std::string_view::npos) {
      out += kTo[simple];
    } else if (kind == 'N') {
      fail_at(offset + at, "\\N in a string is not supported: write the character or \\u");
    } else if (kind == '\n') {
      continue;
    } else if (kind >= '0' && kind <= '7') {
      fail_at(offset + at, "octal escapes in a string are not supported: write \\x or \\u");
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      const size_t digits = kind == 'x' ? 2 : (kind == 'u' ? 4 : 8);
      char32_t value = 0;
      for (size_t i = 1; i <= digits; ++i) {
        const int digit = at + i < text.size() ? hex_value(text[at + i]) : -1;
        if (digit < 0) {
          fail_at(offset + at,
                  fmt::format("\\{} in a string: expected {} hex digits", kind, digits));
        }
        value = value * 16 + static_cast<char32_t>(digit);
      }
      if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
        fail_at(offset + at, fmt::format("\\{} in a string: U+{:04X} is no character", kind,
                                         static_cast<uint32_t>(value)));
      }
      at += digits;
      append_code_point(out, value);
    } else {
      out += '\\';
      out += kind;
    }
  }
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_and_tag();
    tokens_.push_back({TokenType::kEnd, "", source_.size()});
    return std::move(tokens_);
  }

 private:
  bool starts(size_t at, std::string_view what) const {
    return source_.substr(std::min(at, source_.size()), what.size()) == what;
  }

  size_t skip_space(size_t at) const {
    while (at < source_.size()) {
      const CodePoint point = decode(source_, at);
      if (!is_space(point.value)) break;
      at += point.size;
    }
    return at;
  }

  // Emits source[start, end) as data, stripped as the tag after it asks.
  void emit_text(size_t start, size_t end, char sign, bool is_variable) {
    std::string_view text = source_.substr(start, end - start);
    if (sign == '-') {
      text = strip(text, "", Side::kRight);
    } else if (sign != '+' && !is_variable) {
      const size_t line_end = text.rfind('\n');
      const bool has_line = line_end != std::string_view::npos;
      if (has_line || line_starting_) {
        const size_t line = has_line ? line_end + 1 : 0;
        if (strip(text.substr(line), "", Side::kRight).empty()) text = text.substr(0, line);
      }
    }
    if (!text.empty()) tokens_.push_back({TokenType::kData, std::string(text), start});
  }

  // Where a block tag or comment that closes with `close` at `at` leaves off; `sign` stands before.
  size_t after_close(size_t at, std::string_view close, char sign) {
    size_t next = at + close.size();
    if (sign == '-') {
      next = skip_space(next);
    } else if (sign != '+' && starts(next, "\n")) {
      ++next;
    }
    line_starting_ = source_[next - 1] == '\n';
    return next;
  }

  void text_and_tag() {
    const size_t start = at_;
    size_t open = start;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= source_.size()) {
        tokens_.push_back({TokenType::kData, std::string(source_.substr(start)), start});
        at_ = source_.size();
        return;
      }
      const char kind = source_[open + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
    }
    const char kind = source_[open + 1];
    const char next = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const char sign = next == '-' || next == '+' ? next : '\0';
    emit_text(start, open, sign, kind == '{');
    at_ = open + 2 + (sign != '\0' ? 1 : 0);
    if (kind == '#') {
      comment(open);
    } else if (kind == '%') {
      if (const auto body = raw_begin()) {
        raw(open, *body);
      } else {
        tokens_.push_back({TokenType::kBlockBegin, "{%", open});
        inside(open, "%}", TokenType::kBlockEnd);
      }
    } else {
      tokens_.push_back({TokenType::kVariableBegin, "{{", open});
      inside(open, "}}", TokenType::kVariableEnd);
    }
  }

  void comment(size_t open) {
    const size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos) fail_at(open, "comment {# is never closed: expected #}");
    at_ = after_close(close, "#}", close > at_ ? source_[close - 1] : '\0');
  }

  // If the tag is {% raw %}: where its body starts.
  std::optional<size_t> raw_begin() {
    size_t at = skip_space(at_);
    if (!starts(at, "raw")) return std::nullopt;
    at = skip_space(at + 3);
    if (starts(at, "-%}")) {
      at = skip_space(at + 3);
    } else if (starts(at, "%}")) {
      at += 2;
    } else {
      return std::nullopt;
    }
    return at;
  }

  void raw(size_t open, size_t body) {
    line_starting_ = source_[body - 1] == '\n';
    for (size_t tag = source_.find("{%", body); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 1)) {
      const char next = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const char sign = next == '-' || next == '+' ? next : '\0';
      size_t at = skip_space(tag + 2 + (sign != '\0' ? 1 : 0));
      if (!starts(at, "endraw")) continue;
      at = skip_space(at + 6);
      const char end_sign = starts(at, "-") || starts(at, "+") ? source_[at] : '\0';
      if (end_sign != '\0') ++at;
      if (!starts(at, "%}")) continue;
      emit_text(body, tag, sign, false);
      at_ = after_close(at, "%}", end_sign);
      return;
    }
    fail_at(open, "{% raw %} is never closed: expected {% endraw %}");
  }

  // The tokens between a tag's begin and its `close`.
  void inside(size_t open, std::string_view close, TokenType end_type) {
    std::vector<char> brackets;
    const bool is_block = end_type == TokenType::kBlockEnd;
    for (;;) {
      at_ = skip_space(at_);
      if (at_ >= source_.size()) {
        fail_at(open,
                fmt::format("{} is never closed: expected {}", is_block ? "{%" : "{{", close));
      }
      const char first = source_[at_];
      if (brackets.empty()) {
        const bool has_sign = first == '-' || (first == '+' && is_block);
        const size_t end = at_ + (has_sign ? 1 : 0);
        if (starts(end, close)) {
          tokens_.push_back({end_type, std::string(close), at_});
          if (is_block) {
            at_ = after_close(end, close, has_sign ? first : '\0');
          } else {
            at_ = end + close.size();
            if (has_sign) at_ = skip_space(at_);
            line_starting_ = source_[at_ - 1] == '\n';
          }
          return;
        }
      }
      if (is_digit_char(first)) {
        number();
      } else if (first == '"' || first == '\'') {
        string(first);
      } else if (is_name_start(decode(source_, at_))) {
        name();
      } else {
        operation(brackets);
      }
    }
  }

  void name() {
    const size_t start = at_;
    while (at_ < source_.size()) {
      const CodePoint point = decode(source_, at_);
      if (!is_name_part(point)) break;
      at_ += point.size;
    }
    tokens_.push_back({TokenType::kName, std::string(source_.substr(start, at_ - start)), start});
  }

  void string(char quote) {
    const size_t start = at_;
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] == '\\') ++at_;
    }
    if (at_ >= source_.size()) {
      fail_at(start, fmt::format("the string is never closed: expected {}", quote));
    }
    tokens_.push_back({TokenType::kString,
                       unescape(source_.substr(start + 1, at_ - start - 1), start + 1), start});
    ++at_;
  }

  void skip_digits() {
    while (at_ < source_.size() && is_digit_char(source_[at_])) ++at_;
  }

  void number() {
    const size_t start = at_;
    skip_digits();
    bool is_float = false;
    // `1.x` is an attribute, `x.1.5` two of them.
    const bool after_dot = start > 0 && source_[start - 1] == '.';
    const auto digit_at = [&](size_t at) {
      return at < source_.size() && is_digit_char(source_[at]);
    };
    if (!after_dot && starts(at_, ".") && digit_at(at_ + 1)) {
      is_float = true;
      ++at_;
      skip_digits();
    }
    if (!after_dot && (starts(at_, "e") || starts(at_, "E"))) {
      const size_t sign = at_ + 1;
      const size_t digits = starts(sign, "+") || starts(sign, "-") ? sign + 1 : sign;
      if (digit_at(digits)) {
        is_float = true;
        at_ = digits;
        skip_digits();
      }
    }
    tokens_.push_back({is_float ? TokenType::kFloat : TokenType::kInteger,
                       std::string(source_.substr(start, at_ - start)), start});
  }

  void operation(std::vector<char>& brackets) {
    for (const std::string_view candidate : kOperators) {
      if (!starts(at_, candidate)) continue;
      const char c = candidate[0];
      if (c == '(' || c == '[' || c == '{') {
        brackets.push_back(c == '(' ? ')' : (c == '[' ? ']' : '}'));
      } else if (c == ')' || c == ']' || c == '}') {
        if (brackets.empty()) fail_at(at_, fmt::format("unexpected '{}'", c));
        if (brackets.back() != c) {
          fail_at(at_, fmt::format("unexpected '{}': expected '{}'", c, brackets.back()));
        }
        brackets.pop_back();
      }
      tokens_.push_back({TokenType::kOperator, std::string(candidate), at_});
      at_ += candidate.size();
      return;
    }
    fail_at(at_, fmt::format("unexpected character {}",
                             repr(Value::of(source_.substr(at_, decode(source_, at_).size))).text));
  }

  std::string_view source_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kData:
      return "text";
    case TokenType::kVariableBegin:
    case TokenType::kVariableEnd:
    case TokenType::kBlockBegin:
    case TokenType::kBlockEnd:
      return token.text;
    case TokenType::kString:
      return "a string";
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kName:
    case TokenType::kInteger:
    case TokenType::kFloat:
    case TokenType::kOperator:
      return "'" + token.text + "'";
  }
  return "?";
}

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
      continue;
    }
    out += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace dovetail::text::jinja
