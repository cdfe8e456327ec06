// Control tokens in outputs: asked for by structures, and marked in the text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine_fixture.h"
#include "text/tokenizer.h"

namespace dovetail {
namespace {

using test::Answer;
using test::Collector;

constexpr TokenId kBegin = 256;   // <s>
constexpr TokenId kUnused = 258;  // <unused>

std::string marked(const std::string& spelling) { return "\xff" + spelling + "\xfe"; }

class ControlTokens : public test::EngineTest {
 protected:
  static Request calls(Engine& engine, int i) {
    Request out = request(i, 60);
    out.ignore_eos = false;
    out.mark_control_tokens = i % 2 == 0;
    // Single bytes of a control token's mark are tokens, too.
    out.sampling.logit_bias = {{0xFF, 50.0F}, {0xFE, 50.0F}, {kUnused, 3.0F}, {kBegin, 3.0F}};
    const auto grammar = engine.compile(GrammarKind::kStructure, R"({"sequence":[
        {"free":[{"literal":"<"}]},{"token":"<unused>"},{"regex":"[ab]{1,4}"},
        {"repeat":{"sequence":[{"token":"<s>"},{"schema":{"type":"array","items":{"$ref":"#"}}}]},
         "max":3}]})");
    EXPECT_TRUE(grammar.has_value()) << grammar.error().message;
    out.grammar = *grammar;
    return out;
  }

  // What the tokens of an answer are, control tokens marked.
  static std::string text_of(const Engine& engine, const Answer& answer, bool marks) {
    const text::Tokenizer& tokenizer = engine.tokenizer();
    std::string text;
    std::vector<TokenId> run;
    for (const TokenId token : answer.tokens) {
      if (!marks || !tokenizer.is_special(token)) {
        run.push_back(token);
        continue;
      }
      text += tokenizer.decode(run, true, text::TextPosition::kContinuation);
      text += marked(std::string(tokenizer.token_text(token)));
      run.clear();
    }
    text::StreamDecoder last(tokenizer, true, text::TextPosition::kContinuation);
    for (const TokenId token : run) text += last.push(token);
    return text + (answer.finish == FinishReason::kLength ? last.cut() : last.finish());
  }
};

TEST_F(ControlTokens, AreTheStructuresWhateverTheOptions) {
  constexpr int kRequests = 8;
  std::vector<Answer> expected;
  int with_calls = 0;
  for (int i = 0; i < kRequests; ++i) {
    const auto engine = start();
    Collector collector;
    ASSERT_TRUE(engine->submit(calls(*engine, i), collector.sink(0)).has_value());
    collector.await(1);
    const Answer answer = collector.answer(0);
    EXPECT_EQ(answer.text, text_of(*engine, answer, i % 2 == 0));
    const auto count = std::count(answer.tokens.begin(), answer.tokens.end(), kUnused);
    EXPECT_LE(count, 1);
    EXPECT_TRUE(answer.finish != FinishReason::kStop || count == 1) << i;
    if (count == 1) ++with_calls;
    for (const TokenId token : answer.tokens) EXPECT_TRUE(token != 0xFF && token != 0xFE);
    expected.push_back(answer);
  }
  EXPECT_GT(with_calls, kRequests / 2);
  const std::vector<void (*)(EngineOptions&)> changes = {
      [](EngineOptions& o) { o.speculative_tokens = 4; },
      [](EngineOptions& o) { o.async_scheduling = true, o.speculative_tokens = 3; },
      [](EngineOptions& o) { o.kv_blocks = 11, o.speculative_tokens = 2; },
  };
  for (std::size_t c = 0; c < changes.size(); ++c) {
    const EngineOptions before = options_;
    changes[c](options_);
    const auto engine = start();
    options_ = before;
    Collector collector;
    for (int i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(engine->submit(calls(*engine, i), collector.sink(i)).has_value());
    }
    collector.await(kRequests);
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_EQ(collector.answer(i).tokens, expected[static_cast<std::size_t>(i)].tokens) << c;
      EXPECT_EQ(collector.answer(i).text, expected[static_cast<std::size_t>(i)].text) << c;
    }
  }
}

// Without a grammar they come anywhere, in the middle of a character, too.
TEST_F(ControlTokens, StandInTheTextWhereTheyCame) {
  const auto engine = start();
  for (const bool marks : {false, true}) {
    Request request = EngineTest::request(3, 80);
    request.n = 3;
    request.mark_control_tokens = marks;
    for (const TokenId token : {0xC3, 0xA9, int{'a'}, int{'b'}, int{kUnused}}) {
      request.sampling.logit_bias.emplace_back(token, 60.0F);
    }
    Collector collector;
    ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
    collector.await(3);
    for (int choice = 0; choice < 3; ++choice) {
      const Answer answer = collector.answer(0, choice);
      EXPECT_EQ(answer.finish, FinishReason::kLength);
      EXPECT_THAT(answer.tokens, testing::Contains(kUnused));
      EXPECT_EQ(answer.text, text_of(*engine, answer, marks));
    }
  }
}

TEST_F(ControlTokens, StopStringsHoldNone) {
  const auto engine = start();
  Request request = EngineTest::request(3, 80);
  const auto grammar = engine->compile(GrammarKind::kStructure,
                                       R"({"sequence":[{"literal":"xa"},{"token":"<unused>"},
          {"literal":"bunused"},{"token":"<s>"},{"literal":"ab!"}]})");
  ASSERT_TRUE(grammar.has_value());
  request.grammar = *grammar;
  request.ignore_eos = false;
  struct Case {
    std::string stop;
    bool marks;
    std::string text;
  };
  // What is held as the beginning of a stop string comes out before a control token.
  const std::vector<Case> cases = {
      {"ab!", true, "xa" + marked("<unused>") + "bunused" + marked("<s>")},
      {"ab", true, "xa" + marked("<unused>") + "bunused" + marked("<s>")},
      {"ab", false, "x"},
      {"<unused>", true, "xa" + marked("<unused>") + "bunused" + marked("<s>") + "ab!"},
      {"bunused", true, "xa" + marked("<unused>")},
      {"zz", true, "xa" + marked("<unused>") + "bunused" + marked("<s>") + "ab!"},
      {"zz", false, "xabunusedab!"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    request.stop = {cases[i].stop};
    request.mark_control_tokens = cases[i].marks;
    Collector collector;
    ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
    collector.await(1);
    EXPECT_EQ(collector.answer(0).text, cases[i].text) << i;
    EXPECT_EQ(collector.answer(0).finish, FinishReason::kStop) << i;
  }
}

TEST_F(ControlTokens, ThatAModelLacksAreNamed) {
  const auto engine = start();
  for (const char* token : {"<nope>", "</s>", "a"}) {
    const auto refused =
        engine->compile(GrammarKind::kStructure, std::string(R"({"token":")") + token + "\"}");
    ASSERT_FALSE(refused) << token;
    EXPECT_THAT(refused.error().message,
                testing::HasSubstr("#/token: the vocabulary has no control"));
    EXPECT_THAT(refused.error().message, testing::HasSubstr(std::string("\"") + token + "\""));
  }
}

}  // namespace
}  // namespace dovetail
