#include "text/visible_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace dovetail::text {
namespace {

struct Range {
  char32_t first, last;
};

constexpr std::array kUnseen{
    Range{0x00, 0x1F},     Range{0x7F, 0x9F},     Range{0x061C, 0x061C},
    Range{0x200E, 0x200F}, Range{0x2028, 0x202E}, Range{0x2066, 0x2069},
};

constexpr char32_t kPictures = 0x2400;  // of the ASCII control characters, in their order
constexpr char32_t kDelete = 0x7F, kDeletePicture = 0x2421;

}  // namespace

bool is_unseen_control(char32_t value) {
  return std::ranges::any_of(
      kUnseen, [&](Range range) { return value >= range.first && value <= range.last; });
}

std::string visible_text(std::string_view text) {
  const std::string valid = repair_utf8(text);
  std::string out;
  out.reserve(valid.size());
  for (std::size_t at = 0; at < valid.size();) {
    const CodePoint point = code_point_at(valid, at);
    if (point.value == '\n' || point.value == '\t' || !is_unseen_control(point.value)) {
      out.append(valid, at, point.size);
    } else if (point.value < ' ') {
      append_utf8(out, kPictures + point.value);
    } else if (point.value == kDelete) {
      append_utf8(out, kDeletePicture);
    } else {
      out += fmt::format("<U+{:04X}>", static_cast<std::uint32_t>(point.value));
    }
    at += point.size;
  }
  return out;
}

}  // namespace dovetail::text
