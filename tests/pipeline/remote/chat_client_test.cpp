#include "pipeline/remote/chat_client.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <future>

#include "pipeline/remote/endpoint/test_endpoint.h"
#include "support/sampling_samples.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

ChatRequest hello() {
  ChatRequest request;
  request.model = "m";
  request.messages = {{"user", "hello", ""}};
  return request;
}

TEST(ChatBody, HoldsWhatWasSetAndNothingElse) {
  EXPECT_EQ(json::parse(*chat_body(hello())),
            json::parse(R"({"model": "m", "messages": [{"role": "user", "content": "hello"}]})"));
  ChatRequest request = hello();
  request.messages.insert(request.messages.begin(), {"system", "be \"brief\"\n", "boss"});
  SamplingValues& values = request.sampling.values;
  values[sampling_row("temperature")] = 0.5;
  values[sampling_row("top_p")] = 0.9;
  values[sampling_row("frequency_penalty")] = 0.1;
  values[sampling_row("presence_penalty")] = -0.1;
  values[sampling_row("min_p")] = 0.05;
  values[sampling_row("top_k")] = 40;
  request.sampling.max_tokens = 20;
  request.sampling.reasoning_budget = 0;
  request.sampling.reasoning_budget_message = "So:";
  request.sampling.seed = 7;
  request.sampling.stop = {"END"};
  request.response_format = {{"type", "json_object"}};
  request.extra_body = json::parse(R"({"top_k": 5, "chat": {"think": false}, "seed": null})");
  EXPECT_EQ(json::parse(*chat_body(request)), json::parse(R"({
      "model": "m", "temperature": 0.5, "top_p": 0.9, "frequency_penalty": 0.1,
      "presence_penalty": -0.1, "max_tokens": 20,
      "thinking_token_budget": 0, "reasoning_budget_message": "So:", "stop": ["END"], "top_k": 5, "min_p": 0.05,
      "chat": {"think": false}, "response_format": {"type": "json_object"},
      "messages": [{"role": "system", "content": "be \"brief\"\n", "name": "boss"},
                   {"role": "user", "content": "hello"}]})"));
}

TEST(ChatBody, HoldsTheTableOfSamplingParameters) {
  for (const SamplingRow& row : kSamplingRows) {
    ChatRequest request = hello();
    request.sampling.values[row] = test::sample_of(row);
    const json body = json::parse(*chat_body(request));
    EXPECT_EQ(body.size(), 3U);
    EXPECT_EQ(body.value(row.name, json()), json(test::sample_of(row))) << row.name;
    EXPECT_EQ(body[std::string(row.name)].is_number_integer(), row.whole()) << row.name;
  }
}

TEST(ChatBody, IsACompletionWhereThereIsAPrompt) {
  ChatRequest request;
  request.model = "m";
  request.prompt = "Once upon";
  request.sampling.max_tokens = 5;
  EXPECT_EQ(json::parse(*chat_body(request)),
            json::parse(R"({"model": "m", "prompt": "Once upon", "max_tokens": 5})"));
  request.prompt = "\xff";
  EXPECT_THAT(chat_body(request).error().message, HasSubstr("prompt: a text is not valid UTF-8"));
  request.prompt = "";
  EXPECT_TRUE(chat_body(request).has_value()) << "an empty prompt is one, too";
  request.messages = hello().messages;
  EXPECT_THAT(chat_body(request).error().message, HasSubstr("prompt: there are messages"));
}

TEST(ChatBody, NamesTheFieldThatIsWrong) {
  const auto complaint = [](auto change) {
    ChatRequest request = hello();
    change(request);
    const auto body = chat_body(request);
    return body ? "none" : body.error().message;
  };
  EXPECT_THAT(complaint([](ChatRequest& r) { r.messages.clear(); }), HasSubstr("messages"));
  EXPECT_THAT(complaint([](ChatRequest& r) { r.messages[0].content = "\xff"; }),
              HasSubstr("UTF-8"));
  EXPECT_THAT(
      complaint([](ChatRequest& r) { r.sampling.values[sampling_row("temperature")] = NAN; }),
      HasSubstr("temperature"));
  EXPECT_THAT(complaint([](ChatRequest& r) { r.sampling.max_tokens = 0; }),
              HasSubstr("max_tokens"));
  EXPECT_THAT(complaint([](ChatRequest& r) { r.extra_body = {1, 2}; }), HasSubstr("extra_body"));
  EXPECT_THAT(complaint([](ChatRequest& r) {
                r.extra_body = {{"stream", true}};
              }),
              HasSubstr("extra_body.stream"));
  EXPECT_THAT(complaint([](ChatRequest& r) {
                r.extra_body = {{"n", 2}};
              }),
              HasSubstr("extra_body.n"));
  EXPECT_THAT(complaint([](ChatRequest& r) {
                r.extra_body = {{"messages", json::array()}};
              }),
              HasSubstr("extra_body.messages"));
  EXPECT_THAT(complaint([](ChatRequest& r) {
                r.extra_body = {{"prompt", "x"}};
              }),
              HasSubstr("extra_body.prompt"));
}

