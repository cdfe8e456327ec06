#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace dovetail::text {
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

std::string Normalizer::normalize(std::string_view text) const {
  std::string current(text);
  for (const NormalizerStep& step : steps) {
    current = std::visit(
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
  return current;
}

}  // namespace dovetail::text
