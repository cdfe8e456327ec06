#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/metrics.h"
#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kHello = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":3})";
constexpr const char* kStreamed =
    R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true})";

OutputEvent token(std::string text) {
  OutputEvent event;
  event.text = std::move(text);
  event.tokens.push_back({'a', -0.5F, {}});
  return event;
}

std::string metric(std::uint16_t port, const std::string& name) {
  Client client(port);
  const auto response = client.get("/metrics");
  if (!response) return "no answer";
  const std::string needle = "\ndovetail_" + name + " ";
  const std::size_t at = response->body.find(needle);
  if (at == std::string::npos) return "missing";
  const std::size_t begin = at + needle.size();
  return response->body.substr(begin, response->body.find('\n', begin) - begin);
}

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
  EXPECT_THAT(client.get("/nothing")->body, HasSubstr("/v1/chat/completions, /v1/completions"));
  EXPECT_EQ(client.post("/apply-template", kHello)->json()["prompt"], "[user]hi[assistant]");
  EXPECT_EQ(client.get("/load")->json()["server_load"], 0);
}

TEST(Server, ResponsesHaveTheRequestsId) {
  RunningServer running;
  Client client(running.port);
  EXPECT_EQ(client.post(kChat, kHello, "X-Request-Id: a-1\r\n")->headers.at("x-request-id"), "a-1");
  EXPECT_EQ(client.post(kChat, kStreamed, "x-request-ID: b\r\n")->headers.at("x-request-id"), "b");
  EXPECT_EQ(client.post(kChat, "{", "X-Request-Id: c\r\n")->headers.at("x-request-id"), "c");
  EXPECT_EQ(client.get("/nothing", "X-Request-Id: d\r\n")->headers.at("x-request-id"), "d");
  const std::string first = client.get("/health")->headers.at("x-request-id");
  EXPECT_THAT(first, ::testing::StartsWith("req-"));
  EXPECT_NE(client.get("/health")->headers.at("x-request-id"), first);
  const std::string odd = "X-Request-Id: " + std::string(200, 'x') + "\r\n";
  EXPECT_THAT(client.get("/health", odd)->headers.at("x-request-id"),
              ::testing::StartsWith("req-"));
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

TEST(Server, SaysWhatItDidWithEachRequest) {
  std::mutex mutex;
  std::vector<RequestRecord> records;
  ServerOptions options;
  options.named_keys = {{"alice", "a-key"}, {"bob", "b-key"}};
  options.on_request = [&](const RequestRecord& record) {
    const std::lock_guard lock(mutex);
    records.push_back(record);
  };
  {
    RunningServer running(FakeEngine::counting, options);
    Client client(running.port);
    EXPECT_EQ(
        client.post(kChat, kHello, "Authorization: Bearer a-key\r\nX-Request-Id: 1\r\n")->status,
        200);
    EXPECT_EQ(client.post(kChat, kStreamed, "X-Api-Key: b-key\r\n")->status, 200);
    EXPECT_EQ(client.post(kChat, kHello, "Authorization: Bearer c-key\r\n")->status, 401);
    Client again(running.port);  // a refusal ends the connection
    EXPECT_EQ(again.get("/health")->status, 200);
    EXPECT_EQ(running.engine.request(0).tenant, "alice");
    EXPECT_EQ(running.engine.request(1).tenant, "bob");
    const auto named =
        again.post(kCompletions, R"({"prompt":"a","user":"u"})", "X-Api-Key: b-key\r\n");
    EXPECT_EQ(named->status, 200);
    EXPECT_EQ(running.engine.request(2).tenant, "bob/u");
  }
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[0].id, "1");
  EXPECT_EQ(records[0].key, "alice");
  EXPECT_EQ(records[0].method, "POST");
  EXPECT_EQ(records[0].route, "/v1/chat/completions");
  EXPECT_EQ(records[0].finish, "length");
  EXPECT_EQ(records[0].completion_tokens, 3U);
  EXPECT_GT(records[0].prompt_tokens, 0U);
  EXPECT_GT(records[0].seconds, 0.0);
  EXPECT_EQ(records[1].key, "bob");
  EXPECT_EQ(records[1].completion_tokens, 3U);
  EXPECT_EQ(records[2].status, 401);
  EXPECT_EQ(records[2].key, "");
  EXPECT_EQ(records[3].route, "/health");
  EXPECT_EQ(records[3].finish, "");
}