TEST(ChatAnswer, ReadsACompletion) {
  const auto answer = parse_chat_answer(
      R"({"choices": [{"text": " a time", "finish_reason": "length"}],
          "usage": {"prompt_tokens": 2, "completion_tokens": 3}})",
      AnswerForm::kCompletion);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->content, " a time");
  EXPECT_EQ(answer->finish_reason, "length");
  EXPECT_EQ(answer->usage->completion_tokens, 3);
  for (const char* body : {R"({"choices": [{"message": {"content": "x"}}]})",
                           R"({"choices": [{"text": 3}]})", R"({"choices": [3]})"}) {
    EXPECT_FALSE(parse_chat_answer(body, AnswerForm::kCompletion).has_value()) << body;
  }
  EXPECT_FALSE(parse_chat_answer(R"({"choices": [{"text": "x"}]})").has_value());
}

TEST(ChatAnswer, ReadsAllOfIt) {
  const auto answer = parse_chat_answer(R"({"id": "c1", "model": "m2", "choices": [
      {"index": 0, "finish_reason": "length",
       "message": {"role": "assistant", "content": "hi", "reasoning_content": "hm"}}],
      "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 2}}})");
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->content, "hi");
  EXPECT_EQ(answer->reasoning, "hm");
  EXPECT_EQ(answer->finish_reason, "length");
  EXPECT_EQ(answer->model, "m2");
  EXPECT_EQ(answer->id, "c1");
  ASSERT_TRUE(answer->usage.has_value());
  EXPECT_EQ(answer->usage->prompt_tokens, 12);
  EXPECT_EQ(answer->usage->completion_tokens, 3);
  EXPECT_EQ(answer->usage->cached_tokens, 8);
  EXPECT_EQ(answer->usage->reasoning_tokens, 2);
}

TEST(ChatAnswer, LivesWithoutWhatServersLeaveOut) {
  for (
      const char* body :
      {R"({"choices": [{"message": {"content": "x"}}]})",
       R"({"choices": [{"message": {"content": null}, "finish_reason": "length"}], "usage": null})",
       R"({"choices": [{"message": {"content": null, "reasoning": "x"}}], "usage": {}})",
       R"({"choices": [{"message": {"content": "", "refusal": null}}], "error": null})"}) {
    EXPECT_TRUE(parse_chat_answer(body).has_value()) << body;
  }
}

TEST(ChatAnswer, NamesWhatIsWrong) {
  struct Case {
    std::string body;
    const char* complaint;
  };
  for (const Case& c : {
           Case{"", "not JSON: (empty)"},
           Case{"<html>bad\ngateway</html>", "not JSON: <html>bad gateway</html>"},
           Case{R"({"choices": [{"message": {"content": "cut)", "not JSON"},
           Case{"[1]", "is a array, not an object"},
           Case{"null", "is a null"},
           Case{"{}", "no choices"},
           Case{R"({"choices": []})", "no choices"},
           Case{R"({"choices": {"0": 1}})", "no choices"},
           Case{R"({"choices": [5]})", "no choices[0].message"},
           Case{R"({"choices": [{"text": "x"}]})", "no choices[0].message"},
           Case{R"({"choices": [{"message": "x"}]})",
                "choices[0].message is a string, not an object"},
           Case{R"({"choices": [{"message": {}}]})", "has no content"},
           Case{R"({"choices": [{"message": {"content": 5}}]})",
                "choices[0].message.content is a number, not a string"},
           Case{R"({"choices": [{"message": {"content": "x"}, "finish_reason": 1}]})",
                "choices[0].finish_reason is a number"},
           Case{R"({"choices": [{"message": {"content": "x"}}], "usage": 5})",
                "usage is a number, not an object"},
           Case{R"({"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": -1}})",
                "usage.prompt_tokens is -1, not a count"},
           Case{R"({"choices": [{"message": {"content": "x"}}],
                    "usage": {"prompt_tokens": 18446744073709551615}})",
                "not a count"},
           Case{R"({"error": {"message": "overloaded", "code": "busy"}})",
                "is an error: overloaded (busy)"},
           Case{std::string(1'000'000, '['), "not JSON"},
           Case{R"({"error": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}",
                "not JSON"},
           Case{"\xff\xfe", "not JSON"},
       }) {
    const auto answer = parse_chat_answer(c.body);
    ASSERT_FALSE(answer.has_value()) << c.body;
    EXPECT_THAT(answer.error().message, HasSubstr(c.complaint));
    EXPECT_LT(answer.error().message.size(), 1000U);
    EXPECT_NO_THROW(json(answer.error().message).dump()) << "valid UTF-8";
  }
}

TEST(ChatAnswer, FindsTheMessageOfAnError) {
  for (const auto& [body, text] : std::vector<std::pair<std::string, std::string>>{
           {R"({"error": {"message": "no such\nmodel", "type": "x", "code": "not_found"}})",
            "no such model (not_found)"},
           {R"({"error": {"message": "m", "code": 404}})", "m"},
           {R"({"error": "plain"})", "plain"},
           {R"({"message": "m"})", "m"},
           {R"({"detail": [{"loc": ["body"]}]})", R"([{"loc":["body"]}])"},
           {R"({"other": 1})", R"({"other": 1})"},
           {"Bad Gateway", "Bad Gateway"},
           {"", "(empty body)"}}) {
    EXPECT_EQ(error_text(body), text);
  }
  EXPECT_EQ(error_text(std::string(5000, 'x')).size(), 503U);
}

