// What a server answers.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Server, AnswersACompletion) {
  RunningServer running;
  Client client(running.port);
  const auto response = client.post(kCompletions, R"({"prompt":"ab","max_tokens":2,"n":2})");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
  const auto json = response->json();
  EXPECT_EQ(json["choices"][0]["text"], "0:0 0:1 ");
  EXPECT_EQ(json["choices"][1]["text"], "1:0 1:1 ");
  EXPECT_EQ(json["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 4);
  EXPECT_EQ(json["model"], "fake");
}

TEST(Server, StreamsAChatAndKeepsTheConnection) {
  RunningServer running;
  Client client(running.port);
  for (int round = 0; round < 3; ++round) {
    const auto response = client.post(kChat, kStreamed);
    ASSERT_TRUE(response.has_value()) << "round " << round;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->headers.at("content-type"), "text/event-stream");
    const auto events = response->events();
    ASSERT_GE(events.size(), 6U);
    EXPECT_EQ(events.back(), "[DONE]");
    std::string text;
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
      const auto delta = nlohmann::json::parse(events[i])["choices"][0]["delta"];
      text += delta.value("content", "");
    }
    EXPECT_EQ(text, "0:0 0:1 0:2 ");
  }
}

// With and without /v1 in front, and with slashes at the end.
TEST(Server, PathsHaveTwoSpellings) {
  RunningServer running;
  Client client(running.port);
  const char* body = R"({"prompt":"ab","max_tokens":2})";
  for (const char* path : {"/v1/completions", "/completions", "/v1/completions/", "/completions//"})
    EXPECT_EQ(client.post(path, body)->status, 200) << path;
  for (const char* path : {"/v1/models", "/models/", "/v1/models/fake", "/models/fake", "/health",
                           "/v1/health", "/ready", "/version", "/load", "/v1/metrics?x=1"})
    EXPECT_EQ(client.get(path)->status, 200) << path;
  for (const char* path : {"/v1", "/v1/", "/v1//", "/v1x/models", "/model", "/v1/v1/models"})
    EXPECT_EQ(client.get(path)->status, 404) << path;
  EXPECT_EQ(client.post("/apply-template", kHello)->json()["prompt"], "[user]hi[assistant]");
  EXPECT_EQ(client.get("/load")->json()["server_load"], 0);
}

TEST(Server, CountsTheTokensOfPrompts) {
  RunningServer running;
  Client client(running.port);
  const char* body = R"({"input":"hi","instructions":"be brief","max_output_tokens":3,"kiwi":1})";
  const auto counted = client.post("/v1/responses/input_tokens", body);
  ASSERT_TRUE(counted.has_value());
  EXPECT_EQ(counted->status, 200) << counted->body;
  EXPECT_EQ(counted->headers.at("x-dovetail-ignored"), "kiwi");
  const auto json = counted->json();
  EXPECT_EQ(json.at("object"), "response.input_tokens");
  EXPECT_EQ(running.engine.submitted(), 0U);
  const auto made = client.post("/v1/responses", body);
  EXPECT_EQ(json.at("input_tokens"), made->json().at("usage").at("input_tokens"));
  const auto of_messages = client.post("/v1/messages/count_tokens", kHello);
  EXPECT_EQ(of_messages->json().size(), 1U);
  EXPECT_GT(of_messages->json().at("input_tokens"), 0);
  const auto refused = client.post("/v1/responses/input_tokens", R"({"input":7})");
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(refused->json()["error"]["param"], "input");
}

TEST(Server, FieldsThatItIgnoresAreAHeader) {
  RunningServer running;
  Client client(running.port);
  const auto gathered = client.post(kCompletions, R"({"prompt":"a","max_tokens":2,"foo":1})");
  EXPECT_EQ(gathered->headers.at("x-dovetail-ignored"), "foo");
  const auto streamed =
      client.post(kCompletions, R"({"prompt":"a","max_tokens":2,"bar":1,"stream":true})");
  EXPECT_EQ(streamed->headers.at("x-dovetail-ignored"), "bar");
  const auto none = client.post(kCompletions, R"({"prompt":"a","max_tokens":2})");
  EXPECT_EQ(none->headers.count("x-dovetail-ignored"), 0U);
  ServerOptions options;
  options.strict_fields = true;
  RunningServer strict(FakeEngine::counting, options);
  const auto refused = Client(strict.port).post(kCompletions, R"({"prompt":"a","foo":1})");
  EXPECT_EQ(refused->status, 400);
}

