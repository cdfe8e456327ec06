#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/model_source.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dovetail::text {

// Texts and chats as prompts of one model. Immutable; the tokenizer must outlive it.
class PromptEncoder {
 public:
  // `chat_template` replaces the model's where it is not empty (see choose_template()). kInvalid:
  // it does not parse; that of a model is an error only when a chat is asked for.
  static Result<PromptEncoder> create(const load::ModelSource& source, const Tokenizer& tokenizer,
                                      const std::string& chat_template);

  // The tokens of a text, with BOS where the tokenizer puts it.
  std::vector<TokenId> text(std::string_view prompt, bool parse_special) const;

  // Whether there is a template to chat with: kUnsupported or kInvalid where there is none.
  Status can_chat() const;

  // A chat, {"role", "content", ...} each, as the template writes it, up to where the answer
  // begins. `variables`: an object of more that the template reads. Errors: those of can_chat(),
  // and kInvalid where the template refuses the messages.
  Result<MarkedText> render(const nlohmann::ordered_json& messages,
                            std::span<const MarkedText> contents,
                            nlohmann::ordered_json variables) const;
  // The tokens of what render() gave: what the messages say holds no control tokens, but for what
  // `contents` trusts (see ChatTemplate::render_chat()).
  std::vector<TokenId> encode(const MarkedText& rendered) const;
  // Both.
  Result<std::vector<TokenId>> chat(const nlohmann::ordered_json& messages,
                                    std::span<const MarkedText> contents,
                                    nlohmann::ordered_json variables) const;
  Result<std::vector<TokenId>> chat(const nlohmann::ordered_json& messages,
                                    std::span<const MarkedText> contents = {}) const;

  // The template, where can_chat(), and its text.
  const ChatTemplate* chat_template() const { return template_ ? &*template_ : nullptr; }
  const std::string& template_text() const { return template_text_; }
  // Where it comes from, as TemplateChoice says it; empty where there is none.
  const std::string& template_origin() const { return template_origin_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  PromptEncoder(const Tokenizer& tokenizer, std::string model);

  const Tokenizer* tokenizer_;
  std::string model_;
  std::optional<ChatTemplate> template_;
  std::string template_text_;
  std::string template_origin_;
  std::string template_error_;
};

}  // namespace dovetail::text
