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
      {R"({"schema":{"type":["string","null"],"maxLength":5},"spelling":"bare","quote":"<call>"})",
       {call + "a\"b\n" + call, call + call, "null"},
       {"\"a\"", call + "a", call + "a" + call + "b" + call, call + "123456" + call}},
      {R"({"schema":{"enum":["a\"",{"k":["b"]}]},"spelling":"bare","quote":"<call>"})",
       {call + "a\"" + call, "{k:[" + call + "b" + call + "]}"},
       {"\"a\"", "{\"k\":[]}"}},
      {R"({"schema":{"type":"string","pattern":"^a+$"},"spelling":"bare","quote":"<call>"})",
       {call + "aa" + call},
       {call + call, "\"a\""}},
      {R"({"schema":{"properties":{"a":{"type":"integer"},"b":{"items":{"type":"string"}}}},
           "spelling":"bare","quote":"<call>"})",
       {"{a:1,b:[" + call + "x,]}" + call + "," + call + call + "]}", "{}", "{b:[]}"},
       {"{\"a\":1}", "{a: 1}", "{a:1, b:[]}", "{\na:1}", "{b:[],a:1}"}},
      {R"({"schema":{"type":"object"},"spelling":"bare","quote":"<call>"})",
       {"{}", "{k_1:{x-y:[true]},z:" + call + "}" + call + "}"},
       {"{a b:1}", "{:1}", "{" + call + "a" + call + ":1}"}},
      {R"({"schema":{"propertyNames":{"pattern":"^k"}},"spelling":"bare","quote":"<call>"})",
       {"{k:1}"},
       {"{a:1}", "{k d:1}"}},
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

