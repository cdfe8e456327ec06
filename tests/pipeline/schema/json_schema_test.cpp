#include "pipeline/schema/json_schema.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dovetail::pipeline {
namespace {

using Json = nlohmann::ordered_json;

Result<JsonSchema> compiled(const std::string& schema) {
  return JsonSchema::compile(Json::parse(schema), "");
}

struct Case {
  std::string schema, value, error;  // empty: it fits
};

TEST(JsonSchema, ChecksWhatItSays) {
  const Case cases[] = {
      {"true", "[1]", ""},
      {"{}", "null", ""},
      {R"({"type":"integer"})", "3", ""},
      {R"({"type":"integer"})", "3.0", ""},
      {R"({"type":"integer"})", "3.5", "3.5 is no integer"},
      {R"({"type":"number"})", "3", ""},
      {R"({"type":["string","null"]})", "null", ""},
      {R"({"type":["string","null"]})", "true", "true is no null or string"},
      {R"({"enum":[1,"a",{"x":1,"y":2}]})", R"({"y":2,"x":1})", ""},
      {R"({"enum":[1,"a"]})", "2", "2 is none of 1, \"a\""},
      {R"({"const":1})", "1.0", ""},
      {R"({"const":1})", "true", "true is not 1"},
      {R"({"enum":[1,2],"const":2})", "1", "1 is not 2"},
      {R"({"minimum":1,"maximum":2})", "1", ""},
      {R"({"minimum":1})", "0.5", "0.5 is less than 1"},
      {R"({"maximum":1})", "9223372036854775807", "9223372036854775807 is more than 1"},
      {R"({"exclusiveMinimum":1})", "1", "1 is not more than 1"},
      {R"({"exclusiveMaximum":1})", "1", "1 is not less than 1"},
      {R"({"minimum":1})", R"("0")", ""},
      {R"({"multipleOf":3})", "-9", ""},
      {R"({"multipleOf":3})", "10", "10 is no multiple of 3"},
      {R"({"multipleOf":0.01})", "0.07", ""},
      {R"({"multipleOf":0.01})", "0.075", "0.075 is no multiple of 0.01"},
      {R"({"multipleOf":18446744073709551615})", "-9223372036854775808",
       "-9223372036854775808 is no multiple of 18446744073709551615"},
      {R"({"minLength":2,"maxLength":2})", R"("éé")", ""},
      {R"({"minLength":2})", R"("é")", "\"é\" has 1 characters, fewer than 2"},
      {R"({"maxLength":1})", R"("ab")", "\"ab\" has 2 characters, more than 1"},
      {R"({"pattern":"b\\d"})", R"("ab1c")", ""},
      {R"({"pattern":"^b$"})", R"("b\n")", "\"b\\n\" does not match ^b$"},
      {R"({"pattern":"^\\d$"})", R"("٣")", "\"٣\" does not match ^\\d$"},
      {R"({"pattern":"^\\u00e9\\u{1F600}$"})", R"("é😀")", ""},
      {R"({"format":"date"})", R"("2024-02-29")", ""},
      {R"({"format":"date"})", R"("2023-02-29")", "\"2023-02-29\" is no date"},
      {R"({"format":"date-time"})", R"("2023-02-28T23:59:60Z")", ""},
      {R"({"format":"date-time"})", R"("2023-02-28 10:00:00Z")",
       "\"2023-02-28 10:00:00Z\" is no date-time"},
      {R"({"format":"time"})", R"("01:29:60.25+01:30")", ""},
      {R"({"format":"time"})", R"("12:00:60Z")", "\"12:00:60Z\" is no time"},
      {R"({"format":"time"})", R"("12:00:00")", "\"12:00:00\" is no time"},
      {R"({"format":"uuid"})", R"("f81d4fae-7dec-11d0-A765-00a0c91e6bf6")", ""},
      {R"({"format":"uuid"})", R"("f81d4fae-7dec-11d0-a765-00a0c91e6bfg")",
       "\"f81d4fae-7dec-11d0-a765-00a0c91e6bfg\" is no uuid"},
      {R"({"format":"ipv4"})", R"("10.0.0.255")", ""},
      {R"({"format":"ipv4"})", R"("10.0.0.256")", "\"10.0.0.256\" is no ipv4"},
      {R"({"format":"ipv4"})", R"("10.0.0.01")", "\"10.0.0.01\" is no ipv4"},
      {R"({"format":"email"})", R"("a.b+c@x-y.org")", ""},
      {R"({"format":"email"})", R"("a..b@x.org")", "\"a..b@x.org\" is no email"},
      {R"({"format":"email"})", R"("a@-x.org")", "\"a@-x.org\" is no email"},
      {R"({"minItems":1})", "[]", "0 items, fewer than 1"},
      {R"({"maxItems":1})", "[1,2]", "2 items, more than 1"},
      {R"({"uniqueItems":true})", "[1,2,1.0]", "items 0 and 2 are the same"},
      {R"({"items":{"type":"integer"}})", R"([1,"2"])", "/1: \"2\" is no integer"},
      {R"({"prefixItems":[{"type":"string"}],"items":false})", R"(["a"])", ""},
      {R"({"prefixItems":[{"type":"string"}],"items":false})", R"(["a",1])",
       "/1: 1 is not allowed"},
      {R"({"contains":{"const":1}})", "[2,1]", ""},
      {R"({"contains":{"const":1}})", "[2]", "0 items fit contains, fewer than 1"},
      {R"({"contains":{"const":1},"minContains":0})", "[2]", ""},
      {R"({"contains":{"const":1},"maxContains":1})", "[1,1]", "2 items fit contains, more than 1"},
      {R"({"required":["a"]})", "{}", "the property \"a\" is missing"},
      {R"({"required":["a"]})", "[]", ""},
      {R"({"properties":{"a":{"properties":{"b/c":{"type":"null"}}}}})", R"({"a":{"b/c":0}})",
       "/a/b~1c: 0 is no null"},
      {R"({"properties":{"a":true,"b":true},"additionalProperties":false})", R"({"c":0})",
       "the property \"c\" is not allowed; there are a, b"},
      {R"({"properties":{"a":{}},"additionalProperties":{"type":"null"}})", R"({"a":1,"b":0})",
       "/b: 0 is no null"},
      {R"({"patternProperties":{"^x":{"type":"null"}},"additionalProperties":false})",
       R"({"xa":null})", ""},
      {R"({"patternProperties":{"^x":{"type":"null"}},"additionalProperties":false})",
       R"({"ax":null})", "the property \"ax\" is not allowed"},
      {R"({"propertyNames":{"maxLength":1}})", R"({"ab":0})",
       "as the name of a property, \"ab\" has 2 characters, more than 1"},
      {R"({"minProperties":1})", "{}", "0 properties, fewer than 1"},
      {R"({"maxProperties":1})", R"({"a":1,"b":1})", "2 properties, more than 1"},
      {R"({"dependentRequired":{"a":["b"]}})", R"({"a":1})",
       "the property \"b\" is missing, which \"a\" needs"},
      {R"({"dependentSchemas":{"a":{"required":["b"]}}})", R"({"a":1})",
       "the property \"b\" is missing"},
      {R"({"dependentSchemas":{"a":{"required":["b"]}}})", R"({"c":1})", ""},
      {R"({"allOf":[{"minimum":1},{"maximum":2}]})", "3", "3 is more than 2"},
      {R"({"anyOf":[{"type":"null"},{"type":"string"}]})", R"("a")", ""},
      {R"({"anyOf":[{"type":"null"},{"properties":{"a":{"type":"null"}}}]})", R"({"a":1})",
       "/a: 1 is no null (the nearest of 2 alternatives)"},
      {R"({"oneOf":[{"minimum":1},{"minimum":2}]})", "1", ""},
      {R"({"oneOf":[{"minimum":1},{"minimum":2}]})", "2", "2 fits the alternatives 0 and 1 of one"},
      {R"({"not":{"type":"null"}})", "null", "null is what it must not be"},
      {R"({"if":{"type":"integer"},"then":{"minimum":1},"else":{"type":"null"}})", "0",
       "0 is less than 1"},
      {R"({"if":{"type":"integer"},"then":{"minimum":1},"else":{"type":"null"}})", R"("a")",
       "\"a\" is no null"},
      {R"({"$ref":"#/$defs/a%20b","$defs":{"a b":{"type":"null"}}})", "1", "1 is no null"},
      {R"({"properties":{"next":{"$ref":"#"}},"additionalProperties":false})",
       R"({"next":{"next":{"n":1}}})",
       "/next/next: the property \"n\" is not allowed; there are next"},
      {R"({"title":"t","description":"d","default":1,"$comment":"c","$schema":"s","$id":"i"})", "1",
       ""},
  };
  for (const Case& one : cases) {
    const auto schema = compiled(one.schema);
    ASSERT_TRUE(schema) << one.schema << "\n" << schema.error().message;
    const Status status = schema->check(Json::parse(one.value));
    EXPECT_EQ(status ? "" : status.error().message, one.error) << one.schema << " " << one.value;
    EXPECT_TRUE(status || status.error().kind == ErrorKind::kInvalid);
  }
}

TEST(JsonSchema, RefusesWhatItCannotCheckOrNothingFits) {
  using enum ErrorKind;
  const std::tuple<std::string, ErrorKind, std::string> cases[] = {
      {R"({"typ":"string"})", kUnsupported, "/s/typ: unknown keyword, did you mean type?"},
      {R"({"x-mine":1})", kUnsupported, "/s/x-mine: unknown keyword"},
      {R"({"unevaluatedProperties":false})", kUnsupported,
       "/s/unevaluatedProperties: this keyword is not supported"},
      {R"({"properties":{"a":{"$id":"x"}}})", kUnsupported,
       "/s/properties/a/$id: this keyword is not supported"},
      {R"({"format":"hostname"})", kUnsupported,
       "/s/format: the format \"hostname\" is not checked; those that are: date, time, date-time, "
       "uuid, ipv4, email"},
      {R"({"$ref":"other.json"})", kUnsupported,
       "/s/$ref: \"other.json\" is no reference within this schema, such as \"#/$defs/name\""},
      {R"({"$ref":"#/$defs/a"})", kInvalid, "/s/$ref: there is nothing at \"#/$defs/a\""},
      {R"({"$defs":{"a":{"typ":1}}})", kUnsupported,
       "/s/$defs/a/typ: unknown keyword, did you mean type?"},
      {R"({"$ref":"#"})", kInvalid, "/s: the schema refers to itself without a value in between"},
      {R"({"allOf":[{"$ref":"#/$defs/b"}],"$defs":{"b":{"anyOf":[{"$ref":"#"}]}}})", kInvalid,
       "/s: the schema refers to itself without a value in between"},
      {R"({"type":"text"})", kInvalid,
       "/s/type: \"text\" is no type; there are null, boolean, integer, number, string, array and "
       "object"},
      {R"({"type":[]})", kInvalid, "/s/type: no type at all"},
      {R"({"enum":[]})", kInvalid, "/s/enum: expected a list of values, at least one"},
      {R"({"minLength":-1})", kInvalid, "/s/minLength: -1 is no whole number, 0 or more"},
      {R"({"minimum":"1"})", kInvalid, "/s/minimum: \"1\" is no number"},
      {R"({"multipleOf":0})", kInvalid, "/s/multipleOf: 0 is not above 0"},
      {R"({"pattern":"("})", kInvalid,
       "/s/pattern: no regular expression: missing closing parenthesis at byte 1"},
      {R"({"items":[{}]})", kInvalid, "/s/items: a list of schemas is spelled prefixItems"},
      {R"({"items":1})", kInvalid, "/s/items: 1 is no schema: expected a mapping, true or false"},
      {R"({"anyOf":[]})", kInvalid, "/s/anyOf: expected a list of schemas, at least one"},
      {R"({"required":"a"})", kInvalid, "/s/required: \"a\" is no list of names"},
      {R"({"uniqueItems":1})", kInvalid, "/s/uniqueItems: 1 is neither true nor false"},
      {R"({"properties":[]})", kInvalid, "/s/properties: [] is no mapping of names to schemas"},
      // Impossible.
      {"false", kInvalid, "/s: the schema false: nothing can fit"},
      {R"({"minimum":2,"maximum":1})", kInvalid,
       "/s/maximum: 1 is too small for the lower bound 2: nothing can fit"},
      {R"({"minimum":2,"exclusiveMaximum":2})", kInvalid,
       "/s/exclusiveMaximum: 2 is too small for the lower bound 2: nothing can fit"},
      {R"({"properties":{"a":{"minItems":3,"maxItems":2}}})", kInvalid,
       "/s/properties/a/maxItems: 2 is too small for the lower bound 3: nothing can fit"},
      {R"({"enum":[1,2],"const":3})", kInvalid, "/s/const: const is none of enum: nothing can fit"},
      {R"({"type":"string","enum":[1,2]})", kInvalid,
       "/s: none of the listed values has the type and bounds that are asked for"},
      {R"({"enum":[1,2],"minimum":3})", kInvalid,
       "/s: none of the listed values has the type and bounds that are asked for"},
      {R"({"type":"object","required":["b"],"properties":{"a":{}},"additionalProperties":false})",
       kInvalid, "/s/required/0: the property \"b\" is required and not allowed: nothing can fit"},
      {R"({"type":"object","required":["a"],"properties":{"a":false}})", kInvalid,
       "/s/required/0: the property \"a\" is required and not allowed: nothing can fit"},
      {R"({"type":"object","required":["a","b"],"maxProperties":1})", kInvalid,
       "/s/maxProperties: 2 properties are required: nothing can fit"},
  };
  for (const auto& [text, kind, message] : cases) {
    const auto schema = JsonSchema::compile(Json::parse(text), "/s");
    ASSERT_FALSE(schema) << text;
    EXPECT_EQ(schema.error().message, message) << text;
    EXPECT_EQ(schema.error().kind, kind) << text;
  }
}

TEST(JsonSchema, TellsManyMistakesButNotAllOfALargeSchema) {
  Json schema = Json::object();
  for (int i = 0; i < 99; ++i) schema["properties"][fmt::format("p{}", i)] = {{"minLength", "x"}};
  const auto few = JsonSchema::compile(schema, "/s");
  ASSERT_FALSE(few);
  EXPECT_EQ(std::count(few.error().message.begin(), few.error().message.end(), '\n'), 98);
  for (int i = 0; i < 900; ++i) schema["properties"][fmt::format("q{}", i)] = 7;
  const auto many = JsonSchema::compile(schema, "/s");
  ASSERT_FALSE(many);
  EXPECT_EQ(std::count(many.error().message.begin(), many.error().message.end(), '\n'), 100);
  EXPECT_TRUE(many.error().message.ends_with("\n/s: there may be more mistakes"));
}

// Two ways into the same list on each level: 2^60 of them without a bound.
TEST(JsonSchema, BoundsItsWork) {
  const auto schema = compiled(
      R"({"anyOf":[{"items":{"$ref":"#"},"minItems":1},{"items":{"$ref":"#"},"maxItems":9}],
          "not":{"const":0}})");
  ASSERT_TRUE(schema) << schema.error().message;
  Json value = 0;
  for (int depth = 0; depth < 60; ++depth) value = Json::array({value});
  const Status status = schema->check(value);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kExhausted) << status.error().message;

  const auto backtracking = compiled(R"({"pattern":"^(a+)+$"})");
  ASSERT_TRUE(backtracking);
  const Status slow = backtracking->check(std::string(40, 'a') + "b");
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().kind, ErrorKind::kExhausted) << slow.error().message;
}

Json any_value(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::inRange(-3, 4);
    case 3:
      return *rc::gen::inRange(-3, 4) / 2.0;
    case 4:
      return *rc::gen::element<std::string>("", "a", "b", "ab");
    case 5: {
      Json list = Json::array();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) list.push_back(any_value(depth - 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (const std::string name : {"a", "b", "c"}) {
        if (*rc::gen::arbitrary<bool>()) object[name] = any_value(depth - 1);
      }
      return object;
    }
  }
}

// The schema that a value is an instance of, and no other value.
Json exactly(const Json& value) {
  if (value.is_array()) {
    Json schema = {{"type", "array"}, {"minItems", value.size()}, {"maxItems", value.size()}};
    for (const Json& item : value) schema["prefixItems"].push_back(exactly(item));
    return schema;
  }
  if (value.is_object()) {
    Json schema = {
        {"type", "object"}, {"additionalProperties", false}, {"required", Json::array()}};
    for (const auto& [name, member] : value.items()) {
      schema["properties"][name] = exactly(member);
      schema["required"].push_back(name);
    }
    return schema;
  }
  return {{"const", value}};
}

TEST(JsonSchema, AgreesWithEqualityOfValues) {
  EXPECT_TRUE(rc::check([] {
    const Json one = any_value(3), other = any_value(3);
    const auto by_parts = JsonSchema::compile(exactly(one), "");
    const auto as_one = JsonSchema::compile({{"const", one}}, "");
    const auto negated = JsonSchema::compile({{"not", {{"const", one}}}}, "");
    RC_ASSERT(by_parts.has_value());
    RC_ASSERT(as_one.has_value());
    RC_ASSERT(negated.has_value());
    RC_ASSERT(by_parts->check(one).has_value());
    for (const Json& value : {one, other}) {
      const bool same = as_one->check(value).has_value();
      RC_ASSERT(by_parts->check(value).has_value() == same);
      RC_ASSERT(negated->check(value).has_value() != same);
    }
  }));
}

}  // namespace
}  // namespace dovetail::pipeline
