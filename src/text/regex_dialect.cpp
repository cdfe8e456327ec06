#include "text/regex_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cctype>

#include "load/quote.h"

namespace dovetail::text {
namespace {

constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\xb2\xb3\xb9\xbc-\xbe\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kHex = "0-9a-fA-F";

bool is_script(std::string_view name) {
  if (name.size() < 3) return false;
  for (const char c : name) {
    if (std::isalpha(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  const std::string expression = fmt::format("\\p{{sc:{}}}", name);
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr);
  pcre2_code_free(compiled);
  return compiled != nullptr;
}

class Translator {
 public:
  Translator(std::string_view in, std::string_view where) : in_(in), where_(where) {}

  Result<std::string> run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      Status status;
      if (c == '\\') {
        status = escape();
      } else if (in_set_) {
        status = in_set(c);
      } else {
        status = outside(c);
      }
      if (!status) return fail(status.error());
    }
    return std::move(out_);
  }

 private:
  tl::unexpected<Error> refuse(std::string_view what) const {
    return fail(ErrorKind::kUnsupported,
                "{}: {}: {} at byte {} is not supported; valid: sets without sets "
                "inside, intersections, or counted repetitions that are repeated",
                where_, load::quote(in_), what, at_);
  }

  std::string_view rest() const { return in_.substr(at_); }
  void copy(std::size_t count) {
    out_.append(in_.substr(at_, count));
    at_ += count;
  }

  void shorthand(std::string_view members, bool negated) {
    if (in_set_) {
      out_.append(members);
    } else {
      out_.append(negated ? "[^" : "[").append(members).append("]");
    }
    at_ += 2;
  }

  Status escape() {
    if (at_ + 1 >= in_.size()) {
      copy(1);
      return {};
    }
    const char next = in_[at_ + 1];
    const bool upper = next == 'S' || next == 'W' || next == 'H';
    if (upper && in_set_) {
      // A negated shorthand cannot be spelled as members; PCRE2's own differ in U+180E and marks.
      if (next == 'S') {
        copy(2);
        return {};
      }
      return refuse(fmt::format("\\{} within a set", next));
    }
    switch (next) {
      case 's':
      case 'S':
        shorthand(kSpace, upper);
        return {};
      case 'w':
      case 'W':
        shorthand(kWord, upper);
        return {};
      case 'h':
      case 'H':
        shorthand(kHex, upper);
        return {};
      case 'u':
        return code_unit();
      case 'p':
      case 'P':
        return property();
      default:
        copy(2);
        return {};
    }
  }

  Status code_unit() {
    const std::string_view digits = in_.substr(at_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
      return refuse("\\u without four hexadecimal digits");
    }
    out_.append("\\x{").append(digits).append("}");
    at_ += 6;
    return {};
  }

  Status property() {
    const auto close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == in_.npos) {
      copy(2);
      return {};
    }
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    std::string_view hat;
    if (name.starts_with('^')) {
      hat = name.substr(0, 1);
      name.remove_prefix(1);
    }
    if (!is_script(name)) {
      copy(close + 1 - at_);
      return {};
    }
    out_.append(in_.substr(at_, 3)).append(hat).append("sc:").append(name).append("}");
    at_ = close + 1;
    return {};
  }

  Status in_set(char c) {
    if (c == '[' && !rest().starts_with("[:")) return refuse("a set within a set");
    if (rest().starts_with("&&")) return refuse("an intersection of sets");
    if (c == '[') {
      const auto close = in_.find(":]", at_);
      if (close == in_.npos) return refuse("an open [:");
      copy(close + 2 - at_);
      return {};
    }
    if (c == ']' && at_ != first_member_) in_set_ = false;
    copy(1);
    return {};
  }

  Status outside(char c) {
    if (c == '[') {
      in_set_ = true;
      copy(rest().starts_with("[^") ? 2 : 1);
      first_member_ = at_;
      return {};
    }
    if (rest().starts_with("}+") && counted()) return refuse("+ after a counted repetition");
    copy(1);
    return {};
  }

  // Whether the } here closes {n}, {n,} or {n,m}.
  bool counted() const {
    const auto open = in_.rfind('{', at_);
    if (open == in_.npos || open + 1 == at_) return false;
    return in_.substr(open + 1, at_ - open - 1).find_first_not_of("0123456789,") == in_.npos;
  }

  std::string_view in_;
  std::string_view where_;
  std::string out_;
  std::size_t at_ = 0;
  std::size_t first_member_ = 0;
  bool in_set_ = false;
};

}  // namespace

Result<std::string> to_pcre2(std::string_view expression, std::string_view where) {
  return Translator(expression, where).run();
}

}  // namespace dovetail::text
