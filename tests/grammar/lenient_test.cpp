// What lenient schemas hold of lengths and counts that are too large, and of keywords as generators
// of schemas write them; and that strict ones refuse both.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/support.h"

namespace dovetail::grammar {
namespace {

using testing::HasSubstr;

constexpr SchemaOptions kLenient = {.literal = false, .lenient = true};

struct StrictAndLenient {
  std::string schema;
  std::string refusal;  // of the strict schema
  std::vector<std::string> left_out;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

void check_both(const StrictAndLenient& c) {
  const Json schema = Json::parse(c.schema);
  const auto strict = Grammar::from_json_schema(schema);
  ASSERT_FALSE(strict) << c.schema;
  EXPECT_THAT(strict.error().message, HasSubstr(c.refusal)) << c.schema;
  const auto grammar = Grammar::from_json_schema(schema, kLenient);
  ASSERT_TRUE(grammar) << c.schema << ": " << grammar.error().message;
  EXPECT_THAT(grammar->left_out(), testing::ElementsAreArray(c.left_out)) << c.schema;
  const Matcher matcher = test::matcher_of(*grammar);
  for (const std::string& text : c.good) {
    EXPECT_TRUE(test::accepts(matcher, text)) << c.schema << " on " << text;
  }
  for (const std::string& text : c.bad) {
    EXPECT_FALSE(test::accepts(matcher, text)) << c.schema << " on " << text;
  }
}

std::string quoted(std::size_t length) { return '"' + std::string(length, 'x') + '"'; }

TEST(LenientCounts, LargeOnesAreLeftOutWhereTheWholeDoesNotFit) {
  const std::vector<StrictAndLenient> cases = {
      // Those of a moderate size are kept beside them.
      {R"({"properties":{"a":{"type":"string","maxLength":10000},"b":{"type":"string","maxLength":9}}})",
       "needs more than",
       {"#/properties/a/maxLength"},
       {R"({"a":)" + quoted(10001) + "}", R"({"a":"","b":"123456789"})"},
       {R"({"b":"1234567890"})", R"({"a":1})"}},
      {R"({"maxLength":100000})", "needs more than", {"#/maxLength"}, {"\"\""}, {"1"}},
      {R"({"type":"string","maxLength":4000000000})",
       "a length beyond",
       {"#/maxLength"},
       {"\"\""},
       {"1"}},
      {R"({"type":"string","minLength":20000,"maxLength":30000})",
       "needs more than",
       {"#/maxLength", "#/minLength"},
       {"\"\""},
       {"1"}},
      {R"({"properties":{"a":{"type":"string","maxLength":5000},"b":{"type":"string","maxLength":5001}}})",
       "needs more than",
       {"#/properties/a/maxLength", "#/properties/b/maxLength"},
       {R"({"a":)" + quoted(5001) + "}"},
       {R"({"b":1})"}},
      {R"({"type":"array","items":{"type":"string","maxLength":2},"maxItems":100000,"minItems":1})",
       "needs more than",
       {"#/maxItems"},
       {R"(["a"])"},
       {"[]", R"(["abc"])"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":99999999})",
       "\"minItems\" or \"maxItems\" beyond",
       {"#/minItems"},
       {"[]"},
       {"[1]"}},
      {R"({"type":"string","pattern":"[a-z]{1,5000}"})",
       "needs more than",
       {"#/pattern"},
       {"\"\""},
       {"1"}},
      // Counts within counts.
      {R"j({"type":"string","pattern":"^((a|b){1,900}c){1,900}$"})j",
       "needs more than",
       {"#/pattern"},
       {"\"\""},
       {"1"}},
  };
  for (const StrictAndLenient& c : cases) check_both(c);
}

TEST(LenientCounts, AllAreLeftOutWhereManyDoNotFit) {
  Json schema = {{"type", "object"}};
  for (int i = 0; i < 9; ++i) {
    schema["properties"][fmt::format("p{}", i)] = {{"type", "string"}, {"maxLength", 1000 + i}};
  }
  schema["properties"]["q"] = {{"type", "array"}, {"minItems", 1}};
  const auto grammar = Grammar::from_json_schema(schema, kLenient);
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_EQ(grammar->left_out().size(), 9);
  const Matcher matcher = test::matcher_of(*grammar);
  EXPECT_TRUE(test::accepts(matcher, R"({"p0":)" + quoted(1001) + "}"));
  EXPECT_FALSE(test::accepts(matcher, R"({"q":[]})"));
}

TEST(LenientCounts, WhatFitsIsHeld) {
  const auto grammar =
      Grammar::from_json_schema(Json::parse(R"({"type":"string","maxLength":2000})"), kLenient);
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_TRUE(grammar->left_out().empty());
  const Matcher matcher = test::matcher_of(*grammar);
  EXPECT_TRUE(test::accepts(matcher, quoted(2000)));
  EXPECT_FALSE(test::accepts(matcher, quoted(2001)));
}

TEST(LenientCounts, OfStructures) {
  const std::string large = R"({"schema":{"type":"string","maxLength":10000})";
  const auto grammar = Grammar::from_structure(Json::parse(
      R"({"sequence":[)" + large + R"(,"lenient":true,"name":"a"},)" +
      R"({"repeat":{"literal":"long enough"},"max":100000,"lenient":true,"name":"b","at":"/c"}]})"));
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_THAT(grammar->left_out(), testing::ElementsAre("a: #/maxLength", "b: #/c/maxItems"));
  // Of strict parts nothing is left out.
  for (const std::string& part :
       {large + "}", std::string(R"({"repeat":{"literal":"long enough"},"max":100000})")}) {
    const auto strict = Grammar::from_structure(Json::parse(
        R"({"sequence":[{"schema":{"maxLength":10000},"lenient":true},)" + part + "]}"));
    ASSERT_FALSE(strict) << part;
    EXPECT_THAT(strict.error().message, HasSubstr("needs more than")) << part;
  }
}

TEST(LenientCounts, AreStopped) {
  const std::atomic<bool> stop = true;
  const auto grammar = Grammar::from_json_schema(
      Json::parse(R"({"type":"string","maxLength":10000})"), kLenient, &stop);
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().kind, ErrorKind::kUnavailable);
}

TEST(LenientKeywords, WhatGeneratorsWriteSaysNothing) {
  const std::vector<StrictAndLenient> cases = {
      {R"({"type":"object","required":null})", "#/required", {"#/required"}, {"{}"}, {"1"}},
      {R"({"type":"object","properties":null})",
       "#/properties",
       {"#/properties"},
       {R"({"a":1})"},
       {"1"}},
      {R"({"type":"object","properties":[]})", "#/properties", {"#/properties"}, {"{}"}, {"1"}},
      {R"({"properties":{"a":{"type":"null"}},"additionalProperties":null})",
       "#/additionalProperties",
       {"#/additionalProperties"},
       {R"({"a":null})"},
       {R"({"b":1})"}},
      {R"({"properties":{"a":{"type":"null"}},"patternProperties":null,"additionalProperties":false})",
       "#/patternProperties",
       {"#/patternProperties"},
       {R"({"a":null})"},
       {R"({"b":1})"}},
      {R"({"type":"integer","enum":null})", "#/enum", {"#/enum"}, {"1"}, {"\"a\""}},
      {R"({"type":"integer","enum":[]})", "#/enum", {"#/enum"}, {"1"}, {"\"a\""}},
      {R"({"type":"array","items":null})", "#/items", {"#/items"}, {"[1]"}, {"1"}},
      {R"({"type":null,"minLength":1})", "#/type", {"#/type"}, {"\"a\""}, {"\"\"", "1"}},
      {R"({"type":"null","format":null,"uniqueItems":null,"pattern":null,"not":null,"$ref":null,"anyOf":[],"allOf":null,"minimum":null,"maxLength":null,"$defs":null,"nullable":null})",
       "",
       {"#/$defs", "#/$ref", "#/allOf", "#/anyOf", "#/format", "#/maxLength", "#/minimum", "#/not",
        "#/nullable", "#/pattern", "#/uniqueItems"},
       {"null"},
       {"1"}},
      // None of these implies a type.
      {R"({"uniqueItems":null,"minimum":null,"required":true,"format":null})",
       "",
       {"#/format", "#/minimum", "#/required", "#/uniqueItems"},
       {"null", "1", "\"a\"", "[]"},
       {"x"}},
      {R"({"type":"object","properties":{"a":{"type":"string","required":true}}})",
       "#/properties/a/required",
       {"#/properties/a/required"},
       {R"({"a":"b"})"},
       {R"({"a":1})"}},
      {R"({"type":"float","minimum":0})", "is no type", {"#/type"}, {"1.5"}, {"\"a\"", "-1"}},
      {R"({"items":{"type":"any"}})", "is no type", {"#/items/type"}, {R"([1,"a"])"}, {"1"}},
      {R"({"type":["string","image"]})", "is no type", {"#/type"}, {"1", "\"a\""}, {"x"}},
      {R"({"not":{"type":"audio"}})", "is no type", {"#/not"}, {"1"}, {"x"}},
      {R"({"type":"OBJECT","properties":{"a":{"type":["STRING","NULL"]}}})",
       "\"OBJECT\" is no type",
       {},
       {R"({"a":"b"})", R"({"a":null})"},
       {R"({"a":1})", "1"}},
      {R"({"type":["STRING","NULL"],"not":{"type":"STRING"}})",
       "\"STRING\" is no type",
       {},
       {"null"},
       {"\"a\""}},
      {R"({"oneOf":[{"type":"INTEGER"},{"type":"STRING"}]})",
       "\"INTEGER\" is no type",
       {},
       {"1", "\"a\""},
       {"null"}},
  };
  for (const StrictAndLenient& c : cases) check_both(c);
  for (const char* wrong : {R"({"minLength":-1})", R"({"properties":{"a":3}})",
                            R"({"minLength":"5"})", R"({"required":"a"})", R"({"type":3})"}) {
    EXPECT_FALSE(Grammar::from_json_schema(Json::parse(wrong), kLenient)) << wrong;
  }
}

TEST(ExclusiveBounds, AsDraft4HasThem) {
  struct Bounds {
    std::string schema;
    std::vector<std::string> good;
    std::vector<std::string> bad;
  };
  const std::vector<Bounds> cases = {
      {R"({"type":"integer","minimum":3,"exclusiveMinimum":true})", {"4"}, {"3"}},
      {R"({"type":"integer","minimum":3,"exclusiveMinimum":false})", {"3", "4"}, {"2"}},
      {R"({"type":"number","minimum":0,"maximum":1,"exclusiveMaximum":true})",
       {"0", "0.5"},
       {"1", "1.5"}},
      {R"({"type":"integer","maximum":3,"exclusiveMaximum":false})", {"3"}, {"4"}},
      {R"({"type":"integer","exclusiveMaximum":true})", {"3"}, {"\"a\""}},
  };
  for (const Bounds& c : cases) {
    const auto grammar = Grammar::from_json_schema(Json::parse(c.schema));
    ASSERT_TRUE(grammar) << c.schema << ": " << grammar.error().message;
    const Matcher matcher = test::matcher_of(*grammar);
    for (const std::string& text : c.good) {
      EXPECT_TRUE(test::accepts(matcher, text)) << c.schema << " on " << text;
    }
    for (const std::string& text : c.bad) {
      EXPECT_FALSE(test::accepts(matcher, text)) << c.schema << " on " << text;
    }
  }
}

}  // namespace
}  // namespace dovetail::grammar
