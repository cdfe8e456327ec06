#include <algorithm>
#include <optional>

#include "grammar/regex.h"

namespace dovetail::grammar {
namespace {

constexpr std::size_t kMaxPattern = 1U << 16U;
constexpr int kMaxNesting = 100;
constexpr std::uint32_t kMaxCount = 1U << 20U;

CodePointSet digits() { return {{'0', '9'}}; }
CodePointSet space() {
  return {{0x09, 0x0D},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CodePointSet newlines() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Regex> parse() {
    if (text_.size() > kMaxPattern) {
      return fail(ErrorKind::kUnsupported, "regular expression of {} bytes; at most {}",
                  text_.size(), kMaxPattern);
    }
    do {
      Regex::Alternative alternative;
      alternative.from_start = take('^');
      alternative.node = sequence(0, &alternative.to_end);
      out_.alternatives.push_back(alternative);
    } while (!error_ && take('|'));
    if (!error_ && at_ < text_.size()) refuse("')' without '('", at_);
    if (error_) return fail(std::move(*error_));
    return std::move(out_);
  }

 private:
  using Index = std::uint32_t;

  bool done() const { return error_ || at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool take(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view literal) {
    if (done() || text_.substr(at_, literal.size()) != literal) return false;
    at_ += literal.size();
    return true;
  }
  void refuse(std::string_view what, std::size_t at) {
    if (!error_) {
      error_ = Error{ErrorKind::kUnsupported, fmt::format("offset {}: {}", at, what)};
    }
    at_ = text_.size();
  }

  Index add(Regex::Node node) {
    out_.nodes.push_back(std::move(node));
    return static_cast<Index>(out_.nodes.size() - 1);
  }
  Index add_set(CodePointSet set) {
    Regex::Node node;
    node.kind = Regex::Kind::kSet;
    node.set = std::move(set);
    return add(std::move(node));
  }

  // `to_end` is set where the sequence is a top alternative and may end with $.
  Index sequence(int depth, bool* to_end) {
    Regex::Node node;
    while (!done() && peek() != '|' && peek() != ')') {
      if (peek() == '$') {
        const std::size_t at = at_++;
        if (to_end == nullptr || !(done() || peek() == '|')) {
          refuse("'$' is supported at the end only", at);
          break;
        }
        *to_end = true;
        break;
      }
      node.children.push_back(repeated(depth));
    }
    return add(std::move(node));
  }

  Index group(int depth) {
    const std::size_t begin = at_ - 1;
    if (depth >= kMaxNesting) {
      refuse("groups nest too deeply", begin);
      return 0;
    }
    if (take('?')) {
      if (take("=") || take("!") || take("<=") || take("<!")) {
        refuse("look-around is not supported", begin);
      } else if (take('<')) {
        while (!done() && peek() != '>') ++at_;
        if (!take('>')) refuse("group name without '>'", begin);
      } else if (!take(':')) {
        refuse("flags and this kind of group are not supported", begin);
      }
    }
    Regex::Node node;
    node.kind = Regex::Kind::kUnion;
    do {
      node.children.push_back(sequence(depth + 1, nullptr));
    } while (take('|'));
    if (!error_ && !take(')')) refuse("'(' without ')'", begin);
    return add(std::move(node));
  }

  Index repeated(int depth) {
    const Index atom_index = atom(depth);
    const std::size_t at = at_;
    Regex::Node node;
    node.kind = Regex::Kind::kRepeat;
    node.children = {atom_index};
    if (!quantifier(node)) return atom_index;
    if (out_.nodes[atom_index].kind == Regex::Kind::kBoundary) {
      refuse("a quantifier with nothing to repeat", at);
    }
    take('?');
    Regex::Node again;
    const std::size_t after = at_;
    if (quantifier(again)) {
      refuse("a quantifier after a quantifier", after);
    } else if (node.max < node.min) {
      refuse("a count whose bounds are the wrong way round", at);
    }
    return add(std::move(node));
  }

  bool quantifier(Regex::Node& node) {
    if (take('*')) {
      node.max = Regex::kUnbounded;
    } else if (take('+')) {
      node.min = 1;
      node.max = Regex::kUnbounded;
    } else if (take('?')) {
      node.max = 1;
    } else {
      return counts(node);
    }
    return true;
  }

  // {m}, {m,} and {m,n}; other braces are themselves, as in ECMA-262 (annex B) and Python.
  bool counts(Regex::Node& node) {
    if (done() || peek() != '{') return false;
    const std::size_t begin = at_;
    std::size_t at = at_ + 1;
    const auto number = [&]() -> std::optional<std::uint32_t> {
      const std::size_t from = at;
      std::uint64_t value = 0;
      while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9') {
        value = std::min<std::uint64_t>(value * 10 + static_cast<std::uint64_t>(text_[at] - '0'),
                                        kMaxCount + 1);
        ++at;
      }
      if (at == from) return std::nullopt;
      return static_cast<std::uint32_t>(value);
    };
    const auto min = number();
    const bool comma = at < text_.size() && text_[at] == ',';
    if (comma) ++at;
    const auto max = comma ? number() : min;
    if (at >= text_.size() || text_[at] != '}') return false;
    if (!min) {
      if (max) refuse("a count without a lower bound means different things elsewhere", begin);
      return false;
    }
    if (*min > kMaxCount || (max && *max > kMaxCount)) {
      refuse(fmt::format("a count beyond {}", kMaxCount), begin);
      return false;
    }
    node.min = *min;
    node.max = max ? *max : Regex::kUnbounded;
    at_ = at + 1;
    return true;
  }

  Index atom(int depth) {
    const std::size_t begin = at_;
    const char c = peek();
    if (c == '(') {
      ++at_;
      return group(depth);
    }
    if (c == '[') {
      ++at_;
      return add_set(character_class(begin));
    }
    if (c == '.') {
      ++at_;
      return add_set(newlines().negated());
    }
    if (take("\\b") || take("\\B")) {
      Regex::Node node;
      node.kind = Regex::Kind::kBoundary;
      node.inside = text_[at_ - 1] == 'B';
      out_.boundaries = true;
      return add(std::move(node));
    }
    if (c == '\\') {
      ++at_;
      CodePointSet set;
      if (const auto one = escape(begin, false, set)) set.add(*one, *one);
      return add_set(std::move(set));
    }
    if (c == '^') {
      refuse("'^' is supported at the start only", begin);
    } else if (c == '*' || c == '+' || c == '?') {
      refuse("a quantifier with nothing to repeat", begin);
    }
    Regex::Node quantified;
    if (counts(quantified)) refuse("a quantifier with nothing to repeat", begin);
    const char32_t one = code_point();
    return add_set({{one, one}});
  }

  char32_t code_point() {
    if (done()) return 0;
    const auto one = decode_utf8(text_.substr(at_));
    if (!one) {
      refuse("not UTF-8", at_);
      return 0;
    }
    at_ += one->second;
    return one->first;
  }

  std::optional<char32_t> hex(std::size_t count) {
    char32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const char c = peek(i);
      const char32_t digit = c >= '0' && c <= '9'   ? static_cast<char32_t>(c - '0')
                             : c >= 'a' && c <= 'f' ? static_cast<char32_t>(c - 'a' + 10)
                             : c >= 'A' && c <= 'F' ? static_cast<char32_t>(c - 'A' + 10)
                                                    : 16;
      if (digit == 16) return std::nullopt;
      value = value * 16 + digit;
    }
    at_ += count;
    return value;
  }

  // After a backslash: one code point, or a set put into `set`.
  std::optional<char32_t> escape(std::size_t begin, bool in_class, CodePointSet& set) {
    if (done()) {
      refuse("a backslash at the end", begin);
      return std::nullopt;
    }
    const char c = text_[at_];
    if (static_cast<std::uint8_t>(c) >= 0x80) return code_point();
    ++at_;
    switch (c) {
      case 'd':
        set.add(digits());
        return std::nullopt;
      case 'D':
        set.add(digits().negated());
        return std::nullopt;
      case 'w':
        set.add(CodePointSet::word());
        return std::nullopt;
      case 'W':
        set.add(CodePointSet::word().negated());
        return std::nullopt;
      case 's':
        set.add(space());
        return std::nullopt;
      case 'S':
        set.add(space().negated());
        return std::nullopt;
      case 'n':
        return U'\n';
      case 't':
        return U'\t';
      case 'r':
        return U'\r';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case '0':
        if (peek() >= '0' && peek() <= '9') break;
        return U'\0';
      case 'x':
        if (const auto value = hex(2)) return value;
        break;
      case 'u':
        return unicode_escape(begin);
      case 'b':
        if (in_class) return U'\b';
        break;
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c >= '1' && c <= '9') {
      refuse("back-references are not supported", begin);
    } else if (letter || c == '0') {
      refuse(fmt::format("\\{} is not supported", c), begin);
    } else {
      return static_cast<char32_t>(c);
    }
    return std::nullopt;
  }

  std::optional<char32_t> unicode_escape(std::size_t begin) {
    const auto value = hex(4);
    if (!value) {
      refuse("\\u takes four hexadecimal digits", begin);
      return std::nullopt;
    }
    if (*value < 0xD800 || *value > 0xDFFF) return value;
    if (*value < 0xDC00 && take("\\u")) {
      const auto low = hex(4);
      if (low && *low >= 0xDC00 && *low <= 0xDFFF) {
        return 0x10000 + ((*value - 0xD800) << 10U) + (*low - 0xDC00);
      }
    }
    refuse("half of a surrogate pair", begin);
    return std::nullopt;
  }

  CodePointSet character_class(std::size_t begin) {
    CodePointSet set;
    const bool negated = take('^');
    if (peek() == ']') {
      refuse("an empty class means different things elsewhere; escape the ']'", begin);
      return set;
    }
    while (!done() && peek() != ']') {
      if (peek() == '[' && (peek(1) == ':' || peek(1) == '.' || peek(1) == '=')) {
        refuse("POSIX classes are not supported", at_);
        return set;
      }
      const auto first = class_member(set);
      if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
        if (first) set.add(*first, *first);
        continue;
      }
      const std::size_t dash = at_++;
      const auto last = class_member(set);
      if (first && last) {
        if (*last < *first) refuse("a range whose ends are the wrong way round", dash);
        set.add(*first, *last);
      } else if (!error_) {
        // A class at one end: the dash is itself (ECMA-262, annex B).
        set.add('-', '-');
        if (first) set.add(*first, *first);
        if (last) set.add(*last, *last);
      }
    }
    if (!take(']')) refuse("'[' without ']'", begin);
    return negated ? set.negated() : set;
  }

  std::optional<char32_t> class_member(CodePointSet& set) {
    const std::size_t begin = at_;
    if (take('\\')) return escape(begin, true, set);
    return code_point();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Regex out_;
  std::optional<Error> error_;
};

}  // namespace

Result<Regex> parse_regex(std::string_view pattern) { return Parser(pattern).parse(); }

}  // namespace dovetail::grammar
