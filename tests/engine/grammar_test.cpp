// Requests with grammars among requests without, under all that the scheduler does to them.

#include "grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "engine/engine_fixture.h"
#include "grammar/matcher.h"
#include "support/byte_tokenizer.h"
#include "text/tokenizer.h"

namespace dovetail {
namespace {

using test::Answer;
using test::Collector;

constexpr const char* kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer",)"
    R"("minimum":0,"maximum":120},"tags":{"type":"array","items":{"enum":["a","bc","def"]},"maxItems":3}},)"
    R"("required":["name","age","tags"],"additionalProperties":false})";

class Grammars : public test::EngineTest {
 protected:
  static CompiledGrammar compiled(Engine& engine, const char* schema = kSchema) {
    auto grammar = engine.compile(GrammarKind::kJsonSchema, schema);
    EXPECT_TRUE(grammar.has_value());
    return *grammar;
  }

  // Every third is plain; the others take turns in how they sample.
  static Request mixed(Engine& engine, int i) {
    Request out = request(i, 120);
    out.logprobs = 2;
    if (i % 3 == 2) {
      out.max_tokens = 40;
      return out;
    }
    out.ignore_eos = false;
    out.grammar = compiled(engine);
    out.sampling.temperature = i % 2 == 0 ? 0.0F : 1.5F;
    if (i % 4 == 1) out.sampling.top_p = 0.9F, out.sampling.top_k = 20;
    return out;
  }

  // Every bit of the logits' effect that an event shows, beside what the collector takes.
  using Logprobs = std::map<int, std::vector<float>>;
  static EventSink noting(EventSink sink, Logprobs& all, int key) {
    return [sink = std::move(sink), &mine = all[key]](const OutputEvent& event) {
      for (const OutputToken& token : event.tokens) {
        mine.push_back(token.logprob);
        for (const TokenLogprob& top : token.top) mine.push_back(top.logprob);
      }
      sink(event);
    };
  }

