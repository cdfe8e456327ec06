#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "text/utf8.h"

namespace dovetail::text {
namespace {

// Graphemes of this many bytes and more are not looked up as a whole.
constexpr std::size_t kLongGrapheme = 6;
// Bytes of an entry of a character map and of what takes its place.
constexpr std::size_t kLongestEntry = 256;
constexpr std::size_t kLongestReplacement = 256;

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
  auto map = from_bytes(*bytes, where);
  if (map) map->longest_ = false;
  return map;
}

Result<Charsmap> Charsmap::from_bytes(std::string_view bytes, std::string_view where) {
  const std::size_t trie_bytes = bytes.size() >= 4 ? read_uint32(bytes, 0) : 0;
  if (bytes.size() < 8 || trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - 4) {
    return fail(ErrorKind::kInvalid,
                "{}: a trie of {} bytes in {} bytes; valid: a multiple of 4 that fits", where,
                trie_bytes, bytes.size());
  }
  auto data = std::make_shared<Data>();
  for (std::size_t at = 4; at < 4 + trie_bytes; at += 4) {
    data->units.push_back(read_uint32(bytes, at));
  }
  data->replacements = bytes.substr(4 + trie_bytes);
  if (!is_valid_utf8(data->replacements)) {
    return fail(ErrorKind::kInvalid, "{}: replacements that are not UTF-8; valid: UTF-8", where);
  }
  Charsmap map;
  map.data_ = std::move(data);
  map.longest_ = true;
  return map;
}

template <class Visit>
void Charsmap::visit_entries(std::string_view text, Visit&& visit) const {
  const auto& units = data_->units;
  const auto offset = [](std::uint32_t unit) {
    return (unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
  };
  std::size_t node = offset(units[0]);
  // A damaged trie may have no end.
  for (std::size_t i = 0; i < std::min(text.size(), kLongestEntry); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if (byte == 0) return;
    node ^= byte;
    if (node >= units.size()) return;
    const std::uint32_t unit = units[node];
    if ((unit & ((1U << 31U) | 0xFFU)) != byte) return;
    node ^= offset(unit);
    if (node >= units.size()) return;
    if (((unit >> 8U) & 1U) == 0) continue;
    const std::size_t begin = units[node] & 0x7FFFFFFFU;
    const std::string_view all = data_->replacements;
    if (begin > all.size()) return;
    const std::string_view found = all.substr(begin, all.substr(begin).find('\0'));
    // A place within a character would tear it; no text grows without bound.
    if (!is_valid_utf8(found) || found.size() > kLongestReplacement) return;
    if (!visit(i + 1, found)) return;
  }
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  std::optional<std::string_view> first;
  visit_entries(text, [&](std::size_t, std::string_view replacement) {
    first = replacement;  // the shortest entry counts, as in the library
    return false;
  });
  return first;
}

std::string Charsmap::apply_longest(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t taken = code_point_at(text, at).size;
    std::string_view replacement = text.substr(at, taken);
    visit_entries(text.substr(at), [&](std::size_t size, std::string_view found) {
      const std::size_t end = at + size;
      const bool whole =
          end == text.size() || (static_cast<std::uint8_t>(text[end]) & 0xC0U) != 0x80U;
      if (whole) {  // an entry that ends within a character would tear it
        taken = size;
        replacement = found;
      }
      return true;
    });
    out.append(replacement);
    at += taken;
  }
  return out;
}

std::string Charsmap::apply(std::string_view text) const {
  if (longest_) return apply_longest(text);
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

namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

utf8proc_propval_t combining_class(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

// Calls map(character, out) for every character.
template <class Map>
std::string map_characters(std::string_view text, Map&& map) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    map(point.value, out);
    at += point.size;
  }
  return out;
}

void append_lowercase(char32_t character, std::string& out) {
  if (character == 0x130U) {  // the one letter whose lower case is two characters
    out.append("i\xCC\x87");
    return;
  }
  append_utf8(out,
              static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
}

std::string_view strip(std::string_view text, const StripWhiteSpace& sides) {
  std::size_t begin = 0;
  while (sides.left && begin < text.size()) {
    const CodePoint point = code_point_at(text, begin);
    if (!is_white_space(point.value)) break;
    begin += point.size;
  }
  std::size_t end = text.size();
  while (sides.right && end > begin) {
    std::size_t last = end - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0U) == 0x80U) --last;
    if (!is_white_space(code_point_at(text, last).value)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

void append_nmt(char32_t c, std::string& out) {
  if ((c >= 0x01U && c <= 0x08U) || c == 0x0BU || (c >= 0x0EU && c <= 0x1FU) || c == 0x7FU ||
      c == 0x8FU || c == 0x9FU) {
    return;
  }
  const bool space = c == 0x09U || c == 0x0AU || c == 0x0CU || c == 0x0DU || c == 0x1680U ||
                     (c >= 0x200BU && c <= 0x200FU) || c == 0x2028U || c == 0x2029U ||
                     c == 0x2581U || c == 0xFEFFU || c == 0xFFFDU;
  append_utf8(out, space ? U' ' : c);
}

void append_bert_cleaned(char32_t c, std::string& out) {
  const bool line = c == U'\t' || c == U'\n' || c == U'\r';
  if (!line && (c == 0 || c == 0xFFFDU || is_control_or_private(c))) return;
  append_utf8(out, line || is_white_space(c) ? U' ' : c);
}

// BERT's list of blocks, with its gap: U+2B820 to U+2B91F are not among them.
bool is_bert_chinese(char32_t c) {
  return (c >= 0x3400U && c <= 0x4DBFU) || (c >= 0x4E00U && c <= 0x9FFFU) ||
         (c >= 0xF900U && c <= 0xFAFFU) || (c >= 0x20000U && c <= 0x2A6DFU) ||
         (c >= 0x2A700U && c <= 0x2B81FU) || (c >= 0x2B920U && c <= 0x2CEAFU) ||
         (c >= 0x2F800U && c <= 0x2FA1FU);
}

void append_spaced_han(char32_t c, std::string& out) {
  const bool chinese = is_bert_chinese(c);
  if (chinese) out.push_back(' ');
  append_utf8(out, c);
  if (chinese) out.push_back(' ');
}

}  // namespace

std::string normalize_unicode(std::string_view text, NormalizationForm form) {
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x80U; })) {
    return std::string(text);
  }
  const bool compatible = form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd;
  const bool compose = form == NormalizationForm::kNfc || form == NormalizationForm::kNfkc;
  const auto decompose = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                        (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts{};  // the longest decomposition has 18
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.size;
    int boundary = 0;
    const auto character = static_cast<utf8proc_int32_t>(point.value);
    const auto count = utf8proc_decompose_char(
        character, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), decompose, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
      characters.push_back(character);
    } else {
      characters.insert(characters.end(), parts.begin(), parts.begin() + count);
    }
  }
  // The canonical order, run by run: utf8proc's own sort is quadratic in a run of marks.
  for (auto run = characters.begin(); run != characters.end();) {
    if (combining_class(*run) == 0) {
      ++run;
      continue;
    }
    const auto end =
        std::find_if(run, characters.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(run, end, [](auto left, auto right) {
      return combining_class(left) < combining_class(right);
    });
    run = end;
  }
  auto count = static_cast<utf8proc_ssize_t>(characters.size());
  if (compose) {
    count = utf8proc_normalize_utf32(
        characters.data(), count,
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(out, static_cast<char32_t>(characters[static_cast<std::size_t>(i)]));
  }
  return out;
}

namespace {

std::string apply_step(const NormalizerStep& step, const std::string& current) {
  return std::visit(
      Overloaded{
          [&](NormalizationForm form) { return normalize_unicode(current, form); },
          [&](const Lowercase&) { return map_characters(current, append_lowercase); },
          [&](const StripWhiteSpace& sides) { return std::string(strip(current, sides)); },
          [&](const StripAccents&) {
            return map_characters(current, [](char32_t c, std::string& out) {
              if (!is_mark(c)) append_utf8(out, c);
            });
          },
          [&](const NmtCleanup&) { return map_characters(current, append_nmt); },
          [&](const StripNonspacing&) {
            return map_characters(current, [](char32_t c, std::string& out) {
              if (!is_nonspacing_mark(c)) append_utf8(out, c);
            });
          },
          [&](const BertCleanup&) { return map_characters(current, append_bert_cleaned); },
          [&](const SpacesAroundHan&) { return map_characters(current, append_spaced_han); },
          [&](const ReplaceText& replace) {
            return replace.pattern.replace(current, replace.content);
          },
          [&](const PrependText& prepend) {
            return current.empty() ? current : prepend.text + current;
          },
          [&](const Charsmap& map) { return map.apply(current); },
      },
      step);
}

}  // namespace

std::string Normalizer::normalize(std::string_view text) const {
  std::string current(text);
  for (const NormalizerStep& step : steps) current = apply_step(step, current);
  return current;
}

std::vector<std::string> Normalizer::normalize_parts(std::vector<std::string> parts) const {
  for (const NormalizerStep& step : steps) {
    if (const auto* sides = std::get_if<StripWhiteSpace>(&step)) {
      for (auto part = parts.begin(); sides->left && part != parts.end(); ++part) {
        *part = strip(*part, {.left = true, .right = false});
        if (!part->empty()) break;
      }
      for (auto part = parts.rbegin(); sides->right && part != parts.rend(); ++part) {
        *part = strip(*part, {.left = false, .right = true});
        if (!part->empty()) break;
      }
    } else if (std::holds_alternative<PrependText>(step)) {
      if (!parts.empty()) parts.front() = apply_step(step, parts.front());
    } else {
      for (std::string& part : parts) part = apply_step(step, part);
    }
  }
  return parts;
}

}  // namespace dovetail::text
