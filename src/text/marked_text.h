#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dovetail::text {

// Bytes [begin, end) of a text.
struct ByteSpan {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const ByteSpan&) const = default;
};

// A text that knows which of its bytes come from outside: from messages or records, not from the
// template. Those never become control tokens.
struct MarkedText {
  std::string text;
  std::vector<ByteSpan> untrusted;  // ascending; none is empty, none touches the next

  static MarkedText trusted(std::string text) { return {std::move(text), {}}; }
  static MarkedText from_outside(std::string text);
  // Untrusted but for `spans`, ascending ones that do not touch.
  static MarkedText trusted_within(std::string text, std::span<const ByteSpan> spans);

  bool all_trusted() const { return untrusted.empty(); }

  std::vector<ByteSpan> trusted_spans() const;

  void append_trusted(std::string_view written) { text += written; }
  void append(const MarkedText& other);
  // Bytes [at, at + size) of `other`, which must lie within it.
  void append(const MarkedText& other, std::size_t at, std::size_t size);
  void append_from_outside(std::string_view untrusted_text);

  // What `view`, which must lie within `text`, shows of it.
  MarkedText part(std::string_view view) const;
  // `changed`, which some function made of this text: marked as this where it is equal, wholly
  // where anything of this is marked.
  MarkedText carry_to(std::string changed) const;

  void truncate(std::size_t size);  // size <= text.size()
  void distrust() { *this = from_outside(std::move(text)); }
};

// What of [begin, end) lies within ascending spans, counted from `begin`.
std::vector<ByteSpan> spans_within(std::span<const ByteSpan> spans, std::size_t begin,
                                   std::size_t end);

// How much of [begin, end), which is not empty, lies within ascending spans that do not touch.
enum class Coverage { kNone, kPart, kAll };
Coverage coverage(std::span<const ByteSpan> spans, std::size_t begin, std::size_t end);

}  // namespace dovetail::text