TEST(Structure, RefusalsNameThePart) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"3", "#: a part must be an object with one of"},
      {"{}", "#: a part must be an object with one of"},
      {R"({"literl":"a"})", "#: a part must be an object with one of"},
      {R"({"literal":"a","free":[]})", "#: a part with \"literal\" has no \"free\""},
      {R"({"literal":"a","":1})", "#: a part with \"literal\" has no \"\""},
      {R"({"literal":3})", "#/literal: must be a string"},
      {R"({"token":""})", "#/token: must be the spelling"},
      {R"({"sequence":{}})", "#/sequence: must be a list of parts"},
      {R"({"sequence":[{"literal":"a"},{"choice":[]}]})",
       "#/sequence/1/choice: must be a list of one part or more"},
      {R"({"free":{}})", "#/free: must be a list of marks"},
      {R"({"free":["a"]})", "#/free/0: a mark must be an object with \"literal\" alone"},
      {R"({"free":[{"token":"<call>"}]})", "#/free/0: a mark must be"},
      {R"({"free":[{"literal":""}]})", "#/free/0: an empty mark"},
      {R"({"optional":{"free":[{"literal":"x"},{"literal":"aba"}]}})",
       "#/optional/free/1: the mark \"aba\" ends as it begins"},
      {R"({"repeat":{"literal":"a"},"min":3,"max":2})", "#/max: 2 is less than \"min\", 3"},
      {R"({"repeat":{"literal":"a"},"min":-1})", "#/min: must be a whole number"},
      {R"({"repeat":{"literal":"a"},"max":1.5})", "#/max: must be a whole number"},
      {R"j({"sequence":[{"regex":"a(?=b)"}]})j", "#/sequence/0/regex: offset 1"},
      {R"({"sequence":[{"schema":{"properties":{"age":{"contains":2}}}}]})",
       "#/sequence/0/schema: #/properties/age/contains: the keyword"},
      {R"({"schema":{},"lenient":1})", "#/lenient: must be true or false"},
      {R"({"regex":"a","lenient":true})", "#: a part with \"regex\" has no \"lenient\""},
      {R"({"schema":3})", "#/schema: #: a schema must be"},
      {R"({"schema":{},"at":"/x"})", "#/at: \"/x\" leads nowhere"},
      {R"({"schema":{},"at":"x"})", "#/at: \"x\" leads nowhere"},
      {R"({"schema":{},"at":3})", "#/at: must be a JSON pointer"},
      {R"({"schema":{"p":{"$ref":"#/none"}},"at":"/p"})",
       "#/schema: #/p/$ref: \"#/none\" leads nowhere"},
      {R"({"schema":{"oneOf":[{"type":"integer"},{"type":"number"}]}})",
       "#/schema: #/oneOf: \"oneOf\" is not supported unless"},
      {R"({"schema":{},"spelling":"perl"})", "#/spelling: must be"},
      {R"({"raw":{"type":"string","contentSize":"x"}})", "#/raw: #/contentSize: the keyword"},
      {R"({"raw":{"type":"integer"}})", "#: no string satisfies"},
      {R"({"raw":{"const":"a<"},"without":[{"literal":"<"}]})", "#: no string satisfies"},
      {R"({"schema":{},"spelling":"bare"})", "#: \"quote\" must be there"},
      {R"({"schema":{},"quote":"<call>"})", "#: \"quote\" must be there"},
      {R"({"schema":{},"spelling":"bare","quote":""})", "#/quote: must be the spelling of a"},
      {R"({"schema":{"properties":{"a b":{}}},"spelling":"bare","quote":"<call>"})",
       "the name \"a b\" cannot be written without quotes"},
      {R"({"raw":{},"spelling":"python"})", "#: a part with \"raw\" has no \"spelling\""},
      // What nothing satisfies, though its neighbours go on.
      {R"({"choice":[{"literal":"a"},{"schema":{"type":"integer","minimum":3,"maximum":2}}]})",
       "#/choice/1: no text is one of this part"},
      {R"({"optional":{"schema":{"properties":{"a":{"$ref":"#"}},"required":["a"]}}})",
       "#/optional: no text is one of this part"},
      {R"({"optional":{"regex":"[^\\s\\S]"}})", "#/optional: no text is one of this part"},
      // Where one part ends and the next begins cannot be told.
      {R"({"sequence":[{"free":[]},{"schema":{"type":"array","items":{"$ref":"#"},"maxItems":1}}]})",
       "combinations of alternatives that begin alike"},
  };
  for (const auto& [structure, message] : cases) {
    const auto grammar = Grammar::from_structure(Json::parse(structure));
    ASSERT_FALSE(grammar) << structure;
    EXPECT_THAT(grammar.error().message, HasSubstr(message)) << structure;
  }
  const auto bytes = Grammar::from_structure(Json({{"literal", "\xff<call>\xfe"}}));
  ASSERT_FALSE(bytes);
  EXPECT_THAT(bytes.error().message, HasSubstr("#/literal: is not UTF-8"));
}

// Numbers from outside decide on no memory, and all that is asked for is bounded.
TEST(Structure, IsBounded) {
  std::string deep = R"({"literal":"a"})";
  for (int i = 0; i < 70; ++i) deep = R"({"optional":)" + deep + "}";
  std::string powers = R"({"literal":"a"})";
  for (int i = 0; i < 20; ++i) powers = R"({"repeat":)" + powers + R"(,"min":1000,"max":1000})";
  const std::string mark(5000, 'a');
  for (const std::string& structure :
       {deep, powers, std::string(R"({"repeat":{"literal":""},"min":18446744073709551615})"),
        R"({"free":[{"literal":"b)" + mark + R"("},{"literal":"cab)" + mark + mark +
            R"("}, {"literal":"da)" + std::string(200'000, 'b') + R"("}]})"}) {
    const auto grammar = Grammar::from_structure(Json::parse(structure));
    ASSERT_FALSE(grammar) << structure.substr(0, 100);
    EXPECT_THAT(grammar.error().message,
                testing::AnyOf(HasSubstr("deeper than"), HasSubstr("needs more than")));
  }
}

std::vector<TokenId> allowed_ids(const Matcher& matcher) {
  const auto mask = test::mask_of(matcher);
  std::vector<TokenId> out;
  for (std::size_t id = 0; id < mask.size() * 64; ++id) {
    if (test::has(mask, static_cast<TokenId>(id))) out.push_back(static_cast<TokenId>(id));
  }
  return out;
}

Result<std::shared_ptr<const TokenMasks>> masks_with(const std::string& structure,
                                                     const std::vector<std::string>& tokens) {
  const std::vector<TokenId> ends = {0};
  return TokenMasks::create(
      Grammar::from_structure(Json::parse(structure)).value(),
      std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value()));
}

