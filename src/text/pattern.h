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

}  // namespace dovetail::text
