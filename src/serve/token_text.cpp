#include "serve/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

namespace dovetail::serve {
namespace {

bool prints(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The printable bytes of Latin-1 stand for themselves, U+0100 and up for the others in order.
std::optional<unsigned char> stood_for(unsigned character) {
  if (character < 0x100) {
    if (!prints(character)) return std::nullopt;
    return static_cast<unsigned char>(character);
  }
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 0x100; ++byte) {
    if (!prints(byte) && next++ == character) return static_cast<unsigned char>(byte);
  }
  return std::nullopt;
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto byte = [text](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  for (std::size_t at = 0; at < text.size();) {
    const unsigned lead = byte(at);
    std::size_t length = 1;
    unsigned least = 0x80;  // of the second byte
    unsigned most = 0xBF;
    if (lead >= 0x80) {
      if (lead < 0xC2 || lead > 0xF4) return false;
      length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
      if (lead == 0xE0) least = 0xA0;
      if (lead == 0xED) most = 0x9F;
      if (lead == 0xF0) least = 0x90;
      if (lead == 0xF4) most = 0x8F;
    }
    for (std::size_t i = 1; i < length; ++i) {
      if (byte(at + i) < least || byte(at + i) > most) return false;
      least = 0x80;
      most = 0xBF;
    }
    at += length;
  }
  return true;
}

std::string token_label(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string label = "bytes:";
  for (const char c : bytes) {
    fmt::format_to(std::back_inserter(label), "\\x{:02x}", static_cast<unsigned char>(c));
  }
  return label;
}

std::string byte_level_bytes(std::string_view spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const auto lead = static_cast<unsigned char>(spelling[at]);
    // All stand-ins lie below U+0180: one byte of UTF-8, or two. Below 0xC2 is ASCII, or what goes
    // on in a longer character.
    if (lead < 0xC2 || lead > 0xC5 || at + 1 >= spelling.size()) {
      bytes += spelling[at++];
      continue;
    }
    const unsigned character =
        (lead & 0x1FU) << 6U | (static_cast<unsigned char>(spelling[at + 1]) & 0x3FU);
    const std::optional<unsigned char> byte = stood_for(character);
    if (byte) {
      bytes += static_cast<char>(*byte);
    } else {
      bytes.append(spelling, at, 2);
    }
    at += 2;
  }
  return bytes;
}

std::string sentencepiece_bytes(std::string_view spelling) {
  constexpr std::string_view kSpace = "\u2581";
  if (spelling.size() == 6 && spelling.substr(0, 3) == "<0x" && spelling[5] == '>') {
    unsigned byte = 0;
    const auto [end, failure] = std::from_chars(&spelling[3], &spelling[5], byte, 16);
    if (failure == std::errc() && end == &spelling[5]) return {static_cast<char>(byte)};
  }
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const bool space = spelling.substr(at, kSpace.size()) == kSpace;
    bytes += space ? ' ' : spelling[at];
    at += space ? kSpace.size() : 1;
  }
  return bytes;
}

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace dovetail::serve
