#include "dialog/model_format.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::dialog {

DialogFormat detect_format(const text::ChatTemplate& chat_template, std::string_view source,
                           const text::Tokenizer& tokenizer) {
  TemplateFacts facts;
  facts.source = source;
  facts.render = [&chat_template](const Json& variables) -> Result<std::string> {
    auto rendered = chat_template.render_chat(variables);
    if (!rendered) return fail(rendered.error());
    return std::move(rendered->text);
  };
  for (std::size_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const auto token = static_cast<text::TokenId>(id);
    if (tokenizer.is_special(token)) facts.control_tokens.emplace_back(tokenizer.token_text(token));
  }
  return DialogFormat::detect(facts);
}

}  // namespace dovetail::dialog
