#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::text {

// A part of a text: bytes [begin, end), and whether a pattern matched there.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

// What to look for in a text: a fixed string or a regular expression. Immutable; copies share the
// compiled code; safe to use from several threads at once.
//
// Regular expressions are written for Oniguruma (Ruby syntax) and run on PCRE2, so the few
// spellings that mean something else there are rewritten: \s, \w and \h, script names, \uHHHH; ^
// and $ stand at every line. What cannot be rewritten (nested sets, &&, a repetition of a counted
// repetition) is an error.
class Pattern {
 public:
  static Pattern literal(std::string_view text);
  // `where` names the field in errors. An expression that runs away on plain probes is an error.
  static Result<Pattern> regex(std::string_view expression, std::string_view where);

  // Cuts valid UTF-8 into matches and what lies between, in order and without gaps; an empty text
  // is one span that is no match. Empty matches are possible. Where an expression exceeds its limit
  // of steps the rest of the text is one span that is no match.
  std::vector<Span> find(std::string_view text) const;

  // `text` with every match replaced.
  std::string replace(std::string_view text, std::string_view content) const;

  // The pattern is exactly one character: whether it matches does not depend on what is around.
  bool is_single_character() const;

 private:
  struct Code;
  Pattern() = default;
  std::vector<Span> find(std::string_view text, bool& ran_away) const;

  std::string literal_;
  std::shared_ptr<const Code> code_;  // null: a literal
};

// Rewrites an expression of Oniguruma's Ruby syntax so that PCRE2 10.42 (with UTF, UCP and
// MULTILINE) matches the same. What differs:
// - \s is Unicode's White_Space; PCRE2 adds U+180E. \w takes in marks, connector punctuation and
//   other alphabetics, but of the numbers only Nd, Nl and those of Latin-1. \h is a hexadecimal
//   digit.
// - \p{Han} goes by Script, PCRE2's by Script_Extensions.
// - \uHHHH is spelled \x{HHHH}.
// - x{n,m}+ repeats the repetition where PCRE2 has a possessive one; a [ within a set opens a
// nested
//   set; && intersects sets: refused, with `where` in the error.
Result<std::string> to_pcre2(std::string_view expression, std::string_view where);

}  // namespace dovetail::text
