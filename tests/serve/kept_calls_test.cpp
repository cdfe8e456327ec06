// Calls that a client sends back are the tokens that the model wrote.
#include "serve/kept_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "grammar/vocabulary.h"
#include "serve/api_request.h"
#include "serve/api_response.h"
#include "serve/fake_engine.h"
#include "text/chat_template.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOneTool = R"([{"type":"function","function":{"name":"add","parameters":
  {"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}])";
// As a model may write it, and as templates do.
constexpr std::string_view kWrittenCall =
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\n  \"a\":1\n}}\n</tool_call>";
constexpr std::string_view kCanonicalCall =
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";

class KeptCalls : public ::testing::Test {
 protected:
  // The roles are control tokens, so that calls end where one begins.
  KeptCalls() { detect("", {"[user]", "[assistant]"}); }

  // Gives the backend the format of what it renders.
  void detect(std::string source, std::vector<std::string> control_tokens) {
    const auto render = [this](const Json& variables) -> Result<std::string> {
      auto rendered = backend_.render_chat(variables, {});
      if (!rendered) return fail(rendered.error());
      return std::move(rendered->text);
    };
    backend_.dialog =
        dialog::DialogFormat::detect({std::move(source), render, std::move(control_tokens)});
  }

  std::string prompt_of(const Json& body) {
    RequestContext context{backend_, "fake", 8};
    context.calls = &kept_;
    const auto generation = read_generation(Endpoint::kChat, body.dump(), context);
    EXPECT_TRUE(generation) << generation.error().message;
    std::string text;
    for (const TokenId id : generation->requests.front().prompt) text += backend_.token_bytes(id);
    return text;
  }

  // Gives the model's answer to a request with tools, token by token; the message that the client
  // has then.
  Json answer_with(std::string_view text, FinishReason finish = FinishReason::kStop) {
    RequestContext context{backend_, "fake", 8};
    context.calls = &kept_;
    Json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                 {"tools", Json::parse(kOneTool)}};
    const auto generation = read_generation(Endpoint::kChat, body.dump(), context);
    EXPECT_TRUE(generation) << generation.error().message;
    ResponseBuilder builder(*generation, make_label(Endpoint::kChat, "fake"), backend_.token_bytes);
    const std::vector<TokenId> tokens = backend_.encode(text, false, true);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      OutputEvent event;
      event.text = backend_.token_bytes(tokens[i]);
      if (event.text.size() > 1) event.text = grammar::control_token(event.text);
      event.tokens.emplace_back().id = tokens[i];
      if (i + 1 == tokens.size()) event.finish = finish;
      builder.add(0, std::move(event));
    }
    std::string response;
    for (const std::string& part : builder.take_body()) response += part;
    return Json::parse(response)["choices"][0]["message"];
  }

  static Json chat_with(const Json& answer) {
    Json messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
    messages.push_back(answer);
    if (answer.contains("tool_calls")) {
      messages.push_back(
          {{"role", "tool"}, {"tool_call_id", answer["tool_calls"][0]["id"]}, {"content", "r"}});
    }
    messages.push_back({{"role", "user"}, {"content", "and?"}});
    return {{"messages", messages}};
  }

  FakeEngine engine_;
  Backend backend_ = engine_.backend();
  KeptAnswers kept_;
};

TEST_F(KeptCalls, AreThePromptOfTheNextTurn) {
  for (const std::string& ahead :
       {std::string(), std::string("\n"), std::string("I add.\n\n"), std::string(" I  add. ")}) {
    const std::string text = ahead + std::string(kWrittenCall);
    const Json answer = answer_with(text);
    ASSERT_EQ(answer["tool_calls"].size(), 1U) << text;
    EXPECT_EQ(prompt_of(chat_with(answer)),
              "[user]hi[assistant]" + text +
                  "[user]<tool_response>\nr\n</tool_response>\n\nand?[assistant]");
  }
}

TEST_F(KeptCalls, GiveWayToWhatTheClientSays) {
  const Json answer = answer_with("So. " + std::string(kWrittenCall));
  Json other = answer;
  other["tool_calls"][0]["function"]["arguments"] = R"({"a":2})";
  EXPECT_THAT(prompt_of(chat_with(other)), HasSubstr("\"arguments\": {\"a\": 2}}"));
  other = answer;
  other["tool_calls"][0]["id"] = "call_other";
  EXPECT_THAT(prompt_of(chat_with(other)),
              HasSubstr("[assistant]So.\n" + std::string(kCanonicalCall)));
  other = answer;
  other["tool_calls"].push_back(answer["tool_calls"][0]);
  EXPECT_THAT(prompt_of(chat_with(other)), Not(HasSubstr(std::string(kWrittenCall))));
  // Another content stays; the calls are as they were.
  other = answer;
  other["content"] = "Well.";
  EXPECT_THAT(prompt_of(chat_with(other)),
              HasSubstr("[assistant]Well.\n" + std::string(kWrittenCall)));
  // The same arguments in other words are the same.
  other = answer;
  other["tool_calls"][0]["function"]["arguments"] = R"({ "a" : 1 })";
  EXPECT_THAT(prompt_of(chat_with(other)),
              HasSubstr("[assistant]So. " + std::string(kWrittenCall)));
}

