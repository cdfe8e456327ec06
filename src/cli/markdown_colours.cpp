#include "cli/markdown_colours.h"

#include <algorithm>
#include <array>

namespace dovetail::cli {
namespace {

constexpr std::size_t kFenceLength = 3;
constexpr std::size_t kMaxHeading = 6;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The first character behind a line's blanks, and how often it follows itself.
struct MarkerRun {
  char character = 0;  // 0: there are only blanks
  std::size_t begin = 0, length = 0;
  std::size_t end() const { return begin + length; }
};

MarkerRun first_run(std::string_view line) {
  MarkerRun run;
  run.begin = std::min(line.find_first_not_of(" \t"), line.size());
  if (run.begin == line.size()) return run;
  run.character = line[run.begin];
  run.length = std::min(line.find_first_not_of(run.character, run.begin), line.size()) - run.begin;
  return run;
}

}  // namespace

void MarkdownColours::push(std::string_view text, std::string& out) {
  for (const char next : text) step(next, out);
}

void MarkdownColours::finish(std::string& out) {
  if (place_ == Place::kCodeLineStart && !held_.empty()) {
    step('\n', out);  // as if the line ended here
    out.pop_back();
  }
  if (place_ == Place::kLineStart && !held_.empty()) release_as_line(out);
  if (run_ != 0) end_run('\n', out);
  emit("", Style::kPlain, out);
  *this = MarkdownColours();
}

void MarkdownColours::step(char next, std::string& out) {
  switch (place_) {
    case Place::kLineStart:
      return at_line_start(next, out);
    case Place::kLine:
      return in_line(next, out);
    case Place::kCodeLineStart:
      return at_code_line_start(next, out);
    case Place::kCodeLine:
      emit({&next, 1}, next == '\n' ? Style::kPlain : Style::kCode, out);
      if (next == '\n') place_ = Place::kCodeLineStart;
  }
}

void MarkdownColours::at_line_start(char next, std::string& out) {
  held_ += next;
  const MarkerRun run = first_run(held_);
  if (run.character == 0) return;
  const bool ended = run.end() < held_.size();
  if (run.character == '#' && run.length <= kMaxHeading) {
    if (!ended) return;
    heading_ = is_blank(held_[run.end()]);
    return release_as_line(out);
  }
  if (run.character != '`' && run.character != '~') return release_as_line(out);
  if (!ended) return;
  // Backticks behind others are inline code.
  const bool inlined = run.character == '`' && held_.find('`', run.end()) != std::string::npos;
  if (run.length < kFenceLength || inlined) return release_as_line(out);
  if (next != '\n') return;
  fence_ = run.character;
  fence_length_ = run.length;
  place_ = Place::kCodeLineStart;
  release(Style::kMarker, out);
}

void MarkdownColours::in_line(char next, std::string& out) {
  if (run_ != 0) {
    if (next == run_) {
      ++run_length_;
      return;
    }
    end_run(next, out);
  }
  if (next == '\n') {
    heading_ = bold_ = escaped_ = false;
    code_ = 0;
    place_ = Place::kLineStart;
  } else if (!escaped_ && (next == '`' || (next == '*' && code_ == 0))) {
    run_ = next;
    run_length_ = 1;
    return;
  } else {
    escaped_ = next == '\\' && code_ == 0 && !escaped_;
  }
  emit({&next, 1}, line_style(), out);
  previous_ = next;
}

// `next` follows the marker.
void MarkdownColours::end_run(char next, std::string& out) {
  const std::string marker(run_length_, run_);
  const Style before = line_style();
  if (run_ == '`') {
    if (code_ == 0) {
      code_ = run_length_;
    } else if (code_ == run_length_) {
      code_ = 0;
    }
  } else if (run_length_ > 1) {
    if (bold_ && !is_blank(previous_)) {
      bold_ = false;
    } else if (!bold_ && !is_blank(next)) {
      bold_ = true;
    }
  }
  // A marker is of the style that it opens or closes.
  emit(marker, std::max(before, line_style()), out);
  previous_ = run_;
  run_ = 0;
}

void MarkdownColours::at_code_line_start(char next, std::string& out) {
  held_ += next;
  const MarkerRun run = first_run(held_);
  const bool may_close = run.character == 0 ? next != '\n' : run.character == fence_;
  const bool ended = run.end() < held_.size();
  if (may_close && !ended) return;
  const bool closes = may_close && run.length >= fence_length_ &&
                      held_.find_first_not_of(" \t\r\n", run.end()) == std::string::npos;
  if (closes && next != '\n') return;
  if (closes) {
    place_ = Place::kLineStart;
  } else if (next != '\n') {
    place_ = Place::kCodeLine;
  }
  release(closes ? Style::kMarker : Style::kCode, out);
}

// What was held back is the beginning of a line of text.
void MarkdownColours::release_as_line(std::string& out) {
  std::string held;
  held.swap(held_);
  place_ = Place::kLine;
  previous_ = '\n';
  for (const char c : held) in_line(c, out);
}

void MarkdownColours::release(Style style, std::string& out) {
  const bool line_end = held_.ends_with('\n');
  if (line_end) held_.pop_back();
  if (!held_.empty()) emit(held_, style, out);
  if (line_end) emit("\n", Style::kPlain, out);
  held_.clear();
}

void MarkdownColours::emit(std::string_view text, Style style, std::string& out) {
  constexpr std::array<std::string_view, 5> kEscapes = {"\x1b[0m", "\x1b[0;1m", "\x1b[0;36m",
                                                        "\x1b[0;1;36m", "\x1b[0;2m"};
  if (style != shown_) out += kEscapes[static_cast<std::size_t>(style)];
  shown_ = style;
  out += text;
}

MarkdownColours::Style MarkdownColours::line_style() const {
  const bool bold = heading_ || bold_;
  if (code_ > 0) return bold ? Style::kBoldCode : Style::kCode;
  return bold ? Style::kBold : Style::kPlain;
}

}  // namespace dovetail::cli
