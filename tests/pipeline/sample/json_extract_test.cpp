#include "pipeline/sample/json_extract.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

TEST(JsonExtract, FindsTheFirstValue) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a": 1})", R"({"a":1})"},
      {"Here you are:\n```json\n{\"a\": [1, 2]}\n```\nAnything else?", R"({"a":[1,2]})"},
      {"```\n[1]\n```", "[1]"},
      {"```python\nx = {1: 2}\n```\nand {\"b\": 2}", R"({"b":2})"},
      {"The set {x} and {y}: {\"a\": \"}\"} {\"b\": 1}", R"({"a":"}"})"},
      {"{\"code\": \"```\\nx\\n```\"}", R"({"code":"```\nx\n```"})"},
      {"{\"text\": \"[1]\"} [2]", R"({"text":"[1]"})"},
      {" 42 ", "42"},
      {"\"word\"", "\"word\""},
      {"null", "null"},
      {"-0.5e-3", "-0.0005"},
      {R"(["\u00e9\ud83d\ude00", 18446744073709551615, -9223372036854775808, 1e400000, {}])", ""},
      {R"(["\u00e9\ud83d\ude00", 18446744073709551615, -9223372036854775808, 1e-400000, {}, []])",
       "[\"\xC3\xA9\xF0\x9F\x98\x80\",18446744073709551615,-9223372036854775808,0.0,{},[]]"},
      {"```json\n{\"a\": 1}", R"({"a":1})"},
      {R"({"a": 1, "a": 2})", R"({"a":2})"},
  };
  for (const auto& [text, value] : cases) {
    const auto found = extract_json(text);
    if (std::string_view(value).empty()) {
      // A number out of range is no value: what follows is the first one that is.
      ASSERT_TRUE(found);
      EXPECT_EQ(found->value.dump(), "{}");
      continue;
    }
    ASSERT_TRUE(found) << text << ": " << found.error().message;
    EXPECT_EQ(found->value.dump(), value) << text;
    EXPECT_TRUE(found->repairs.empty()) << text << fmt::format("{}", found->repairs);
  }
}

TEST(JsonExtract, RepairsAndSaysWhat) {
  struct Case {
    const char* text;
    const char* value;
    const char* repairs;  // joined
  };
  const Case cases[] = {
      {R"({"a": 1,})", R"({"a":1})", "trailing comma"},
      {R"([1, 2, ])", "[1,2]", "trailing comma"},
      {R"([1,, 2])", "[1,2]", "doubled comma"},
      {R"({'a': 'it''s'})", R"({"a":"it''s"})", "single quotes, unescaped quote"},
      {R"({'a': 'it\'s'})", R"({"a":"it's"})", "single quotes, invalid escape"},
      {R"({'a': 'it's'})", R"({"a":"it's"})", "single quotes, unescaped quote"},
      {R"({a: 1, b-c: 2})", R"({"a":1,"b-c":2})", "unquoted key"},
      {"{\u201Ca\u201D: \u201Cb\u201D}", R"({"a":"b"})", "typographic quotes"},
      {R"({"a": True, "b": None, "c": False})", R"({"a":true,"b":null,"c":false})",
       "Python literal"},
      {R"({"a": NaN, "b": -Infinity})", R"({"a":null,"b":null})", "value that JSON lacks"},
      {R"({"a": [1, {"b": 2)", R"({"a":[1,{"b":2}]})", "missing closing bracket"},
      {R"({"a": "b)", R"({"a":"b"})", "missing closing quote, missing closing bracket"},
      {R"({"a": 1, "b)", R"({"a":1})",
       "missing closing quote, cut-off member dropped, missing closing bracket"},
      {R"({"a": 1, "b": )", R"({"a":1})", "cut-off member dropped, missing closing bracket"},
      {R"({"a": 1, )", R"({"a":1})", "missing closing bracket"},
      {R"({"a": [1, 2})", R"({"a":[1,2]})", "missing closing bracket"},
      {"{\"a\": 1\n \"b\": 2}", R"({"a":1,"b":2})", "missing comma"},
      {"[1 2]", "[1,2]", "missing comma"},
      {"{\"a\": \"x\ny\"}", R"({"a":"x\ny"})", "unescaped control character"},
      {R"({"a": "\d+"})", R"({"a":"\\d+"})", "invalid escape"},
      {R"({"a": "\ud83d"})", "{\"a\":\"\uFFFD\"}", "invalid escape"},
      {R"({"a": "he said "hi" to me"})", R"({"a":"he said \"hi\" to me"})", "unescaped quote"},
      {"{\"a\": 1, // one\n /* two */ \"b\": 2}", R"({"a":1,"b":2})", "comment"},
      {R"([+1, .5, 1., 007, -.5])", "[1,0.5,1.0,7,-0.5]", "number written otherwise"},
      {"```json\n{'a': 1,}\n```", R"({"a":1})", "single quotes, trailing comma"},
      {"{\"a\": \"\xFF\"}", "{\"a\":\"\uFFFD\"}", "ill-formed UTF-8"},
      {"{", "{}", "missing closing bracket"},
  };
  for (const Case& c : cases) {
    const auto found = extract_json(c.text);
    ASSERT_TRUE(found) << c.text << ": " << found.error().message;
    EXPECT_EQ(found->value.dump(), c.value) << c.text;
    EXPECT_EQ(fmt::format("{}", fmt::join(found->repairs, ", ")), c.repairs) << c.text;
    const auto strict = extract_json(c.text, {.repair = false});
    if (strict) {
      EXPECT_NE(strict->value.dump(), c.value) << c.text;
    }
  }
}

