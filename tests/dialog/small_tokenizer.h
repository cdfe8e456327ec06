#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace dovetail::dialog::test {

// Tokens of single characters (of ASCII), and control tokens.
text::Tokenizer characters_and(const std::vector<std::string>& control_tokens);

}  // namespace dovetail::dialog::test
