#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/trie.h"
#include "text/vocabulary.h"

namespace dovetail::text {

// What BERT's tokenizer does to a text before it looks for words.
struct BertNormalization {
  bool clean_text = true;            // control characters go, white space becomes spaces
  bool handle_chinese_chars = true;  // each is a word
  bool lowercase = true;
  std::optional<bool> strip_accents;  // as `lowercase` unless given
};

void append_bert_normalizer(const BertNormalization& options, std::vector<NormalizerStep>& steps);

// Cuts at white space, which goes, and around punctuation.
void append_bert_pre_tokenizer(std::vector<PreTokenizerStep>& steps);

// Characters of a word in BERT's own tokenizer: a longer one is unknown.
inline constexpr std::size_t kLongestWord = 100;

struct WordPieceOptions {
  TokenId unknown = 0;
  std::string word_prefix;        // what tokens that begin a word are spelled with; U+2581 in GGUF
  std::string continuing_prefix;  // what the others are spelled with; ## in tokenizer.json
  std::size_t longest_word = kLongestWord;  // characters
};

// WordPiece (Wu et al., https://arxiv.org/abs/1609.08144) as BERT uses it: the longest token that
// the word begins with, then the longest continuing token at what is left, and so on. A word that
// gets stuck, or is too long, is one unknown token.
class WordPiece {
 public:
  // Tokens with neither prefix are never found; with a prefix for those that begin a word, these
  // never continue one.
  WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options);

  // Appends the ids of one piece, valid UTF-8. O(n * longest token) for n bytes, and O(n) for words
  // that are too long.
  void encode(const Vocabulary& vocabulary, std::string_view piece,
              std::vector<TokenId>& out) const;

 private:
  Trie beginning_, continuing_;  // spellings without their prefix to ids
  TokenId unknown_ = 0;
  std::size_t longest_word_ = 0;
};

}  // namespace dovetail::text
