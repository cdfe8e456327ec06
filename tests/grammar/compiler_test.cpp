#include "grammar/compiler.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
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
  EXPECT_THAT(refusal(SourceKind::kGbnf, std::string(300'000, ' ')),
              HasSubstr("grammar: 300000 bytes"));
  EXPECT_THAT(refusal(SourceKind::kGbnf, "root ::= [a]"), "accepted");
  EXPECT_THAT(refusal(SourceKind::kJsonSchema,
                      R"({"const":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
              HasSubstr("nests deeper than 256 levels"));
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, R"({"const":"[[[["})"), "accepted");
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, "{\"a\":\xff}"),
              HasSubstr("not valid JSON in UTF-8"));
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, R"({"minimum":1e999})"), HasSubstr("out of range"));
  EXPECT_THAT(refusal(SourceKind::kJsonSchema, ""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(SourceKind::kStructure, "{"),
              HasSubstr("#: the structure is not valid JSON"));
  EXPECT_THAT(
      refusal(SourceKind::kStructure, R"({"literal":")" + std::string(300'000, 'a') + "\"}"),
      HasSubstr("#: needs more than"));
  EXPECT_THAT(refusal(SourceKind::kStructure, std::string(1'100'000, ' ')),
              HasSubstr("#: 1100000 bytes; at most 1048576"));
  EXPECT_THAT(refusal(SourceKind::kStructure, R"({"literal":"ab"})"), "accepted");
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

// Each of these takes all the work of one grammar, in another loop. A loop that does not look at
// the flag comes to its own end, which says what was too much.
TEST(Compiler, StopsInEveryLoop) {
  std::string members = R"("m":{"type":"null"})";
  for (int i = 0; i < 9000; ++i) members += fmt::format(R"(,"m{}":{{"type":"null"}})", i);
  std::string parts = R"({"type":"null"})";
  for (int i = 0; i < 12'000; ++i) parts += R"(,{"type":"null"})";
  std::string doubling = "root ::= r0 r0\nr60 ::= \"\"\n";
  for (int i = 0; i < 60; ++i) doubling += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  const std::vector<std::pair<SourceKind, std::string>> dear = {
      {SourceKind::kGbnf, doubling},
      {SourceKind::kGbnf, "root ::= ([ab]* \"a\" [ab]{40})"},
      {SourceKind::kRegex, "(a|b)*a(a|b){40}"},
      {SourceKind::kRegex, "((a{1000}){1000}){1000}"},
      {SourceKind::kRegex, "[\\s\\S]{200000}"},
      {SourceKind::kJsonSchema, R"({"type":"string","pattern":"(a|b)*a(a|b){40}"})"},
      {SourceKind::kJsonSchema, R"({"type":"array","maxItems":1000000})"},
      {SourceKind::kJsonSchema, R"({"properties":{)" + members + "}}"},
      {SourceKind::kJsonSchema, R"({"allOf":[)" + parts + "]}"},
      {SourceKind::kStructure, R"({"repeat":{"literal":"a"},"min":1000000000})"},
      {SourceKind::kStructure, R"({"repeat":{"repeat":{"literal":""},"max":900},"max":1100})"},
      {SourceKind::kStructure, R"({"free":[{"literal":"b)" + std::string(200'000, 'a') + R"("}]})"},
      {SourceKind::kStructure, R"({"raw":{"type":"string","pattern":"(a|b)*a(a|b){40}"}})"}};
  for (const auto& [kind, text] : dear) {
    SCOPED_TRACE(text.substr(0, 60));
    std::atomic<bool> stop = false;
    std::thread stopper([&stop] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      stop = true;
    });
    const auto out =
        kind == SourceKind::kRegex  ? Grammar::from_regex(text, &stop)
        : kind == SourceKind::kGbnf ? Grammar::from_gbnf(text, &stop)
        : kind == SourceKind::kStructure
            ? Grammar::from_structure(nlohmann::ordered_json::parse(text), &stop)
            : Grammar::from_json_schema(nlohmann::ordered_json::parse(text), {}, &stop);
    stopper.join();
    ASSERT_FALSE(out);
    EXPECT_THAT(out.error().message, HasSubstr("the compilation was stopped"));
    // Not kept: the grammar itself may be good.
    Compiler compiler(test::byte_vocabulary());
    const auto stopped = compiler.compile(kind, text, &stop);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().kind, ErrorKind::kUnavailable);
    EXPECT_EQ(compiler.kept_grammars(), 0U);
    EXPECT_FALSE(compiler.find(kind, text).has_value());
  }
}

// Whenever the flag is set, also in the last moments: the whole grammar, or an error that says so.
TEST(Compiler, StopsWithAnErrorOrNotAtAll) {
  constexpr std::string_view kPattern = "(a|b)*a(a|b){13}";
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto whole = Grammar::from_regex(kPattern);
  ASSERT_TRUE(whole);
  ASSERT_TRUE(TokenMasks::create(*whole, test::byte_vocabulary(), 1U << 20U));
  const auto took = Clock::now() - begin;
  constexpr int kMoments = 100;
  for (int moment = 0; moment < kMoments; ++moment) {
    std::atomic<bool> stop = false;
    const auto set_at = Clock::now() + took * moment / kMoments;
    std::thread stopper([&] {
      while (Clock::now() < set_at) std::this_thread::yield();
      stop = true;
    });
    const auto grammar = Grammar::from_regex(kPattern, &stop);
    const auto masks = TokenMasks::create(*whole, test::byte_vocabulary(), 1U << 20U, &stop);
    stopper.join();
    if (grammar) {
      EXPECT_EQ(grammar->automaton().need, whole->automaton().need);
      EXPECT_EQ(grammar->automaton().next, whole->automaton().next);
    } else {
      EXPECT_EQ(grammar.error().kind, ErrorKind::kUnavailable) << grammar.error().message;
    }
    if (masks) {
      EXPECT_TRUE(test::accepts(Matcher(*masks), "aaaaaaaaaaaaaaa"));
    } else {
      EXPECT_EQ(masks.error().kind, ErrorKind::kUnavailable) << masks.error().message;
    }
  }
}

// 3.6e9 comparisons of values, which must not be made first and counted then.
TEST(Compiler, CountsComparisonsBeforeTheyAreMade) {
  std::string values = "1";
  for (int i = 0; i < 60'000; ++i) values += ",1";
  Compiler compiler(test::byte_vocabulary());
  const auto refused =
      compiler.compile(SourceKind::kJsonSchema,
                       R"({"allOf":[{"enum":[)" + values + R"(]},{"enum":[)" + values + "]}]}");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("units of work"));
}

TEST(Compiler, SeveralThreadsCompileAtATime) {
  Compiler compiler(test::byte_vocabulary());
  std::atomic<bool> stop = false;
  std::thread dear([&] {
    while (!stop) {
      const auto out = compiler.compile(SourceKind::kRegex, "(a|b)*a(a|b){40}", &stop);
      EXPECT_TRUE(stop || !out);
    }
  });
  EXPECT_TRUE(compiler.compile(SourceKind::kRegex, "a"));
  stop = true;
  dear.join();
}

}  // namespace
}  // namespace dovetail::grammar
