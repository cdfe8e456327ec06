// What clients that mean harm, or just many clients, can take from the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <new>

#include "serve/body_budget.h"
#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kBody = R"({"prompt":"a","max_tokens":1})";

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

struct Flood {
  const char* name;
  const char* begin;  // of the request, sent once
  const char* piece;  // sent over and over
  int status;
};
void PrintTo(const Flood& flood, std::ostream* out) { *out << flood.name; }

#define CHUNKED_POST                                     \
  "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" \
  "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNKED_HEALTH \
  "GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

class Flooded : public ::testing::TestWithParam<Flood> {};
TEST_P(Flooded, TakesBoundedMemoryAndSaysNo) {
  const Flood& flood = GetParam();
  ServerOptions options;
  options.max_body_bytes = 100'000;
  if (std::string_view(flood.begin).starts_with("GET")) options.api_key = "not presented";
  RunningServer running(FakeEngine::counting, options);
  std::string megabyte;
  while (megabyte.size() < kMiB) megabyte += flood.piece;
  const std::size_t before = resident_bytes();
  Client client(running.port);
  ASSERT_TRUE(client.send(flood.begin));
  client.send(megabyte);
  const auto response = client.receive();
  for (int i = 0; i < 64 && client.send(megabyte); ++i) {
  }
  const std::size_t after = resident_bytes();
  EXPECT_LT(after, before + 24 * kMiB);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, flood.status) << response->body;
  EXPECT_EQ(response->headers.at("connection"), "close");
  EXPECT_EQ(Client(running.port).get("/health")->status, 200);
}

