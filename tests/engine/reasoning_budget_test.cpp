// Budgets of reasoning under all that the scheduler does: the same tokens as of a lone run.

#include "dialog/reasoning_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/engine_fixture.h"
#include "text/tokenizer.h"

namespace dovetail {
namespace {

using test::Answer;
using test::Collector;

constexpr TokenId kMessageBegin = 256;  // <s>
constexpr TokenId kMessageEnd = 258;    // <unused>

class ReasoningBudgets : public test::EngineTest {
 protected:
  // Letters, and what the budget's texts are made of.
  static Request letters(int i, int max_tokens = 60) {
    Request out = request(i, max_tokens);
    for (TokenId id = 'a'; id <= 'h'; ++id) out.sampling.logit_bias.emplace_back(id, 40.0F);
    return out;
  }

  static std::shared_ptr<dialog::ReasoningBudget> budget(std::uint32_t tokens) {
    auto out = std::make_shared<dialog::ReasoningBudget>();
    out->tokens = tokens;
    out->open = "<";
    out->close = "</>";
    out->opened = true;
    out->closing = {'<', '/', '>'};
    return out;
  }

  // Requests of every kind, some without a budget.
  static Request mixed(Engine& engine, int i) {
    Request out = letters(i, 90);
    out.logprobs = 2;
    out.sampling.temperature = i % 2 == 0 ? 0.0F : 1.5F;
    if (i % 5 == 4) return out;
    const auto reasoning = budget(static_cast<std::uint32_t>(15 * (i % 5)));
    if (i % 3 == 1) {
      reasoning->opened = false;
      out.sampling.logit_bias.emplace_back('<', 44.0F);
    } else if (i % 3 == 2) {
      // Reasoning in messages: from <s>a<unused> to a control token.
      reasoning->opened = false;
      reasoning->channels = true;
      reasoning->open =
          "\xff<s>\xfe"
          "a"
          "\xff<unused>\xfe";
      reasoning->close = "\xff<unused>\xfe";
      reasoning->closing = {kMessageEnd, kMessageBegin};
      reasoning->again = 'a';
      out.sampling.logit_bias.emplace_back(kMessageBegin, 41.0F);
      out.sampling.logit_bias.emplace_back(kMessageEnd, 41.0F);
      out.mark_control_tokens = true;
    }
    if (i % 3 == 0 && i % 2 == 0) {
      const auto grammar = engine.compile(GrammarKind::kStructure, R"({"sequence":[
          {"free":[{"literal":"</>"}]},{"literal":"</>"},{"regex":"[a-d]{4,30}"}]})");
      EXPECT_TRUE(grammar.has_value());
      out.grammar = *grammar;
      out.ignore_eos = false;
    }
    out.reasoning = reasoning;
    return out;
  }
};

TEST_F(ReasoningBudgets, CloseAtTheToken) {
  for (const std::uint32_t tokens : {0U, 1U, 12U}) {
    Request request = letters(3);
    request.reasoning = budget(tokens);
    const Answer answer = alone(request);
    ASSERT_EQ(answer.tokens.size(), 60U);
    EXPECT_EQ(answer.text.find("</>"), tokens) << answer.text;
    EXPECT_EQ(answer.text.rfind("</>"), tokens) << answer.text;
  }
}

TEST_F(ReasoningBudgets, ChangeNothingUntilTheyAreSpent) {
  const Request free = letters(5);
  const Answer expected = alone(free);
  Request bounded = free;
  bounded.reasoning = budget(60);
  EXPECT_EQ(alone(bounded).tokens, expected.tokens);
  // Up to there, and not beyond.
  bounded.reasoning = budget(40);
  const Answer cut = alone(bounded);
  EXPECT_EQ(cut.text.substr(0, 43), expected.text.substr(0, 40) + "</>");
}

// Whatever the model would say, and what the sampling would leave.
TEST_F(ReasoningBudgets, CloseWithTokensThatAreNotLikely) {
  Request request = letters(7);
  request.reasoning = budget(5);
  request.sampling.top_k = 1;
  request.sampling.repetition_penalty = 2.0F;
  request.sampling.logit_bias.emplace_back('<', -100.0F);
  request.min_tokens = 20;
  EXPECT_EQ(alone(request).text.find("</>"), 5U);
}

TEST_F(ReasoningBudgets, GrammarsGoOnBehindTheClose) {
  const auto engine = start();
  const auto grammar = engine->compile(GrammarKind::kStructure, R"({"sequence":[
      {"free":[{"literal":"</>"}]},{"literal":"</>"},{"regex":"[0-9]{3}"}]})");
  ASSERT_TRUE(grammar.has_value());
  for (const std::uint32_t tokens : {0U, 9U}) {
    Request request = letters(2);
    request.ignore_eos = false;
    request.grammar = *grammar;
    request.reasoning = budget(tokens);
    // Bytes of characters that a budget may end within.
    for (TokenId id = 0xC3; id < 0xF4; ++id) request.sampling.logit_bias.emplace_back(id, 39.0F);
    Collector collector;
    ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
    collector.await(1);
    const Answer answer = collector.answer(0);
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    EXPECT_EQ(answer.text.rfind("</>"), answer.text.size() - 6);
    EXPECT_THAT(answer.text.substr(answer.text.size() - 3), testing::ContainsRegex("^[0-9]+$"));
    EXPECT_GE(answer.tokens.size(), tokens + 6);
    EXPECT_LE(answer.tokens.size(), tokens + 6 + 3);
  }
}

