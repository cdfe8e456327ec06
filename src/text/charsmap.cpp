#include "text/charsmap.h"

#include <utf8proc.h>

#include <array>
#include <cstring>

#include "text/utf8.h"

namespace dovetail::text {
namespace {

// Graphemes of this many bytes and more are not looked up as a whole.
constexpr std::size_t kLongGrapheme = 6;

std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    std::uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<std::uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<std::uint32_t>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      return std::nullopt;
    }
    bits = (bits << 6U) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xFFU));
    }
  }
  return out;
}

std::uint32_t read_uint32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) {
    value = (value << 8U) | static_cast<std::uint8_t>(bytes[at + i]);
  }
  return value;
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view base64, std::string_view where) {
  const auto bytes = decode_base64(base64);
  if (!bytes) return fail(ErrorKind::kInvalid, "{}: not base64; valid: base64", where);
  const std::size_t trie_bytes = bytes->size() >= 4 ? read_uint32(*bytes, 0) : 0;
  if (bytes->size() < 8 || trie_bytes == 0 || trie_bytes % 4 != 0 ||
      trie_bytes > bytes->size() - 4) {
    return fail(ErrorKind::kInvalid,
                "{}: a trie of {} bytes in {} bytes; valid: a multiple of 4 that fits", where,
                trie_bytes, bytes->size());
  }
  auto data = std::make_shared<Data>();
  for (std::size_t at = 4; at < 4 + trie_bytes; at += 4) {
    data->units.push_back(read_uint32(*bytes, at));
  }
  data->replacements = bytes->substr(4 + trie_bytes);
  if (!is_valid_utf8(data->replacements)) {
    return fail(ErrorKind::kInvalid, "{}: replacements that are not UTF-8; valid: UTF-8", where);
  }
  Charsmap map;
  map.data_ = std::move(data);
  return map;
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  const auto& units = data_->units;
  const auto offset = [](std::uint32_t unit) {
    return (unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
  };
  std::size_t node = offset(units[0]);
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units.size()) return std::nullopt;
    const std::uint32_t unit = units[node];
    if ((unit & ((1U << 31U) | 0xFFU)) != byte) return std::nullopt;
    node ^= offset(unit);
    if (node >= units.size()) return std::nullopt;
    if (((unit >> 8U) & 1U) == 0) continue;
    // The shortest entry counts, as in the library.
    const std::size_t begin = units[node] & 0x7FFFFFFFU;
    const std::string_view all = data_->replacements;
    if (begin > all.size()) return std::nullopt;
    const std::string_view found = all.substr(begin, all.substr(begin).find('\0'));
    // A place within a character would tear it.
    if (!is_valid_utf8(found)) return std::nullopt;
    return found;
  }
  return std::nullopt;
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    utf8proc_int32_t state = 0;
    for (;;) {
      const CodePoint here = code_point_at(text, end);
      end += here.size;
      if (end >= text.size() ||
          utf8proc_grapheme_break_stateful(
              static_cast<utf8proc_int32_t>(here.value),
              static_cast<utf8proc_int32_t>(code_point_at(text, end).value), &state)) {
        break;
      }
    }
    const std::string_view grapheme = text.substr(begin, end - begin);
    begin = end;
    if (grapheme.size() < kLongGrapheme) {
      if (const auto whole = find(grapheme)) {
        out.append(*whole);
        continue;
      }
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view character = grapheme.substr(at, code_point_at(grapheme, at).size);
      out.append(find(character).value_or(character));
      at += character.size();
    }
  }
  return out;
}

}  // namespace dovetail::text
