// Keywords that clients' schemas hold beside the common ones, and lenient schemas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/schema_cases.h"

namespace dovetail::grammar {
namespace {

using test::check;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Keywords, AnnotationsSayNothing) {
  check({
      {R"({"type":"string","maxLength":1,"example":"a","$anchor":"a","contentEncoding":"base64",)"
       R"("contentMediaType":"image/png","x-order":3,"externalDocs":{},"xml":{},"readOnly":true})",
       {R"("a")"},
       {R"("ab")", "1"}},
      {R"({"format":"path"})", {R"("a")", "1", "[null]"}, {}},
      {R"({"type":"number","format":"double"})", {"1.5"}, {R"("a")"}},
      {R"({"type":"string","format":"binary","maxLength":1})", {R"("a")"}, {R"("ab")"}},
  });
}

TEST(Keywords, NullableAddsNullToTheTypeBesideIt) {
  check({
      {R"({"type":"string","maxLength":1,"nullable":true})", {R"("a")", "null"}, {R"("ab")"}},
      {R"({"type":"string","nullable":false})", {R"("a")"}, {"null"}},
      {R"({"type":"string","nullable":true,"enum":["a"]})", {R"("a")"}, {"null"}},
      {R"({"$ref":"#/$defs/a","nullable":true,"$defs":{"a":{"type":"boolean"}}})",
       {"true"},
       {"null"}},
  });
}

TEST(Keywords, Formats) {
  check({
      {R"({"type":"string","format":"duration"})",
       {R"("P1D")", R"("PT0S")", R"("P1Y2M3DT4H5M6S")", R"("P3W")", R"("P1MT2M")", R"("PT1H2M")"},
       {R"("P")", R"("PT")", R"("P1W2D")", R"("1D")", R"("P1H")", R"("P1DT")", R"("PT1H2S")",
        R"("P1Y2D")", R"("PT1.5S")"}},
      {R"({"type":"string","format":"hostname"})",
       {R"("localhost")", R"("a-b.example.org")", R"("127.0.0.1")", R"("x")"},
       {R"("-a")", R"("a-")", R"("a..b")", R"("a_b")", R"(".a")", R"("")"}},
      {R"({"type":"string","format":"ipv6"})",
       {R"("::")", R"("::1")", R"("1::")", R"("2001:db8::8a2e:370:7334")", R"("1:2:3:4:5:6:7:8")",
        R"("1::3:4:5:6:7:8")", R"("1:2:3:4:5:6:7::")"},
       {R"(":")", R"(":::")", R"("1:2:3:4:5:6:7")", R"("1:2:3:4:5:6:7:8:9")", R"("12345::")",
        R"("1::2::3")", R"("1:2:3:4:5:6:7:8::")", R"("g::")"}},
      {R"({"type":"string","format":"uri"})",
       {R"("https://example.org")", R"("https://u@example.org:80/a/b?q=1&r=/#f?")",
        R"("mailto:a@example.org")", R"("urn:isbn:123")", R"("file:///etc/x")",
        R"("http://[::1]:8080/")", R"("a:/b%20c")"},
       {R"("example.org")", R"("//example.org")", R"("http://")", R"("http://a b")", R"("a:b%2")",
        R"("http://a/\"")", R"("1a:b")", R"("a:#b#c")", R"("")"}},
      {R"({"type":"string","format":"uri-reference"})",
       {R"("")", R"("a/b")", R"("../a?x#y")", R"("//example.org/a")", R"("#f")", R"("http://a")"},
       {R"("a b")", R"("1:b")", R"("#a#b")", R"("%zz")"}},
      {R"({"type":"integer","format":"int32"})",
       {"0", "2147483647", "-2147483648"},
       {"2147483648", "-2147483649"}},
      {R"({"format":"uint8","maximum":300})", {"0", "255", "1.5"}, {"256", "-1", R"("a")"}},
  });
}

TEST(Keywords, MultipleOf) {
  check({
      {R"({"type":"integer","multipleOf":7})",
       {"0", "7", "-14", "700", "9223372036854775807"},
       {"1", "-8", "9223372036854775806"}},
      {R"({"type":"integer","multipleOf":15,"minimum":-20,"maximum":100})",
       {"-15", "0", "90"},
       {"-30", "105", "20"}},
      {R"({"type":"number","multipleOf":0.01})",
       {"1", "-1.2", "3.25", "0.100"},
       {"0.001", "1e2", "1.255"}},
      {R"({"type":"number","multipleOf":0.25,"exclusiveMaximum":1})",
       {"0.75", "0.5", "0.50", "-3.25"},
       {"1", "0.1", "0.255"}},
      {R"({"type":"number","multipleOf":2.5})", {"5", "7.5", "-2.5", "0"}, {"1", "2", "2.25"}},
      {R"({"type":"number","multipleOf":3})", {"3", "6.0", "-9"}, {"1", "3.3"}},
      {R"({"type":"integer","multipleOf":1.5})", {"0", "3", "6"}, {"1", "2", "4"}},
      {R"({"multipleOf":10,"allOf":[{"multipleOf":4}]})", {"20", "-40"}, {"10", "4"}},
      {R"({"type":"integer","multipleOf":1024,"minimum":1})", {"1024", "102400"}, {"512", "1025"}},
      {R"({"enum":[1,2.5,4,5],"multipleOf":2.5})", {"2.5", "5"}, {"1", "4"}},
  });
}

// As drafts before 2020-12 spell them.
TEST(Keywords, ListsOfItems) {
  check({
      {R"({"items":[{"type":"null"},{"type":"boolean"}],"minItems":2,"maxItems":2})",
       {"[null,true]"},
       {"[true,null]", "[null]", "[null,true,1]"}},
      {R"({"type":"array","items":[{"type":"null"}],"additionalItems":false})",
       {"[]", "[null]"},
       {"[1]", "[null,null]"}},
      {R"({"items":[{"type":"null"}],"additionalItems":{"type":"boolean"},"minItems":1})",
       {"[null]", "[null,true,false]"},
       {"[]", "[null,null]", "[true]"}},
      // Without a list it says nothing of the items.
      {R"({"items":{"type":"boolean"},"additionalItems":false})", {"[true,false]"}, {"[1]"}},
  });
}

TEST(Keywords, UniqueItems) {
  check({
      {R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b","ab"]}})",
       {"[]", R"(["a"])", R"(["ab","a", "b"])", R"(["b","a"])"},
       {R"(["a","a"])", R"(["a","b","ab","a"])", R"(["c"])"}},
      {R"({"uniqueItems":true,"items":{"type":["boolean","null"]},"minItems":2})",
       {"[true,false]", "[null,true,false]"},
       {"[true]", "[true,true]", "[]"}},
      {R"({"uniqueItems":true,"items":{"enum":[1,1.0,2]},"maxItems":1})", {"[1]", "[]"}, {"[1,2]"}},
      {R"({"uniqueItems":true,"items":{"enum":[1,1.0,2]}})", {"[1,2]"}, {"[1,1.0]", "[1,1]"}},
      {R"({"uniqueItems":true,"items":{"type":"string"},"maxItems":1})",
       {R"(["abc"])", "[]"},
       {R"(["a","b"])"}},
      {R"({"uniqueItems":true,"items":{"enum":["a","b","c"],"maxLength":1},"maxItems":2})",
       {R"(["c","a"])"},
       {R"(["c","a","b"])"}},
  });
}

TEST(Keywords, CountsOfMembers) {
  check({
      {R"({"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"minProperties":1})",
       {R"({"a":null})", R"({"c":null})", R"({"a":null,"b":null,"c":null})"},
       {"{}"}},
      {R"({"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"minProperties":2})",
       {R"({"a":null,"b":null})", R"({"b":null,"c":null})", R"({"a":null,"b":null,"c":null})"},
       {"{}", R"({"b":null})"}},
      {R"({"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"maxProperties":1})",
       {"{}", R"({"a":null})", R"({"c":null})"},
       {R"({"a":null,"b":null})"}},
      {R"({"properties":{"a":{"type":"null"},"b":{"type":"null"}},"required":["b"],"minProperties":2})",
       {R"({"a":null,"b":null})"},
       {R"({"b":null})", "{}"}},
      {R"({"additionalProperties":{"type":"null"},"minProperties":1,"maxProperties":2})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}", R"({"a":null,"b":null,"c":null})"}},
      {R"({"type":"object","maxProperties":0})", {"{}"}, {R"({"a":1})"}},
      {R"({"properties":{"a":{"type":"null"}},"additionalProperties":{"type":"null"},"maxProperties":2})",
       {"{}", R"({"a":null,"x":null})", R"({"x":null,"y":null})"},
       {R"({"a":null,"x":null,"y":null})"}},
  });
}

