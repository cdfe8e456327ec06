#include "text/bert.h"

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

}  // namespace dovetail::text