RC_GTEST_PROP(ChatAnswer, NoBytesCrashIt, (const std::string& noise, std::uint16_t at)) {
  std::string body = chat_reply("hello").body;
  const std::size_t where = at % body.size();
  for (const std::string& damaged :
       {noise, body.substr(0, where), body.substr(0, where) + noise + body.substr(where)}) {
    const auto answer = parse_chat_answer(damaged);
    if (!answer) RC_ASSERT(!answer.error().message.empty());
    RC_ASSERT(!error_text(damaged).empty() || !damaged.empty());
  }
}

class ChatClientTest : public ::testing::Test {
 protected:
  ChatOutcome ask(const TestReply& reply) {
    TestEndpoint endpoint([&](const TestRequest& request) {
      seen_ = request;
      return reply;
    });
    ChatEndpoint where;
    where.base_url = endpoint.url("/v1/");
    where.api_key = "sk-0123456789";
    where.headers = {{"X-Team", "blue"}};
    where.timeouts.total = 2 * kOneSecond;
    where.max_response = 100'000;
    const auto client = ChatClient::create(*http_, where);
    EXPECT_TRUE(client.has_value());
    std::promise<HttpResult> promise;
    const auto sent = client->send(hello(), [&](HttpResult r) { promise.set_value(std::move(r)); });
    EXPECT_TRUE(sent.has_value());
    return client->read(promise.get_future().get());
  }

  std::unique_ptr<HttpClient> http_ = std::move(*HttpClient::create());
  TestRequest seen_;
};

TEST_F(ChatClientTest, AsksAndReads) {
  const ChatOutcome outcome = ask(chat_reply("the answer", 7, 3));
  EXPECT_EQ(outcome.failure, FailureClass::kNone) << outcome.message;
  EXPECT_EQ(outcome.answer.content, "the answer");
  EXPECT_EQ(outcome.answer.usage->prompt_tokens, 7);
  EXPECT_EQ(seen_.target, "/v1/chat/completions");
  EXPECT_EQ(seen_.headers.at("authorization"), "Bearer sk-0123456789");
  EXPECT_EQ(seen_.headers.at("content-type"), "application/json");
  EXPECT_EQ(seen_.headers.at("x-team"), "blue");
  EXPECT_EQ(last_message(seen_), "hello");
}

TEST_F(ChatClientTest, FailuresHaveAClassAndAMessage) {
  ChatOutcome outcome = ask(error_reply(429, "slow down", "rate_limit", 3));
  EXPECT_EQ(outcome.failure, FailureClass::kRateLimit);
  EXPECT_EQ(outcome.retry_after, 3 * kOneSecond);
  EXPECT_THAT(outcome.message, HasSubstr("/v1/chat/completions: HTTP 429: slow down (rate_limit)"));

  outcome = ask(error_reply(404, "no such model"));
  EXPECT_EQ(outcome.failure, FailureClass::kFinal);

  TestReply reply = chat_reply("x");
  reply.body.resize(reply.body.size() / 2);
  outcome = ask(reply);
  EXPECT_EQ(outcome.failure, FailureClass::kRetryable);
  EXPECT_THAT(outcome.message, HasSubstr("HTTP 200: the answer is not JSON"));

  reply = chat_reply(std::string(200'000, 'x'));
  EXPECT_EQ(ask(reply).failure, FailureClass::kFinal);

  reply = chat_reply("x");
  reply.drop_after = 100;
  EXPECT_EQ(ask(reply).failure, FailureClass::kRetryable);
}

TEST_F(ChatClientTest, NeverRepeatsItsKey) {
  for (const std::string& said :
       {std::string("Incorrect API key provided: sk-0123456789"),
        std::string(490, '.') + "sk-0123456789", std::string("Bearer sk-0123456789")}) {
    for (const int status : {200, 401, 500}) {
      EXPECT_THAT(ask(error_reply(status, said)).message, Not(HasSubstr("sk-0")));
      TestReply plain;
      plain.status = status;
      plain.body = said;
      EXPECT_THAT(ask(plain).message, Not(HasSubstr("sk-0")));
    }
  }
}

TEST_F(ChatClientTest, RefusesBadEndpoints) {
  for (const char* base :
       {"", "localhost:80", "http://", "http:///v1", "ftp://h", "http://h?k=1", "http://h /"}) {
    const auto client = ChatClient::create(*http_, ChatEndpoint{base, "", {}, {}, 1000});
    ASSERT_FALSE(client.has_value()) << base;
    EXPECT_THAT(client.error().message, HasSubstr("base_url"));
  }
  EXPECT_FALSE(ChatClient::create(*http_, ChatEndpoint{"http://h", "a\nb", {}, {}, 1000}));
}

}  // namespace
}  // namespace dovetail::pipeline