TEST(Server, SaysHowBusyItsEngineIs) {
  EngineStats before;
  before.prompt_tokens = 100;
  before.cached_tokens = 10;
  EXPECT_FALSE(throughput(before, before, 1.0).has_value());
  EngineStats now = before;
  now.prompt_tokens += 60;
  now.recomputed_tokens += 20;
  now.cached_tokens += 10;
  now.generated_tokens += 8;
  now.running = 2;
  now.waiting = 3;
  now.kv_blocks = 8;
  now.kv_blocks_used = 2;
  const auto record = throughput(before, now, 4.0);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->prompt_tokens, 15.0);
  EXPECT_EQ(record->generated_tokens, 2.0);
  EXPECT_EQ(record->running, 2U);
  EXPECT_EQ(record->waiting, 3U);
  EXPECT_EQ(record->cache_used, 0.25);
  EXPECT_EQ(record->prefix_hits, 0.2);

  // Of a server: while tokens come, and not after.
  std::atomic<std::uint64_t> tokens = 0;
  std::mutex mutex;
  std::vector<ThroughputRecord> records;
  ServerOptions options;
  options.throughput_interval = std::chrono::milliseconds(5);
  options.on_throughput = [&](const ThroughputRecord& record) {
    const std::lock_guard lock(mutex);
    records.push_back(record);
  };
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return records.size();
  };
  const auto change = [&](Backend& backend) {
    backend.stats = [&] {
      EngineStats stats;
      stats.generated_tokens = tokens;
      return stats;
    };
  };
  RunningServer running(FakeEngine::counting, options, false, change);
  for (std::size_t round = 1; round <= 2; ++round) {
    tokens += 5;
    while (count() < round) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  running.stop();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].generated_tokens, 1000.0);
}