TEST_F(ReasoningBudgets, AreThoseOfLoneRunsWhateverTheOptions) {
  struct Case {
    const char* name;
    void (*change)(EngineOptions&);
    bool preempts;
  };
  const Case cases[] = {
      {"overlap", [](EngineOptions& o) { o.async_scheduling = true; }, false},
      {"draft tokens", [](EngineOptions& o) { o.speculative_tokens = 4; }, false},
      {"little memory", [](EngineOptions& o) { o.kv_blocks = 11; }, true},
      {"little memory, draft tokens, overlap",
       [](EngineOptions& o) {
         o.kv_blocks = 11, o.speculative_tokens = 2, o.async_scheduling = true;
       },
       true},
  };
  constexpr int kRequests = 15;
  std::vector<Answer> expected;
  int closed = 0;
  for (int i = 0; i < kRequests; ++i) {
    const auto engine = start();
    Collector collector;
    ASSERT_TRUE(engine->submit(mixed(*engine, i), collector.sink(0)).has_value());
    collector.await(1);
    expected.push_back(collector.answer(0));
    const auto& tokens = expected.back().tokens;
    const std::vector<TokenId> close = {'<', '/', '>'};
    if (std::search(tokens.begin(), tokens.end(), close.begin(), close.end()) != tokens.end())
      ++closed;
  }
  EXPECT_GE(closed, 5);
  for (const Case& c : cases) {
    const EngineOptions before = options_;
    c.change(options_);
    const auto engine = start();
    options_ = before;
    Collector collector;
    for (int i = 0; i < kRequests; ++i)
      ASSERT_TRUE(engine->submit(mixed(*engine, i), collector.sink(i)).has_value()) << c.name;
    collector.await(kRequests);
    for (int i = 0; i < kRequests; ++i) {
      const Answer answer = collector.answer(i);
      EXPECT_EQ(answer.tokens, expected[static_cast<std::size_t>(i)].tokens) << c.name << " " << i;
      EXPECT_EQ(answer.text, expected[static_cast<std::size_t>(i)].text) << c.name << " " << i;
    }
    if (c.preempts) {
      EXPECT_GT(engine->stats().preemptions, 0U) << c.name;
    }
    if (engine->options().speculative_tokens > 0) {
      EXPECT_GT(engine->stats().accepted_tokens, 100U) << c.name;
    }
  }
}

// Wherever in a step of several right draft tokens they are spent.
TEST_F(ReasoningBudgets, HoldDraftTokens) {
  options_.speculative_tokens = 4;
  const auto engine = start();
  for (std::uint32_t tokens = 0; tokens < 16; ++tokens) {
    Request request = EngineTest::request(3, 40);
    request.sampling.logit_bias = {{'a', 80.0F}};
    request.reasoning = budget(tokens);
    Collector collector;
    ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
    collector.await(1);
    EXPECT_EQ(collector.answer(0).text,
              std::string(tokens, 'a') + "</>" + std::string(37 - tokens, 'a'));
  }
  EXPECT_GT(engine->stats().accepted_tokens, 200U);
}

TEST_F(ReasoningBudgets, ChoicesHaveOneEach) {
  Request request = letters(3);
  request.n = 4;
  request.sampling.temperature = 2.0F;
  request.reasoning = budget(10);
  const auto engine = start();
  Collector collector;
  ASSERT_TRUE(engine->submit(request, collector.sink(0)).has_value());
  collector.await(4);
  for (int choice = 0; choice < 4; ++choice)
    EXPECT_EQ(collector.answer(0, choice).text.find("</>"), 10U) << choice;
  EXPECT_NE(collector.answer(0, 0).tokens, collector.answer(0, 1).tokens);
}

TEST_F(ReasoningBudgets, NeedTokensOfTheModel) {
  const auto engine = start();
  Collector collector;
  Request request = letters(3);
  const auto wrong = budget(10);
  request.reasoning = wrong;
  wrong->closing = {'<', 259};
  const auto out_of_range = engine->submit(request, collector.sink(0));
  ASSERT_FALSE(out_of_range.has_value());
  EXPECT_THAT(out_of_range.error().message, testing::HasSubstr("reasoning: token id 259"));
  wrong->closing.clear();
  EXPECT_FALSE(engine->submit(request, collector.sink(0)).has_value());
}

}  // namespace
}  // namespace dovetail
