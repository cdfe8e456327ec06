#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cassert>
#include <cctype>

#include "load/quote.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

constexpr std::size_t kLongestExpression = 65536;
constexpr std::uint32_t kMatchLimit = 2'000'000;
constexpr std::uint32_t kHeapLimitKiB = 65'536;

template <class T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* object) const { Free(object); }
};
using CompileContext = std::unique_ptr<pcre2_compile_context,
                                       Deleter<pcre2_compile_context, pcre2_compile_context_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context, pcre2_match_context_free>>;
using MatchData =
    std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data, pcre2_match_data_free>>;
using CompiledCode = std::unique_ptr<pcre2_code, Deleter<pcre2_code, pcre2_code_free>>;

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Pattern::Code {
  CompiledCode code;
  MatchContext limits;  // read only once made
};

Pattern Pattern::literal(std::string_view text) {
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

Result<Pattern> Pattern::regex(std::string_view expression, std::string_view where) {
  if (expression.size() > kLongestExpression) {
    return fail(ErrorKind::kInvalid, "{}: an expression of {} bytes; valid: at most {}", where,
                expression.size(), kLongestExpression);
  }
  auto translated = to_pcre2(expression, where);
  if (!translated) return fail(translated.error());

  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_shared<Code>();
  compiled->code.reset(pcre2_compile(
      units(*translated), translated->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK, &code,
      &offset, context.get()));
  if (!compiled->code) {
    std::array<PCRE2_UCHAR, 128> message{};
    pcre2_get_error_message(code, message.data(), message.size());
    return fail(ErrorKind::kInvalid, "{}: {}: {}; valid: a regular expression that PCRE2 takes",
                where, load::quote(expression), reinterpret_cast<const char*>(message.data()));
  }
  // Without JIT the interpreter does the same, only slower.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled->limits.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled->limits.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled->limits.get(), kHeapLimitKiB);

  Pattern pattern;
  pattern.code_ = std::move(compiled);
  for (const std::string_view unit : {"a", " ", "1", ".", "\n", "aA", "a ", "\xE4\xB8\xAD"}) {
    std::string probe;
    while (probe.size() < 2048) probe += unit;
    probe += '\x01';  // what an expression that backtracks most often fails on
    bool ran_away = false;
    static_cast<void>(pattern.find(probe, ran_away));
    if (ran_away) {
      return fail(ErrorKind::kInvalid,
                  "{}: {}: takes too many steps on a text of 2 KiB; valid: an expression that does "
                  "not backtrack without bound",
                  where, load::quote(expression));
    }
  }
  return pattern;
}

bool Pattern::is_single_character() const {
  return !code_ && !literal_.empty() && code_point_at(literal_, 0).size == literal_.size();
}

std::vector<Span> Pattern::find(std::string_view text) const {
  bool ran_away = false;
  return find(text, ran_away);
}

std::vector<Span> Pattern::find(std::string_view text, bool& ran_away) const {
  std::vector<Span> spans;
  if (text.empty()) {
    spans.push_back({0, 0, false});
    return spans;
  }
  std::size_t end_of_last = 0;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (end_of_last != begin) spans.push_back({end_of_last, begin, false});
    spans.push_back({begin, end, true});
    end_of_last = end;
  };
  if (!code_) {
    if (!literal_.empty()) {
      for (auto at = text.find(literal_); at != std::string_view::npos;
           at = text.find(literal_, end_of_last)) {
        add(at, at + literal_.size());
      }
    }
  } else {
    const MatchData data(pcre2_match_data_create(1, nullptr));
    std::size_t from = 0;
    bool matched_before = false;
    while (data && from <= text.size()) {
      int count = pcre2_match(code_->code.get(), units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                              data.get(), code_->limits.get());
      if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
        // The interpreter keeps its stack on the heap.
        count = pcre2_match(code_->code.get(), units(text), text.size(), from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), code_->limits.get());
      }
      if (count < 0) {
        ran_away = count != PCRE2_ERROR_NOMATCH;
        break;
      }
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
      const std::size_t begin = bounds[0];
      const std::size_t end = bounds[1];
      // \K in a lookaround can move the bounds against each other or back.
      if (begin > end || begin < end_of_last) break;
      if (begin == end && matched_before && end == end_of_last) {
        // No empty match right after a match.
        from = end < text.size() && from < text.size() ? from + code_point_at(text, from).size
                                                       : text.size() + 1;
        continue;
      }
      add(begin, end);
      matched_before = true;
      from = end;
    }
  }
  if (end_of_last != text.size()) spans.push_back({end_of_last, text.size(), false});
  return spans;
}

std::string Pattern::replace(std::string_view text, std::string_view content) const {
  std::string out;
  for (const Span& span : find(text)) {
    out.append(span.is_match ? content : text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

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
      case 'x': {  // with its braces, which repeat nothing
        const auto close = rest().starts_with("\\x{") ? in_.find('}', at_) : in_.npos;
        copy(close == in_.npos ? 2 : close + 1 - at_);
        return {};
      }
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