// A message that merely looks like a call is none.
TEST_F(KeptCalls, StandWhereTheTemplateWritesCalls) {
  const Json answer = answer_with(kWrittenCall);
  Json body = chat_with(answer);
  body["messages"][0]["content"] = kCanonicalCall;
  const std::string prompt = prompt_of(body);
  EXPECT_TRUE(prompt.starts_with("[user]" + std::string(kCanonicalCall) + "[assistant]" +
                                 std::string(kWrittenCall)))
      << prompt;
}

TEST_F(KeptCalls, AreOfWholeAnswersAlone) {
  const Json cut = answer_with(kWrittenCall, FinishReason::kLength);
  EXPECT_THAT(prompt_of(chat_with(cut)), HasSubstr(std::string(kCanonicalCall)));
  const Json more = answer_with(std::string(kWrittenCall) + "\nSo.");
  EXPECT_THAT(prompt_of(chat_with(more)), HasSubstr(std::string(kCanonicalCall)));
}

// Harmony: the answer's messages have headers, which the template writes in another order.
class KeptChannels : public KeptCalls {
 protected:
  static constexpr std::string_view kHarmony =
      "{% for m in messages %}<|start|>{{ m.role }}{% if m.tool_calls %}"
      "{% if m.reasoning_content %}<|channel|>analysis<|message|>{{ m.reasoning_content }}<|end|>"
      "<|start|>assistant{% endif %}{% set f = m.tool_calls[0].function %}"
      " to=functions.{{ f.name }}<|channel|>commentary json<|message|>{{ f.arguments | tojson }}"
      "<|call|>{% else %}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|start|>assistant{% endif %}";
  // Tokens behind those that are bytes.
  const std::vector<std::string> control_ = {"<|start|>", "<|channel|>",   "<|message|>", "<|end|>",
                                             "<|call|>",  "<|constrain|>", "<|return|>"};

  KeptChannels() {
    const auto parsed = text::ChatTemplate::parse(kHarmony);
    EXPECT_TRUE(parsed);
    backend_.render_chat = [parsed](const Json& variables, std::span<const text::MarkedText>) {
      return parsed->render_chat(variables);
    };
    backend_.encode = [this](std::string_view text, bool, bool) {
      std::vector<TokenId> out;
      while (!text.empty()) {
        const auto name = std::ranges::find_if(
            control_, [&](const std::string& token) { return text.starts_with(token); });
        const bool is_byte = name == control_.end();
        out.push_back(is_byte ? static_cast<unsigned char>(text.front())
                              : 256 + static_cast<TokenId>(name - control_.begin()));
        text.remove_prefix(is_byte ? 1 : name->size());
      }
      return out;
    };
    backend_.encode_chat = [this](const text::MarkedText& text) {
      return backend_.encode(text.text, false, true);
    };
    backend_.token_bytes = [this](TokenId id) {
      return id < 256 ? std::string(1, static_cast<char>(id))
                      : control_[static_cast<std::size_t>(id) - 256];
    };
    detect(std::string(kHarmony), control_);
  }
};

TEST_F(KeptChannels, AreThePromptOfTheNextTurn) {
  ASSERT_EQ(backend_.dialog->calls().name, "harmony");
  const std::string thought = "<|channel|>analysis<|message|>Add.";
  const std::string turn = "<|end|><|start|>assistant";
  for (const std::string call :
       {"<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\n \"a\":1}",
        " to=functions.add<|channel|>commentary json<|message|>{\"a\":  1}"}) {
    for (const std::string& said :
         {std::string(), thought + turn, thought + "<|start|>assistant"}) {
      const std::string ahead = said.empty() ? "" : thought + turn;
      const Json answer = answer_with(said + call);
      ASSERT_EQ(answer["tool_calls"].size(), 1U) << call;
      EXPECT_THAT(prompt_of(chat_with(answer)),
                  HasSubstr("<|start|>assistant" + ahead + call + "<|call|><|start|>tool"));
      Json other = answer;
      other["tool_calls"][0]["id"] = "call_other";
      EXPECT_THAT(prompt_of(chat_with(other)),
                  HasSubstr("<|start|>assistant" + ahead +
                            " to=functions.add<|channel|>commentary json<|message|>{\"a\": 1}"
                            "<|call|>"));
    }
  }
}

TEST_F(KeptCalls, AreBounded) {
  const auto answer = [](const std::string& id, std::size_t tokens) {
    KeptAnswer out;
    out.calls.push_back({id, "f", "{}", true});
    out.tokens.resize(tokens);
    return out;
  };
  const std::size_t quarter = KeptAnswers::kMostBytes / sizeof(TokenId) / 4;
  for (const char* id : {"a", "b", "c"}) kept_.put(answer(id, quarter));
  EXPECT_NE(kept_.find("a"), nullptr);
  kept_.put(answer("d", quarter));
  EXPECT_EQ(kept_.find("b"), nullptr);  // the one that was not used for longest
  EXPECT_NE(kept_.find("a"), nullptr);
  EXPECT_NE(kept_.find("d"), nullptr);
  kept_.put(answer("e", 5 * quarter));
  EXPECT_EQ(kept_.find("e"), nullptr);
  EXPECT_NE(kept_.find("d"), nullptr);
  kept_.put(answer("d", 1));
  EXPECT_EQ(kept_.find("d")->tokens.size(), 1U);
}

}  // namespace
}  // namespace dovetail::serve
