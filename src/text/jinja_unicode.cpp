#include "text/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

namespace dovetail::text::jinja {
namespace {

utf8proc_category_t category(char32_t value) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

using Mapping = utf8proc_int32_t (*)(utf8proc_int32_t);

void append_mapped(std::string& out, char32_t value, Mapping mapping) {
  append_code_point(out, static_cast<char32_t>(mapping(static_cast<utf8proc_int32_t>(value))));
}

bool is_cased(char32_t value) {
  const auto kind = category(value);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT;
}

// Maps each code point of `text` by the mapping that `choose(index, code point)` gives.
template <class Choose>
std::string map_case(std::string_view text, const Choose& choose) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    append_mapped(out, point.value, choose(at, point.value));
    at += point.size;
  }
  return out;
}

}  // namespace

CodePoint decode(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  utf8proc_int32_t value = -1;
  const auto size = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
      static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - at, 4)), &value);
  if (size <= 0 || value < 0) return {static_cast<char32_t>(0xDC00 + byte), 1};
  return {static_cast<char32_t>(value), static_cast<uint32_t>(size)};
}

void append_code_point(std::string& out, char32_t value) {
  if (value >= 0xDC80 && value <= 0xDCFF) {
    out += static_cast<char>(value - 0xDC00);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(value), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

size_t length(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode(text, at).size) ++count;
  return count;
}

std::vector<uint32_t> offsets(std::string_view text) {
  std::vector<uint32_t> result;
  result.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += decode(text, at).size) {
    result.push_back(static_cast<uint32_t>(at));
  }
  result.push_back(static_cast<uint32_t>(text.size()));
  return result;
}

bool is_space(char32_t value) {
  if (value < 0x80)
    return value == ' ' || (value >= 9 && value <= 13) || (value >= 28 && value <= 31);
  return value == 0x85 || value == 0xA0 || value == 0x1680 ||
         (value >= 0x2000 && value <= 0x200A) || value == 0x2028 || value == 0x2029 ||
         value == 0x202F || value == 0x205F || value == 0x3000;
}

bool is_alpha(char32_t value) {
  const auto kind = category(value);
  return is_cased(value) || kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_LO;
}

bool is_printable(char32_t value) {
  switch (category(value)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return value == ' ';
    default:
      return true;
  }
}

std::string to_upper(std::string_view text) {
  return map_case(text, [](size_t, char32_t) { return utf8proc_toupper; });
}

std::string to_lower(std::string_view text) {
  return map_case(text, [](size_t, char32_t) { return utf8proc_tolower; });
}

std::string to_capitalized(std::string_view text) {
  return map_case(
      text, [](size_t at, char32_t) { return at == 0 ? utf8proc_totitle : utf8proc_tolower; });
}

std::string to_title(std::string_view text) {
  bool inside = false;
  return map_case(text, [&](size_t, char32_t value) {
    return std::exchange(inside, is_cased(value)) ? utf8proc_tolower : utf8proc_totitle;
  });
}

std::string_view strip(std::string_view text, std::string_view characters, Side side) {
  std::u32string wanted;
  for (size_t at = 0; at < characters.size();) {
    const CodePoint point = decode(characters, at);
    wanted += point.value;
    at += point.size;
  }
  std::sort(wanted.begin(), wanted.end());
  const auto goes = [&](char32_t value) {
    return characters.empty() ? is_space(value)
                              : std::binary_search(wanted.begin(), wanted.end(), value);
  };
  if (side != Side::kRight) {
    while (!text.empty()) {
      const CodePoint point = decode(text, 0);
      if (!goes(point.value)) break;
      text.remove_prefix(point.size);
    }
  }
  if (side != Side::kLeft) {
    while (!text.empty()) {
      // Back over continuation bytes, as long as they and their first byte make one code point.
      size_t start = text.size() - 1;
      for (size_t back = 1; back <= 4 && back <= text.size(); ++back) {
        const CodePoint point = decode(text, text.size() - back);
        if (point.size == back) {
          start = text.size() - back;
          if (back > 1 || point.value < 0x80) break;
        }
      }
      if (!goes(decode(text, start).value)) break;
      text = text.substr(0, start);
    }
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    const char32_t value = point.value;
    const bool ends = (value >= 10 && value <= 13) || (value >= 28 && value <= 30) ||
                      value == 0x85 || value == 0x2028 || value == 0x2029;
    size_t next = at + point.size;
    if (ends) {
      if (value == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(start, at - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace dovetail::text::jinja
