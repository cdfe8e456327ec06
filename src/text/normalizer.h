#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pattern.h"

namespace dovetail::text {

// SentencePiece's compiled character map: a double-array trie (Darts-clone) from byte strings to
// the texts that take their place. Copies share the data.
class Charsmap {
 public:
  // `base64` of what from_bytes() takes, applied as the `tokenizers` library does: grapheme by
  // grapheme where a short one has an entry, else character by character.
  static Result<Charsmap> parse(std::string_view base64, std::string_view where);
  // `bytes`: uint32 bytes of the trie, the trie's uint32 units, the NUL-terminated replacements.
  // Applied as SentencePiece does: the longest entry at each place.
  static Result<Charsmap> from_bytes(std::string_view bytes, std::string_view where);

  std::string apply(std::string_view text) const;

 private:
  struct Data {
    std::vector<std::uint32_t> units;
    std::string replacements;
  };

  // Calls visit(bytes, replacement) for every entry that `text` begins with, shortest first, until
  // it returns false.
  template <class Visit>
  void visit_entries(std::string_view text, Visit&& visit) const;
  std::optional<std::string_view> find(std::string_view text) const;
  std::string apply_longest(std::string_view text) const;

  std::shared_ptr<const Data> data_;
  bool longest_ = false;
};

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

struct Lowercase {};  // character by character, without regard to context
struct StripWhiteSpace {
  bool left = true;
  bool right = true;
};
struct StripAccents {};     // removes marks
struct NmtCleanup {};       // control characters removed, odd white space to spaces
struct StripNonspacing {};  // removes nonspacing marks (Mn), not those that take space
struct BertCleanup {};      // U+0000, U+FFFD, Cc, Cf and Co removed, white space to spaces
struct SpacesAroundHan {};  // around each character of the blocks that BERT takes for Chinese
struct ReplaceText {
  Pattern pattern;
  std::string content;
};
struct PrependText {  // to texts that are not empty
  std::string text;
};

using NormalizerStep =
    std::variant<NormalizationForm, Lowercase, StripWhiteSpace, StripAccents, NmtCleanup,
                 StripNonspacing, BertCleanup, SpacesAroundHan, ReplaceText, PrependText, Charsmap>;

// What a tokenizer does to a text before it looks for tokens. Valid UTF-8 in and out.
struct Normalizer {
  std::vector<NormalizerStep> steps;

  std::string normalize(std::string_view text) const;
  // normalize() of texts that follow each other, as far as each stands for itself: what a step puts
  // or takes at the ends of a text, it does at the ends of the whole.
  std::vector<std::string> normalize_parts(std::vector<std::string> parts) const;
};

// Unicode normalization (UAX #15), in time that is near linear whatever the text.
std::string normalize_unicode(std::string_view text, NormalizationForm form);

}  // namespace dovetail::text
