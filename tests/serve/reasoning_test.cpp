// How much a request lets the model reason, in the words of every API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dialog/reasoning_budget.h"
#include "serve/api_request.h"
#include "serve/fake_engine.h"

namespace dovetail::serve {
namespace {

class ReasoningRequest : public ::testing::Test {
 protected:
  // A model whose template opens the reasoning unless it is switched off, and tells the budget.
  ReasoningRequest() {
    backend_.render_chat = [](const Json& variables,
                              std::span<const text::MarkedText>) -> Result<text::MarkedText> {
      text::MarkedText text;
      text.append_trusted("[ask]");
      if (variables.contains("thinking_budget"))
        text.append_trusted("[" + variables["thinking_budget"].dump() + "]");
      const bool off = variables.value("enable_thinking", true) == false;
      text.append_trusted(off ? "<think></think>" : "<think>");
      return text;
    };
    const auto render = [this](const Json& variables) -> Result<std::string> {
      return std::move(backend_.render_chat(variables, {})->text);
    };
    backend_.dialog = dialog::DialogFormat::detect({"<think></think>", render, {}});
  }

  Outcome<Generation> read(Endpoint endpoint, std::string_view fields, int otherwise = -1,
                           std::string_view message = {}) {
    RequestContext context{backend_, "fake", 8};
    context.reasoning_budget = otherwise;
    context.reasoning_budget_message = message;
    const std::string_view asks = endpoint == Endpoint::kResponses
                                      ? R"("input":"hi")"
                                      : R"("messages":[{"role":"user","content":"hi"}])";
    return read_generation(endpoint, fmt::format("{{{}{}}}", asks, fields), context);
  }

  // "BUDGET PROMPT"
  std::string asked(Endpoint endpoint, std::string_view fields, int otherwise = -1) {
    const auto result = read(endpoint, fields, otherwise);
    if (!result) return result.error().message;
    const Request& request = result->requests.front();
    std::string prompt;
    for (const TokenId id : request.prompt) prompt += static_cast<char>(id);
    return fmt::format(
        "{} {}", request.reasoning ? std::to_string(request.reasoning->tokens) : "any", prompt);
  }

