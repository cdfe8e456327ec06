#pragma once

#include <string_view>

#include "dialog/format.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dovetail::dialog {

// DialogFormat::detect() of a model with this tokenizer and this template, whose text is `source`.
// Keeps none of them.
DialogFormat detect_format(std::string_view source, const text::ChatTemplate& program,
                           const text::Tokenizer& tokenizer);

}  // namespace dovetail::dialog
