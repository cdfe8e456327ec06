#include "load/quote.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dovetail::load {

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += text.size() > kLongest ? "...'" : "'";
  return out;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  constexpr std::size_t kMost = 8;
  const auto shown = shape.first(shape.size() < kMost ? shape.size() : kMost);
  return fmt::format("[{}{}]", fmt::join(shown, ", "), shape.size() > kMost ? ", ..." : "");
}

}  // namespace dovetail::load
