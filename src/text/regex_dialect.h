#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dovetail::text {

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
