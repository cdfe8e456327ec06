#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/schema_cases.h"

namespace dovetail::grammar {
namespace {

using test::check;

TEST(Schema, Types) {
  check({
      {R"({"type":"null"})", {"null"}, {"", "nul", "nulll", " null", "true", "\"null\""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "TRUE", "truefalse"}},
      {R"({"type":"integer"})",
       {"0", "7", "-12", "9223372036854775807", "-9223372036854775808"},
       {"-0", "01", "1.0", "1e3", "+1", "", "-", "9223372036854775808", "-9223372036854775809"}},
      {R"({"type":"number"})",
       {"0", "-1.5", "3.25", "1e5", "1.5E-7", "2e+307", "100"},
       {"01", ".5", "1.", "1e", "1e400", "--1", "NaN", "1e308"}},
      {R"({"type":"string"})",
       {R"("")", R"("a b")", R"("\"\\\/\b\f\n\r\t")", R"("é😀")", R"("\u00e9\ud83d\ude00")"},
       {"\"a", "a", "\"\n\"", "\"\x01\"", R"("\x")", R"("\u12g4")", R"("\ud800")", "\"\xff\"",
        "\"\xc3\"", "\"\xed\xa0\x80\"", R"("\udc00")", R"("a"b")"}},
      {R"({"type":["string","null"]})", {"null", R"("x")"}, {"1", "true", "[]"}},
      {R"({"type":["integer","boolean"]})", {"12", "true"}, {"1.5", "null"}},
      {R"({"type":["integer","number"]})", {"12", "1.5"}, {"null"}},
      {R"({"type":"array"})",
       {"[]", "[1,\"a\", null]", "[[],{}]"},
       {"[,]", "[1,]", "[ ]", "[1 ,2]", "{}"}},
      {R"({"type":"object"})",
       {"{}", R"({"a":1})", R"({"a": {"b":[]}, "c":null})"},
       {"{,}", R"({"a"})", R"({"a":1,})", R"({a:1})", "[]", "{ }", R"({"a" :1})"}},
      {"true", {"1", "null", "[{}]", R"({"a":[true]})", R"("s")"}, {"", "x", "1 "}},
      {"{}", {"1", "null", R"({"a":[true]})"}, {"", "[1"}},
  });
}

TEST(Schema, WhiteSpaceBetweenTokens) {
  check({
      {R"({"type":"object"})",
       {"{\n}", "{\n  \"a\": 1\n}", "{\n\t\"a\":1,\n\t\"b\": [\n\t\t1,\n 2\n]\n}",
        "{\"a\":[\n],\"b\": {\n}}",
        "{\n    \"a\": {\n        \"b\": [\n            1\n        ]\n    }\n}"},
       {"{\n\n}", "{ \n}", "{ \"a\":1}", "{\"a\":1 }", "{\"a\":1\n\n}", "{\"a\":1\n,\"b\":2}",
        "{\"a\" :1}", "{\"a\"\n:1}", "\n{}", "{}\n", "{\"a\":1, \n\"b\":2}", "{\r\n}",
        "{\"a\":  1}", "{\"\n\":1}", "{\"a\":\n1}",
        // Not beyond the indent of the depth.
        "{\n     \"a\":1}", "{\n\t\t\"a\":1}", "{\n \t\"a\":1}", "{\"a\":1\n }",
        "{\"a\":[1\n     ]}", "{\"a\":[1,\n         2]}"}},
      {R"({"const":{"a":[1,{"b":null}],"c":[],"d":{}}})",
       {"{\n \"a\": [\n  1,\n  {\n   \"b\": null\n  }\n ],\n \"c\": [\n ],\n \"d\": {}\n}"},
       {"{\"a\":[1,{\"b\":null}],\"c\":[\n\n],\"d\":{}}"}},
      {R"({"uniqueItems":true,"items":{"type":"boolean"}})",
       {"[\n]", "[\n true,\n false\n]"},
       {"[\n\n]", "[true\n,false]"}},
      {R"({"properties":{"a":{"type":"null"},"b":{"type":"null"}},"required":["b"]})",
       {"{\n  \"b\": null\n}", "{\n  \"a\": null,\n  \"b\": null\n}"},
       {"{\n}", "{\n  \"a\": null\n}"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":20})",
       {"[\n null,\n null\n]"},
       {"[\n]"}},
      {R"({"type":"integer"})", {"1"}, {"\n1", "1\n"}},
  });
}

// Whatever a writer of JSON indents by.
TEST(Schema, IndentedDocuments) {
  const Json document = Json::parse(
      R"({"a":[1,[],{},[[true,null]]],"b":{"c":{"d":["x y",-1.5e3]}},"e":[{"f":1},{"f":2}]})");
  const Matcher matcher = test::matcher_of(Grammar::any_json());
  for (const int indent : {-1, 0, 1, 2, 3, 4}) {
    EXPECT_TRUE(test::accepts(matcher, document.dump(indent))) << indent;
  }
  EXPECT_TRUE(test::accepts(matcher, document.dump(1, '\t')));
}

// As far as values may be told apart by how deep they are.
TEST(Schema, IndentOfDeepValues) {
  const auto nested = [](int depth, int spaces) {
    return std::string(static_cast<std::size_t>(depth), '[') + "\n" +
           std::string(static_cast<std::size_t>(spaces), ' ') + "1" +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  const auto grammar = Grammar::from_json_schema({{"type", "array"}});
  ASSERT_TRUE(grammar) << grammar.error().message;
  const Matcher matcher = test::matcher_of(*grammar);
  for (const auto& [depth, most] : {std::pair{1, 4}, {2, 8}, {7, 28}, {8, 64}, {9, 64}, {99, 64}}) {
    EXPECT_TRUE(test::accepts(matcher, nested(depth, most))) << depth;
    EXPECT_FALSE(test::accepts(matcher, nested(depth, most + 1))) << depth;
  }
}

TEST(Schema, Values) {
  check({
      {R"({"enum":["red","green",3,null,true,1.5]})",
       {R"("red")", R"("green")", "3", "null", "true", "1.5"},
       {"red", R"("re")", "4", "false", R"("redgreen")"}},
      {R"({"const":"a\"b\\c\n\u0001é/"})",
       {"\"a\\\"b\\\\c\\n\\u0001é/\""},
       {R"("a")", "\"\\u0061\""}},
      {R"({"const":{"a":[1,{"b":null}],"c":"x"}})",
       {R"({"a":[1,{"b":null}],"c":"x"})", R"({"a": [1, {"b": null}], "c": "x"})"},
       {R"({"c":"x","a":[1,{"b":null}]})", R"({"a":[1],"c":"x"})"}},
      {R"({"enum":["a",1,"b"],"type":"string"})", {R"("a")", R"("b")"}, {"1"}},
      {R"({"enum":[1,5,10],"minimum":2,"maximum":9})", {"5"}, {"1", "10"}},
      {R"({"enum":["a","abc"],"minLength":2})", {R"("abc")"}, {R"("a")"}},
      {R"({"enum":["ab","cd"],"pattern":"^c"})", {R"("cd")"}, {R"("ab")"}},
      {R"({"enum":[1.0,2.5],"type":"integer"})", {"1"}, {"2.5"}},
      {R"({"enum":[1,2,3],"const":2})", {"2"}, {"1", "3"}},
      {R"({"const":0.1})", {"0.1"}, {"0.10", "0"}},
  });
}

TEST(Schema, Numbers) {
  check({
      {R"({"type":"integer","minimum":3,"maximum":12})",
       {"3", "9", "10", "12"},
       {"2", "13", "-3", "0", "100", "3.5"}},
      {R"({"type":"integer","minimum":-5,"exclusiveMaximum":0})",
       {"-5", "-1"},
       {"-6", "0", "1", "-10"}},
      {R"({"type":"integer","exclusiveMinimum":99})",
       {"100", "101", "1000"},
       {"99", "98", "0", "-100"}},
      {R"({"type":"integer","minimum":2.5,"maximum":4.5})", {"3", "4"}, {"2", "5"}},
      {R"({"type":"integer","maximum":-10})", {"-10", "-11", "-100"}, {"-9", "0", "10"}},
      {R"({"type":"integer","minimum":1e3,"maximum":1e3})", {"1000"}, {"999", "1001"}},
      {R"({"type":"number","minimum":0,"maximum":1})",
       {"0", "1", "0.5", "1.0", "0.000", "0.999"},
       {"1.1", "-0.1", "2", "1.01", "1e-1"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0.001", "0.99"},
       {"0", "1", "0.0", "1.0", "-0", "-0.0"}},
      {R"({"type":"number","minimum":-1.25,"maximum":2.75})",
       {"-1.25", "-1.250", "-1", "0", "2.75", "2.7", "2"},
       {"-1.26", "2.76", "-2", "3"}},
      {R"({"type":"number","minimum":0.0625})",
       {"0.0625", "0.07", "1", "10"},
       {"0.0624", "0.06", "0", "-1"}},
      {R"({"type":"number","maximum":-0.5})", {"-0.5", "-0.51", "-3"}, {"-0.4", "0", "0.5", "-0"}},
      {R"({"minimum":5,"exclusiveMinimum":5,"type":"integer"})", {"6"}, {"5"}},
      {R"({"minimum":10,"maximum":19})", {"10", "15.5"}, {"9", "20", "\"a\""}},
  });
}

TEST(Schema, Strings) {
  check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("abc")", R"("é😀")", R"("\n\"")", R"("\u00e9x")", R"("\ud83d\ude00x")"},
       {R"("a")", R"("abcd")", R"("")", R"("😀")", R"("\u00e9")"}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
      {R"({"type":"string","pattern":"^[a-c]+$"})",
       {R"("a")", R"("abc")"},
       {R"("")", R"("abd")", R"("a\u0062")"}},
      {R"({"type":"string","pattern":"b"})", {R"("b")", R"("abc")"}, {R"("ac")", R"("")"}},
      {R"({"type":"string","pattern":"^a|z$"})", {R"("ab")", R"("xz")"}, {R"("ba")"}},
      {R"({"type":"string","pattern":"\\bab\\b"})",
       {R"("ab")", R"("x ab.")", R"("abc\nab")", R"("\"ab\"")"},
       {R"("abc")", R"("xab")", R"("a b")", R"("é")"}},
      {R"({"type":"string","pattern":"^\"\\\\\n\\t$"})", {R"("\"\\\n\t")"}, {R"("\"\n\t")"}},
      {R"({"type":"string","pattern":"^[^x]$"})",
       {R"("\u0001")", R"("\"")", R"("\\")"},
       {R"("\u0041")", R"("x")"}},
      {R"({"type":"string","pattern":"^a*$","maxLength":2})", {R"("")", R"("aa")"}, {R"("aaa")"}},
      {R"({"allOf":[{"type":"string","pattern":"^a"},{"pattern":"z$"}]})",
       {R"("az")", R"("abz")"},
       {R"("a")", R"("z")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")",
        R"("24-01-01")"}},
      {R"({"type":"string","format":"time"})",
       {R"("23:59:59Z")", R"("00:00:00.125+01:30")"},
       {R"("24:00:00Z")", R"("12:00:00")", R"("12:60:00Z")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-05-06T07:08:09Z")"},
       {R"("2024-05-06 07:08:09Z")", R"("2024-05-06")"}},
      {R"({"type":"string","format":"uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567e89b12d3a456426614174000")"}},
      {R"({"type":"string","format":"ipv4"})",
       {R"("0.0.0.0")", R"("255.249.10.99")"},
       {R"("256.0.0.1")", R"("01.2.3.4")", R"("1.2.3")"}},
      {R"({"type":"string","format":"email"})",
       {R"("a.b+c@example.org")"},
       {R"("a@b")", R"("@example.org")", R"("a@b@c.de")", R"("a b@c.de")"}},
  });
}

