#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/trie.h"
#include "text/vocabulary.h"

namespace dovetail::text {

// The unigram language model (Kudo, https://arxiv.org/abs/1804.10959): the segmentation with the
// highest sum of scores, found by Viterbi search. A character that is no token costs ten less than
// the lowest score; neighbouring unknown characters are one unknown token.
class Unigram {
 public:
  // `scores` has one element per token of the model, whose ids are 0 up to its size.
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, TokenId unknown,
          bool byte_fallback);

  // Appends the ids of one piece, valid UTF-8. O(n * longest token).
  void encode(const Vocabulary& vocabulary, std::string_view piece,
              std::vector<TokenId>& out) const;

 private:
  void encode_part(const Vocabulary& vocabulary, std::string_view part,
                   std::vector<TokenId>& out) const;

  Trie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  TokenId unknown_ = 0;
  std::vector<std::optional<TokenId>> byte_tokens_;  // empty without byte fallback
};

}  // namespace dovetail::text