TEST(JsonExtract, TakesTheWantedKind) {
  const char* text = "As in [1], {\"a\": [2]}";
  EXPECT_EQ(extract_json(text)->value.dump(), "[1]");
  EXPECT_EQ(extract_json(text, {.wanted = JsonWanted::kObject})->value.dump(), R"({"a":[2]})");
  EXPECT_EQ(extract_json("{\"a\": [2]}", {.wanted = JsonWanted::kArray})->value.dump(), "[2]");
  EXPECT_THAT(extract_json("7", {.wanted = JsonWanted::kObject}).error().message,
              HasSubstr("no JSON at byte 0; valid: a JSON object"));
}

TEST(JsonExtract, Errors) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "answer: empty"},
      {" \n", "answer: empty"},
      {"I cannot help.", "answer 'I cannot help.': no value at byte 0; valid: a JSON value"},
      {"{a}", "no colon behind a key at byte 2"},
      {"{\"a\" 1}", "at byte"},
      {"[1}", "a bracket that nothing opened at byte 2"},
      {"tru", "no value at byte 0"},
      {"1 2", "text behind the value at byte 2"},
      {"[12abc]", "no value at byte 1"},
  };
  for (const auto& [text, message] : cases) {
    const auto found = extract_json(text);
    ASSERT_FALSE(found) << text << " " << found->value;
    EXPECT_THAT(found.error().message, HasSubstr(message)) << text;
  }
  EXPECT_THAT(extract_json("{'a': 1}", {.repair = false}).error().message,
              HasSubstr("single quotes at byte 0"));
}

TEST(JsonExtract, HostileTextsStayLinear) {
  for (const std::string& unit :
       {std::string("["), std::string("{"), std::string("{\"a\":"), std::string("[\""),
        std::string("[1,"), std::string("{'"), std::string("[//"), std::string("```\n{"),
        std::string("- "), std::string("\"\\"), std::string("[{}x")}) {
    std::string text;
    while (text.size() < 300000) text += unit;
    const auto found = extract_json(text);
    if (found) {
      EXPECT_NO_THROW((void)found->value.dump());
    }
  }
}

