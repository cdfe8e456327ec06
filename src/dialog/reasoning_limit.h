#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dialog/format.h"
#include "dialog/reasoning_budget.h"
#include "text/prompt_encoder.h"

namespace dovetail::dialog {

// Bounds how long one model's answers to chats reason, for programs that read them as text.
// Immutable, as is what a program does with it: any thread.
class ReasoningLimit {
 public:
  // `encoder` must outlive it.
  explicit ReasoningLimit(const text::PromptEncoder& encoder);

  // PromptEncoder::chat(), with a template that is told of `tokens`; -1: of none.
  Result<std::vector<TokenId>> encode(const Json& messages,
                                      std::span<const text::MarkedText> contents,
                                      std::int32_t tokens) const;
  // Of the answer to a prompt. Null: there is no bound, or the model does not reason.
  std::shared_ptr<const ReasoningBudget> budget(std::span<const TokenId> prompt,
                                                const ReasoningBound& bound) const;

 private:
  const text::PromptEncoder* encoder_;
  std::optional<DialogFormat> format_;  // where there is a template
};

}  // namespace dovetail::dialog
