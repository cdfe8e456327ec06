#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/trie.h"
#include "text/vocabulary.h"

namespace dovetail::text {

struct BpeOptions {
  std::optional<TokenId> unknown;
  std::string continuing_subword_prefix;  // before every character of a piece but the first
  std::string end_of_word_suffix;         // after the last character of a piece
  bool fuse_unknown = false;
  bool byte_fallback = false;  // unknown characters become <0xNN> tokens where all are there
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
};

// Byte-pair encoding (Sennrich et al., https://arxiv.org/abs/1508.07909): of all neighbours that
// may merge, those of the lowest rank do, leftmost first. O(n log n) for a piece of n characters.
class Bpe {
 public:
  // `merges` by rank. A part or result that is no token is an error; `where` names the list.
  static Result<Bpe> create(const Vocabulary& vocabulary,
                            std::span<const std::pair<std::string, std::string>> merges,
                            BpeOptions options, std::string_view where);

  // Appends the ids of one piece, valid UTF-8. Characters without token vanish where there is
  // neither byte fallback nor an unknown token.
  void encode(const Vocabulary& vocabulary, std::string_view piece,
              std::vector<TokenId>& out) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    TokenId result = 0;
  };

  const Merge* find(TokenId left, TokenId right) const;
  std::vector<TokenId> characters(const Vocabulary& vocabulary, std::string_view piece) const;

  BpeOptions options_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::vector<std::optional<TokenId>> byte_tokens_;
};

// SentencePiece's BPE (Kudo and Richardson, https://arxiv.org/abs/1808.06226) as GGUF files of the
// `llama` kind describe it: of all neighbours that make a token together, those of the highest
// score do, leftmost first. Characters that are no token become their bytes' tokens.
class SentencePieceBpe {
 public:
  // `scores` has one element per token. Without a token for every byte, `unknown` must be there.
  static Result<SentencePieceBpe> create(std::vector<float> scores,
                                         std::span<const std::optional<TokenId>> byte_tokens,
                                         std::optional<TokenId> unknown);

  // Appends the ids of one piece, valid UTF-8. O(n log n) for n characters.
  void encode(const Vocabulary& vocabulary, std::string_view piece,
              std::vector<TokenId>& out) const;

 private:
  std::vector<float> scores_;
  std::array<TokenId, 256> byte_tokens_{};
};

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
