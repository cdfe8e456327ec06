#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace dovetail::text {

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

}  // namespace dovetail::text