TEST(Structure, ControlTokensComeWhole) {
  const std::string structure =
      R"({"sequence":[{"optional":{"literal":"a"}},{"token":"<c>"},{"literal":"b"}]})";
  // With every byte of it as a token, and without; with pieces of it.
  for (const bool bytes : {false, true}) {
    std::vector<std::string> tokens = {"</s>", "a", "b", control_token("<c>"),
                                       control_token("<d>")};
    if (bytes)
      tokens.insert(tokens.end(), {"\xff", "<", "c", ">", "\xfe", "a\xff", "\xff<c", "c>\xfe"});
    const auto masks = masks_with(structure, tokens);
    ASSERT_TRUE(masks.has_value());
    Matcher matcher(*masks);
    EXPECT_THAT(allowed_ids(matcher), testing::ElementsAre(1, 3));
    EXPECT_FALSE(matcher.accept_bytes("\xff"));
    EXPECT_FALSE(matcher.accept_bytes("a\xff<c>"));
    EXPECT_FALSE(matcher.accept(4));
    ASSERT_TRUE(matcher.accept(1));
    EXPECT_THAT(allowed_ids(matcher), testing::ElementsAre(3));
    ASSERT_TRUE(matcher.accept(3));
    EXPECT_THAT(allowed_ids(matcher), testing::ElementsAre(2));
    ASSERT_TRUE(matcher.accept(2));
    EXPECT_TRUE(matcher.must_end());
  }
}

TEST(Structure, TokensThatTheVocabularyLacksAreNamed) {
  const std::vector<std::string> tokens = {"</s>", "a", control_token("<c>"), "<d>"};
  EXPECT_TRUE(masks_with(R"({"token":"<c>"})", tokens).has_value());
  for (const auto* spelling : {"<d>", "</s>", "<"}) {
    const auto missing = masks_with(
        fmt::format(R"({{"choice":[{{"token":"<c>"}},{{"token":"{}"}}]}})", spelling), tokens);
    ASSERT_FALSE(missing) << spelling;
    EXPECT_THAT(missing.error().message,
                HasSubstr(fmt::format(
                    "#/choice/1/token: the vocabulary has no control token \"{}\"", spelling)));
  }
}

// Where a control token is allowed behind the end of a nested value, and nowhere else.
TEST(Structure, ControlTokensFollowNestedValues) {
  const auto masks = masks_with(
      R"({"repeat":{"sequence":[{"token":"<c>"},{"schema":{"type":"array","items":{"$ref":"#"}}}]}})",
      {"</s>", "[", "]", ",", control_token("<c>"), "]]", "[["});
  ASSERT_TRUE(masks.has_value());
  Matcher matcher(*masks);
  EXPECT_THAT(allowed_ids(matcher), testing::ElementsAre(0, 4));
  ASSERT_TRUE(matcher.accept(4));
  ASSERT_TRUE(matcher.accept(6));
  EXPECT_THAT(allowed_ids(matcher), testing::ElementsAre(1, 2, 5, 6));
  ASSERT_TRUE(matcher.accept(2));
  EXPECT_THAT(allowed_ids(matcher), testing::ElementsAre(2, 3));
  ASSERT_TRUE(matcher.accept(2));
  EXPECT_THAT(allowed_ids(matcher), testing::ElementsAre(0, 4));
}

}  // namespace
}  // namespace dovetail::grammar
