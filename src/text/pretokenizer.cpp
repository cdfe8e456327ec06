#include "text/pretokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

bool is_of_kind(char32_t character, CharacterKind kind) {
  switch (kind) {
    case CharacterKind::kWhiteSpace:
      return is_white_space(character);
    case CharacterKind::kNumber:
      return is_number(character);
    case CharacterKind::kPunctuation:
      return is_punctuation(character);
  }
  return false;
}

std::vector<Span> find_characters(std::string_view text, CharacterKind kind) {
  std::vector<Span> spans;
  std::size_t end_of_last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (is_of_kind(point.value, kind)) {
      if (end_of_last < at) spans.push_back({end_of_last, at, false});
      end_of_last = at + point.size;
      spans.push_back({at, end_of_last, true});
    }
    at += point.size;
  }
  if (end_of_last < text.size()) spans.push_back({end_of_last, text.size(), false});
  return spans;
}

// The spans that stay, in order.
std::vector<Span> apply_behavior(std::vector<Span> spans, SplitBehavior behavior) {
  std::vector<Span> out;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return spans;
    case SplitBehavior::kRemoved:
      std::erase_if(spans, [](const Span& span) { return span.is_match; });
      return spans;
    case SplitBehavior::kContiguous:
      for (const Span& span : spans) {
        if (span.is_match == previous && !out.empty()) {
          out.back().end = span.end;
        } else {
          out.push_back(span);
        }
        previous = span.is_match;
      }
      return out;
    case SplitBehavior::kMergedWithPrevious:
      for (const Span& span : spans) {
        if (span.is_match && !previous && !out.empty()) {
          out.back().end = span.end;
        } else {
          out.push_back(span);
        }
        previous = span.is_match;
      }
      return out;
    case SplitBehavior::kMergedWithNext:
      for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
        if (span->is_match && !previous && !out.empty()) {
          out.back().begin = span->begin;
        } else {
          out.push_back(*span);
        }
        previous = span->is_match;
      }
      std::reverse(out.begin(), out.end());
      return out;
  }
  return out;
}

void cut(const Piece& piece, const std::vector<Span>& spans, std::vector<Piece>& out) {
  for (const Span& span : spans) {
    if (span.begin == span.end) continue;
    out.push_back(
        {piece.text.substr(span.begin, span.end - span.begin), piece.at_start && span.begin == 0});
  }
}

void run(const SplitStep& step, const Piece& piece, std::vector<Piece>& out) {
  std::vector<Span> spans;
  if (const auto* pattern = std::get_if<Pattern>(&step.at)) {
    spans = pattern->find(piece.text);
  } else {
    spans = find_characters(piece.text, std::get<CharacterKind>(step.at));
  }
  if (step.invert) {
    for (Span& span : spans) span.is_match = !span.is_match;
  }
  cut(piece, apply_behavior(std::move(spans), step.behavior), out);
}

void run(const ByteLevelStep& step, Piece piece, std::vector<Piece>& out) {
  if (step.add_prefix_space && !piece.text.starts_with(' ')) piece.text.insert(0, 1, ' ');
  const std::size_t first = out.size();
  if (step.split.empty()) {
    out.push_back(std::move(piece));
  } else {
    cut(piece, step.split.front().find(piece.text), out);
  }
  for (std::size_t i = first; i < out.size(); ++i) out[i].text = bytes_to_alphabet(out[i].text);
}

void run(const MetaspaceStep& step, Piece piece, std::vector<Piece>& out) {
  piece.text = Pattern::literal(" ").replace(piece.text, step.replacement);
  const bool wanted = step.prepend == PrependScheme::kAlways ||
                      (step.prepend == PrependScheme::kFirst && piece.at_start);
  if (wanted && !piece.text.starts_with(step.replacement)) piece.text.insert(0, step.replacement);
  if (!step.split) {
    out.push_back(std::move(piece));
    return;
  }
  auto spans = Pattern::literal(step.replacement).find(piece.text);
  cut(piece, apply_behavior(std::move(spans), SplitBehavior::kMergedWithNext), out);
}

}  // namespace

std::vector<Piece> PreTokenizer::split(std::string_view text, bool at_start) const {
  std::vector<Piece> pieces;
  if (text.empty()) return pieces;
  pieces.push_back({std::string(text), at_start});
  for (const PreTokenizerStep& step : steps) {
    std::vector<Piece> next;
    next.reserve(pieces.size());
    for (Piece& piece : pieces) {
      std::visit([&](const auto& kind) { run(kind, std::move(piece), next); }, step);
    }
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace dovetail::text
