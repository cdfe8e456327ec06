#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace dovetail::grammar {

struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;  // included
};

struct ByteRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;  // included
};

// A set of Unicode scalar values (no surrogates), as sorted ranges that neither touch nor overlap.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges);
  static CodePointSet any();
  static CodePointSet word();  // ASCII letters, digits and the underscore

  // Surrogates among them are left out.
  void add(char32_t first, char32_t last);
  void add(const CodePointSet& other);
  CodePointSet negated() const;
  CodePointSet without(const CodePointSet& other) const;
  bool contains(char32_t value) const;
  bool empty() const { return ranges_.empty(); }
  std::span<const CodePointRange> ranges() const { return ranges_; }

 private:
  void put(char32_t first, char32_t last);
  std::vector<CodePointRange> ranges_;
};

// The code point that UTF-8 text begins with, and its bytes; nothing where there is none.
std::optional<std::pair<char32_t, std::size_t>> decode_utf8(std::string_view text);

// Calls `take` with sequences of byte ranges whose products together are exactly the UTF-8
// encodings of `range`, which holds no surrogates.
void utf8_sequences(CodePointRange range,
                    const std::function<void(std::span<const ByteRange>)>& take);

}  // namespace dovetail::grammar
