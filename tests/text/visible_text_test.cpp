#include "text/visible_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "text/utf8.h"

namespace dovetail::text {
namespace {

TEST(VisibleText, HasStandInsForWhatIsObeyed) {
  EXPECT_EQ(visible_text("a\x1b[31mb"), "a␛[31mb");
  EXPECT_EQ(visible_text(std::string("\0\a\b\r\x1f\x7f", 6)), "␀␇␈␍␟␡");
  EXPECT_EQ(visible_text("\xc2\x80\xc2\x9b"
                         "2J\xc2\x9f"),
            "<U+0080><U+009B>2J<U+009F>");
  EXPECT_EQ(visible_text("a\u202Eb\u2066c\u2069\u200F\u061C\u2028"),
            "a<U+202E>b<U+2066>c<U+2069><U+200F><U+061C><U+2028>");
  EXPECT_EQ(visible_text("\x9b"
                         "2J\xff"),
            "\uFFFD2J\uFFFD");
}

TEST(VisibleText, LeavesTextAlone) {
  const std::string text = "äß€😀\n\tשלום مرحبا e\u0301 \u200D\u00A0\u00AD";
  EXPECT_EQ(visible_text(text), text);
}

RC_GTEST_PROP(VisibleText, HasNothingUnseen, ()) {
  const auto points = *rc::gen::container<std::vector<char32_t>>(rc::gen::oneOf(
      rc::gen::inRange<char32_t>(0, 0xA1), rc::gen::inRange<char32_t>(0x2000, 0x2070),
      rc::gen::inRange<char32_t>(0x600, 0x620)));
  std::string text;
  for (const char32_t point : points) append_utf8(text, point);
  const std::string shown = visible_text(text);
  for (const char32_t point : to_utf32(shown))
    RC_ASSERT(point == '\n' || point == '\t' || !is_unseen_control(point));
  RC_ASSERT(visible_text(shown) == shown);
}

}  // namespace
}  // namespace dovetail::text
