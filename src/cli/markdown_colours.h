#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::cli {

// Colours Markdown for a terminal while it comes: code blocks, inline code, bold, headings. What it
// writes is the text and SGR escapes; without these it is the text. How the text is cut into pieces
// changes nothing. Held back are markers whose meaning the next characters decide, the blanks at a
// line's beginning, and a line that may open or close a code block.
class MarkdownColours {
 public:
  // Appends what is certain to `out`.
  void push(std::string_view text, std::string& out);
  // Ends the text: appends what was held back and, where a colour is on, turns it off.
  void finish(std::string& out);

 private:
  enum class Place : std::uint8_t { kLineStart, kLine, kCodeLineStart, kCodeLine };
  enum class Style : std::uint8_t { kPlain, kBold, kCode, kBoldCode, kMarker };

  void step(char next, std::string& out);
  void at_line_start(char next, std::string& out);
  void in_line(char next, std::string& out);
  void at_code_line_start(char next, std::string& out);
  void end_run(char next, std::string& out);
  void release_as_line(std::string& out);
  void release(Style style, std::string& out);
  void emit(std::string_view text, Style style, std::string& out);
  Style line_style() const;

  Place place_ = Place::kLineStart;
  Style shown_ = Style::kPlain;  // what the terminal is set to
  std::string held_;             // of a line's beginning
  char fence_ = '`';             // of the code block
  std::size_t fence_length_ = 0;
  char run_ = 0;  // a marker within a line, held back: '`' or '*'; 0: none
  std::size_t run_length_ = 0;
  std::size_t code_ = 0;  // backticks that opened inline code; 0: none is open
  bool heading_ = false, bold_ = false, escaped_ = false;
  char previous_ = '\n';
};

}  // namespace dovetail::cli
