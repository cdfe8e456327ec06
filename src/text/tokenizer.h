#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/model_source.h"
#include "text/marked_text.h"

namespace dovetail::text {

using TokenId = std::int32_t;

struct EncodeOptions {
  bool add_special = true;    // put BOS (and EOS) where the model's tokenizer puts them
  bool parse_special = true;  // control tokens written in the text become their ids; user-defined
                              // added tokens always do
  // Ascending spans of the text, none of which touches the next, that hold no control token: one is
  // only found where none of its bytes lies in them. Nothing else changes: the text is not cut at
  // their ends.
  std::span<const ByteSpan> untrusted = {};
};

// Whether ids begin a text or follow others: at the start some tokenizers drop a leading space.
enum class TextPosition : std::uint8_t { kStart, kContinuation };

// A query and a document behind each other, for a model that looks at both.
struct TokenPair {
  std::vector<TokenId> ids;
  // The index of the first token that counts to the document, where the tokenizer tells the two
  // apart; 0: it does not.
  std::size_t second = 0;
};

// Text to token ids and back. Immutable; copies share the data; safe to use from several threads at
// once. What it gives is what the Hugging Face `tokenizers` library gives for tokenizer.json, and
// what llama.cpp gives for GGUF; README.md lists where it must decide itself.
class Tokenizer {
 public:
  // Builds the tokenizer of a model. The source may be dropped afterwards. An error names the field
  // by its path, the value and what would be valid; whatever is not supported is such an error.
  static Result<Tokenizer> create(const load::ModelSource& source);
  static Result<Tokenizer> from_gguf(const load::GgufTokenizer& data);
  // The config's text may be empty.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json);

  // Any byte string is accepted; maximal ill-formed parts of UTF-8 are taken as U+FFFD first, as
  // Python's bytes.decode(errors="replace") does. Never fails; near linear in the text's size for
  // every tokenizer whose split expressions are.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Two texts as the tokenizer puts them together, control tokens in them as text; or as the
  // model's template for pairs does, where they are control tokens, as in chats. kUnsupported where
  // there is no form for pairs.
  Result<TokenPair> encode_pair(std::string_view first, std::string_view second) const;

  // The whole text of `ids`, always valid UTF-8: bytes that are not become U+FFFD. Ids out of range
  // are skipped; with `skip_special` so are control tokens.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true,
                     TextPosition position = TextPosition::kStart) const;

  // One more than the largest id; ids in between may have no token.
  std::size_t vocab_size() const;
  // The token as the vocabulary spells it (for display; bytes of a GGUF file, maybe no UTF-8);
  // empty when there is none. Lives as long as the tokenizer or a copy of it.
  std::string_view token_text(TokenId id) const;
  bool is_special(TokenId id) const;  // control tokens: BOS, EOS, <|im_end|>, ...
  std::optional<TokenId> find(
      std::string_view token_text) const;  // the id of exactly this vocabulary entry
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // Every token that ends a turn or a text (EOS, EOT, and well-known spellings such as <|eot_id|>,
  // <|im_end|>, <end_of_turn> among the special tokens), ascending.
  std::span<const TokenId> end_ids() const;
  // By id, the bytes that each token adds to a text that it continues; none for control tokens and
  // ids without a token. Together they are decode(), wherever that needs no repair of the UTF-8.
  // kUnsupported where the tokenizer's decoder makes that depend on other tokens.
  Result<std::vector<std::string>> token_bytes() const;
  // Whether encode() with add_special begins with BOS.
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
// For ids that follow a prompt, kContinuation keeps the space before the first word. Where a
// tokenizer.json decodes byte tokens with ByteFallback, a run of them is held back until it ends,
// since one bad byte changes the text of the whole run. One stream, one object, one thread; the
// tokenizer is kept alive.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true,
                         TextPosition position = TextPosition::kStart);
  StreamDecoder(const StreamDecoder& other);
  StreamDecoder(StreamDecoder&& other) noexcept;
  StreamDecoder& operator=(StreamDecoder other) noexcept;
  ~StreamDecoder();

  std::string push(TokenId id);
  // Ends the stream; nothing may be pushed afterwards.
  std::string finish();
  // finish() of tokens that end where they do because no more were wanted: of a character that they
  // began nothing is said, where finish() gives U+FFFD.
  std::string cut();

 private:
  struct State;
  Tokenizer tokenizer_;
  bool skip_special_;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::text
