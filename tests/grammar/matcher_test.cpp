#include "grammar/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "grammar/support.h"

namespace dovetail::grammar {
namespace {

std::shared_ptr<const Vocabulary> vocabulary_of(std::vector<std::string> more) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back("</s>");
  tokens.emplace_back("");  // special
  tokens.insert(tokens.end(), more.begin(), more.end());
  const std::vector<TokenId> ends = {256};
  return std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value());
}
constexpr TokenId kEnd = 256;
constexpr TokenId kSpecial = 257;
constexpr TokenId kMore = 258;

Grammar schema(const std::string& text) {
  return Grammar::from_json_schema(Json::parse(text)).value();
}

std::vector<TokenId> allowed(const Matcher& matcher) {
  const auto mask = test::mask_of(matcher);
  std::vector<TokenId> out;
  for (std::size_t id = 0; id < mask.size() * 64; ++id) {
    if (test::has(mask, static_cast<TokenId>(id))) out.push_back(static_cast<TokenId>(id));
  }
  return out;
}

TEST(Matcher, EndsOnlyWhereTheTextMay) {
  Matcher matcher(
      TokenMasks::create(schema(R"({"type":"array","items":{"type":"null"}})"), vocabulary_of({}))
          .value());
  EXPECT_THAT(allowed(matcher), testing::ElementsAre('['));
  EXPECT_FALSE(matcher.accept(kEnd));
  ASSERT_TRUE(matcher.accept('['));
  EXPECT_THAT(allowed(matcher), testing::ElementsAre('\n', ']', 'n'));
  EXPECT_FALSE(matcher.accept('['));
  EXPECT_FALSE(matcher.accept(kSpecial));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(100000));
  EXPECT_FALSE(matcher.must_end());
  ASSERT_TRUE(matcher.accept(']'));
  EXPECT_TRUE(matcher.must_end());
  EXPECT_THAT(allowed(matcher), testing::ElementsAre(kEnd));
  ASSERT_TRUE(matcher.accept(kEnd));
  EXPECT_TRUE(matcher.ended());
  EXPECT_THAT(allowed(matcher), testing::ElementsAre(kEnd));
  EXPECT_FALSE(matcher.accept_bytes(" "));
}

TEST(Matcher, MayEndAndMayGoOn) {
  Matcher matcher(TokenMasks::create(Grammar::from_regex("a+").value(), vocabulary_of({})).value());
  ASSERT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_FALSE(matcher.must_end());
  EXPECT_THAT(allowed(matcher), testing::ElementsAre('a', kEnd));
}

TEST(Matcher, CharactersAreSplitAcrossTokens) {
  const std::string smile = "\xf0\x9f\x98\x80";
  // Tokens: two halves of the character, its middle, a half that no character has, the end of one
  // and the beginning of the next.
  Matcher matcher(TokenMasks::create(Grammar::from_regex(smile + "+").value(),
                                     vocabulary_of({"\xf0\x9f", "\x98\x80", "\x9f\x98", "\xf0\xff",
                                                    "\x80\xf0\x9f"}))
                      .value());
  EXPECT_THAT(allowed(matcher), testing::ElementsAre(0xF0, kMore));
  ASSERT_TRUE(matcher.accept(0xF0));
  EXPECT_THAT(allowed(matcher), testing::ElementsAre(0x9F, kMore + 2));
  ASSERT_TRUE(matcher.accept(kMore + 2));
  EXPECT_FALSE(matcher.can_end());
  EXPECT_THAT(allowed(matcher), testing::ElementsAre(0x80, kMore + 4));
  ASSERT_TRUE(matcher.accept(kMore + 4));
  EXPECT_THAT(allowed(matcher), testing::ElementsAre(0x98, kMore + 1));
  ASSERT_TRUE(matcher.accept(kMore + 1));
  EXPECT_TRUE(matcher.can_end());
}

TEST(Matcher, TokensRunThroughTheEndsOfValues) {
  const Grammar grammar = schema(
      R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"c":{"$ref":"#/$defs/t"},)"
      R"("d":{"type":"integer"}},"additionalProperties":false}}})");
  Matcher matcher(TokenMasks::create(grammar, vocabulary_of({"{\"c\":{", "}}}", "}},\"d\":1",
                                                             "}}}}", "},\"d\":7}}"}))
                      .value());
  ASSERT_TRUE(matcher.accept(kMore));
  ASSERT_TRUE(matcher.accept_bytes("\"c\":{"));
  EXPECT_THAT(allowed(matcher),
              testing::ElementsAre('\n', '"', '}', kMore + 1, kMore + 2, kMore + 4));
  Matcher other = matcher;
  ASSERT_TRUE(other.accept(kMore + 1));
  EXPECT_TRUE(other.must_end());
  ASSERT_TRUE(matcher.accept(kMore + 2));
  EXPECT_FALSE(matcher.can_end());
  ASSERT_TRUE(matcher.accept('}'));
  EXPECT_TRUE(matcher.must_end());
}

