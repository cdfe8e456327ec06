#include "text/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/jinja_special_case.h"

namespace dovetail::text::jinja {
namespace {

utf8proc_category_t category(char32_t value) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

void append_upper(std::string& out, char32_t value) {
  if (const SpecialCase* special = find_special_case(value)) {
    for (const char32_t part : special->upper) append_code_point(out, part);
    return;
  }
  append_code_point(out,
                    static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(value))));
}

void append_title(std::string& out, char32_t value) {
  if (const SpecialCase* special = find_special_case(value)) {
    for (const char32_t part : special->title) append_code_point(out, part);
    return;
  }
  append_code_point(out,
                    static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(value))));
}

bool is_cased(char32_t value) {
  return is_upper(value) || is_lower(value) || category(value) == UTF8PROC_CATEGORY_LT;
}

// Unicode's Case_Ignorable, as far as the final sigma rule needs it.
bool is_case_ignorable(char32_t value) {
  switch (category(value)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return value == '\'' || value == '.' || value == ':' || value == 0xB7 || value == 0x2019;
  }
}

constexpr char32_t kCapitalSigma = 0x3A3;

bool is_final_sigma(std::string_view text, size_t at, char32_t last_cased_before) {
  if (last_cased_before == 0) return false;
  for (size_t next = at; next < text.size();) {
    const CodePoint point = decode(text, next);
    next += point.size;
    if (is_case_ignorable(point.value)) continue;
    return !is_cased(point.value);
  }
  return true;
}

// Lower-cases text[at...] for one code point; `before` is the last cased letter in front of it that
// only ignorable code points separate from it, or 0.
void append_lower(std::string& out, std::string_view text, size_t at, char32_t before) {
  const CodePoint point = decode(text, at);
  if (point.value == 0x130) {
    out += "i\xCC\x87";
  } else if (point.value == kCapitalSigma) {
    append_code_point(out, is_final_sigma(text, at + point.size, before) ? 0x3C2 : 0x3C3);
  } else {
    append_code_point(
        out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point.value))));
  }
}

// Walks `text` and hands each code point to `write(out, at, point, last cased letter before it)`.
template <class Write>
std::string map_case(std::string_view text, const Write& write) {
  std::string out;
  out.reserve(text.size());
  char32_t before = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    write(out, at, point, before);
    if (is_cased(point.value)) {
      before = point.value;
    } else if (!is_case_ignorable(point.value)) {
      before = 0;
    }
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
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t value) { return category(value) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t value) {
  return is_decimal(value) || value == 0xB2 || value == 0xB3 || value == 0xB9 || value == 0x2070 ||
         (value >= 0x2074 && value <= 0x2079) || (value >= 0x2080 && value <= 0x2089) ||
         (value >= 0x2460 && value <= 0x2468);
}

bool is_numeric(char32_t value) {
  const auto kind = category(value);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t value) { return category(value) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t value) { return category(value) == UTF8PROC_CATEGORY_LL; }

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
  return map_case(text, [](std::string& out, size_t, CodePoint point, char32_t) {
    append_upper(out, point.value);
  });
}

std::string to_lower(std::string_view text) {
  return map_case(text, [&](std::string& out, size_t at, CodePoint, char32_t before) {
    append_lower(out, text, at, before);
  });
}

std::string to_capitalized(std::string_view text) {
  return map_case(text, [&](std::string& out, size_t at, CodePoint point, char32_t before) {
    if (at == 0) {
      append_title(out, point.value);
    } else {
      append_lower(out, text, at, before);
    }
  });
}

std::string to_title(std::string_view text) {
  bool inside = false;
  return map_case(text, [&](std::string& out, size_t at, CodePoint point, char32_t before) {
    if (inside) {
      append_lower(out, text, at, before);
    } else {
      append_title(out, point.value);
    }
    inside = is_cased(point.value);
  });
}

std::string to_swapped_case(std::string_view text) {
  return map_case(text, [&](std::string& out, size_t at, CodePoint point, char32_t before) {
    if (is_upper(point.value)) {
      append_lower(out, text, at, before);
    } else if (is_lower(point.value)) {
      append_upper(out, point.value);
    } else {
      append_code_point(out, point.value);
    }
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

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
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
      lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace dovetail::text::jinja