INSTANTIATE_TEST_SUITE_P(
    By, Flooded,
    ::testing::Values(Flood{"extension", CHUNKED_POST "1;", "x", 413},
                      Flood{"digits", CHUNKED_POST, "0", 400},
                      Flood{"trailers", CHUNKED_POST "0\r\n", "T: abcdefgh\r\n", 431},
                      Flood{"one trailer", CHUNKED_POST "0\r\nT: ", "x", 431},
                      Flood{"small chunks", CHUNKED_POST,
                            "1;"
                            "xxxxxxxxxxxxxxxxxxxx"
                            "\r\n \r\n",
                            413},
                      Flood{"extension to health", CHUNKED_HEALTH "1;", "x", 413},
                      Flood{"digits to health", CHUNKED_HEALTH, "0", 413},
                      Flood{"trailers to health", CHUNKED_HEALTH "0\r\n", "T: abcdefgh\r\n", 413},
                      Flood{"chunks to health", CHUNKED_HEALTH, "4\r\nabcd\r\n", 413},
                      Flood{"head", "GET /health HTTP/1.1\r\n", "T: abcdefgh\r\n", 431},
                      Flood{"empty lines", "\r\n", "\r\n", 431}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(Limits, ABodyWithGetIsRefusedByTheHead) {
  RunningServer running;
  for (const char* method : {"GET", "HEAD"}) {
    Client client(running.port);
    client.send(
        fmt::format("{} /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n", method));
    const auto response = client.receive(true);
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->status, 413);
  }
  Client client(running.port);
  EXPECT_EQ(client.get("/health", "Content-Length: 0\r\n")->status, 200);
}

TEST(Limits, ABudgetIsGivenBackWithTheBodies) {
  BodyBudget budget(10'000);
  {
    RequestBody first(budget);
    EXPECT_TRUE(first.append("abc", 6000));
    EXPECT_EQ(first.view(), "abc");
    EXPECT_TRUE(first.append(std::string(5000, 'x'), 6000));
    EXPECT_EQ(budget.used(), 6000U);
    RequestBody second(budget);
    EXPECT_FALSE(second.append(std::string(4001, 'y'), 8000));
    EXPECT_EQ(second.view(), "");
    EXPECT_TRUE(second.append(std::string(4000, 'y'), 4000));
    EXPECT_EQ(budget.used(), 10'000U);
    RequestBody moved(std::move(first));
    EXPECT_EQ(moved.view().size(), 5003U);
    moved = std::move(second);
    EXPECT_EQ(budget.used(), 4000U);
  }
  EXPECT_EQ(budget.used(), 0U);
}

TEST(Limits, UnfinishedBodiesShareABudget) {
  ServerOptions options;
  options.max_body_bytes = kMiB;
  options.max_pending_body_bytes = 2 * kMiB;
  RunningServer running(FakeEngine::counting, options);
  std::string begun =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 1048576\r\n\r\n";
  begun.append(1'048'575, ' ');
  // Two of three such bodies have room; which two is the order in which they are read.
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::optional<ClientResponse>> responses(3);
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0;
  for (auto& response : responses) {
    clients.push_back(std::make_unique<Client>(running.port));
    threads.emplace_back([&begun, &answered, &response, client = clients.back().get()] {
      client->send(begun);
      response = client->receive();
      ++answered;
    });
  }
  while (answered == 0) std::this_thread::yield();
  EXPECT_EQ(Client(running.port).get("/health")->status, 200);  // what has no body is answered
  for (auto& client : clients) client->finish_sending();
  for (auto& thread : threads) thread.join();
  int refused_count = 0;
  for (const auto& response : responses) {
    if (!response) continue;
    ++refused_count;
    EXPECT_EQ(response->status, 503);
    EXPECT_EQ(response->headers.at("retry-after"), "1");
    EXPECT_EQ(response->json()["error"]["code"], "too_many_bodies");
  }
  EXPECT_EQ(refused_count, 1);
  // What they took is given back.
  EXPECT_EQ(Client(running.port).post("/v1/completions", kBody)->status, 200);
  options.max_pending_body_bytes = kMiB - 1;
  const auto refused = Server::create(running.engine.backend(), options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("max_pending_body_bytes is 1048575; expected"));
}

TEST(Limits, WhatThrowsCostsItsConnectionAlone) {
  FakeEngine engine(FakeEngine::silent);
  Backend backend = engine.backend();
  std::atomic<int> cancelled = 0;
  std::atomic<bool> broken = true;
  backend.cancel = [&cancelled](RequestId) {
    ++cancelled;
    throw std::bad_alloc();
  };
  backend.health = [&broken](std::chrono::milliseconds) -> EngineHealth {
    if (broken) throw std::bad_alloc();
    return {};
  };
  backend.encode = [](std::string_view, bool, bool) -> std::vector<TokenId> { throw 7; };
  ServerOptions options;
  options.port = 0;
  options.handle_signals = false;
  auto server = Server::create(std::move(backend), options);
  ASSERT_TRUE(server.has_value());
  const std::uint16_t port = (*server)->port();
  Status status = fail(ErrorKind::kInternal, "did not run");
  std::thread thread([&] { status = (*server)->run(); });

  const std::string request = R"({"prompt":[1],"max_tokens":9,"stream":true})";
  Client other(port);
  EXPECT_EQ(other.get("/v1/models")->status, 200);
  {  // In the handler of the read that notices the client's end.
    Client client(port);
    client.send(post_text("/v1/completions", request));
    ASSERT_TRUE(engine.wait_submitted(1));
    client.close();
    while (cancelled < 1) std::this_thread::yield();
  }
  // In the coroutine.
  EXPECT_FALSE(Client(port).get("/health").has_value());
  // On a worker, and no standard exception.
  const auto response = Client(port).post("/v1/completions", R"({"prompt":"a"})");
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 500);
  broken = false;
  EXPECT_EQ(Client(port).get("/health")->status, 200);
  EXPECT_EQ(other.get("/v1/models")->status, 200);
  (*server)->stop();
  thread.join();
  EXPECT_TRUE(status.has_value());
}

TEST(Limits, KeptConnectionsGiveWayOldestFirst) {
  ServerOptions options;
  options.max_connections = 3;
  RunningServer running(FakeEngine::silent, options);
  Client busy(running.port);
  ASSERT_TRUE(busy.send(post_text("/v1/completions", kBody)));
  ASSERT_TRUE(running.engine.wait_submitted(1));
  Client first(running.port);
  Client second(running.port);
  ASSERT_EQ(first.get("/health")->status, 200);
  ASSERT_EQ(second.get("/health")->status, 200);
  ASSERT_EQ(first.get("/health")->status, 200);  // so that `second` waits longer
  Client third(running.port);
  EXPECT_EQ(third.get("/health")->status, 200);
  EXPECT_TRUE(second.receive_end());
  EXPECT_EQ(first.get("/health")->status, 200);
  EXPECT_EQ(third.get("/health")->status, 200);
  EXPECT_EQ(running.engine.cancelled(), 0U);
  // A request that is begun holds its place.
  const std::string health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (Client* client : {&first, &third}) {
    ASSERT_TRUE(client->send(health + health.substr(0, 9)));
    EXPECT_EQ(client->receive()->status, 200);
  }
  Client fourth(running.port);
  EXPECT_EQ(fourth.get("/health")->status, 503);
  ASSERT_TRUE(first.send(health.substr(9)));
  EXPECT_EQ(first.receive()->status, 200);
}

TEST(Limits, WithoutAKeyOnlyTheLoopbacksNamesAreHosts) {
  RunningServer open;
  const auto ask = [](const RunningServer& running, const std::string& target,
                      const std::string& host) {
    Client client(running.port);
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", target, host));
    const auto response = client.receive();
    return response ? response->status : 0;
  };
  for (const char* host :
       {"localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000"}) {
    EXPECT_EQ(ask(open, "/v1/models", host), 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example", "",
                           "127.0.0.1.evil.example", "xlocalhost", "0.0.0.0"}) {
    EXPECT_EQ(ask(open, "/v1/models", host), 403) << host;
    EXPECT_EQ(ask(open, "/health", host), 403) << host;
  }
  EXPECT_EQ(ask(open, "http://localhost:1/v1/models", "evil.example"), 200);
  EXPECT_EQ(ask(open, "http://evil.example/v1/models", "localhost"), 403);
  Client old(open.port);
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive()->status, 200);

  ServerOptions options;
  options.host = "127.0.0.5";
  RunningServer other(FakeEngine::counting, options);
  EXPECT_NE(other.port, 0);
  options.host = "127.0.0.1";
  options.api_key = "secret";
  RunningServer keyed(FakeEngine::counting, options);
  EXPECT_EQ(ask(keyed, "/health", "any.example"), 200);
  options.api_key.clear();
  options.host = "0.0.0.0";
  RunningServer everywhere(FakeEngine::counting, options);
  EXPECT_EQ(ask(everywhere, "/health", "any.example"), 200);
}

}  // namespace
}  // namespace dovetail::serve
