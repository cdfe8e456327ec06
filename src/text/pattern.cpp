#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cassert>

#include "load/quote.h"
#include "text/regex_dialect.h"
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

}  // namespace dovetail::text