// Under the names that dashboards know; a histogram's buckets add up.
TEST(Server, CountsLatenciesAsVllmDoes) {
  const auto script = [](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    for (int i = 0; i < 3; ++i) {
      engine.emit(accepted.id, token("x"));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    engine.finish(accepted.id, 0, FinishReason::kLength);
  };
  RunningServer running(script);
  Client client(running.port);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(client.post(kChat, i % 2 == 0 ? kHello : kStreamed)->status, 200);
  const std::string text = client.get("/metrics")->body;
  EXPECT_THAT(text, HasSubstr("vllm:time_to_first_token_seconds_count{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("vllm:inter_token_latency_seconds_count{model_name=\"fake\"} 8\n"));
  EXPECT_THAT(
      text,
      HasSubstr("vllm:inter_token_latency_seconds_bucket{le=\"+Inf\",model_name=\"fake\"} 8\n"));
  EXPECT_THAT(
      text,
      HasSubstr("vllm:inter_token_latency_seconds_bucket{le=\"0.001\",model_name=\"fake\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("vllm:e2e_request_latency_seconds_count{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_queue_time_seconds_count{model_name=\"fake\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_running{model_name=\"fake\"} "));
  EXPECT_THAT(text, HasSubstr("vllm:cache_config_info{block_size=\"16\","));
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

struct BadRequest {
  const char* text;
  int status;
  const char* code;
};
void PrintTo(const BadRequest& bad, std::ostream* out) { *out << bad.text; }

class RefusedHead : public ::testing::TestWithParam<BadRequest> {};
TEST_P(RefusedHead, HasItsStatusAndOpenAisShape) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  RunningServer running(FakeEngine::counting, options);
  Client client(running.port);
  ASSERT_TRUE(client.send(GetParam().text));
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, GetParam().status);
  const auto error = response->json().at("error");
  EXPECT_EQ(error.at("code"), GetParam().code);
  EXPECT_FALSE(error.at("message").get<std::string>().empty());
  EXPECT_TRUE(error.contains("type") && error.contains("param"));
}

#define JSON_TYPE "Content-Type: application/json\r\n"
INSTANTIATE_TEST_SUITE_P(
    Heads, RefusedHead,
    ::testing::Values(
        BadRequest{"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "unknown_path"},
        BadRequest{"GET /v1/models/other HTTP/1.1\r\nHost: localhost\r\n\r\n", 404,
                   "model_not_found"},
        BadRequest{"GET /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", 405,
                   "method_not_allowed"},
        BadRequest{"DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed"},
        BadRequest{"OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", 405,
                   "method_not_allowed"},
        BadRequest{
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", 415,
            "unsupported_media_type"},
        BadRequest{
            "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
            "Content-Length: 2\r\n\r\n{}",
            415, "unsupported_media_type"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
                   415, "unsupported_content_encoding"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Content-Length: 1001\r\n\r\n",
                   413, "body_too_large"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Content-Length: 9999999999999999999\r\n\r\n",
                   413, "body_too_large"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Transfer-Encoding: chunked\r\n\r\n3e9\r\n",
                   413, "body_too_large"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                   400, "bad_http"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
                   400, "bad_http"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Content-Length: -1\r\n\r\n",
                   400, "bad_http"},
        BadRequest{"GET /health HTTP/1.1\r\n\r\n", 400, "bad_http"},
        BadRequest{"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400,
                   "bad_http"},
        BadRequest{"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "host_not_allowed"},
        BadRequest{"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400,
                   "bad_http"},
        BadRequest{"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n", 413,
                   "body_not_expected"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Transfer-Encoding: gzip\r\n\r\n",
                   501, "unsupported_transfer_encoding"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Transfer-Encoding: chunked\r\n\r\n0x10\r\n",
                   400, "bad_http"},
        BadRequest{"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
                   "Transfer-Encoding: chunked\r\n\r\n3Agarbage\r\n",
                   400, "bad_http"},
        BadRequest{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_http"},
        BadRequest{"\x16\x03\x01\x02 hello\r\n\r\n", 400, "bad_http"}));

TEST(Server, AHugeHeadIs431) {
  RunningServer running;
  Client client(running.port);
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20000, 'x') +
              "\r\n\r\n");
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 431);
}

TEST(Server, ATooLargeBodyIsRefusedBeforeItIsRead) {
  RunningServer running;
  Client client(running.port);
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
              "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 413);
  EXPECT_THAT(response->json()["error"]["message"].get<std::string>(),
              HasSubstr("99999999 bytes; expected at most 8388608"));
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

TEST(Server, AsksForTheKey) {
  ServerOptions options;
  options.api_key = "secret";
  RunningServer running(FakeEngine::counting, options);
  for (const char* header :
       {"", "Authorization: Bearer\r\n", "Authorization: Bearer wrong!\r\n",
        "Authorization: Bearer secre\r\n", "Authorization: Bearer secretsecret\r\n",
        "Authorization: Basic secret\r\n", "Authorization: secret\r\n"}) {
    Client client(running.port);
    const auto response = client.get("/v1/models", header);
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 401) << header;
    EXPECT_EQ(response->headers.at("www-authenticate"), "Bearer");
    EXPECT_EQ(response->json()["error"]["type"], "authentication_error");
  }
  Client client(running.port);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer secret\r\n")->status, 200);
  EXPECT_EQ(client.get("/v1/models", "authorization: bearer  secret \r\n")->status, 200);
  EXPECT_EQ(client.get("/health")->status, 200);
  EXPECT_EQ(client.post(kChat, kHello)->status, 401);
}

TEST(Server, ListsItsModel) {
  ServerOptions options;
  options.served_model_name = "org/name v2";
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

TEST(Server, AHungEngineIsNotHealthy) {
  RunningServer running;
  running.engine.set_health({false, "no step"});
  const auto response = Client(running.port).get("/health");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->body, R"({"status":"failing","reason":"no step"})");
}

TEST(Server, TellsTheEnginesRefusals) {
  RunningServer running;
  struct Case {
    Error error;
    int status;
    bool retry;
  };
  for (const Case& each : {Case{{ErrorKind::kExhausted, "the queue is full"}, 429, true},
                           Case{{ErrorKind::kUnavailable, "draining"}, 503, true},
                           Case{{ErrorKind::kInvalid, "can never fit"}, 400, false},
                           Case{{ErrorKind::kTimeout, "too late"}, 504, false},
                           Case{{ErrorKind::kInternal, "broken"}, 500, false}}) {
    running.engine.refuse_with(each.error);
    for (const char* body : {kHello, kStreamed}) {
      Client client(running.port);
      const auto response = client.post(kChat, body);
      ASSERT_TRUE(response.has_value());
      EXPECT_EQ(response->status, each.status);
      EXPECT_EQ(response->json()["error"]["message"], each.error.message);
      EXPECT_EQ(response->headers.count("retry-after") != 0, each.retry);
    }
  }
}

TEST(Server, BlamesTheFieldThatTheEngineBlames) {
  RunningServer running;
  running.engine.refuse_with({ErrorKind::kInvalid, "prompt: 9 tokens need 3 blocks of 2"});
  Client client(running.port);
  EXPECT_EQ(client.post(kChat, kHello)->json()["error"]["param"], "messages");
  EXPECT_EQ(client.post(kCompletions, R"({"prompt":"a"})")->json()["error"]["param"], "prompt");
}

TEST(Server, ARefusalIsOfAllPromptsOfARequest) {
  RunningServer running(FakeEngine::silent);
  running.engine.refuse_with({ErrorKind::kExhausted, "the queue is full"});
  Client client(running.port);
  const auto response = client.post(kCompletions, R"({"prompt":["a","b"]})");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(running.engine.submitted(), 0U);
}

// The engine ends what is late with kError and kTimeout.
TEST(Server, ATimeoutIsAn504OrTheStreamsLastEventButDone) {
  RunningServer running([](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    EXPECT_EQ(accepted.request.timeout, std::chrono::milliseconds(500));
    engine.emit(accepted.id, token("x"));
    OutputEvent late;
    late.finish = FinishReason::kError;
    late.error = {ErrorKind::kTimeout, "the request took longer than 500 ms"};
    engine.emit(accepted.id, late);
  });
  Client client(running.port);
  const std::string fields = R"("timeout":0.5,"messages":[{"role":"user","content":"hi"}])";
  const auto whole = client.post(kChat, "{" + fields + "}");
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->status, 504);
  EXPECT_EQ(
      whole->json()["error"].dump(),
      R"({"code":"timeout","message":"the request took longer than 500 ms","param":"timeout",)"
      R"("type":"timeout_error"})");
  const auto streamed = client.post(kChat, R"({"stream":true,)" + fields + "}");
  ASSERT_TRUE(streamed.has_value());
  EXPECT_EQ(streamed->status, 200);
  const auto events = streamed->events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(nlohmann::json::parse(events[2])["error"]["code"], "timeout");
  EXPECT_EQ(events[3], "[DONE]");
}

TEST(Server, AFailureInAStreamIsItsLastEventButDone) {
  RunningServer running([](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    engine.emit(accepted.id, token("x"));
    engine.finish(accepted.id, 0, FinishReason::kError);
  });
  Client client(running.port);
  const auto response = client.post(kChat, kStreamed);
  ASSERT_TRUE(response.has_value());
  const auto events = response->events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(nlohmann::json::parse(events[2])["error"]["message"], "the model broke");
  EXPECT_EQ(events[3], "[DONE]");
  const auto whole = client.post(kChat, kHello);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->status, 500);
}

TEST(Server, AClientThatLeavesItsStreamIsCancelled) {
  RunningServer running([](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    engine.emit(accepted.id, token("first"));
  });
  for (const bool hard : {false, true}) {
    Client client(running.port);
    client.send(post_text(kChat, kStreamed));
    ASSERT_TRUE(client.receive_until("first"));
    hard ? client.reset() : client.close();
    EXPECT_TRUE(running.engine.wait_cancelled(hard ? 2 : 1));
  }
  EXPECT_EQ(metric(running.port, "http_disconnects_total"), "2");
}

TEST(Server, AClientThatLeavesWhileItWaitsIsCancelled) {
  RunningServer running(FakeEngine::silent);
  std::size_t expected = 0;
  for (const char* body : {kHello, kStreamed}) {
    Client client(running.port);
    client.send(post_text(kChat, body));
    ASSERT_TRUE(running.engine.wait_submitted(++expected));
    client.close();
    EXPECT_TRUE(running.engine.wait_cancelled(expected));
  }
  // All choices of all prompts go with their client.
  Client client(running.port);
  client.send(post_text(kCompletions, R"({"prompt":["a","b","c"],"n":2})"));
  ASSERT_TRUE(running.engine.wait_submitted(expected + 3));
  client.close();
  EXPECT_TRUE(running.engine.wait_cancelled(expected + 3));
}

TEST(Server, PipelinedInputDoesNotHideADisconnect) {
  RunningServer running(FakeEngine::silent);
  Client client(running.port);
  client.send(post_text(kChat, kHello) + post_text(kChat, kHello));
  ASSERT_TRUE(running.engine.wait_submitted(1));
  client.close();
  EXPECT_TRUE(running.engine.wait_cancelled(1));
  EXPECT_EQ(running.engine.submitted(), 1U);
}

TEST(Server, AReaderThatDoesNotReadIsCutOff) {
  ServerOptions options;
  options.max_stream_bytes = 100'000;
  RunningServer running(
      [](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
        // More than any socket's buffers take; the engine is never held up by it.
        for (int i = 0; i < 400 && engine.cancelled() == 0; ++i) {
          for (int j = 0; j < 50; ++j) engine.emit(accepted.id, token(std::string(1000, 'x')));
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      },
      options);
  Client client(running.port, 4096);
  client.send(post_text(kChat, kStreamed));
  EXPECT_TRUE(running.engine.wait_cancelled(1));
  EXPECT_EQ(metric(running.port, "http_slow_readers_total"), "1");
  EXPECT_TRUE(client.receive_end());
  EXPECT_EQ(metric(running.port, "http_disconnects_total"), "0");  // it was sent away
}

TEST(Server, ASlowHeadIsCutOff) {
  ServerOptions options;
  options.header_timeout = std::chrono::milliseconds(50);
  options.body_timeout = std::chrono::milliseconds(50);
  RunningServer running(FakeEngine::counting, options);
  Client idle(running.port);
  EXPECT_TRUE(idle.receive_end());
  Client slow(running.port);
  slow.send("GET /hea");
  EXPECT_TRUE(slow.receive_end());
  Client body(running.port);
  body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" JSON_TYPE
            "Content-Length: 10\r\n\r\n{");
  EXPECT_TRUE(body.receive_end());
}

TEST(Server, WhatIsNotReadIsCutOffInTime) {
  ServerOptions options;
  options.write_timeout = std::chrono::milliseconds(50);
  RunningServer running(
      [](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
        engine.emit(accepted.id, token(std::string(32 << 20, 'x')));
        engine.finish(accepted.id, 0, FinishReason::kStop);
      },
      options);
  Client client(running.port, 4096);
  client.send(post_text(kChat, kHello) + "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(running.engine.wait_submitted(1));
  while (metric(running.port, "http_connections") != "1") {
  }
}

TEST(Server, ConnectionsAreBounded) {
  ServerOptions options;
  options.max_connections = 2;
  RunningServer running(FakeEngine::silent, options);
  Client first(running.port);
  Client second(running.port);
  first.send(post_text(kChat, kHello));
  second.send(post_text(kChat, kHello));
  ASSERT_TRUE(running.engine.wait_submitted(2));
  {
    Client third(running.port);
    const auto response = third.get("/health");
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 503);
    EXPECT_EQ(response->headers.at("retry-after"), "1");
    EXPECT_EQ(response->json()["error"]["code"], "too_many_connections");
  }
  second.close();
  // The place is free as soon as the server has seen the end.
  for (int status = 0; status != 200;) {
    Client again(running.port);
    const auto response = again.get("/health");
    status = response ? response->status : 0;
  }
}

TEST(Server, DrainsWhatItHasAcceptedAndRefusesTheRest) {
  RunningServer running(FakeEngine::silent);
  Client old(running.port);
  old.send(post_text(kChat, kStreamed));
  Client whole(running.port);
  whole.send(post_text(kChat, kHello));
  ASSERT_TRUE(running.engine.wait_submitted(2));
  Client idle(running.port);
  ASSERT_EQ(idle.get("/health")->status, 200);

  running.server->drain();
  for (int status = 0; status != 503;) status = Client(running.port).get("/health")->status;
  EXPECT_EQ(Client(running.port).get("/health")->json()["status"], "draining");
  const auto refused = Client(running.port).post(kChat, kHello);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->headers.at("retry-after"), "5");

  running.engine.run([&running] {
    for (const RequestId id : {RequestId{1}, RequestId{2}}) {
      running.engine.emit(id, token("late"));
      running.engine.finish(id, 0, FinishReason::kStop);
    }
  });
  const auto response = old.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_THAT(response->body, HasSubstr("late"));
  EXPECT_EQ(response->events().back(), "[DONE]");
  EXPECT_EQ(whole.receive()->json()["choices"][0]["message"]["content"], "late");
  old.close();
  whole.close();
  EXPECT_TRUE(idle.receive_end());
  running.thread.join();
}

