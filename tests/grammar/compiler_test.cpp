#include "grammar/compiler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "grammar/support.h"

namespace dovetail::grammar {
namespace {

using testing::HasSubstr;

std::string schema(int i) { return fmt::format(R"({{"type":"string","maxLength":{}}})", 20 + i); }

TEST(Compiler, KeepsTheLastUsed) {
  Compiler compiler(test::byte_vocabulary());
  const auto first = compiler.compile(SourceKind::kJsonSchema, schema(0));
  ASSERT_TRUE(first);
  EXPECT_EQ(*compiler.compile(SourceKind::kJsonSchema, schema(0)), *first);
  EXPECT_NE(*compiler.compile(SourceKind::kJsonSchema, schema(1)), *first);
  // The same text as another kind is another grammar.
  EXPECT_NE(*compiler.compile(SourceKind::kRegex, "true"),
            *compiler.compile(SourceKind::kJsonSchema, "true"));
  EXPECT_EQ(compiler.kept_grammars(), 4U);

  const std::size_t one = compiler.kept_bytes() / 2;
  Compiler small(test::byte_vocabulary(), one);
  std::vector<std::shared_ptr<const TokenMasks>> made;
  for (int i = 0; i < 8; ++i) {
    made.push_back(*small.compile(SourceKind::kJsonSchema, schema(i)));
    EXPECT_EQ(*small.compile(SourceKind::kJsonSchema, schema(0)) == made[0],
              i == 0 || small.kept_grammars() > 1);
    if (small.kept_grammars() > 1) {
      EXPECT_LE(small.kept_bytes(), one);
    }
  }
  EXPECT_LT(small.kept_grammars(), 8U);
  // What is no longer kept goes on working.
  EXPECT_TRUE(test::accepts(Matcher(made[1]), "\"abc\""));
}

TEST(Compiler, RefusesTheSameAgain) {
  Compiler compiler(test::byte_vocabulary());
  for (int round = 0; round < 2; ++round) {
    const auto refused = compiler.compile(SourceKind::kRegex, "(a|b)*a(a|b){40}");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("needs more than"));
    EXPECT_EQ(compiler.kept_grammars(), 1U);
  }
}

TEST(Compiler, BoundsTheSource) {
  Compiler compiler(test::byte_vocabulary());
  const auto refusal = [&](SourceKind kind, const std::string& text) {
    const auto refused = compiler.compile(kind, text);
    return refused ? std::string("accepted") : refused.error().message;
  };
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, std::string(300'000, ' ')),
              HasSubstr("#: 300000 bytes; at most 262144"));
  EXPECT_THAT(refusal(SourceKind::kRegex, std::string(300'000, 'a')),
              HasSubstr("regex: 300000 bytes"));
  EXPECT_THAT(refusal(SourceKind::kJsonSchema,
                      R"({"const":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
              HasSubstr("nests deeper than 256 levels"));
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, R"({"const":"[[[["})"), "accepted");
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, "{\"a\":\xff}"),
              HasSubstr("not valid JSON in UTF-8"));
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, R"({"minimum":1e999})"), HasSubstr("out of range"));
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, ""), HasSubstr("not valid JSON"));
}

TEST(Compiler, ManyAskAtOnce) {
  Compiler compiler(test::byte_vocabulary());
  std::vector<std::shared_ptr<const TokenMasks>> got(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        got[i] = compiler.compile(SourceKind::kJsonSchema, schema(static_cast<int>(i % 2))).value();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], got[i % 2]);
  EXPECT_EQ(compiler.kept_grammars(), 2U);
}

}  // namespace
}  // namespace dovetail::grammar
