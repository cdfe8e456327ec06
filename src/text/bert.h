#pragma once

#include <optional>
#include <vector>

#include "text/normalizer.h"
#include "text/pretokenizer.h"

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

}  // namespace dovetail::text