TEST(Server, ADrainsLimitEndsStreamsWithAnError) {
  ServerOptions options;
  options.drain_limit = std::chrono::milliseconds(20);
  RunningServer running(FakeEngine::silent, options);
  Client client(running.port);
  client.send(post_text(kChat, kStreamed));
  ASSERT_TRUE(running.engine.wait_submitted(1));
  running.server->drain();
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  const auto events = response->events();
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(events[events.size() - 2])["error"]["code"], "unavailable");
  EXPECT_EQ(events.back(), "[DONE]");
  client.close();
  running.thread.join();
}

TEST(Server, StopsAtOnceWithAllThatIsOpen) {
  RunningServer running(FakeEngine::silent);
  Client client(running.port);
  client.send(post_text(kChat, kStreamed));
  ASSERT_TRUE(running.engine.wait_submitted(1));
  running.server->drain();
  running.stop();
  EXPECT_TRUE(client.receive_end());
  EXPECT_TRUE(running.engine.wait_cancelled(1));
}

TEST(Server, TheFirstSignalDrainsAndTheSecondStops) {
  RunningServer running(FakeEngine::silent, {}, true);
  Client client(running.port);
  client.send(post_text(kChat, kStreamed));
  ASSERT_TRUE(running.engine.wait_submitted(1));
  ASSERT_EQ(::kill(::getpid(), SIGTERM), 0);
  for (int status = 0; status != 503;) status = Client(running.port).get("/health")->status;
  EXPECT_EQ(running.engine.cancelled(), 0U);
  ASSERT_EQ(::kill(::getpid(), SIGINT), 0);
  EXPECT_TRUE(client.receive_end());
  EXPECT_TRUE(running.engine.wait_cancelled(1));
  running.thread.join();
}

