#include "text/marked_text.h"

#include <algorithm>

namespace dovetail::text {
namespace {

void add(std::vector<ByteSpan>& spans, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!spans.empty() && spans.back().end == begin) {
    spans.back().end = end;
  } else {
    spans.push_back({begin, end});
  }
}

// What of the first `size` bytes lies between ascending spans of them.
std::vector<ByteSpan> gaps(std::span<const ByteSpan> spans, std::size_t size) {
  std::vector<ByteSpan> out;
  std::size_t done = 0;
  for (const ByteSpan& span : spans) {
    add(out, done, span.begin);
    done = span.end;
  }
  add(out, done, size);
  return out;
}

// The first span that ends behind `at`.
std::span<const ByteSpan>::iterator first_behind(std::span<const ByteSpan> spans, std::size_t at) {
  return std::upper_bound(spans.begin(), spans.end(), at,
                          [](std::size_t place, const ByteSpan& span) { return place < span.end; });
}

// Calls visit(begin, end) for what of [begin, end) lies within the spans.
template <class Visit>
void visit_within(std::span<const ByteSpan> spans, std::size_t begin, std::size_t end,
                  const Visit& visit) {
  for (auto span = first_behind(spans, begin); span != spans.end() && span->begin < end; ++span) {
    visit(std::max(span->begin, begin), std::min(span->end, end));
  }
}

}  // namespace

MarkedText MarkedText::from_outside(std::string text) {
  MarkedText out{std::move(text), {}};
  add(out.untrusted, 0, out.text.size());
  return out;
}

MarkedText MarkedText::trusted_within(std::string text, std::span<const ByteSpan> spans) {
  MarkedText out{std::move(text), {}};
  out.untrusted = gaps(spans, out.text.size());
  return out;
}

std::vector<ByteSpan> MarkedText::trusted_spans() const { return gaps(untrusted, text.size()); }

void MarkedText::append(const MarkedText& other) {
  if (other.all_trusted()) {
    text += other.text;
  } else {
    append(other, 0, other.text.size());
  }
}

void MarkedText::append(const MarkedText& other, std::size_t at, std::size_t size) {
  const std::size_t start = text.size();
  text.append(other.text, at, size);
  visit_within(other.untrusted, at, at + size, [&](std::size_t begin, std::size_t end) {
    add(untrusted, start + begin - at, start + end - at);
  });
}

void MarkedText::append_from_outside(std::string_view untrusted_text) {
  const std::size_t start = text.size();
  text += untrusted_text;
  add(untrusted, start, text.size());
}

MarkedText MarkedText::part(std::string_view view) const {
  if (view.empty()) return {};
  MarkedText out;
  out.append(*this, static_cast<std::size_t>(view.data() - text.data()), view.size());
  return out;
}

MarkedText MarkedText::carry_to(std::string changed) const {
  if (changed == text) return *this;
  return all_trusted() ? trusted(std::move(changed)) : from_outside(std::move(changed));
}

void MarkedText::truncate(std::size_t size) {
  text.resize(size);
  untrusted = spans_within(untrusted, 0, size);
}

std::vector<ByteSpan> spans_within(std::span<const ByteSpan> spans, std::size_t begin,
                                   std::size_t end) {
  std::vector<ByteSpan> out;
  visit_within(spans, begin, end,
               [&](std::size_t first, std::size_t last) { add(out, first - begin, last - begin); });
  return out;
}

Coverage coverage(std::span<const ByteSpan> spans, std::size_t begin, std::size_t end) {
  const auto span = first_behind(spans, begin);
  if (span == spans.end() || span->begin >= end) return Coverage::kNone;
  return span->begin <= begin && end <= span->end ? Coverage::kAll : Coverage::kPart;
}

}  // namespace dovetail::text