  FakeEngine engine_;
  Backend backend_ = engine_.backend();
};

TEST_F(ReasoningRequest, HasABudgetInTheWordsOfEveryApi) {
  const std::string off = "0 [ask][0]<think></think>";
  struct Case {
    Endpoint endpoint;
    const char* fields;
    std::string asked;
  };
  const Case cases[] = {
      {Endpoint::kChat, "", "any [ask]<think>"},
      {Endpoint::kChat, R"(,"thinking_token_budget":7)", "7 [ask][7]<think>"},
      {Endpoint::kChat, R"(,"thinking_budget_tokens":7)", "7 [ask][7]<think>"},
      {Endpoint::kChat, R"(,"reasoning_budget":7)", "7 [ask][7]<think>"},
      {Endpoint::kChat, R"(,"thinking_budget":7.0)", "7 [ask][7]<think>"},
      {Endpoint::kChat, R"(,"thinking_budget":-1)", "any [ask]<think>"},
      {Endpoint::kChat, R"(,"thinking_budget":null)", "any [ask]<think>"},
      {Endpoint::kChat, R"(,"thinking_budget":0)", off},
      {Endpoint::kChat, R"(,"reasoning_effort":"none")", off},
      {Endpoint::kChat, R"(,"reasoning_effort":"low")", "any [ask]<think>"},
      {Endpoint::kChat, R"(,"enable_thinking":false)", off},
      // Off is off, in whatever order it is said.
      {Endpoint::kChat, R"(,"enable_thinking":false,"thinking_budget":7)", off},
      {Endpoint::kChat, R"(,"thinking_budget":7,"enable_thinking":false)", off},
      {Endpoint::kChat, R"(,"chat_template_kwargs":{"thinking_budget":5},"thinking_budget":7)",
       "7 [ask][5]<think>"},
      {Endpoint::kMessages, R"(,"max_tokens":9,"thinking":{"type":"enabled","budget_tokens":7})",
       "7 [ask][7]<think>"},
      {Endpoint::kMessages, R"(,"max_tokens":9,"thinking":{"type":"enabled"})", "any [ask]<think>"},
      {Endpoint::kMessages, R"(,"max_tokens":9,"thinking":{"type":"adaptive"})",
       "any [ask]<think>"},
      {Endpoint::kMessages, R"(,"max_tokens":9,"thinking":{"type":"disabled"})", off},
      {Endpoint::kResponses, R"(,"reasoning":{"effort":"high","max_tokens":7})",
       "7 [ask][7]<think>"},
      {Endpoint::kResponses, R"(,"reasoning":{"effort":"none"})", off},
      {Endpoint::kOllamaChat, R"(,"think":false)", off},
      {Endpoint::kOllamaChat, R"(,"think":true)", "any [ask]<think>"},
  };
  for (const Case& each : cases)
    EXPECT_EQ(asked(each.endpoint, each.fields), each.asked) << each.fields;
}

TEST_F(ReasoningRequest, TakesTheServersBudgetWhereItSaysNothing) {
  EXPECT_EQ(asked(Endpoint::kChat, "", 5), "5 [ask][5]<think>");
  EXPECT_EQ(asked(Endpoint::kChat, "", 0), "0 [ask][0]<think></think>");
  EXPECT_EQ(asked(Endpoint::kOllamaChat, "", 5), "5 [ask][5]<think>");
  EXPECT_EQ(asked(Endpoint::kChat, R"(,"thinking_budget":9)", 5), "9 [ask][9]<think>");
  EXPECT_EQ(asked(Endpoint::kChat, R"(,"thinking_budget":-1)", 5), "any [ask]<think>");
}

// The request's, else the server's; none where there is to be no reasoning.
TEST_F(ReasoningRequest, ClosesWithAMessage) {
  struct Case {
    const char *fields, *servers, *closing;
  };
  const Case cases[] = {
      {R"(,"thinking_budget":7)", "Enough.", "Enough.</think>"},
      {R"(,"thinking_budget":7,"reasoning_budget_message":"\nI answer now.\n")", "Enough.",
       "\nI answer now.\n</think>"},
      {R"(,"thinking_budget":7,"reasoning_budget_message":"")", "Enough.", "</think>"},
      {R"(,"thinking_budget":7,"reasoning_budget_message":null)", "Enough.", "Enough.</think>"},
      {R"(,"thinking_budget":0)", "Enough.", "</think>"},
  };
  for (const Case& each : cases) {
    const auto result = read(Endpoint::kChat, each.fields, -1, each.servers);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(backend_.decode(result->requests.front().reasoning->closing, false), each.closing)
        << each.fields;
  }
  const auto wrong = read(Endpoint::kChat, R"(,"reasoning_budget_message":7)");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().param, "reasoning_budget_message");
}

TEST_F(ReasoningRequest, ClosesAsTheModelDoes) {
  const auto result = read(Endpoint::kChat, R"(,"thinking_budget":7)");
  ASSERT_TRUE(result);
  const dialog::ReasoningBudget& budget = *result->requests.front().reasoning;
  EXPECT_EQ(backend_.decode(budget.closing, false), "</think>");
  EXPECT_TRUE(budget.opened);
  // A grammar of the whole output leaves no room for it, and a model that does not reason needs
  // none.
  const auto whole = read(Endpoint::kChat, R"(,"thinking_budget":7,"grammar":"root ::= \"a\"")");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->requests.front().reasoning, nullptr);
  backend_ = engine_.backend();
  const auto plain = read(Endpoint::kChat, R"(,"thinking_budget":7)");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->requests.front().reasoning, nullptr);
}

TEST_F(ReasoningRequest, NamesABudgetThatIsNone) {
  const std::pair<Endpoint, std::pair<const char*, const char*>> cases[] = {
      {Endpoint::kChat, {R"(,"thinking_budget":-2)", "thinking_budget"}},
      {Endpoint::kChat, {R"(,"thinking_token_budget":"much")", "thinking_token_budget"}},
      {Endpoint::kMessages,
       {R"(,"max_tokens":9,"thinking":{"type":"enabled","budget_tokens":1.5})",
        "thinking.budget_tokens"}},
      {Endpoint::kResponses, {R"(,"reasoning":{"max_tokens":-7})", "reasoning.max_tokens"}},
  };
  for (const auto& [endpoint, each] : cases) {
    const auto result = read(endpoint, each.first);
    ASSERT_FALSE(result) << each.first;
    EXPECT_EQ(result.error().param, each.second) << each.first;
  }
}

}  // namespace
}  // namespace dovetail::serve
