// Random schemas, vocabularies and walks: whatever is allowed can be finished, what is finished is
// an instance, and masks say what trying every token says.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_validator.h"
#include "grammar/support.h"

namespace dovetail::grammar {
namespace {

using test::Random;

// A schema of the supported kind; deeper ones are simpler. Those with no instance are for the
// caller to skip.
Json random_schema(Random& random, int depth) {
  static const std::vector<std::string> kNames = {"a", "b", "ab", "n_1", "\xc3\xa9", "x\"y"};
  Json out = Json::object();
  switch (random.below(depth > 2 ? 6 : 10)) {
    case 0:
      out["type"] = random.of<std::string>({"null", "boolean", "integer", "number", "string"});
      break;
    case 1:
      out["type"] = random.one_in(2) ? "integer" : "number";
      if (!random.one_in(3)) {
        out[random.one_in(3) ? "exclusiveMinimum" : "minimum"] =
            static_cast<double>(random.below(4000)) / 16 - 125;
      }
      if (!random.one_in(3)) {
        out[random.one_in(3) ? "exclusiveMaximum" : "maximum"] =
            static_cast<double>(random.below(40000)) / 16 - 20;
      }
      if (random.one_in(3)) out["multipleOf"] = random.of<double>({1, 3, 7, 64, 0.25, 0.1, 2.5});
      if (random.one_in(4)) out["nullable"] = true;
      break;
    case 2:
      out["type"] = "string";
      if (!random.one_in(3)) out["minLength"] = random.below(4);
      if (!random.one_in(3)) out["maxLength"] = 2 + random.below(6);
      break;
    case 3:
      out["type"] = "string";
      out["pattern"] = random.of<std::string>(
          {"^[a-z]{2,4}$", "b", "^(ab|ba)*$", "^\\d+(\\.\\d+)?$", "^[^b]*$", "x\"?y"});
      break;
    case 4:
      out["type"] = "string";
      out["format"] =
          random.of<std::string>({"date", "time", "date-time", "uuid", "ipv4", "email", "duration",
                                  "ipv6", "hostname", "uri", "uri-reference", "path"});
      if (random.one_in(3)) out["not"]["enum"] = {"1.2.3.4", "a", ""};
      break;
    case 5:
      out["enum"] = {random.below(100), "e\"\n", nullptr, {1, {{"a", "b"}}}, 0.25, true};
      break;
    case 6:
      out["type"] = "array";
      if (!random.one_in(4)) out["items"] = random_schema(random, depth + 1);
      if (random.one_in(2)) out["minItems"] = random.below(3);
      if (random.one_in(2)) out["maxItems"] = 1 + random.below(3);
      if (random.one_in(3)) {
        out["items"] = random.of<Json>({{{"enum", {1, "a", 1.0, "ab"}}}, {{"type", "boolean"}}});
        out["uniqueItems"] = true;
      }
      if (random.one_in(3)) {
        out["prefixItems"] = {random_schema(random, depth + 1), random_schema(random, depth + 1)};
      }
      break;
    case 7: {
      out["type"] = "object";
      for (std::size_t i = random.below(4); i > 0; --i) {
        const std::string& name = random.of(kNames);
        out["properties"][name] = random_schema(random, depth + 1);
        if (random.one_in(2)) out["required"].push_back(name);
      }
      if (random.one_in(3)) out["additionalProperties"] = random_schema(random, depth + 1);
      if (random.one_in(3)) out["patternProperties"]["^n_"] = random_schema(random, depth + 1);
      if (random.one_in(4)) out["required"].push_back("extra");
      if (random.one_in(4)) out["minProperties"] = random.below(4);
      if (random.one_in(4)) out["maxProperties"] = 1 + random.below(4);
      if (random.one_in(4)) out["propertyNames"] = {{"pattern", random.one_in(2) ? "^." : "[ab1]"}};
      break;
    }
    case 8: {
      const char* keyword = random.of<const char*>({"anyOf", "oneOf", "allOf"});
      for (std::size_t i = 2 + random.below(2); i > 0; --i) {
        out[keyword].push_back(random_schema(random, depth + 1));
      }
      break;
    }
    default:
      out["$ref"] = "#/$defs/shared";
      break;
  }
  return out;
}

Json random_document(Random& random) {
  Json schema = random_schema(random, 0);
  // What is shared refers to itself below members and items only, or is refused.
  schema["$defs"]["shared"] = {
      {"type", "object"},
      {"properties",
       {{"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/shared"}}}}}},
        {"value", random_schema(random, 2)}}},
      {"additionalProperties", false}};
  return schema;
}

