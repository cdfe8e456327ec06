#pragma once

#include <string>
#include <string_view>

namespace dovetail::serve {

// Whether `text` is well-formed UTF-8 (Unicode 15, table 3-7).
bool is_utf8(std::string_view text);

// A token as "logprobs" show it: its text, or, as OpenAI's API spells a piece of a character,
// "bytes:\xf0\x9f".
std::string token_label(std::string_view bytes);

// The bytes that a token's spelling stands for. Byte-level: GPT-2's printable stand-ins of bytes.
// SentencePiece: U+2581 is a space, "<0x0A>" a byte. What is no such sign stands for itself.
std::string byte_level_bytes(std::string_view spelling);
std::string sentencepiece_bytes(std::string_view spelling);

// The number of code points; `text` is UTF-8.
std::size_t code_points(std::string_view text);

}  // namespace dovetail::serve