// A page of another origin gets nothing but where its origin is listed.
TEST(Server, PagesOfListedOriginsMayAsk) {
  const std::string page = "Origin: https://page.example\r\n";
  const std::string question = "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" +
                               page + "Access-Control-Request-Method: POST\r\n\r\n";
  RunningServer closed;
  Client shut(closed.port);
  EXPECT_EQ(shut.post(kChat, kHello, page)->headers.count("access-control-allow-origin"), 0U);
  shut.send(question);
  EXPECT_EQ(shut.receive()->status, 405);

  ServerOptions options;
  options.cors_origins = {"https://page.example"};
  options.api_key = "k";
  RunningServer running(FakeEngine::counting, options);
  Client client(running.port);
  client.send(question);
  const auto asked = client.receive();
  EXPECT_EQ(asked->status, 200);
  EXPECT_EQ(asked->headers.at("access-control-allow-origin"), "https://page.example");
  EXPECT_THAT(asked->headers.at("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_THAT(asked->headers.at("access-control-allow-headers"), HasSubstr("Authorization"));
  const auto streamed = client.post(kChat, kStreamed, page + "Authorization: Bearer k\r\n");
  EXPECT_EQ(streamed->status, 200);
  EXPECT_EQ(streamed->headers.at("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(streamed->headers.at("vary"), "Origin");
  // A refusal, too, or the page could not read why.
  EXPECT_EQ(client.post(kChat, kHello, page)->headers.at("access-control-allow-origin"),
            "https://page.example");
  const auto other = Client(running.port).post(kChat, kHello, "Origin: https://other.example\r\n");
  EXPECT_EQ(other->headers.count("access-control-allow-origin"), 0U);

  options.cors_origins = {"*"};
  RunningServer open(FakeEngine::counting, options);
  EXPECT_EQ(Client(open.port).get("/health", page)->headers.at("access-control-allow-origin"),
            "https://page.example");
}

TEST(Server, AnOldClientGetsItsStreamUpToTheConnectionsEnd) {
  RunningServer running;
  Client client(running.port);
  const std::string body = kStreamed;
  client.send(
      "POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(response->headers.at("connection"), "close");
  EXPECT_EQ(response->events().back(), "[DONE]");
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  RunningServer running;
  Client client(running.port);
  std::string all;
  for (int i = 1; i <= 20; ++i) {
    const std::string streamed = i % 2 == 0 ? ",\"stream\":true" : "";
    all += post_text(kCompletions,
                     fmt::format("{{\"prompt\":\"a\",\"max_tokens\":{}{}}}", i, streamed));
  }
  ASSERT_TRUE(client.send(all));
  for (int i = 1; i <= 20; ++i) {
    const auto response = client.receive();
    ASSERT_TRUE(response.has_value()) << i;
    EXPECT_THAT(response->body, HasSubstr(fmt::format("0:{} ", i - 1)));
    EXPECT_THAT(response->body, Not(HasSubstr(fmt::format("0:{} ", i))));
  }
}

TEST(Server, ManyStreamsGetWhatALoneOneGets) {
  RunningServer running;
  const std::string body = R"({"prompt":"a","max_tokens":50,"stream":true,"n":3})";
  const auto texts = [](const ClientResponse& response) {
    std::map<int, std::string> found;
    for (const std::string& event : response.events()) {
      if (event == "[DONE]") continue;
      const auto choice = nlohmann::json::parse(event)["choices"][0];
      found[choice["index"].get<int>()] += choice["text"].get<std::string>();
    }
    return found;
  };
  const auto lone = Client(running.port).post(kCompletions, body);
  ASSERT_TRUE(lone.has_value());
  const auto expected = texts(*lone);
  ASSERT_EQ(expected.size(), 3U);
  std::vector<std::thread> threads;
  std::vector<std::map<int, std::string>> found(64);
  for (auto& each : found) {
    threads.emplace_back([&each, &running, &body, &texts] {
      Client client(running.port);
      if (const auto response = client.post(kCompletions, body)) each = texts(*response);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& each : found) EXPECT_EQ(each, expected);
}

TEST(Server, ContinuesWhereTheClientAsks) {
  RunningServer running;
  Client client(running.port);
  const std::string body = R"({"prompt":"ab","max_tokens":1})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
              "Expect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  const auto interim = client.receive(true);
  ASSERT_TRUE(interim.has_value());
  EXPECT_EQ(interim->status, 100);
  client.send(body);
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200);
}

TEST(Server, TakesChunkedBodies) {
  RunningServer running;
  Client client(running.port);
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
              "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"prompt\":\"ab\",\"\r\n"
              "10\r\nmax_tokens\": 1 }\r\n0\r\n\r\n");
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200) << response->body;
}

TEST(Server, ListsItsModel) {
  ServerOptions options;
  options.served_model_names = {"org/name v2"};
  RunningServer running(FakeEngine::counting, options);
  Client client(running.port);
  const auto list = client.get("/v1/models");
  ASSERT_TRUE(list.has_value());
  const auto model = list->json()["data"][0];
  EXPECT_EQ(model["id"], "org/name v2");
  EXPECT_EQ(model["owned_by"], "dovetail");
  EXPECT_EQ(model["max_model_len"], 4096);
  EXPECT_GT(model["created"].get<std::int64_t>(), 1700000000);
  EXPECT_EQ(client.get("/v1/models/org%2Fname%20v2")->status, 200);
  EXPECT_EQ(client.get("/v1/models/org/name%20v2?x=y")->status, 200);
  EXPECT_EQ(client.get("/v1/models/fake")->status, 404);
  const auto other = client.post(kCompletions, R"({"model":"fake","prompt":"a"})");
  EXPECT_EQ(other->status, 404);
  EXPECT_EQ(other->json()["error"]["param"], "model");
  EXPECT_EQ(client.post(kCompletions, R"({"model":"org/name v2","prompt":"a"})")->status, 200);
}

// Large ones are written on a worker, with the choices that wait for them.
TEST(Server, ShowsTheLogprobsOfLongPrompts) {
  constexpr std::size_t kTokens = 2000;
  RunningServer running([](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    for (const std::int32_t choice : {1, 0}) {
      OutputEvent event;
      event.choice = choice;
      event.text = "x";
      event.tokens.push_back({'x', -0.5F, {}});
      if (choice == 0) event.prompt_logprobs.assign(kTokens, {'a', -0.5F, {{'b', -1.0F}}});
      event.finish = FinishReason::kLength;
      engine.emit(accepted.id, std::move(event));
    }
  });
  Client client(running.port);
  const std::string rest = fmt::format(R"("prompt":"{}","prompt_logprobs":1,"n":2,"max_tokens":1)",
                                       std::string(kTokens, 'a'));
  const auto whole = client.post(kCompletions, "{" + rest + "}");
  ASSERT_EQ(whole->status, 200) << whole->body.substr(0, 500);
  const auto answer = whole->json();
  for (const auto& choice : answer["choices"]) {
    EXPECT_EQ(choice["prompt_logprobs"].size(), kTokens + 1);
    EXPECT_EQ(choice["prompt_logprobs"].back()["97"]["decoded_token"], "a");
    EXPECT_EQ(choice["text"], "x");
  }
  const auto streamed = client.post(kCompletions, "{" + rest + R"(,"stream":true})");
  std::size_t shown = 0;
  for (const std::string& event : streamed->events()) {
    if (event == "[DONE]") continue;
    const auto json = nlohmann::json::parse(event);
    const auto& choice = json["choices"][0];
    if (choice.contains("prompt_logprobs") && !choice["prompt_logprobs"].is_null())
      shown += choice["prompt_logprobs"].size();
  }
  EXPECT_EQ(shown, 2 * (kTokens + 1));
}

TEST(Server, SkipsEmptyLinesBeforeARequest) {
  RunningServer running;
  Client client(running.port);
  client.send("\r\n" + post_text(kCompletions, R"({"prompt":"a","max_tokens":1})") + "\r\n");
  EXPECT_EQ(client.receive()->status, 200);
  EXPECT_EQ(client.get("/health")->status, 200);
}

TEST(Server, TakesAbsoluteTargets) {
  RunningServer running;
  Client client(running.port);
  EXPECT_EQ(client.get("http://localhost:8000/health")->body, R"({"status":"ok"})");
  EXPECT_EQ(client.post("http://127.0.0.1/v1/completions", R"({"prompt":"a"})")->status, 200);
}

TEST(Server, HeadIsAnsweredWithoutItsContent) {
  RunningServer running;
  Client client(running.port);
  client.send(
      "HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: "
      "localhost\r\n\r\n");
  const auto head = client.receive(true);
  ASSERT_TRUE(head.has_value());
  EXPECT_GT(std::stoi(head->headers.at("content-length")), 0);
  const auto health = client.receive();
  ASSERT_TRUE(health.has_value());
  EXPECT_EQ(health->body, R"({"status":"ok"})");
}

TEST(Server, TokenizesAndDetokenizes) {
  RunningServer running;
  Client client(running.port);
  EXPECT_EQ(client.post("/tokenize", R"({"prompt":"ab"})")->json()["count"], 3);
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[104,105]})")->json()["content"], "hi");
}

}  // namespace
}  // namespace dovetail::serve
