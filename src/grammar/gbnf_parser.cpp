#include <algorithm>
#include <map>
#include <optional>

#include "grammar/gbnf.h"

namespace dovetail::grammar {
namespace {

constexpr int kMaxGroups = 64;
constexpr std::uint32_t kMaxTimes = 1U << 20U;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Result<Gbnf> parse() {
    skip(true);
    while (!done()) {
      rule();
      skip(true);
    }
    if (error_) return fail(*error_);
    for (const Gbnf::Rule& rule : out_.rules) {
      if (!rule.body) {
        return fail(ErrorKind::kInvalid, "grammar, line {}: there is no rule \"{}\"", rule.line,
                    rule.name);
      }
    }
    const auto root = ids_.find("root");
    if (root == ids_.end()) {
      return fail(ErrorKind::kInvalid, "grammar: there is no rule \"root\"");
    }
    out_.root = root->second;
    return std::move(out_);
  }

 private:
  using Index = std::uint32_t;

  bool done() const { return error_ || at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool take(std::string_view literal) {
    if (done() || text_.substr(at_, literal.size()) != literal) return false;
    at_ += literal.size();
    return true;
  }
  std::uint32_t line() {
    while (counted_ < at_) lines_ += text_[counted_++] == '\n' ? 1 : 0;
    while (counted_ > at_) lines_ -= text_[--counted_] == '\n' ? 1 : 0;
    return lines_;
  }
  Index refuse(std::string_view what, ErrorKind kind = ErrorKind::kInvalid) {
    if (!error_) error_ = Error{kind, fmt::format("grammar, line {}: {}", line(), what)};
    return 0;
  }

  // White space and comments; line breaks where they end nothing.
  void skip(bool breaks) {
    while (!done()) {
      const char c = peek();
      if (c == '#') {
        while (at_ < text_.size() && peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && breaks)) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view name() {
    const std::size_t from = at_;
    while (is_name_character(peek())) ++at_;
    return text_.substr(from, at_ - from);
  }

  Index id_of(std::string_view name) {
    const auto [at, fresh] =
        ids_.try_emplace(std::string(name), static_cast<Index>(out_.rules.size()));
    if (fresh) out_.rules.push_back({std::string(name), line(), std::nullopt});
    return at->second;
  }

  Index add(Gbnf::Node node) {
    out_.nodes.push_back(std::move(node));
    return static_cast<Index>(out_.nodes.size() - 1);
  }

  void rule() {
    const std::uint32_t begin = line();
    const std::string_view name = this->name();
    if (name.empty()) {
      refuse("the name of a rule is missing");
      return;
    }
    const Index id = id_of(name);
    if (out_.rules[id].body) {
      refuse(fmt::format("the rule \"{}\" is defined twice", name));
      return;
    }
    skip(false);
    if (!take("::=")) {
      refuse(fmt::format("\"::=\" is missing behind \"{}\"", name));
      return;
    }
    skip(true);
    const Index body = choice(0);
    if (!done() && peek() != '\n') refuse("a rule must end with its line");
    out_.rules[id].body = body;
    out_.rules[id].line = begin;
  }

  Index choice(int depth) {
    Gbnf::Node node;
    node.kind = Gbnf::Kind::kUnion;
    while (true) {
      node.children.push_back(sequence(depth));
      // A line may begin with the next alternative.
      const std::size_t before = at_;
      skip(true);
      if (take("|")) {
        skip(true);
        continue;
      }
      if (depth == 0) at_ = before;
      return add(std::move(node));
    }
  }

  Index sequence(int depth) {
    Gbnf::Node node;
    node.kind = Gbnf::Kind::kSequence;
    const bool nested = depth > 0;
    while (!done() && peek() != '|' && peek() != ')' && peek() != '\n') {
      if (const auto times = quantifier()) {
        if (node.children.empty()) {
          refuse("there is nothing to repeat");
          break;
        }
        Gbnf::Node repeat;
        repeat.kind = Gbnf::Kind::kRepeat;
        repeat.min = times->first;
        repeat.max = times->second;
        repeat.children = {node.children.back()};
        node.children.back() = add(std::move(repeat));
      } else {
        node.children.push_back(element(depth));
      }
      skip(nested);
    }
    return add(std::move(node));
  }

  std::optional<std::pair<std::uint32_t, std::uint32_t>> quantifier() {
    if (take("*")) return std::pair(0U, Regex::kUnbounded);
    if (take("+")) return std::pair(1U, Regex::kUnbounded);
    if (take("?")) return std::pair(0U, 1U);
    if (!take("{")) return std::nullopt;
    skip(false);
    const auto min = number();
    skip(false);
    auto max = min;
    if (take(",")) {
      skip(false);
      max = number();
      if (!max) max = Regex::kUnbounded;
    }
    skip(false);
    if (!take("}") || !min || *max < *min) refuse("a count must be {m}, {m,} or {m,n}");
    return std::pair(min.value_or(0), max.value_or(0));
  }

  std::optional<std::uint32_t> number() {
    std::uint32_t out = 0;
    const std::size_t from = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      out = out * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (out > kMaxTimes) {
        refuse(fmt::format("a count beyond {}", kMaxTimes), ErrorKind::kUnsupported);
        return std::nullopt;
      }
    }
    if (from == at_) return std::nullopt;
    return out;
  }

  Index element(int depth) {
    Gbnf::Node node;
    if (take("\"")) {
      node.kind = Gbnf::Kind::kSequence;
      while (!done() && peek() != '"' && peek() != '\n')
        node.children.push_back(add_one(character()));
      if (!take("\"")) return refuse("a literal without its closing quote");
      return add(std::move(node));
    }
    if (take("[")) return character_class();
    if (take(".")) return add_set(CodePointSet::any());
    if (take("(")) {
      if (depth >= kMaxGroups) return refuse("groups nest too deeply", ErrorKind::kUnsupported);
      skip(true);
      const Index out = choice(depth + 1);
      if (!take(")")) return refuse("'(' without ')'");
      return out;
    }
    if (is_name_character(peek())) {
      node.kind = Gbnf::Kind::kRule;
      node.rule = id_of(name());
      return add(std::move(node));
    }
    return refuse(fmt::format("'{}' is not supported here", peek()), ErrorKind::kUnsupported);
  }

  Index add_set(CodePointSet set) {
    Gbnf::Node node;
    node.kind = Gbnf::Kind::kSet;
    node.set = std::move(set);
    return add(std::move(node));
  }
  Index add_one(char32_t value) { return add_set({{value, value}}); }

  Index character_class() {
    CodePointSet set;
    const bool negated = take("^");
    while (!done() && peek() != ']' && peek() != '\n') {
      const char32_t first = character();
      char32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        last = character();
        if (last < first) refuse("a range whose ends are the wrong way round");
      }
      set.add(first, last);
    }
    if (!take("]")) return refuse("'[' without ']'");
    if (set.empty()) return refuse("an empty class of characters");
    return add_set(negated ? set.negated() : std::move(set));
  }

  // One code point, escaped or in UTF-8.
  char32_t character() {
    if (take("\\")) {
      const char c = peek();
      if (!done()) ++at_;
      switch (c) {
        case 'n':
          return U'\n';
        case 'r':
          return U'\r';
        case 't':
          return U'\t';
        case 'x':
          return hex(2);
        case 'u':
          return hex(4);
        case 'U':
          return hex(8);
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-':
        case '^':
          return static_cast<char32_t>(c);
        default:
          return refuse(fmt::format("the escape \\{} is not supported", c),
                        ErrorKind::kUnsupported);
      }
    }
    const auto value = decode_utf8(text_.substr(at_));
    if (!value) return refuse("not UTF-8");
    at_ += value->second;
    return value->first;
  }

  char32_t hex(std::size_t count) {
    char32_t value = 0;
    for (std::size_t i = 0; i < count; ++i, ++at_) {
      const char c = peek();
      const bool digit = c >= '0' && c <= '9';
      const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!digit && !letter) return refuse("a hexadecimal digit is missing");
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      return refuse("an escape that is no character");
    }
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // up to where `lines_` counts
  std::uint32_t lines_ = 1;
  Gbnf out_;
  std::map<std::string, Index> ids_;
  std::optional<Error> error_;
};

}  // namespace

Result<Gbnf> parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace dovetail::grammar