TEST(Matcher, OpensOnlyWhatItCanClose) {
  Matcher matcher(TokenMasks::create(schema(R"({"items":{"$ref":"#"},"type":"array"})"),
                                     vocabulary_of({"[[", "[[]", "[[[[[[]]]]]]"}))
                      .value());
  std::uint32_t depth = 0;
  while (matcher.accept('[')) {
    ++depth;
    ASSERT_LE(depth, Grammar::kMaxDepth + 1);
    const auto tokens = allowed(matcher);
    if (depth % 64 == 0 || depth + 8 > Grammar::kMaxDepth) {
      for (const TokenId token : {static_cast<TokenId>('['), kMore, kMore + 1, kMore + 2}) {
        Matcher copy = matcher;
        const bool may = copy.accept(token);
        EXPECT_EQ(std::count(tokens.begin(), tokens.end(), token), may ? 1 : 0)
            << token << " at " << depth;
      }
    }
    ASSERT_FALSE(tokens.empty());
  }
  EXPECT_GE(depth, Grammar::kMaxDepth - 2);
  for (; depth > 0; --depth) ASSERT_TRUE(matcher.accept(']'));
  EXPECT_TRUE(matcher.must_end());
}

TEST(Matcher, MasksAreTheSameKeptOrNot) {
  const Grammar grammar = schema(R"({"type":"object","additionalProperties":{"type":"string"}})");
  const auto vocabulary = vocabulary_of({"{\"", "\": \"", "ab", "\", \"", "\"}", "\\u00"});
  const auto kept = TokenMasks::create(grammar, vocabulary).value();
  const auto not_kept = TokenMasks::create(grammar, vocabulary, 0).value();
  kept->prepare(1000);
  EXPECT_GT(kept->kept_bytes(), 0U);
  Matcher a(kept);
  Matcher b(not_kept);
  for (const char c : std::string("{\"x\": \"\\u00e9\",\"\":\"\"}")) {
    EXPECT_EQ(test::mask_of(a), test::mask_of(b));
    ASSERT_TRUE(a.accept(c));
    ASSERT_TRUE(b.accept(c));
  }
  EXPECT_EQ(not_kept->kept_bytes(), 0U);
}

TEST(Matcher, ManyThreadsShareTheMasks) {
  const auto masks =
      TokenMasks::create(Grammar::any_json(), vocabulary_of({"{\"", "\":", "\"a\"", "}}"})).value();
  const std::string text = R"({"a":{"b":[1,2,{"c":null}],"d":"\n"}})";
  std::vector<std::vector<std::uint64_t>> expected;
  {
    Matcher matcher(TokenMasks::create(Grammar::any_json(), masks->share_vocabulary(), 0).value());
    for (const char c : text) {
      expected.push_back(test::mask_of(matcher));
      ASSERT_TRUE(matcher.accept(c));
    }
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        Matcher matcher(masks);
        for (std::size_t i = 0; i < text.size(); ++i) {
          wrong[t] += test::mask_of(matcher) != expected[i] ? 1 : 0;
          wrong[t] += matcher.accept(text[i]) ? 0 : 1;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Vocabulary, WithoutTheBytesThatATextNeeds) {
  const std::vector<TokenId> ends = {2};
  const auto vocabulary = [&](std::vector<std::string> tokens) {
    return std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value());
  };
  const auto none =
      TokenMasks::create(Grammar::from_regex("ab").value(), vocabulary({"ab", "a", ""}));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, testing::HasSubstr("no tokens for single bytes"));
  // What cannot be spelled is not begun.
  Matcher matcher(
      TokenMasks::create(Grammar::from_regex("ab|ac").value(), vocabulary({"a", "b", "", "ac"}))
          .value());
  EXPECT_THAT(allowed(matcher), testing::ElementsAre(0, 3));
  const Matcher other(
      TokenMasks::create(Grammar::from_regex("ab|cd").value(), vocabulary({"a", "b", "", "c"}))
          .value());
  EXPECT_THAT(allowed(other), testing::ElementsAre(0));
}

TEST(Vocabulary, RefusesWhatItCannotHold) {
  const std::vector<TokenId> ends = {7};
  const auto out_of_range = Vocabulary::create({"a"}, ends);
  ASSERT_FALSE(out_of_range);
  EXPECT_THAT(out_of_range.error().message, testing::HasSubstr("end token 7"));
  const auto long_token = Vocabulary::create({std::string(70000, 'a')}, {});
  ASSERT_FALSE(long_token);
  EXPECT_THAT(long_token.error().message, testing::HasSubstr("a token of 70000 bytes"));
}

}  // namespace
}  // namespace dovetail::grammar
