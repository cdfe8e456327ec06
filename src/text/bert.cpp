#include "text/bert.h"

#include <algorithm>

namespace dovetail::text {

void append_bert_normalizer(const BertNormalization& options, std::vector<NormalizerStep>& steps) {
  if (options.clean_text) steps.emplace_back(BertCleanup{});
  if (options.handle_chinese_chars) steps.emplace_back(SpacesAroundHan{});
  if (options.strip_accents.value_or(options.lowercase)) {
    steps.emplace_back(NormalizationForm::kNfd);
    steps.emplace_back(StripNonspacing{});
  }
  if (options.lowercase) steps.emplace_back(Lowercase{});
}

void append_bert_pre_tokenizer(std::vector<PreTokenizerStep>& steps) {
  steps.emplace_back(SplitStep{CharacterKind::kWhiteSpace, SplitBehavior::kRemoved, false});
  steps.emplace_back(SplitStep{CharacterKind::kPunctuation, SplitBehavior::kIsolated, false});
}

WordPiece::WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options)
    : unknown_(options.unknown), longest_word_(options.longest_word) {
  const auto put = [](Trie& trie, std::string_view text, std::string_view prefix, TokenId id) {
    if (text.starts_with(prefix)) trie.put(text.substr(prefix.size()), id);
  };
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = vocabulary.text(id);
    if (vocabulary.find(text) != id) continue;  // another id has the spelling
    put(beginning_, text, options.word_prefix, id);
    // The character U+2581 in a text begins no word.
    if (!options.word_prefix.empty() && text.starts_with(options.word_prefix)) continue;
    put(continuing_, text, options.continuing_prefix, id);
  }
}

void WordPiece::encode(const Vocabulary&, std::string_view piece, std::vector<TokenId>& out) const {
  const std::size_t before = out.size();
  const auto characters =
      static_cast<std::size_t>(std::count_if(piece.begin(), piece.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
      }));
  bool known = characters <= longest_word_;
  for (std::size_t at = 0; known && at < piece.size();) {
    std::size_t longest = 0;
    TokenId token = 0;
    const Trie& trie = at == 0 ? beginning_ : continuing_;
    trie.visit_prefixes(piece.substr(at), [&](std::size_t size, std::int32_t id) {
      longest = size;
      token = id;
    });
    known = longest > 0;
    if (known) out.push_back(token);
    at += longest;
  }
  if (known) return;
  out.resize(before);
  out.push_back(unknown_);
}

}  // namespace dovetail::text