TEST(Schema, Arrays) {
  check({
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1, 2,3]"},
       {"[\"a\"]", "[1.5]", "[1"}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2})",
       {"[true]", "[true,false]"},
       {"[]", "[true,true,true]"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":3})",
       {"[null,null,null]", "[null,null,null,null]"},
       {"[null,null]", "[]"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":20,"maxItems":21})",
       {"[null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,"
        "null,null,null]"},
       {"[null]"}},
      {R"({"type":"array","items":{"type":"null"},"maxItems":0})", {"[]"}, {"[null]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", R"([1,"a"])"},
       {R"(["a"])", R"([1,"a",2])"}},
      {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"string"},"minItems":2})",
       {R"([1,"a"])", R"([1,"a","b"])"},
       {"[1]", "[1,2]"}},
      {R"({"type":"array","items":{"type":"array","items":{"type":"integer"}}})",
       {"[]", "[[]]", "[[1,2],[3]]"},
       {"[1]", "[[[]]]"}},
      {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
      {R"({"type":"array","uniqueItems":false,"items":{"type":"integer"}})", {"[1,1]"}, {}},
  });
}

TEST(Schema, Objects) {
  const std::string person =
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},)"
      R"("required":["name"],"additionalProperties":false})";
  check({
      {person,
       {R"({"name":"x"})", R"({"name":"x","age":3})", R"({"name": "x", "age": 3})"},
       {"{}", R"({"age":3})", R"({"age":3,"name":"x"})", R"({"name":"x","other":1})",
        R"({"name":"x","name":"y"})"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}}})",
       {"{}", R"({"a":1})", R"({"b":1})", R"({"c":1})", R"({"a":1,"c":2})", R"({"b":1, "c":2})",
        R"({"a":1,"b":2,"c":3})"},
       {R"({"c":1,"a":2})", R"({,"a":1})", R"({"d":1})"}},
      {R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
       {"{}", R"({"a":1})", R"({"b":"x"})", R"({"a":1,"b":"x","c":"y"})", R"({"aa":"x"})",
        R"({"":"x"})"},
       {R"({"b":1})", R"({"a":"x"})", R"({"b":"x","a":1})", "{\"\\u0061\":\"x\"}"}},
      {R"({"type":"object","required":["x"]})",
       {R"({"x":null})", R"({"x":[1]})"},
       {"{}", R"({"y":1})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})",
       {"{}", R"({"q":1,"r":2})"},
       {R"({"q":"a"})"}},
      {R"({"patternProperties":{"^n_":{"type":"integer"},"^s_":{"type":"string"}}})",
       {"{}", R"({"n_1":1})", R"({"s_":"a","n_2":2})"},
       {R"({"n_1":"a"})", R"({"other":1})"}},
      {R"({"patternProperties":{"^n_":{"type":"integer"}},"additionalProperties":{"type":"null"}})",
       {R"({"n_1":1})", R"({"x":null})"},
       {R"({"n_1":null})", R"({"x":1})"}},
      {R"({"properties":{"n_1":{"maximum":5}},"patternProperties":{"^n_":{"type":"integer"}}})",
       {R"({"n_1":3})", R"({"n_2":9})"},
       {R"({"n_1":9})", R"({"n_1":"x"})"}},
      {R"({"properties":{"a":false,"b":{"type":"null"}}})",
       {"{}", R"({"b":null})"},
       {R"({"a":1})"}},
      {R"({"properties":{"é\"":{"type":"null"}},"required":["é\""]})",
       {"{\"é\\\"\":null}"},
       {"{}"}},
  });
}