TEST(Keywords, PropertyNames) {
  check({
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":{"type":"null"}})",
       {"{}", R"({"ab":null})"},
       {R"({"A":null})", R"({"":null})"}},
      {R"({"propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"null"}})",
       {R"({"a":null,"b":null})"},
       {R"({"c":null})"}},
      {R"({"properties":{"a":{"type":"null"},"bb":{"type":"null"}},"propertyNames":{"maxLength":1}})",
       {R"({"a":null})"},
       {R"({"bb":null})", R"({"c":null})"}},
      {R"({"type":"object","propertyNames":false})", {"{}"}, {R"({"a":1})"}},
  });
  const auto none = Grammar::from_json_schema(
      Json::parse(R"({"required":["bb"],"propertyNames":{"maxLength":1}})"));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no value satisfies"));
}

TEST(Keywords, Not) {
  check({
      {R"({"type":["string","null"],"not":{"type":"null"}})", {R"("a")"}, {"null"}},
      {R"({"not":{"type":["object","array"]}})", {"1", R"("a")", "null"}, {"{}", "[]"}},
      {R"({"type":"string","not":{"const":""}})", {R"("a")"}, {R"("")"}},
      {R"({"type":["string","null"],"not":{"enum":["a\n","b",null]}})",
       {R"("a")", R"("bb")"},
       {R"("b")", R"("a\n")", R"("\u0062")", "null"}},
      {R"({"enum":["a","b"],"not":{"const":"a"}})", {R"("b")"}, {R"("a")"}},
      {R"({"type":"null","not":false})", {"null"}, {}},
  });
  EXPECT_FALSE(Grammar::from_json_schema(Json::parse(R"({"type":"null","not":{}})")));
}

