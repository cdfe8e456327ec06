#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dovetail::pipeline {

// A regular expression in the spelling of ECMA 262 as far as PCRE2 has it (\d, \w, \s and \b are
// ASCII; $ is the very end). Immutable; copies share the compiled code; may be used from several
// threads at once.
class Regex {
 public:
  // kInvalid with the place within the expression.
  static Result<Regex> compile(std::string_view expression);

  // Whether it matches somewhere in `text`. kInvalid: the text is no UTF-8; kExhausted: it takes
  // too many steps.
  Result<bool> is_in(std::string_view text) const;

  const std::string& text() const { return text_; }

 private:
  Regex() = default;

  std::string text_;
  std::shared_ptr<const void> code_;
};

}  // namespace dovetail::pipeline
