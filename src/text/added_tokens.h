#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/normalizer.h"
#include "text/tokenizer.h"
#include "text/trie.h"

namespace dovetail::text {

// A token that is looked for in the text itself, before the model sees it.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = true;    // looked for in the normalized text, in its normalized spelling
  bool special = false;

  // Whether it structures what a model reads: it is special, or spelled <|...|> or <｜...｜>, since
  // published tokenizer.json files call some tokens that begin turns not special.
  bool is_control() const;
};

// Longer contents are refused, which bounds the time of a search.
inline constexpr std::size_t kLongestAddedToken = 4096;

// A part of a text: an added token, or what lies between.
struct TextPart {
  std::string_view text;
  std::optional<TokenId> token;
};

class AddedTokens {
 public:
  static Result<AddedTokens> create(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // Cuts valid UTF-8 at the added tokens of one kind: the leftmost counts, of those that begin
  // there the longest. Special tokens are left as text unless `with_special`, and control tokens
  // where any of their bytes is within `untrusted`.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool with_special,
                              std::span<const ByteSpan> untrusted = {}) const;
  // Whether some control token is looked for in the normalized text.
  bool has_normalized_control() const { return has_normalized_control_; }

 private:
  std::vector<AddedToken> tokens_;
  Trie raw_;         // contents to places in tokens_
  Trie normalized_;  // normalized contents to places in tokens_
  bool has_normalized_control_ = false;
};

}  // namespace dovetail::text
