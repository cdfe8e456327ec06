// What cannot be expressed exactly is refused, by its place; and what is asked for costs what it
// may, not what it likes.
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

std::string numbers(int count) {
  std::string out = "0";
  for (int i = 1; i < count; ++i) out += fmt::format(",{}", i);
  return out;
}

TEST(Refusal, NamesTheKeywordByItsPointer) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"type":"string","contentEncodings":"base64"})", "#/contentEncodings: the keyword"},
      {R"({"not":{"type":"integer"}})", "#/not: \"not\" is supported of"},
      {R"({"not":{"const":3}})", "#/not: \"not\" is supported of"},
      {R"({"not":{"minimum":3}})", "#/not: \"not\" is supported of"},
      {R"({"properties":{"a":{"multipleOf":1025}}})",
       "#/properties/a/multipleOf: 1025 is not supported"},
      {R"({"multipleOf":0.000000001})", "#/multipleOf: 1e-09 is not supported"},
      {R"({"multipleOf":0})", "#/multipleOf: \"multipleOf\" must be a number above 0"},
      {R"({"nullable":"yes","type":"null"})", "#/nullable: \"nullable\" must be true or false"},
      {R"({"properties":{"a/b~":{"type":"integer","if":{}}}})",
       "#/properties/a~1b~0/if: the keyword"},
      {R"({"items":{"additionalProperties":true,"minProperties":2}})",
       "#/items/minProperties: not supported beyond 1 where"},
      {R"({"type":"object","maxProperties":100})", "#/maxProperties: not supported beyond 64"},
      {R"({"contains":{}})", "#/contains: the keyword"},
      {R"({"anyOf":[{"type":"null"},{"dependentRequired":{}}]})", "#/anyOf/1/dependentRequired"},
      {R"({"$ref":"#/$defs/x","$defs":{"x":{"unevaluatedProperties":false}}})",
       "#/$defs/x/unevaluatedProperties"},
      {R"({"type":"array","uniqueItems":true})",
       "#/uniqueItems: \"uniqueItems\" true is not supported but for"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2,3,4,5,6,7,8,9,10,11,12,13]}})",
       "#/uniqueItems: \"uniqueItems\" true is not supported but for"},
      {R"({"uniqueItems":true,"maxItems":2,"items":{"enum":[)" + numbers(80) + "]}}",
       "#/uniqueItems: \"uniqueItems\" true is not supported but for"},
      {R"({"uniqueItems":true,"items":{"enum":[)" + numbers(50000) + "]}}",
       "#/uniqueItems: \"uniqueItems\" true is not supported but for"},
      {R"({"uniqueItems":true,"items":{"enum":[[1],[2]]}})", "#/uniqueItems: \"uniqueItems\" true"},
      {R"({"items":[{"type":"null"}],"prefixItems":[true]})",
       "#/items: \"items\" as a list is not supported beside \"prefixItems\""},
      {R"({"type":"strin"})", "#/type: \"strin\" is no type"},
      {R"({"type":[]})", "#/type: \"type\" must be"},
      {R"({"type":3})", "#/type: \"type\" must be"},
      {R"({"enum":[]})", "#/enum: \"enum\" must be"},
      {R"({"minLength":-1})", "#/minLength: \"minLength\" must be a whole number"},
      {R"({"minLength":1.5})", "#/minLength"},
      {R"({"minimum":"3"})", "#/minimum: \"minimum\" must be a number"},
      {R"({"required":"a"})", "#/required: \"required\" must be a list of names"},
      {R"({"properties":[]})", "#/properties: \"properties\" must be an object of schemas"},
      {R"({"properties":{"a":3}})", "#/properties: \"properties\" must be an object of schemas"},
      {R"({"anyOf":[]})", "#/anyOf: \"anyOf\" must be a list of schemas"},
      {R"j({"pattern":"a(?=b)","type":"string"})j", "#/pattern: "},
      {R"j({"patternProperties":{"^(?!a)":{}}})j", "#/patternProperties/^(?!a): "},
      {R"({"$ref":"other.json"})", "#/$ref: \"$ref\" to \"other.json\" is not supported"},
      {R"({"$ref":"#/$defs/none"})", "#/$ref: \"#/$defs/none\" leads nowhere"},
      {R"({"oneOf":[{"properties":{"k":{"const":1}},"required":["k"]},{"properties":{"k":{"const":2}},"required":["k"]}]})",
       "#/oneOf: \"oneOf\" is not supported unless"},
      {R"({"$ref":"#"})", "#: refers to itself"},
      {R"({"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}})",
       "#/$defs/a: refers to itself"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
       "#/oneOf: \"oneOf\" is not supported unless"},
      {R"({"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]})",
       "#/oneOf: \"oneOf\" is not supported unless"},
      {R"({"patternProperties":{"^a":{},"b$":{}}})", "#/patternProperties/b$: not supported"},
      {R"({"enum":[[1]],"items":{"type":"string"}})", "#/items: not supported beside \"enum\""},
      {R"({"type":"string","maxLength":4000000000})", "#: a length beyond"},
      {R"({"type":"array","items":{"type":"null"},"minItems":99999999})",
       "#: \"minItems\" or \"maxItems\" beyond"},
      {"3", "#: a schema must be an object"},
      {R"(["a"])", "#: a schema must be an object"},
  };
  for (const auto& [schema, message] : cases) {
    const auto grammar = Grammar::from_json_schema(Json::parse(schema));
    ASSERT_FALSE(grammar) << schema;
    EXPECT_THAT(grammar.error().message, HasSubstr(message)) << schema;
  }
}

