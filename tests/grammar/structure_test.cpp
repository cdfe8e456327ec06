// Structures: tables of texts in and out, and what is refused.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/support.h"

namespace dovetail::grammar {
namespace {

using testing::HasSubstr;

// All bytes, the end, two control tokens and pieces.
std::shared_ptr<const Vocabulary> vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back("</s>");
  tokens.push_back(control_token("<call>"));
  tokens.push_back(control_token("<end>"));
  const std::vector<TokenId> ends = {256};
  return std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value());
}

TEST(Structure, TakesTheTextsOfItsParts) {
  struct Case {
    std::string structure;
    std::vector<std::string> in;
    std::vector<std::string> out;
  };
  const std::string call = control_token("<call>");
  const std::string end = control_token("<end>");
  const std::string tree =
      R"({"$defs":{"t":{"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#/$defs/t"}}}}},)"
      R"("properties":{"x":{"$ref":"#/$defs/t"},"n":{"type":"integer"}}})";
  const std::vector<Case> cases = {
      {R"({"literal":"ab"})", {"ab"}, {"", "a", "abc"}},
      {R"({"literal":""})", {""}, {"a"}},
      {R"({"literal":"é\u0000"})", {std::string("\xc3\xa9\0", 3)}, {"\xc3\xa9"}},
      {R"({"sequence":[]})", {""}, {"a"}},
      {R"({"sequence":[{"literal":"a"},{"literal":"b"}]})", {"ab"}, {"a", "b", "ba"}},
      {R"({"choice":[{"literal":"a"},{"literal":"ab"}]})", {"a", "ab"}, {"", "b"}},
      {R"({"optional":{"literal":"ab"}})", {"", "ab"}, {"a", "abab"}},
      {R"({"repeat":{"literal":"ab"}})", {"", "ab", "ababab"}, {"aba"}},
      {R"({"repeat":{"literal":"a"},"min":2})", {"aa", "aaaaa"}, {"", "a"}},
      {R"({"repeat":{"literal":"a"},"min":1,"max":3})", {"a", "aa", "aaa"}, {"", "aaaa"}},
      {R"({"repeat":{"literal":"a"},"max":0})", {""}, {"a"}},
      {R"({"repeat":{"optional":{"literal":"a"}},"min":3,"max":4})", {"", "aaaa"}, {"aaaaa"}},
      {R"({"regex":"a|b+"})", {"a", "bb"}, {"", "ab"}},
      {R"({"sequence":[{"regex":"a|b+"},{"regex":"b"}]})", {"ab", "bb"}, {"b", "a"}},
      {R"({"token":"<call>"})", {call}, {"", "<call>", call + call}},
      {R"({"sequence":[{"token":"<call>"},{"literal":"x"},{"token":"<end>"}]})",
       {call + "x" + end},
       {"x", call + "x", call + end}},
      // Free text holds no mark, but may end as one begins, and other text.
      {R"({"free":[]})", {"", "a\xc3\xa9\n", "<tool>"}, {"\xc3", "\xff", call, "\xed\xa0\x80"}},
      {R"({"free":[{"literal":"<t>"}]})",
       {"", "<t", "<<t", "<t<t", "t>", "\xc3\xa9<"},
       {"<t>", "a<t>b", "<<t>", "<t\xc3"}},
      {R"({"sequence":[{"free":[{"literal":"<t>"}]},{"literal":"<t>"},{"literal":"x"}]})",
       {"<t>x", "<t<t>x", "ab<t>x"},
       {"x", "<t>", "<t><t>x", "<t>x<t>x", "<t>xx"}},
      {R"({"free":[{"literal":"ab"},{"literal":"cé"},{"literal":"b<"}]})",
       {"a", "b", "ca", "c\xc3\xa8", "bba"},
       {"aab", "xb<", "c\xc3\xa9"}},
      {R"({"sequence":[{"free":[{"literal":"é"}]},{"literal":"é"}]})",
       {"\xc3\xa9", "\xc3\xa8\xc3\xa9"},
       {"\xc3\xc3\xa9", "\xc3\xa9\xc3\xa9"}},
      {R"({"sequence":[{"free":[]},{"token":"<call>"},{"free":[]}]})",
       {call, "a" + call + "b"},
       {"", "ab", call + call}},
      // Values.
      {R"({"schema":{"type":"integer"}})", {"0", "-12"}, {"", "1.5", "\"1\""}},
      {R"({"sequence":[{"schema":{"type":"integer"}},{"literal":"0"}]})",
       {"10", "00", "-100"},
       {"0"}},
      {R"({"sequence":[{"schema":{}},{"free":[]}]})",
       {"1", "12a", "{}}", "\"a\"b", "[1,2]x"},
       {"", "a", "[1"}},
      {R"({"schema":)" + tree + R"(,"at":"/properties/x"})",
       {R"({})", R"({"c":[{"c":[]},{}]})"},
       {R"({"x":{}})", R"({"c":[1]})"}},
      {R"({"schema":)" + tree + R"(,"at":"/properties/n"})", {"3"}, {"{}"}},
      {R"({"repeat":{"sequence":[{"schema":)" + tree + R"(},{"literal":","}]},"min":1})",
       {R"({"x":{"c":[{}]},"n":1},{},)"},
       {"", "{},{}", R"({"x":{"c":[{}},)"}},
      {R"({"schema":{"type":["boolean","null"]},"spelling":"python"})",
       {"True", "False", "None"},
       {"true", "null"}},
      {R"({"schema":{"type":"array"},"spelling":"python"})",
       {"[True, None,{\"a\": [False]}]", "[\"true\"]"},
       {"[true]", "[[null]]"}},
      {R"({"schema":{"enum":[{"a":[true,"null"]},null]},"spelling":"python"})",
       {"{\"a\": [True,\"null\"]}", "None"},
       {"null", "{\"a\": [true,\"null\"]}"}},
      {R"({"choice":[{"schema":{"type":"array"}},{"sequence":[{"literal":"!"},{"schema":{"type":"array"},"spelling":"python"}]}]})",
       {"[true]", "![True]"},
       {"[True]", "![true]"}},
      // Strings as they stand.
      {R"({"raw":{"type":"string"}})", {"", "a\"\\\n", "\xc3\xa9"}, {"\xff", "\xc3"}},
      {R"({"raw":{"type":"string","minLength":2,"maxLength":3}})",
       {"ab", "\xc3\xa9\xc3\xa9\n"},
       {"a", "abcd", "\xc3\xa9"}},
      {R"({"raw":{"type":"string","pattern":"^[a-z]+$"}})", {"ab"}, {"", "a1", "\"ab\""}},
      {R"({"raw":{"type":"string","format":"date"}})", {"2024-02-29"}, {"2023-02-29"}},
      {R"({"raw":{"enum":["a\"","b",3,null]}})", {"a\"", "b"}, {"3", "null", "a\\\""}},
      {R"({"raw":{"enum":["abc","de"],"minLength":3}})", {"abc"}, {"de"}},
      {R"({"raw":{"const":"x y"}})", {"x y"}, {"x"}},
      {R"({"raw":{"anyOf":[{"type":"null"},{"type":"string","maxLength":1},{"const":"long"}]}})",
       {"", "a", "long"},
       {"null", "ab"}},
      {R"({"raw":{"properties":{"p":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string","maxLength":2}}},"at":"/properties/p"})",
       {"ab"},
       {"abc"}},
      {R"({"sequence":[{"raw":{"type":"string"},"without":[{"literal":"\n</p>"}]},{"literal":"\n</p>"}]})",
       {"\n</p>", "a\n\n</p>"},
       {"", "\n</p>\n</p>"}},
      {R"({"raw":{"enum":["a<b","ab"]},"without":[{"literal":"<"}]})", {"ab"}, {"a<b"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.structure);
    const auto grammar = Grammar::from_structure(Json::parse(c.structure));
    ASSERT_TRUE(grammar.has_value()) << grammar.error().message;
    const auto masks = TokenMasks::create(*grammar, vocabulary());
    ASSERT_TRUE(masks.has_value()) << masks.error().message;
    for (const std::string& text : c.in) EXPECT_TRUE(test::accepts(Matcher(*masks), text)) << text;
    for (const std::string& text : c.out)
      EXPECT_FALSE(test::accepts(Matcher(*masks), text)) << text;
  }
}

}  // namespace
}  // namespace dovetail::grammar