// A union as Pydantic writes it, where the tag has a default and so is not required.
TEST(Keywords, DiscriminatorTellsBranchesApart) {
  const std::string branches =
      R"("oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{)"
      R"("a":{"type":"object","properties":{"k":{"const":"a","default":"a"},"x":{"type":"null"}}},)"
      R"("b":{"type":"object","properties":{"k":{"const":"b","default":"b"},"x":{"type":"null"}}}}})";
  check({{R"({"discriminator":{"propertyName":"k"},)" + branches,
          {R"({"k":"a"})", R"({"k":"b","x":null})"},
          {"{}", R"({"x":null})", R"({"k":"c"})"}}});
  EXPECT_FALSE(Grammar::from_json_schema(Json::parse("{" + branches)));
  // Without the property in all branches it says nothing.
  EXPECT_FALSE(Grammar::from_json_schema(
      Json::parse(R"({"discriminator":{"propertyName":"z"},)" + branches)));
  check({{R"({"discriminator":"k","type":"null"})", {"null"}, {}},
         {R"({"discriminator":{"propertyName":"k"},"anyOf":[{"type":"null"},{"type":"boolean"}]})",
          {"null", "true"},
          {}}});
}

struct LenientCase {
  std::string schema;
  std::vector<std::string> left_out;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

TEST(Lenient, LeavesOutWhatCannotBeKept) {
  SchemaOptions lenient;
  lenient.lenient = true;
  const std::vector<LenientCase> cases = {
      {R"({"type":"integer","maximum":9,"multipleOf":5000})",
       {"#/multipleOf"},
       {"7"},
       {"10", "\"a\""}},
      {R"({"multipleOf":5000})", {"#/multipleOf"}, {"7", "1.5"}, {"\"a\""}},
      {R"j({"properties":{"a":{"type":"string","pattern":"^(?!x)","maxLength":1}},"required":["a"]})j",
       {"#/properties/a/pattern"},
       {R"({"a":"x"})"},
       {R"({"a":"xx"})", "{}"}},
      {R"({"type":"object","properties":{"a":{"type":"null"}},"if":{"required":["a"]},"then":false,"made-up":3})",
       {"#/if", "#/made-up", "#/then"},
       {R"({"a":null})", "{}"},
       {R"({"a":1})"}},
      {R"({"uniqueItems":true,"items":{"type":"boolean"},"contains":{"const":true},"minItems":1})",
       {"#/contains"},
       {"[true]"},
       {"[]", "[true,true]"}},
      {R"({"uniqueItems":true,"items":{"type":"integer"},"minItems":1})",
       {"#/uniqueItems"},
       {"[1,1]"},
       {"[]"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"number","multipleOf":5000}]})",
       {"#/oneOf", "#/oneOf/1/multipleOf"},
       {"1", "1.5"},
       {"null"}},
      {R"({"$ref":"other.json","type":"null"})", {"#/$ref"}, {"null"}, {"1"}},
      {R"({"type":["null","integer"],"not":{"minimum":3}})",
       {"#/not"},
       {"null", "1", "4"},
       {"true"}},
      {R"j({"patternProperties":{"(?=a)":{"type":"null"}},"additionalProperties":false,"minProperties":3})j",
       {"#/additionalProperties", "#/minProperties", "#/patternProperties"},
       {R"({"x":1})", "{}"},
       {"[]"}},
      {R"({"type":"object","maxProperties":100})", {"#/maxProperties"}, {"{}"}, {"1"}},
      {R"({"type":"null"})", {}, {"null"}, {"1"}},
  };
  for (const LenientCase& c : cases) {
    const auto grammar = Grammar::from_json_schema(Json::parse(c.schema), lenient);
    ASSERT_TRUE(grammar) << c.schema << ": " << grammar.error().message;
    EXPECT_THAT(grammar->left_out(), testing::ElementsAreArray(c.left_out)) << c.schema;
    EXPECT_EQ(Grammar::from_json_schema(Json::parse(c.schema)).has_value(), c.left_out.empty());
    const Matcher matcher = test::matcher_of(*grammar);
    for (const std::string& text : c.good) {
      EXPECT_TRUE(test::accepts(matcher, text)) << c.schema << " on " << text;
    }
    for (const std::string& text : c.bad) {
      EXPECT_FALSE(test::accepts(matcher, text)) << c.schema << " on " << text;
    }
  }
  for (const char* schema :
       {R"({"minLength":-1})", R"({"$ref":"#/$defs/none"})", R"({"type":"null","enum":[1]})"}) {
    EXPECT_FALSE(Grammar::from_json_schema(Json::parse(schema), lenient)) << schema;
  }
}

