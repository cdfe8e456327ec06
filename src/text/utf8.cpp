#include "text/utf8.h"

#include <utf8proc.h>

#include <cassert>

namespace dovetail::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

struct Scan {
  std::size_t size = 0;     // bytes of the character or of the maximal ill-formed part
  bool valid = false;       // a whole character
  bool unfinished = false;  // the text ends within what may become a character
};

// Looks at the first character of a non-empty text.
Scan scan(std::string_view text) {
  const std::uint8_t lead = byte_at(text, 0);
  if (lead < 0x80U) return {.size = 1, .valid = true};
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (lead >= 0xC2U && lead <= 0xDFU) {
    length = 2;
  } else if (lead >= 0xE0U && lead <= 0xEFU) {
    length = 3;
    if (lead == 0xE0U) low = 0xA0;   // no overlong forms
    if (lead == 0xEDU) high = 0x9F;  // no surrogates
  } else if (lead >= 0xF0U && lead <= 0xF4U) {
    length = 4;
    if (lead == 0xF0U) low = 0x90;
    if (lead == 0xF4U) high = 0x8F;  // not above U+10FFFF
  } else {
    return {.size = 1};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {.size = i, .unfinished = true};
    const std::uint8_t next = byte_at(text, i);
    if (next < low || next > high) return {.size = i};
    low = 0x80;
    high = 0xBF;
  }
  return {.size = length, .valid = true};
}

utf8proc_category_t category(char32_t value) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(value));
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t at) {
  assert(at < text.size());
  const char32_t lead = byte_at(text, at);
  if (lead < 0x80U) return {lead, 1};
  const auto tail = [&](std::size_t i) -> char32_t { return byte_at(text, at + i) & 0x3FU; };
  if (lead < 0xE0U) return {((lead & 0x1FU) << 6U) | tail(1), 2};
  if (lead < 0xF0U) return {((lead & 0x0FU) << 12U) | (tail(1) << 6U) | tail(2), 3};
  return {((lead & 0x07U) << 18U) | (tail(1) << 12U) | (tail(2) << 6U) | tail(3), 4};
}

void append_utf8(std::string& out, char32_t value) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80U) {
    put(value);
  } else if (value < 0x800U) {
    put(0xC0U | (value >> 6U));
    put(0x80U | (value & 0x3FU));
  } else if (value < 0x10000U) {
    put(0xE0U | (value >> 12U));
    put(0x80U | ((value >> 6U) & 0x3FU));
    put(0x80U | (value & 0x3FU));
  } else {
    put(0xF0U | (value >> 18U));
    put(0x80U | ((value >> 12U) & 0x3FU));
    put(0x80U | ((value >> 6U) & 0x3FU));
    put(0x80U | (value & 0x3FU));
  }
}

std::string to_utf8(char32_t value) {
  std::string out;
  append_utf8(out, value);
  return out;
}

std::u32string to_utf32(std::string_view valid) {
  std::u32string out;
  out.reserve(valid.size());
  for (std::size_t at = 0; at < valid.size();) {
    const CodePoint point = code_point_at(valid, at);
    out.push_back(point.value);
    at += point.size;
  }
  return out;
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Scan found = scan(text.substr(at));
    if (!found.valid) return false;
    at += found.size;
  }
  return true;
}

std::size_t unfinished_size(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Scan found = scan(text.substr(at));
    if (found.unfinished) return found.size;
    at += found.size;
  }
  return 0;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Utf8Repair repair;
  repair.push(text, out);
  repair.finish(out);
  return out;
}

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  std::size_t at = 0;
  while (held_size_ != 0 && at < bytes.size()) {
    held_[held_size_++] = bytes[at++];
    const std::string_view held(held_.data(), held_size_);
    const Scan found = scan(held);
    if (found.unfinished) continue;
    if (found.valid) {
      out.append(held);
    } else {
      out.append(kReplacement);
      // The byte that broke the character starts anew.
      if (found.size < held_size_) --at;
    }
    held_size_ = 0;
  }
  while (at < bytes.size()) {
    const Scan found = scan(bytes.substr(at));
    if (found.valid) {
      out.append(bytes.substr(at, found.size));
    } else if (found.unfinished) {
      held_size_ = bytes.copy(held_.data(), found.size, at);
    } else {
      out.append(kReplacement);
    }
    at += found.size;
  }
}

void Utf8Repair::finish(std::string& out) {
  if (held_size_ != 0) out.append(kReplacement);
  held_size_ = 0;
}

bool is_white_space(char32_t value) {
  return (value >= 0x09U && value <= 0x0DU) || value == 0x20U || value == 0x85U || value == 0xA0U ||
         value == 0x1680U || (value >= 0x2000U && value <= 0x200AU) || value == 0x2028U ||
         value == 0x2029U || value == 0x202FU || value == 0x205FU || value == 0x3000U;
}

bool is_number(char32_t value) {
  const auto kind = category(value);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t value) {
  const auto kind = category(value);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
         kind == UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t value) { return category(value) == UTF8PROC_CATEGORY_MN; }

bool is_control_or_private(char32_t value) {
  const auto kind = category(value);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t value) {
  if (value < 0x80U) {
    return (value >= 0x21U && value <= 0x2FU) || (value >= 0x3AU && value <= 0x40U) ||
           (value >= 0x5BU && value <= 0x60U) || (value >= 0x7BU && value <= 0x7EU);
  }
  const auto kind = category(value);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_word(char32_t value) {
  const auto kind = category(value);
  if (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) return true;
  if (is_mark(value) || kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
      kind == UTF8PROC_CATEGORY_PC) {
    return true;
  }
  // Circled and squared Latin letters are alphabetic symbols; so are the joiners for Rust's \w.
  return (value >= 0x24B6U && value <= 0x24E9U) || (value >= 0x1F130U && value <= 0x1F149U) ||
         (value >= 0x1F150U && value <= 0x1F169U) || (value >= 0x1F170U && value <= 0x1F189U) ||
         value == 0x200CU || value == 0x200DU;
}

}  // namespace dovetail::text
