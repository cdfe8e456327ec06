#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/sentencepiece_bpe.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/vocabulary.h"

namespace dovetail::text {

// A tokenizer is this pipeline, whatever file described it: added tokens are cut out of the text,
// the rest is normalized, added tokens are cut out of that, the rest is split into pieces, the
// model encodes each, and `before` and `after` go around the whole.
struct Tokenizer::Impl {
  Vocabulary vocabulary;  // of the model and the added tokens
  Vocabulary model_vocabulary;
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::variant<Bpe, SentencePieceBpe, Unigram> model;
  std::vector<TokenId> before, after;
  Decoder decoder;
  std::vector<std::string> decoded;  // by id: what the decoder starts from; empty: the spelling
  std::vector<bool> special;         // by id
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> end_ids;

  // Fills end_ids from eos, `more` and the well-known spellings. Needs vocabulary and special.
  void collect_end_ids(std::vector<TokenId> more);
  // What the decoder starts from, of an id with a token.
  std::string_view spelling(TokenId id) const {
    return decoded.empty() ? vocabulary.text(id)
                           : std::string_view(decoded[static_cast<std::size_t>(id)]);
  }
  bool is_special(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < special.size() &&
           special[static_cast<std::size_t>(id)];
  }
};

}  // namespace dovetail::text