// All bytes, pieces of JSON that run over several values, and pieces of what the schema names; some
// twice, some special, the end in the middle.
std::shared_ptr<const Vocabulary> random_vocabulary(Random& random, const std::string& text) {
  std::vector<std::string> tokens = {"", "</s>"};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  static const std::vector<std::string> kPieces = {"{\"",
                                                   "\":",
                                                   "\": ",
                                                   "\",\"",
                                                   "\"}",
                                                   "}}",
                                                   "]}",
                                                   "],[",
                                                   "[[",
                                                   "null",
                                                   "true",
                                                   "e-1",
                                                   "0.",
                                                   "\\u00",
                                                   "\\ud83d\\ude00",
                                                   "\xf0\x9f",
                                                   "\x98\x80",
                                                   "\xc3",
                                                   "\xa9"
                                                   "a",
                                                   "\"\"",
                                                   "12",
                                                   "-",
                                                   "ab",
                                                   "{\"a\":",
                                                   "},{\"next\":",
                                                   "\"}]}",
                                                   "null}",
                                                   "\\\"",
                                                   "2024-0",
                                                   "e\\\"\\n\"",
                                                   "\n",
                                                   "\n  ",
                                                   "    ",
                                                   "\t\t\"",
                                                   "{\n  \"",
                                                   ",\n  \"",
                                                   "\n}",
                                                   " ]",
                                                   "}},\"value\":"};
  for (std::size_t i = 20 + random.below(60); i > 0; --i) {
    if (random.one_in(2)) {
      tokens.push_back(random.of(kPieces));
    } else {
      const std::size_t at = random.below(text.size());
      tokens.push_back(text.substr(at, 1 + random.below(12)));
    }
  }
  const std::vector<TokenId> ends = {1};
  return std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value());
}

// Takes random allowed tokens; after `steps` of them, tries to come to an end. Nothing if it did
// not find one.
std::optional<std::string> walk(Matcher matcher, Random& random, int steps, bool compare) {
  const Vocabulary& vocabulary = matcher.masks().vocabulary();
  std::string text;
  for (int step = 0; step < 3000; ++step) {
    RC_ASSERT(!matcher.is_dead());
    if (compare && random.one_in(4)) RC_ASSERT(test::mask_is_what_trying_says(matcher));
    if (matcher.must_end() || (step > steps && matcher.can_end())) {
      RC_ASSERT(matcher.can_end());
      RC_ASSERT(matcher.accept(1));
      RC_ASSERT(matcher.ended());
      return text;
    }
    const auto mask = test::mask_of(matcher);
    std::vector<TokenId> allowed;
    std::vector<TokenId> closing;
    // Within a string, "null" brings no end nearer.
    const bool begins_value =
        text.empty() || std::string_view("[:, \n\t").find(text.back()) != std::string_view::npos;
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      const auto token = static_cast<TokenId>(id);
      if (!test::has(mask, token) || vocabulary.is_end(token)) continue;
      allowed.push_back(token);
      const std::string_view bytes = vocabulary.bytes(token);
      if (bytes == "\"" || bytes == "}" || bytes == "]" || (bytes == "null" && begins_value)) {
        closing.push_back(token);
      }
    }
    RC_ASSERT(!allowed.empty());
    const auto& choices = step > steps && !closing.empty() && !random.one_in(8) ? closing : allowed;
    const TokenId token = random.of(choices);
    RC_ASSERT(matcher.accept(token));
    text += vocabulary.bytes(token);
  }
  return std::nullopt;
}