  static void expect_instance(const Answer& answer) {
    ASSERT_EQ(answer.finish, FinishReason::kStop) << answer.text << " " << answer.error.message;
    const auto json = nlohmann::json::parse(answer.text, nullptr, false);
    ASSERT_TRUE(json.is_object()) << answer.text;
    EXPECT_EQ(json.size(), 3U) << answer.text;
    EXPECT_TRUE(json["name"].is_string()) << answer.text;
    EXPECT_TRUE(json["age"].is_number_integer() && json["age"] >= 0 && json["age"] <= 120);
    EXPECT_TRUE(json["tags"].is_array() && json["tags"].size() <= 3);
    for (const auto& tag : json["tags"]) EXPECT_THAT(tag, testing::AnyOf("a", "bc", "def"));
  }
};

TEST_F(Grammars, AnswersAreInstancesWhateverTheOptionsAndTheNeighbours) {
  struct Case {
    const char* name;
    void (*change)(EngineOptions&);
    bool preempts;
  };
  const Case cases[] = {
      {"as it is", [](EngineOptions&) {}, false},
      {"overlap", [](EngineOptions& o) { o.async_scheduling = true; }, false},
      {"draft tokens", [](EngineOptions& o) { o.speculative_tokens = 4; }, false},
      {"both", [](EngineOptions& o) { o.async_scheduling = true, o.speculative_tokens = 3; },
       false},
      {"little memory", [](EngineOptions& o) { o.kv_blocks = 11; }, true},
      {"little memory, draft tokens, overlap",
       [](EngineOptions& o) {
         o.kv_blocks = 11, o.speculative_tokens = 2, o.async_scheduling = true;
       },
       true},
  };
  constexpr int kRequests = 12;
  std::vector<Answer> expected;
  Logprobs expected_logprobs;
  for (int i = 0; i < kRequests; ++i) {
    const auto engine = start();
    Collector collector;
    ASSERT_TRUE(engine->submit(mixed(*engine, i), noting(collector.sink(0), expected_logprobs, i))
                    .has_value());
    collector.await(1);
    expected.push_back(collector.answer(0));
    if (i % 3 != 2) expect_instance(expected.back());
  }
  for (const Case& c : cases) {
    const EngineOptions before = options_;
    c.change(options_);
    const auto engine = start();
    options_ = before;
    Collector collector;
    Logprobs logprobs;
    for (int i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(
          engine->submit(mixed(*engine, i), noting(collector.sink(i), logprobs, i)).has_value())
          << c.name;
    }
    collector.await(kRequests);
    for (int i = 0; i < kRequests; ++i) {
      const Answer answer = collector.answer(i);
      EXPECT_EQ(answer.tokens, expected[static_cast<std::size_t>(i)].tokens) << c.name << " " << i;
      EXPECT_EQ(answer.text, expected[static_cast<std::size_t>(i)].text) << c.name << " " << i;
      EXPECT_EQ(answer.finish, expected[static_cast<std::size_t>(i)].finish) << c.name << " " << i;
    }
    EXPECT_EQ(logprobs, expected_logprobs) << c.name;
    if (c.preempts) {
      EXPECT_GT(engine->stats().preemptions, 0U) << c.name;
    }
  }
}

TEST_F(Grammars, ChoicesGoTheirOwnWays) {
  const auto engine = start();
  Request request = EngineTest::request(3, 120);
  request.ignore_eos = false;
  request.grammar = compiled(*engine);
  request.n = 4;
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
  collector.await(4);
  std::vector<std::string> texts;
  for (int choice = 0; choice < 4; ++choice) {
    expect_instance(collector.answer(0, choice));
    texts.push_back(collector.answer(0, choice).text);
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_NE(texts.front(), texts.back());
}

TEST_F(Grammars, ALengthCutsAndAStopStringToo) {
  const auto engine = start();
  Request request = EngineTest::request(1, 9);
  request.ignore_eos = false;
  request.grammar = compiled(*engine);
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
  request.max_tokens = 60;
  request.stop = {"\"age"};
  ASSERT_TRUE(engine->submit(request, collector.sink(1)).has_value());
  collector.await(2);
  EXPECT_EQ(collector.answer(0).finish, FinishReason::kLength);
  EXPECT_THAT(collector.answer(0).text, testing::StartsWith("{\"name\":"));
  EXPECT_EQ(collector.answer(1).finish, FinishReason::kStop);
  EXPECT_EQ(collector.answer(1).stop_string, "\"age");
}

TEST_F(Grammars, EndTokensComeOnlyWhereTheTextMayEnd) {
  const auto engine = start();
  const std::vector<TokenId> ends(engine->tokenizer().end_ids().begin(),
                                  engine->tokenizer().end_ids().end());
  ASSERT_FALSE(ends.empty());
  const auto grammar = engine->compile(GrammarKind::kRegex, "[ab]{3,}");
  ASSERT_TRUE(grammar.has_value());
  Request request = EngineTest::request(4, 30);
  request.ignore_eos = false;
  request.grammar = *grammar;
  for (const TokenId end : ends) request.sampling.logit_bias.emplace_back(end, 100.0F);
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
  Request ignoring = request;
  ignoring.ignore_eos = true;
  ASSERT_TRUE(engine->submit(ignoring, collector.sink(1)).has_value());
  Request patient = request;
  patient.min_tokens = 8;
  ASSERT_TRUE(engine->submit(patient, collector.sink(2)).has_value());
  collector.await(3);
  EXPECT_EQ(collector.answer(0).finish, FinishReason::kStop);
  EXPECT_EQ(collector.answer(0).text.size(), 3U) << collector.answer(0).text;
  EXPECT_EQ(collector.answer(1).finish, FinishReason::kLength);
  EXPECT_EQ(collector.answer(1).text.size(), 30U);
  EXPECT_EQ(collector.answer(2).text.size(), 8U);
  EXPECT_TRUE(std::regex_match(collector.answer(1).text, std::regex("[ab]*")));
}

TEST_F(Grammars, WhatCanOnlyEndEndsWithoutAStep) {
  const auto engine = start();
  Request request = EngineTest::request(5, 30);
  request.ignore_eos = false;
  request.grammar = *engine->compile(GrammarKind::kRegex, "yes|no");
  request.min_tokens = 20;
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
  collector.await(1);
  const Answer answer = collector.answer(0);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_THAT(answer.text, testing::AnyOf("yes", "no"));
  EXPECT_EQ(answer.usage.completion_tokens, answer.text.size());
}

TEST_F(Grammars, CompilingSaysWhatIsWrong) {
  const auto engine = start();
  const auto schema = engine->compile(GrammarKind::kJsonSchema, R"({"items":{"contains":{}}})");
  ASSERT_FALSE(schema);
  EXPECT_THAT(schema.error().message, testing::HasSubstr("#/items/contains"));
  const auto json = engine->compile(GrammarKind::kJsonSchema, "{");
  ASSERT_FALSE(json);
  EXPECT_THAT(json.error().message, testing::HasSubstr("not valid JSON"));
  const auto regex = engine->compile(GrammarKind::kRegex, "a(?=b)");
  ASSERT_FALSE(regex);
  EXPECT_THAT(regex.error().message, testing::HasSubstr("offset 1"));
  EXPECT_EQ(*engine->compile(GrammarKind::kJsonObject, {}),
            *engine->compile(GrammarKind::kJsonObject, {}));
}

TEST_F(Grammars, OfAnotherVocabularyAreRefused) {
  const auto engine = start();
  const std::vector<std::string> tokens = {"a", "b"};
  Request request = EngineTest::request(1);
  request.grammar = *grammar::TokenMasks::create(
      *grammar::Grammar::from_regex("a"),
      std::make_shared<const grammar::Vocabulary>(*grammar::Vocabulary::create(tokens, {})));
  const auto refused = engine->submit(request, [](const OutputEvent&) {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::StartsWith("grammar: compiled for 2 tokens"));
}

}  // namespace
}  // namespace dovetail
