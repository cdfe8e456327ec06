#include "pipeline/report/terminal_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

using Lines = std::vector<std::string>;

TEST(TerminalText, PrintableHasNoControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\xef\xbf\xbd[31mb");
  EXPECT_EQ(printable("a\r\nb\tc"), "a b c");
  EXPECT_EQ(printable("a\r\nb", true), "a\nb");
  EXPECT_EQ(printable("a\xff"), "a\xef\xbf\xbd");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\xef\xbf\xbd"
            "31m");  // the C1 form of ESC [
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt"),
            "\xef\xbf\xbd"
            "txt");  // right-to-left override
  EXPECT_EQ(printable("äß€😀"), "äß€😀");
}

RC_GTEST_PROP(TerminalText, PrintableIsValidAndStays, (const std::string& text)) {
  const std::string shown = printable(text);
  RC_ASSERT(text::is_valid_utf8(shown));
  RC_ASSERT(printable(shown) == shown);
  for (const char c : shown) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
}

TEST(TerminalText, WidthCountsColumns) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("äöü"), 3U);
  EXPECT_EQ(display_width("漢字"), 4U);
  EXPECT_EQ(display_width("e\xcc\x81"), 1U);  // e and a combining accent
  EXPECT_EQ(display_width("😀"), 2U);
}

TEST(TerminalText, ShortenMarksWhatIsCut) {
  EXPECT_EQ(shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten("abcdef", 5), "abcd…");
  EXPECT_EQ(shorten("abcdef", 5, false), "abcd.");
  EXPECT_EQ(shorten("漢字漢字", 6), "漢字…");
  EXPECT_EQ(shorten("漢字漢字", 5), "漢字…");
  EXPECT_EQ(shorten("abc", 1), "…");
  EXPECT_EQ(shorten("abc", 0), "");
}

TEST(TerminalText, Pads) {
  EXPECT_EQ(pad_right("ab", 4), "ab  ");
  EXPECT_EQ(pad_left("漢", 4), "  漢");
  EXPECT_EQ(pad_left("abcde", 4), "abcde");
}

TEST(TerminalText, WrapsAtSpaces) {
  EXPECT_EQ(wrap("one two three", 8), (Lines{"one two", "three"}));
  EXPECT_EQ(wrap("one two", 7), (Lines{"one two"}));
  EXPECT_EQ(wrap("abcdefgh ij", 3), (Lines{"abc", "def", "gh", "ij"}));
  EXPECT_EQ(wrap("a\n\nb", 10), (Lines{"a", "", "b"}));
  EXPECT_EQ(wrap("", 10), (Lines{""}));
  EXPECT_EQ(wrap("漢字漢字", 5), (Lines{"漢字", "漢字"}));
  EXPECT_EQ(wrap("  abcdefgh", 6), (Lines{"  abcd", "efgh"}));
}

RC_GTEST_PROP(TerminalText, WrapLosesOnlySpaces, (const std::string& raw)) {
  const std::string text = printable(raw, true);
  const auto width = *rc::gen::inRange<std::size_t>(2, 30);
  std::string joined, expected;
  for (const std::string& line : wrap(text, width)) {
    RC_ASSERT(display_width(line) <= width);
    for (const char c : line) {
      if (c != ' ') joined += c;
    }
  }
  for (const char c : text) {
    if (c != ' ' && c != '\n') expected += c;
  }
  RC_ASSERT(joined == expected);
}

RC_GTEST_PROP(TerminalText, ShortenFits, (const std::string& raw)) {
  const std::string text = printable(raw);
  const auto width = *rc::gen::inRange<std::size_t>(0, 20);
  RC_ASSERT(display_width(shorten(text, width)) <= width);
}

TEST(TerminalText, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(compact(0), "0");
  EXPECT_EQ(compact(950), "950");
  EXPECT_EQ(compact(1.5), "1.50");
  EXPECT_EQ(compact(45.25), "45.2");
  EXPECT_EQ(compact(999.7), "1.00k");
  EXPECT_EQ(compact(1234), "1.23k");
  EXPECT_EQ(compact(12'345), "12.3k");
  EXPECT_EQ(compact(999'900), "1.00M");
  EXPECT_EQ(compact(45'600'000), "45.6M");
  EXPECT_EQ(percent_text(1, 8), "12.5%");
  EXPECT_EQ(percent_text(9999, 10000), "99.9%");
  EXPECT_EQ(percent_text(3, 3), "100%");
  EXPECT_EQ(percent_text(0, 0), "0%");
  EXPECT_EQ(cost_text(0), "0");
  EXPECT_EQ(cost_text(12'000), "0.000012");
  EXPECT_EQ(cost_text(12'300'000), "0.0123");
  EXPECT_EQ(cost_text(4'210'000'000), "4.21");
  EXPECT_EQ(cost_text(1'234'500'000'000), "1,234.50");
}

TEST(TerminalText, Durations) {
  using namespace std::chrono_literals;
  EXPECT_EQ(duration_text(0us), "0.0s");
  EXPECT_EQ(duration_text(450ms), "0.4s");
  EXPECT_EQ(duration_text(12s), "12s");
  EXPECT_EQ(duration_text(194s), "3m14s");
  EXPECT_EQ(duration_text(7500s), "2h05m");
  EXPECT_EQ(duration_text(76h), "3d04h");
  EXPECT_EQ(duration_text(-1s), "0.0s");
}

}  // namespace
}  // namespace dovetail::pipeline
