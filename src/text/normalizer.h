#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/charsmap.h"
#include "text/pattern.h"

namespace dovetail::text {

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

struct Lowercase {};  // character by character, without regard to context
struct StripWhiteSpace {
  bool left = true;
  bool right = true;
};
struct StripAccents {};  // removes marks
struct NmtCleanup {};    // control characters removed, odd white space to spaces
struct ReplaceText {
  Pattern pattern;
  std::string content;
};
struct PrependText {  // to texts that are not empty
  std::string text;
};

using NormalizerStep = std::variant<NormalizationForm, Lowercase, StripWhiteSpace, StripAccents,
                                    NmtCleanup, ReplaceText, PrependText, Charsmap>;

// What a tokenizer does to a text before it looks for tokens. Valid UTF-8 in and out.
struct Normalizer {
  std::vector<NormalizerStep> steps;

  std::string normalize(std::string_view text) const;
};

// Unicode normalization (UAX #15), in time that is near linear whatever the text.
std::string normalize_unicode(std::string_view text, NormalizationForm form);

}  // namespace dovetail::text
