#include "serve/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace dovetail::serve {

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

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace dovetail::serve
