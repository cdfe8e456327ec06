#include "grammar/code_points.h"

#include <algorithm>
#include <array>

namespace dovetail::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;
constexpr char32_t kLast = 0x10FFFF;

std::size_t encode(char32_t value, std::array<std::uint8_t, 4>& out) {
  if (value < 0x80) {
    out[0] = static_cast<std::uint8_t>(value);
    return 1;
  }
  const std::size_t size = value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
  for (std::size_t i = size - 1; i > 0; --i) {
    out[i] = static_cast<std::uint8_t>(0x80U | (value & 0x3FU));
    value >>= 6U;
  }
  constexpr std::array<std::uint32_t, 5> kLead = {0, 0, 0xC0, 0xE0, 0xF0};
  out[0] = static_cast<std::uint8_t>(kLead[size] | value);
  return size;
}

// Both ends have encodings of the same length.
void split(char32_t first, char32_t last,
           const std::function<void(std::span<const ByteRange>)>& take) {
  // Cut until every trailing byte spans one value or all 64.
  for (std::uint32_t bits = 6; bits <= 18 && first >= 0x80; bits += 6) {
    const char32_t low = (char32_t{1} << bits) - 1;
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      split(first, first | low, take);
      split((first | low) + 1, last, take);
      return;
    }
    if ((last & low) != low) {
      split(first, (last & ~low) - 1, take);
      split(last & ~low, last, take);
      return;
    }
  }
  std::array<std::uint8_t, 4> from{};
  std::array<std::uint8_t, 4> to{};
  const std::size_t size = encode(first, from);
  encode(last, to);
  std::array<ByteRange, 4> out;
  for (std::size_t i = 0; i < size; ++i) out[i] = {from[i], to[i]};
  take(std::span(out.data(), size));
}

}  // namespace

CodePointSet::CodePointSet(std::initializer_list<CodePointRange> ranges) {
  for (const CodePointRange& range : ranges) add(range.first, range.last);
}

CodePointSet CodePointSet::any() { return {{0, kLast}}; }

CodePointSet CodePointSet::word() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }

void CodePointSet::put(char32_t first, char32_t last) {
  auto from = std::lower_bound(
      ranges_.begin(), ranges_.end(), first,
      [](const CodePointRange& range, char32_t value) { return range.last + 1 < value; });
  auto to = from;
  for (; to != ranges_.end() && to->first <= last + 1; ++to) {
    first = std::min(first, to->first);
    last = std::max(last, to->last);
  }
  ranges_.insert(ranges_.erase(from, to), {first, last});
}

void CodePointSet::add(char32_t first, char32_t last) {
  last = std::min(last, kLast);
  if (first < kFirstSurrogate && first <= last)
    put(first, std::min<char32_t>(last, kFirstSurrogate - 1));
  if (last > kLastSurrogate && first <= last)
    put(std::max<char32_t>(first, kLastSurrogate + 1), last);
}

void CodePointSet::add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) put(range.first, range.last);
}

CodePointSet CodePointSet::negated() const {
  CodePointSet out;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) out.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLast) out.add(next, kLast);
  return out;
}

CodePointSet CodePointSet::without(const CodePointSet& other) const {
  CodePointSet kept_out = negated();
  kept_out.add(other);
  return kept_out.negated();
}

bool CodePointSet::contains(char32_t value) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const CodePointRange& range) {
    return range.first <= value && value <= range.last;
  });
}

std::optional<std::pair<char32_t, std::size_t>> decode_utf8(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = size == 1 ? lead : lead & (0x7FU >> size);
  bool good = size == 1 || (lead >= 0xC2 && lead <= 0xF4);
  if (size > text.size()) good = false;
  for (std::size_t i = 1; good && i < size; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    good = (byte & 0xC0U) == 0x80U;
    value = (value << 6U) | (byte & 0x3FU);
  }
  good = good && !(size == 3 && (value < 0x800 || (value >= 0xD800 && value <= 0xDFFF))) &&
         !(size == 4 && (value < 0x10000 || value > 0x10FFFF));
  if (!good) return std::nullopt;
  return std::pair(value, size);
}

void utf8_sequences(CodePointRange range,
                    const std::function<void(std::span<const ByteRange>)>& take) {
  constexpr std::array<char32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kLast};
  char32_t first = range.first;
  for (const char32_t end : kLastOfLength) {
    if (first > range.last) return;
    if (first > end) continue;
    split(first, std::min(range.last, end), take);
    first = end + 1;
  }
}

}  // namespace dovetail::grammar
