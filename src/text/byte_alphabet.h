#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail::text {

// The printable stand-ins of bytes in byte-level vocabularies, as GPT-2 defined them: the printable
// characters of Latin-1 stand for themselves, the other bytes for U+0100 and up, in order.

char32_t byte_to_character(std::uint8_t byte);
std::optional<std::uint8_t> character_to_byte(char32_t character);

std::string bytes_to_alphabet(std::string_view bytes);
// The bytes that `token` stands for; where a character of it stands for none, `token` itself.
std::string alphabet_to_bytes(std::string_view token);

}  // namespace dovetail::text
