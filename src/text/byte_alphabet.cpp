#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace dovetail::text {
namespace {

constexpr std::size_t kStandIns = 0x144;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21U && byte <= 0x7EU) || (byte >= 0xA1U && byte <= 0xAC) || byte >= 0xAEU;
}

struct Tables {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, kStandIns> byte{};
};

constexpr Tables make_tables() {
  Tables tables;
  tables.byte.fill(-1);
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t character = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    tables.character[byte] = character;
    tables.byte[character] = static_cast<std::int16_t>(byte);
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

char32_t byte_to_character(std::uint8_t byte) { return kTables.character[byte]; }

std::optional<std::uint8_t> character_to_byte(char32_t character) {
  if (character >= kStandIns || kTables.byte[character] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(kTables.byte[character]);
}

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 2);
  for (const char byte : bytes)
    append_utf8(out, byte_to_character(static_cast<std::uint8_t>(byte)));
  return out;
}

std::string alphabet_to_bytes(std::string_view token) {
  if (!is_valid_utf8(token)) return std::string(token);
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = code_point_at(token, at);
    const auto byte = character_to_byte(point.value);
    if (!byte) return std::string(token);
    out.push_back(static_cast<char>(*byte));
    at += point.size;
  }
  return out;
}

}  // namespace dovetail::text
