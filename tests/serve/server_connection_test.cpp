// Clients that leave, do not read, say nothing or are too many.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

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

}  // namespace
}  // namespace dovetail::serve