TEST(Lenient, PartsOfStructures) {
  const auto grammar = Grammar::from_structure(Json::parse(
      R"j([{"sequence":[{"schema":{"type":"integer","multipleOf":5000},"lenient":true},{"literal":" "},)j"
      R"j({"raw":{"properties":{"p":{"type":"string","pattern":"(?=b)b","maxLength":1}}},"at":"/properties/p","lenient":true}]}])j")
                                                   [0]);
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_THAT(grammar->left_out(), ElementsAre("#/sequence/0/schema: #/multipleOf",
                                               "#/sequence/2/raw: #/properties/p/pattern"));
  const Matcher matcher = test::matcher_of(*grammar);
  EXPECT_TRUE(test::accepts(matcher, "3 a"));
  EXPECT_FALSE(test::accepts(matcher, "3 ab"));
  // A document has the name that it is given.
  const auto named = Grammar::from_structure(
      Json::parse(R"({"schema":{"contains":{}},"lenient":true,"name":"tools[0].parameters"})"));
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_THAT(named->left_out(), ElementsAre("tools[0].parameters: #/contains"));
  // Each part by itself.
  const auto one = Grammar::from_structure(Json::parse(
      R"({"sequence":[{"schema":{"contains":{}},"lenient":true},{"schema":{"contains":{}}}]})"));
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, HasSubstr("#/sequence/1/schema: #/contains: the keyword"));
}

}  // namespace
}  // namespace dovetail::grammar