TEST(Schema, LiteralReading) {
  check({{R"({"properties":{"a":{"type":"integer"}}})",
          {"{}", R"({"a":1})", R"({"b":"x"})", "1", "null", R"("s")", "[1]"},
          {R"({"a":"x"})"}},
         {R"({"minimum":3})", {"3", "4.5", "\"a\"", "null"}, {"2", "-1"}},
         {R"({"type":"object","properties":{"a":{"minLength":2}}})",
          {R"({"a":1})", R"({"a":"xy"})"},
          {R"({"a":"x"})"}}},
        {true});
}

TEST(Schema, Combinations) {
  check({
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1},{"const":null}]})",
       {"5", R"("a")", "null"},
       {R"("ab")", "true", "1.5"}},
      {R"({"anyOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false},)"
       R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"null"}},"required":["a"],"additionalProperties":false}]})",
       {R"({"a":1})", R"({"a":"x"})", R"({"a":"x","b":null})"},
       {R"({"a":1,"b":null})", "{}"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf":[{"const":1},{"const":2}]})", {"1", "2"}, {"3"}},
      {R"({"oneOf":[{"type":"integer","maximum":3},{"type":"integer","minimum":4}]})",
       {"3", "4"},
       {}},
      {R"({"oneOf":[{"type":"string","pattern":"^a"},{"type":"string","pattern":"^b"}]})",
       {R"("a")", R"("bc")"},
       {R"("c")"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"x"},"v":{"type":"integer"}},"required":["k","v"]},)"
       R"({"type":"object","properties":{"k":{"const":"y"},"v":{"type":"string"}},"required":["k","v"]}]})",
       {R"({"k":"x","v":1})", R"({"k":"y","v":"s"})"},
       {R"({"k":"x","v":"s"})", R"({"k":"z","v":1})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},)"
       R"({"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]})",
       {R"({"a":1,"b":"x"})"},
       {R"({"a":1})", R"({"b":"x"})"}},
      {R"({"allOf":[{"type":["integer","string"]},{"type":["string","null"]}]})",
       {R"("a")"},
       {"1", "null"}},
      {R"({"allOf":[{"minimum":2},{"maximum":5}],"type":"integer"})", {"2", "5"}, {"1", "6"}},
      {R"({"type":"integer","anyOf":[{"maximum":2},{"minimum":8}]})", {"1", "9"}, {"5"}},
      {R"({"allOf":[{"anyOf":[{"const":1},{"const":2}]},{"anyOf":[{"const":2},{"const":3}]}]})",
       {"2"},
       {"1", "3"}},
      {R"({"allOf":[{"items":{"minimum":1}},{"items":{"maximum":3}}],"type":"array"})",
       {"[2]", "[]"},
       {"[0]", "[4]"}},
  });
}