RC_GTEST_PROP(Walk, GivesInstancesOnly, ()) {
  Random random(*rc::gen::arbitrary<std::uint32_t>());
  const Json schema = random_document(random);
  const SchemaOptions options = {random.one_in(3)};
  const auto grammar = Grammar::from_json_schema(schema, options);
  if (!grammar) {
    // Only for what the generator may well ask for: no instance, or no way to tell branches apart.
    const std::string& message = grammar.error().message;
    RC_ASSERT(message.find("no value") != std::string::npos ||
              message.find("not supported") != std::string::npos ||
              message.find("needs more than") != std::string::npos ||
              message.find("alternatives begin alike") != std::string::npos ||
              message.find("where a nested value ends") != std::string::npos);
    RC_DISCARD("no grammar");
  }
  const auto vocabulary = random_vocabulary(random, schema.dump());
  const std::size_t kept = random.one_in(3) ? 0 : TokenMasks::kDefaultBytes;
  const Matcher start(TokenMasks::create(*grammar, vocabulary, kept).value());
  for (int round = 0; round < 6; ++round) {
    const auto text = walk(start, random, static_cast<int>(random.below(60)), round < 2);
    if (!text) continue;
    const Json value = Json::parse(*text, nullptr, false);
    if (value.is_discarded()) RC_FAIL(schema.dump() + " gave " + *text + ", which is no JSON");
    if (!test::is_instance(schema, schema, value)) RC_FAIL(schema.dump() + " gave " + *text);
  }
}

// What judges the walks.
TEST(JsonValidator, TakesStringsOfAnyLength) {
  const std::string name(300000, 'a');
  const Json email = {{"format", "email"}};
  EXPECT_TRUE(test::is_instance(email, email, name + "@b.cd"));
  EXPECT_FALSE(test::is_instance(email, email, name + "@b"));
  const Json pattern = {{"pattern", "^[^b]*$"}};
  EXPECT_TRUE(test::is_instance(pattern, pattern, name));
  EXPECT_FALSE(test::is_instance(pattern, pattern, name + "b"));
}

// A regular expression over a, b and 0 that std::regex reads alike.
std::string random_regex(Random& random, int depth) {
  if (depth > 3 || random.one_in(3)) {
    return random.of<std::string>({"a", "b", "0", "[ab]", "[^a]", "\\d", "\\w", ".", "\\b", "\\B"});
  }
  const std::string first = random_regex(random, depth + 1);
  const std::string second = random_regex(random, depth + 1);
  switch (random.below(4)) {
    case 0:
      return first + second;
    case 1:
      return fmt::format("({}|{})", first, second);
    case 2:
      return fmt::format("(?:{}){}", first,
                         random.of<std::string>({"*", "+", "?", "{2}", "{1,2}", "{0,3}"}));
    default:
      return fmt::format("{}(?:{})?", first, second);
  }
}

RC_GTEST_PROP(Walk, RegularExpressionsAreAsElsewhere, ()) {
  Random random(*rc::gen::arbitrary<std::uint32_t>());
  const std::string pattern = random_regex(random, 0);
  const auto grammar = Grammar::from_regex(pattern);
  const std::regex elsewhere = test::regex_for_long_texts(pattern);
  std::optional<Matcher> start;
  if (grammar) start = test::matcher_of(*grammar);
  for (int round = 0; round < 40; ++round) {
    std::string text;
    for (std::size_t i = random.below(7); i > 0; --i) text += random.of<char>({'a', 'b', '0', '-'});
    if ((start && test::accepts(*start, text)) != std::regex_match(text, elsewhere)) {
      RC_FAIL(pattern + " on " + text);
    }
  }
  if (!grammar) {  // boundaries that contradict each other
    RC_ASSERT(grammar.error().message == "regex: no text matches");
    return;
  }
  const Matcher pieces(
      TokenMasks::create(*grammar, random_vocabulary(random, "aabb0ab0a0b0bba")).value());
  const auto text = walk(pieces, random, static_cast<int>(random.below(20)), true);
  if (!text) return;
  // Other bytes than ASCII mean something else there.
  for (const char c : *text) {
    if (static_cast<unsigned char>(c) >= 0x80) return;
  }
  if (!std::regex_match(*text, elsewhere)) RC_FAIL(pattern + " gave " + *text);
}

}  // namespace
}  // namespace dovetail::grammar