rc::Gen<ordered_json> any_json(int depth) {
  const std::string letters = "ab\"\\/'{}[]:, \n\t\x01\xC3\xA9`";
  return rc::gen::exec([=]() -> ordered_json {
    switch (*rc::gen::inRange(0, depth == 0 ? 5 : 7)) {
      case 0:
        return nullptr;
      case 1:
        return *rc::gen::arbitrary<bool>();
      case 2:
        return *rc::gen::arbitrary<std::int64_t>();
      case 3:
        return static_cast<double>(*rc::gen::arbitrary<std::int64_t>()) / 1024;
      case 4:
        return text::repair_utf8(*rc::gen::container<std::string>(rc::gen::elementOf(letters)));
      case 5: {
        auto array = ordered_json::array();
        for (int i = *rc::gen::inRange(0, 4); i > 0; --i) array.push_back(*any_json(depth - 1));
        return array;
      }
      default: {
        auto object = ordered_json::object();
        for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
          const auto key = *rc::gen::container<std::string>(rc::gen::elementOf(letters));
          object[text::repair_utf8(key)] = *any_json(depth - 1);
        }
        return object;
      }
    }
  });
}

TEST(JsonExtract, WhatIsJsonComesBackUnrepaired) {
  EXPECT_TRUE(rc::check([] {
    const ordered_json value = *any_json(4);
    const int indent = *rc::gen::element(-1, 0, 2);
    const std::string text = value.dump(indent, ' ', *rc::gen::arbitrary<bool>());
    const auto found = extract_json(text);
    RC_ASSERT(found.has_value());
    RC_ASSERT(found->value == value);
    RC_ASSERT(found->repairs.empty());
    if (!value.is_structured()) return;
    const auto fenced = extract_json("So:\n```json\n" + text + "\n```\n", {.repair = false});
    RC_ASSERT(fenced.has_value());
    RC_ASSERT(fenced->value == value);
    // Cut off anywhere behind the opening bracket, there is still something of the same kind.
    const auto cut = *rc::gen::inRange<std::size_t>(1, text.size());
    const auto rest = extract_json(text::repair_utf8(text.substr(0, cut)));
    if (rest) RC_ASSERT(rest->value.is_structured());
  }));
}

TEST(JsonExtract, NothingUnrepairedThatAnotherReaderRefuses) {
  std::mt19937 random(23);
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const std::string start =
      R"({"a": [1, -2.5e3, true, null, "x\n\u00e9"], "b": {"c": {}, "d": []}, "e": "\"q\""})";
  const std::string_view pieces[] = {"\"", "'",     ",",  ":",  "{",        "}",   "[",    "]",
                                     "\\", "\\u12", "0",  "-",  ".",        "e",   "True", "//",
                                     "/*", "*/",    "\n", "\t", "\xC3\xA9", "\xFF"};
  int strict = 0;
  int repaired = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = start;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size() + 1);
      switch (below(4)) {
        case 0:
          text.erase(at, below(6));
          break;
        case 1:
          text.insert(at, pieces[below(std::size(pieces))]);
          break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(32 + below(95));
          break;
        default:
          if (below(4) == 0) text.resize(at);
      }
    }
    const auto reference = ordered_json::parse(text, nullptr, false);
    const auto found = extract_json(text);
    if (!reference.is_discarded()) {
      ASSERT_TRUE(found) << text;
      EXPECT_EQ(found->value, reference) << text;
      EXPECT_TRUE(found->repairs.empty()) << text << fmt::format("{}", found->repairs);
      ++strict;
      continue;
    }
    if (!found) continue;
    EXPECT_NO_THROW((void)found->value.dump());
    repaired += found->repairs.empty() ? 0 : 1;
  }
  EXPECT_GT(strict, 1000);
  EXPECT_GT(repaired, 1000);
}

}  // namespace
}  // namespace dovetail::pipeline