TEST(Refusal, NoInstance) {
  for (const char* schema :
       {"false", R"({"allOf":[{"type":"string"},{"type":"integer"}]})",
        R"({"type":"integer","minimum":3,"maximum":2})",
        R"({"type":"string","minLength":3,"maxLength":2})",
        R"({"type":"object","properties":{"a":false},"required":["a"]})",
        R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
        R"({"type":"array","items":false,"minItems":1})", R"({"const":3,"type":"string"})",
        R"({"type":"string","pattern":"^a$","minLength":2})"}) {
    const auto grammar = Grammar::from_json_schema(Json::parse(schema));
    ASSERT_FALSE(grammar) << schema;
    EXPECT_THAT(grammar.error().message, HasSubstr("#: no value satisfies")) << schema;
  }
}

// Each would take minutes to forever, or all memory, if only its parts were bounded.
TEST(Refusal, BoundsTheWorkOfAll) {
  std::vector<Json> schemas;
  for (const char* keyword : {"allOf", "anyOf"}) {
    for (const bool leaf : {false, true}) {
      Json doubling = {{"$ref", "#/$defs/d0"}};
      for (int i = 0; i < 50; ++i) {
        const Json next = {{"$ref", fmt::format("#/$defs/d{}", i + 1)}};
        doubling["$defs"][fmt::format("d{}", i)] = {{keyword, {next, next}}};
      }
      doubling["$defs"]["d50"] = leaf;
      schemas.push_back(std::move(doubling));
    }
  }
  Json patterns = {{"type", "object"}};
  for (int i = 0; i < 900; ++i) {
    patterns["properties"][fmt::format("p{}", i)] = {
        {"type", "string"}, {"pattern", fmt::format("{}(a|b)*a(a|b){{13}}", i)}};
  }
  schemas.push_back(std::move(patterns));
  Json branches;
  for (int i = 0; i < 500; ++i) {
    branches["oneOf"].push_back(
        {{"type", "string"}, {"pattern", fmt::format("^{}x[a-f]{{90}}$", i)}});
  }
  schemas.push_back(std::move(branches));
  Json deep = {{"type", "null"}};
  for (int i = 0; i < 2000; ++i)
    deep = {{"type", "array"}, {"minItems", 1}, {"items", std::move(deep)}};
  schemas.push_back(std::move(deep));
  schemas.push_back(Json::parse(
      R"({"type":"array","items":{"type":"array","minItems":1000,"maxItems":1000},"minItems":1000000})"));
  for (const Json& schema : schemas) {
    const auto grammar = Grammar::from_json_schema(schema);
    if (schema.dump().find("allOf") != std::string::npos) {
      EXPECT_FALSE(grammar);
      continue;
    }
    ASSERT_FALSE(grammar) << schema.dump().substr(0, 200);
    EXPECT_THAT(grammar.error().message,
                testing::AnyOf(HasSubstr("needs more than"), HasSubstr("more than"),
                               HasSubstr("nested values")));
  }
}

}  // namespace
}  // namespace dovetail::grammar
