#include "text/prompt_encoder.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "text/built_in_templates.h"

namespace dovetail::text {
namespace {

std::string token_text(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

}  // namespace

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer, std::string model)
    : tokenizer_(&tokenizer), model_(std::move(model)) {}

Result<PromptEncoder> PromptEncoder::create(const load::ModelSource& source,
                                            const Tokenizer& tokenizer,
                                            const std::string& chat_template) {
  PromptEncoder encoder(tokenizer, source.path.string());
  const std::optional<TemplateChoice> choice = choose_template(source, tokenizer, chat_template);
  if (!choice) return encoder;
  encoder.template_text_ = choice->text;
  encoder.template_origin_ = choice->origin;
  auto parsed = ChatTemplate::parse(encoder.template_text_);
  if (parsed) {
    encoder.template_ = *std::move(parsed);
  } else if (choice->given) {
    return fail(parsed.error());
  } else {
    encoder.template_error_ = parsed.error().message;
  }
  return encoder;
}

std::vector<TokenId> PromptEncoder::text(std::string_view prompt, bool parse_special) const {
  return tokenizer_->encode(prompt, {.add_special = true, .parse_special = parse_special});
}

Status PromptEncoder::can_chat() const {
  if (template_) return {};
  if (!template_error_.empty()) return fail(ErrorKind::kInvalid, "{}: {}", model_, template_error_);
  return fail(ErrorKind::kUnsupported,
              "{}: the model has no chat template, expected one in the model or --chat-template (a "
              "file, or one of {}); a plain prompt needs none",
              model_, built_in_template_names());
}

Result<MarkedText> PromptEncoder::render(const nlohmann::ordered_json& messages,
                                         std::span<const MarkedText> contents,
                                         nlohmann::ordered_json variables) const {
  if (const Status ok = can_chat(); !ok) return fail(ok.error());
  variables["messages"] = messages;
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = true;
  variables["bos_token"] = token_text(*tokenizer_, tokenizer_->bos());
  variables["eos_token"] = token_text(*tokenizer_, tokenizer_->eos());
  return template_->render_chat(std::move(variables), {}, contents);
}

std::vector<TokenId> PromptEncoder::encode(const MarkedText& rendered) const {
  // The template itself writes BOS.
  return tokenizer_->encode(rendered.text, {.add_special = false, .untrusted = rendered.untrusted});
}

Result<std::vector<TokenId>> PromptEncoder::chat(const nlohmann::ordered_json& messages,
                                                 std::span<const MarkedText> contents,
                                                 nlohmann::ordered_json variables) const {
  const Result<MarkedText> rendered = render(messages, contents, std::move(variables));
  if (!rendered) return fail(rendered.error());
  return encode(*rendered);
}

Result<std::vector<TokenId>> PromptEncoder::chat(const nlohmann::ordered_json& messages,
                                                 std::span<const MarkedText> contents) const {
  return chat(messages, contents, nlohmann::ordered_json::object());
}

}  // namespace dovetail::text