TEST(Schema, References) {
  check({
      {R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"integer"}}})", {"1"}, {"null"}},
      {R"({"definitions":{"a b/~":{"type":"null"}},"$ref":"#/definitions/a%20b~1~0"})",
       {"null"},
       {"1"}},
      {R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},)"
       R"("c":{"type":"array","items":{"$ref":"#/$defs/t"}}},"required":["v"],"additionalProperties":false}}})",
       {R"({"v":1})", R"({"v":1,"c":[]})", R"({"v":1,"c":[{"v":2,"c":[{"v":3}]},{"v":4}]})"},
       {R"({"v":1,"c":[{}]})", R"({"c":[]})"}},
      {R"({"type":"object","properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["next"]})",
       {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
       {"{}", R"({"next":{}})"}},
      {R"({"$ref":"#/$defs/n","minimum":3,"$defs":{"n":{"type":"integer"}}})", {"3"}, {"2"}},
      {R"({"properties":{"a":{"type":"null"},"b":{"$ref":"#/properties/a"}}})",
       {R"({"a":null,"b":null})"},
       {R"({"b":1})"}},
      {R"({"title":"t","description":"d","default":3,"examples":[1],"$comment":"c","deprecated":true,"type":"null"})",
       {"null"},
       {}},
  });
}

TEST(Schema, AnyJsonIsAnyObject) {
  const Matcher matcher = test::matcher_of(Grammar::any_json());
  for (const char* good : {"{}", R"({"a": [1, {"b": "\u00e9"}], "c": -1.5e3})"}) {
    EXPECT_TRUE(test::accepts(matcher, good)) << good;
  }
  for (const char* bad : {"[]", "1", "{\"a\":}", "{} "}) {
    EXPECT_FALSE(test::accepts(matcher, bad)) << bad;
  }
}

}  // namespace
}  // namespace dovetail::grammar
