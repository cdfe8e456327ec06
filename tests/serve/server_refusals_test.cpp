// What a server refuses, by itself or for its engine, and how it says what failed.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

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
        BadRequest{"GET /health HTTP/1.1\r\nHost: local\r\n\r\n", 403, "host_not_allowed"},
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

std::string error_of(const std::optional<ClientResponse>& response) {
  return response ? response->json()["error"]["message"].get<std::string>() : "no response";
}

TEST(Server, SaysWhichRouteMayHaveBeenMeant) {
  RunningServer running;
  struct Case {
    const char *method, *path, *message;
  };
  for (const Case& each : {
           Case{"GET", "/v1/chat/completion?a=b",
                "there is no /v1/chat/completion; did you mean /v1/chat/completions, /completion"},
           Case{"GET", "/v1/tokenise",
                "there is no /v1/tokenise; did you mean /tokenize, /detokenize"},
           Case{"GET", "/heath", "there is no /heath; did you mean /health"},
           Case{"GET", "/v1/audio/transcriptions",
                "there is no /v1/audio/transcriptions; expected a route that docs/api.md lists, "
                "such as /v1/chat/completions, /v1/models or /health"},
           Case{"POST", "/v1/responses/compact",
                "there is no POST /v1/responses/compact; expected a route that docs/api.md lists, "
                "such as /v1/chat/completions, /v1/models or /health"},
       }) {
    Client client(running.port);
    ASSERT_TRUE(client.send(
        fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n\r\n", each.method, each.path)));
    const auto response = client.receive();
    EXPECT_EQ(error_of(response), each.message);
    EXPECT_EQ(response->status, 404);
  }
  // Other methods are refused there by the route.
  Client client(running.port);
  ASSERT_TRUE(client.send("PUT /v1/responses/x HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(client.receive()->status, 405);
}

TEST(Server, SaysHowJsonIsSent) {
  RunningServer running;
  for (const auto& [header, said] :
       {std::pair{"", "missing"}, std::pair{"Content-Type: text/plain\r\n", "\"text/plain\""}}) {
    Client client(running.port);
    ASSERT_TRUE(client.send(fmt::format(
        "POST /api/chat HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 2\r\n\r\n{{}}", header)));
    const auto response = client.receive();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 415);
    EXPECT_EQ(response->json()["error"],
              fmt::format("Content-Type is {}; expected application/json (curl: -H 'Content-Type: "
                          "application/json')",
                          said));
  }
}

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

}  // namespace
}  // namespace dovetail::serve
