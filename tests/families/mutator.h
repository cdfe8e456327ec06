#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

#include "load/gguf_builder.h"

namespace dovetail::families {

// Makes malformed files of good ones; the same seed makes the same files. Uses no distribution of
// the standard library, since these differ between libraries.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }

  // Changes one to four places, mostly one and within the first `header` bytes.
  Bytes mutate(Bytes bytes, std::size_t header) {
    for (std::size_t i = 0, changes = count(); i < changes; ++i) change(bytes, header);
    return bytes;
  }

  // Changes one to four numbers or words of a JSON text, or its bytes.
  std::string mutate_json(std::string text) {
    for (std::size_t i = 0, changes = count(); i < changes; ++i) {
      if (one_in(4)) {
        Bytes raw;
        append_text(raw, text);
        change(raw, raw.size());
        text.assign(reinterpret_cast<const char*>(raw.data()), raw.size());
      } else {
        change_token(text);
      }
    }
    return text;
  }

 private:
  static constexpr auto kNumbers = std::to_array<std::uint64_t>({0,
                                                                 1,
                                                                 2,
                                                                 3,
                                                                 7,
                                                                 8,
                                                                 64,
                                                                 0x7F,
                                                                 0x80,
                                                                 0xFF,
                                                                 0x7FFF,
                                                                 0xFFFF,
                                                                 0x7FFFFFFF,
                                                                 0x80000000,
                                                                 0xFFFFFFFF,
                                                                 0x100000000,
                                                                 0x100000001,
                                                                 0x7FFFFFFFFFFFFFFF,
                                                                 0x8000000000000000,
                                                                 0xFFFFFFFFFFFFFFE0,
                                                                 0xFFFFFFFFFFFFFFFF});
  static constexpr auto kWords = std::to_array<std::string_view>({"0",
                                                                  "1",
                                                                  "2",
                                                                  "-1",
                                                                  "16",
                                                                  "2147483647",
                                                                  "2147483648",
                                                                  "4294967295",
                                                                  "4294967296",
                                                                  "9223372036854775807",
                                                                  "9223372036854775808",
                                                                  "18446744073709551615",
                                                                  "18446744073709551616",
                                                                  "1e308",
                                                                  "1e999",
                                                                  "-0.0",
                                                                  "0.5",
                                                                  "1e-400",
                                                                  "null",
                                                                  "true",
                                                                  "false",
                                                                  "\"\"",
                                                                  "\"linear\"",
                                                                  "\"yarn\"",
                                                                  "\"F16\"",
                                                                  "\"\\u0000\"",
                                                                  "[]",
                                                                  "{}",
                                                                  "[0, 0]",
                                                                  "[[[[]]]]",
                                                                  "{\"factor\": 4}"});

  std::size_t count() { return one_in(2) ? 1 : 1 + below(4); }

  std::size_t place(const Bytes& bytes, std::size_t header) {
    return below(one_in(8) ? bytes.size() : std::min(header, bytes.size()));
  }

  void change(Bytes& bytes, std::size_t header) {
    if (bytes.empty()) return;
    const std::size_t at = place(bytes, header);
    const std::size_t other = place(bytes, header);
    const std::size_t length =
        std::min(1 + below(one_in(2) ? 16 : 256), bytes.size() - std::max(at, other));
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    const auto source = bytes.begin() + static_cast<std::ptrdiff_t>(other);
    switch (below(8)) {
      case 0:
        bytes[at] ^= std::byte{1} << below(8);
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(below(256));
        break;
      case 2:
        if (one_in(3)) bytes.resize(at);
        break;
      case 3:
      case 4:
        write_number(bytes, at);
        break;
      case 5:
        std::memmove(&*begin, &*source, length);
        break;
      case 6:
        if (at + length <= other || other + length <= at) std::swap_ranges(begin, end, source);
        break;
      default: {
        const Bytes copy(begin, end);
        if (one_in(2)) {
          bytes.erase(begin, end);
        } else {
          bytes.insert(source, copy.begin(), copy.end());
        }
        break;
      }
    }
  }

  // A boundary value, or the number that is there moved by a little.
  void write_number(Bytes& bytes, std::size_t at) {
    const std::size_t width = std::min(std::size_t{1} << below(4), bytes.size() - at);
    std::uint64_t value = kNumbers[below(kNumbers.size())];
    if (one_in(3)) {
      std::memcpy(&value, bytes.data() + at, width);
      value += one_in(2) ? 1 : ~std::uint64_t{0};
    }
    std::memcpy(bytes.data() + at, &value, width);
  }

  void change_token(std::string& text) {
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
    };
    std::size_t begin = below(text.size());
    while (begin < text.size() && !is_word(text[begin])) ++begin;
    while (begin > 0 && begin < text.size() && is_word(text[begin - 1])) --begin;
    std::size_t end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
    if (begin == end) return;
    // A word in quotes goes with them, or it stays a string.
    if (begin > 0 && text[begin - 1] == '"' && end < text.size() && text[end] == '"' && one_in(2)) {
      --begin;
      ++end;
    }
    text.replace(begin, end - begin, kWords[below(kWords.size())]);
  }

  std::mt19937_64 random_;
};

}  // namespace dovetail::families
