// Escaped halves of surrogate pairs in bodies.
#include "serve/json_input.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

constexpr const char* kReplaced = "\xEF\xBF\xBD";

TEST(JsonInput, HalvesOfPairsAreReplaced) {
  const std::pair<const char*, std::string> rows[] = {
      {R"(\ud83d)", kReplaced},
      {R"(\uDE00)", kReplaced},
      {R"(a\ud83db)", std::string("a") + kReplaced + "b"},
      {R"(\ud83d\ude00)", "\xF0\x9F\x98\x80"},
      {R"(\ud83d\ud83d\ude00)", std::string(kReplaced) + "\xF0\x9F\x98\x80"},
      {R"(\ude00\ud83d)", std::string(kReplaced) + kReplaced},
      {R"(\ud83d\n)", std::string(kReplaced) + "\n"},
      {R"(\ud83d\\ude00)", std::string(kReplaced) + "\\ude00"},
      {R"(\\ud83d)", "\\ud83d"},
      {R"(\\\ud83d)", std::string("\\") + kReplaced},
      {R"(\\\\ud83d)", "\\\\ud83d"},
      {R"(\ud7ff\ue000)", "\xED\x9F\xBF\xEE\x80\x80"},
  };
  for (const auto& [text, wanted] : rows) {
    const auto json = parse_body(fmt::format(R"({{"a":"{}"}})", text));
    ASSERT_TRUE(json) << text << ": " << json.error().message;
    EXPECT_EQ((*json)["a"], wanted) << text;
    const auto key = parse_body(fmt::format(R"({{"{}":1}})", text));
    ASSERT_TRUE(key) << text;
    EXPECT_TRUE(key->contains(wanted)) << text;
  }
}

TEST(JsonInput, TheRestIsAsStrictAsEver) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"a":"\ud83"})", "at byte 12 of 13"},
      {R"({"a":"\ud8zz"})", "at byte 11 of 14"},
      {R"({"a":"\ud83d)", "not valid JSON"},
      {R"({"a":"\ud83d\u"})", "at byte 15 of 16"},
      {R"({"a":"\ud83d","b":})", "at byte 19 of 19"},
      {R"({"a":\ud83d})", "at byte 6 of 12"},
      {R"({"\ud83d":1,"\ude00":2})", "twice"},
      {"{\"a\":\"\xED\xA0\x80\"}", "not valid JSON"},
      {R"({"a":"\)", "not valid JSON"},
      {R"({"a":"\u)", "not valid JSON"},
  };
  for (const auto& [body, says] : rows) {
    const auto json = parse_body(body);
    ASSERT_FALSE(json) << body;
    EXPECT_THAT(json.error().message, HasSubstr(says)) << body;
  }
}

std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 63))};
  if (code < 0x10000)
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)),
          byte(0x80 | (code & 63))};
}

// A string is UTF-16 with its halves paired from the left; what stays alone is U+FFFD.
RC_GTEST_PROP(JsonInput, AnyUnitsAreText, ()) {
  struct Piece {
    std::string json;
    std::uint32_t unit;
  };
  std::vector<Piece> pieces;
  const int count = *rc::gen::inRange(0, 30);
  for (int i = 0; i < count; ++i) {
    const auto kind = *rc::gen::inRange(0, 6);
    if (kind < 2) {
      pieces.push_back({"\\\\", '\\'});
    } else if (kind == 2) {
      const char plain = *rc::gen::elementOf(std::string("udD8c0"));
      pieces.push_back({std::string(1, plain), static_cast<unsigned char>(plain)});
    } else {
      const auto unit = kind == 3 ? *rc::gen::inRange<std::uint32_t>(1, 0x10000)
                                  : *rc::gen::inRange<std::uint32_t>(0xD800, 0xE000);
      const bool upper = *rc::gen::arbitrary<bool>();
      pieces.push_back(
          {upper ? fmt::format("\\u{:04X}", unit) : fmt::format("\\u{:04x}", unit), unit});
    }
  }
  std::string body = R"({"a":")";
  std::string wanted;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    body += pieces[i].json;
    const std::uint32_t unit = pieces[i].unit;
    const bool first = unit >= 0xD800 && unit < 0xDC00;
    const std::uint32_t next = i + 1 < pieces.size() ? pieces[i + 1].unit : 0;
    if (first && next >= 0xDC00 && next < 0xE000) {
      wanted += utf8(0x10000 + ((unit - 0xD800) << 10) + (next - 0xDC00));
      body += pieces[++i].json;
    } else {
      wanted += unit >= 0xD800 && unit < 0xE000 ? kReplaced : utf8(unit);
    }
  }
  const auto json = parse_body(body + "\"}");
  RC_ASSERT(json.has_value());
  RC_ASSERT((*json)["a"].get<std::string>() == wanted);
}

}  // namespace
}  // namespace dovetail::serve
