#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "load/model_source.h"
#include "text/added_tokens.h"
#include "text/bert.h"
#include "text/decoder.h"
#include "text/encoders.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
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
  std::variant<Bpe, SentencePieceBpe, Unigram, WordPiece> model;
  std::vector<TokenId> before, after;
  // What goes around two texts; nothing: there is no such form. `typed`: how many of `between`
  // count to the first of them; nothing: they are not told apart.
  struct PairForm {
    std::vector<TokenId> before, between, after;
    std::optional<std::size_t> typed;
  };
  std::optional<PairForm> pair;
  // The same as texts, which become tokens with the two, control tokens and all; goes before
  // `pair`.
  struct PairTexts {
    std::string before, between, after;
  };
  std::optional<PairTexts> pair_texts;
  Decoder decoder;
  std::vector<std::string> decoded;  // by id: what the decoder starts from; empty: the spelling
  std::vector<bool> special;         // by id
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> end_ids;

  // Fills end_ids from eos, `more` and the well-known spellings. Needs vocabulary and special.
  void collect_end_ids(std::vector<TokenId> more);
  // Appends the ids of a text by itself.
  void append(std::string_view text, bool parse_special, std::vector<TokenId>& ids,
              std::span<const ByteSpan> untrusted = {}) const;
  // Appends the ids of one piece by the model; the second without control tokens, as which some
  // models (Unigram) know how to read their spellings: such a piece is cut within them.
  void append_piece(std::string_view piece, std::vector<TokenId>& ids) const;
  void append_piece_without_control(std::string_view piece, std::vector<TokenId>& ids) const;
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

// A tokenizer from the texts of tokenizer.json and tokenizer_config.json (may be empty).
Result<std::shared_ptr<const Tokenizer::Impl>> read_json_tokenizer(
    std::string_view tokenizer_json, std::string_view tokenizer_config_json);

// A tokenizer from GGUF metadata: `llama` (SentencePiece's BPE with scores), `t5` (its Unigram),
// `gpt2` (BPE with the splits that tokenizer.ggml.pre names), `gemma4` (BPE with the splits of this
// name) or `bert` (WordPiece with U+2581 before tokens that begin a word).
Result<std::shared_ptr<const Tokenizer::Impl>> read_gguf_tokenizer(const load::GgufTokenizer& data);

}  // namespace dovetail::text
