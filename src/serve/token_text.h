#pragma once

#include <string>
#include <string_view>

namespace dovetail::serve {

// Whether `text` is well-formed UTF-8 (Unicode 15, table 3-7).
bool is_utf8(std::string_view text);

// A token as "logprobs" show it: its text, or, as OpenAI's API spells a piece of a character,
// "bytes:\xf0\x9f".
std::string token_label(std::string_view bytes);

// The number of code points; `text` is UTF-8.
std::size_t code_points(std::string_view text);

}  // namespace dovetail::serve
