#include "dialog/reasoning_limit.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dialog/model_format.h"

namespace dovetail::dialog {

ReasoningLimit::ReasoningLimit(const text::PromptEncoder& encoder) : encoder_(&encoder) {
  if (const text::ChatTemplate* program = encoder.chat_template()) {
    format_ = detect_format(encoder.template_text(), *program, encoder.tokenizer());
  }
}

Result<std::vector<TokenId>> ReasoningLimit::encode(const Json& messages,
                                                    std::span<const text::MarkedText> contents,
                                                    std::int32_t tokens) const {
  return encoder_->chat(messages, contents, reasoning_variables(std::nullopt, tokens));
}

std::shared_ptr<const ReasoningBudget> ReasoningLimit::budget(std::span<const TokenId> prompt,
                                                              const ReasoningBound& bound) const {
  if (!format_) return nullptr;
  // Whether the prompt opens the reasoning shows at its end.
  constexpr std::size_t kEnd = 64;
  const text::Tokenizer& tokenizer = encoder_->tokenizer();
  const std::string end = tokenizer.decode(prompt.last(std::min(kEnd, prompt.size())), false);
  return reasoning_budget(*format_, end, bound, [&](std::string_view text, bool special) {
    return tokenizer.encode(text, {.add_special = false, .parse_special = special});
  });
}

}  // namespace dovetail::dialog
