#pragma once

#include <optional>
#include <span>
#include <vector>

#include "load/model_source.h"
#include "text/tokenizer.h"

namespace dovetail::text {

// The tokens around the two parts of a text whose middle a model is to write.
struct FillInMiddle {
  TokenId prefix = 0;             // before what comes first in the text
  TokenId suffix = 0;             // before what comes last
  std::optional<TokenId> middle;  // where the model begins; nothing: right behind the other part
  bool suffix_first = false;
  // Before the name of a repository, and before that of each of its files, ahead of all this.
  // Nothing: the model knows texts of one file alone.
  std::optional<TokenId> repository = std::nullopt, file = std::nullopt;

  // The prompt for the text between two parts.
  std::vector<TokenId> prompt(std::span<const TokenId> before,
                              std::span<const TokenId> after) const;
};

// Those that the model's file names (tokenizer.ggml.fim_pre_token_id, ...), or the vocabulary has
// in one of the well-known spellings; nothing where there are none.
std::optional<FillInMiddle> find_fill_in_middle(const Tokenizer& tokenizer,
                                                const load::ModelSource& source);

}  // namespace dovetail::text
