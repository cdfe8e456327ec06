#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/model_source.h"

namespace dovetail::text {

using TokenId = std::int32_t;

struct EncodeOptions {
  bool add_special = true;    // put BOS (and EOS) where the model's tokenizer puts them
  bool parse_special = true;  // control tokens written in the text become their ids; user-defined
                              // added tokens always do
};

// Text to token ids and back. Immutable; safe to use from several threads at once.
class Tokenizer {
 public:
  // Builds the tokenizer of a model. The source may be dropped afterwards.
  static Result<Tokenizer> create(const load::ModelSource& source);
  static Result<Tokenizer> from_gguf(const load::GgufTokenizer& data);
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json);

  // Any byte string is accepted; invalid UTF-8 is handled as the reference implementation handles
  // it.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The whole text of `ids`; bytes that are no valid UTF-8 become U+FFFD. Ids out of range are
  // skipped.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;

  std::size_t vocab_size() const;
  // The token as the vocabulary spells it (for display); empty when out of range.
  std::string_view token_text(TokenId id) const;
  bool is_special(TokenId id) const;  // control tokens: BOS, EOS, <|im_end|>, ...
  std::optional<TokenId> find(
      std::string_view token_text) const;  // the id of exactly this vocabulary entry
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // Every token that ends a turn or a text (EOS, EOT, and well-known spellings such as <|eot_id|>,
  // <|im_end|>, <end_of_turn>), ascending.
  std::span<const TokenId> end_ids() const;
  bool adds_bos() const;

  struct Impl;

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Turns a stream of ids into a stream of text that is always whole UTF-8 characters: bytes of an
// unfinished character are held back until it is complete or can no longer become one (then
// U+FFFD). Concatenating everything that push() and finish() return gives decode() of the same ids.
// One stream, one object, one thread; the tokenizer is kept alive.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true);
  std::string push(TokenId id);
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  bool at_start_ = true;  // some tokenizers drop a leading space of the whole text
  std::string pending_;   // bytes of an unfinished character
};

}  // namespace dovetail::text
