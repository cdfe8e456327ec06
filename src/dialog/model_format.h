#pragma once

#include <string_view>

#include "dialog/format.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dovetail::dialog {

// DialogFormat::detect() for a model's template, whose text is `source`.
DialogFormat detect_format(std::string_view source, const text::ChatTemplate& program,
                           const text::Tokenizer& tokenizer);

}  // namespace dovetail::dialog