TEST(Server, MayBeDroppedWithoutRunning) {
  FakeEngine engine;
  ServerOptions options;
  options.port = 0;
  options.handle_signals = false;
  auto server = Server::create(engine.backend(), options);
  ASSERT_TRUE(server.has_value());
  EXPECT_THAT((*server)->url(), HasSubstr("http://127.0.0.1:"));
  EXPECT_NE((*server)->port(), 0);
}

TEST(Server, SaysWhyItCannotListen) {
  FakeEngine engine;
  ServerOptions options;
  options.port = 0;
  options.handle_signals = false;
  auto first = Server::create(engine.backend(), options);
  ASSERT_TRUE(first.has_value());
  options.port = (*first)->port();
  const auto second = Server::create(engine.backend(), options);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().kind, ErrorKind::kIo);
  EXPECT_THAT(second.error().message, HasSubstr("cannot listen on 127.0.0.1 port"));
  options.host = "256.1.1.1.1";
  EXPECT_EQ(Server::create(engine.backend(), options).error().kind, ErrorKind::kIo);
}

TEST(Server, TokenizesAndDetokenizes) {
  RunningServer running;
  Client client(running.port);
  EXPECT_EQ(client.post("/tokenize", R"({"content":"ab"})")->json()["count"], 3);
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[104,105]})")->json()["content"], "hi");
}

}  // namespace
}  // namespace dovetail::serve
