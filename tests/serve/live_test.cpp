#include "serve/live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kEvents = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";

json json_of(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: ")) << event;
  EXPECT_TRUE(event.ends_with("}\n\n")) << event;
  return json::parse(event.substr(6));
}

ServerOptions often(std::uint32_t listeners = 16) {
  ServerOptions options;
  options.live_interval = std::chrono::milliseconds(5);
  options.max_listeners = listeners;
  return options;
}

// Asks until there is an answer of that status, since the server notices a client's end by and by.
bool becomes(std::uint16_t port, int status) {
  for (int round = 0; round < 1000; ++round) {
    Client client(port);
    if (!client.send(kEvents)) return false;
    const auto head = client.receive(true);
    if (head && head->status == status) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(LiveEvent, SaysWhatHappenedBetweenTwoSnapshots) {
  LiveSnapshot before;
  before.stats.steps = 10;
  before.stats.mixed_steps = 1;
  before.stats.step_seconds = 1.0;
  before.stats.prompt_tokens = 100;
  before.stats.generated_tokens = 50;
  before.stats.cached_tokens = 5;
  before.stats.preemptions = 2;
  before.first_token.add(7.0);
  LiveSnapshot now = before;
  now.time += std::chrono::seconds(2);
  now.stats.steps += 4;
  now.stats.mixed_steps += 1;
  now.stats.step_seconds += 0.5;
  now.stats.prompt_tokens += 30;
  now.stats.generated_tokens += 8;
  now.stats.cached_tokens += 16;
  now.stats.preemptions += 3;
  now.stats.running = 4;
  now.stats.waiting = 5;
  now.stats.kv_blocks = 100;
  now.stats.kv_blocks_used = 25;
  now.stats.kv_blocks_cached = 12;
  now.first_token.add(0.3, 3);
  now.between_tokens.add(0.02, 95);
  now.between_tokens.add(0.3, 5);
  const json event = json_of(live_event(before, now, false));
  EXPECT_EQ(event["seconds"], 2.0);
  EXPECT_EQ(event["running"], 4);
  EXPECT_EQ(event["waiting"], 5);
  EXPECT_EQ(event["kv_blocks"], 100);
  EXPECT_EQ(event["kv_blocks_used"], 25);
  EXPECT_EQ(event["kv_blocks_cached"], 12);
  EXPECT_EQ(event["prompt_tokens_per_second"], 15.0);
  EXPECT_EQ(event["cached_tokens_per_second"], 8.0);
  EXPECT_EQ(event["generated_tokens_per_second"], 4.0);
  EXPECT_EQ(event["steps"], 4);
  EXPECT_EQ(event["mean_step_seconds"], 0.125);
  EXPECT_EQ(event["mixed_step_share"], 0.25);
  EXPECT_EQ(event["preemptions"], 3);
  EXPECT_EQ(event["draining"], false);
  // Of this time alone: the seven seconds came before.
  EXPECT_EQ(event["first_token"]["count"], 3);
  EXPECT_NEAR(event["first_token"]["mean_seconds"].get<double>(), 0.3, 1e-9);
  EXPECT_EQ(event["first_token"]["p95_seconds"], 0.5);
  EXPECT_EQ(event["between_tokens"]["count"], 100);
  EXPECT_NEAR(event["between_tokens"]["mean_seconds"].get<double>(), 0.034, 1e-9);
  EXPECT_EQ(event["between_tokens"]["p95_seconds"], 0.025);
}

TEST(LiveEvent, HasNullWhereNothingHappened) {
  LiveSnapshot now;
  now.stats.steps = 10;
  now.stats.generated_tokens = 10;
  now.between_tokens.add(1000.0);
  const json none = json_of(live_event(now, now, true));
  for (const char* name : {"mean_step_seconds", "mixed_step_share"})
    EXPECT_TRUE(none[name].is_null()) << name;
  EXPECT_TRUE(none["first_token"]["mean_seconds"].is_null());
  EXPECT_TRUE(none["first_token"]["p95_seconds"].is_null());
  EXPECT_EQ(none["generated_tokens_per_second"], 0.0);
  EXPECT_EQ(none["draining"], true);
  // Beyond the last bound that bound is what is known.
  const json beyond = json_of(live_event({}, now, false));
  EXPECT_EQ(beyond["between_tokens"]["p95_seconds"], 80.0);
}

TEST(Events, ComeToEachListener) {
  RunningServer running(FakeEngine::counting, often());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(running.port));
    ASSERT_TRUE(clients.back()->send(kEvents));
  }
  for (const auto& client : clients) {
    const auto head = client->receive(true);
    ASSERT_TRUE(head.has_value());
    EXPECT_EQ(head->status, 200);
    EXPECT_EQ(head->headers.at("content-type"), "text/event-stream");
    EXPECT_EQ(head->headers.at("cache-control"), "no-cache");
    EXPECT_EQ(head->headers.at("transfer-encoding"), "chunked");
    ASSERT_TRUE(client->receive_until("\"seconds\":0.0,"));
    ASSERT_TRUE(client->receive_until("}\n\n\r\n"));
  }
  // Others are served meanwhile, and the streams are counted under their route.
  EXPECT_THAT(Client(running.port).get("/metrics")->body,
              HasSubstr("dovetail_http_requests_total{code=\"200\",route=\"/events\"} 3\n"));
}

TEST(Events, AreHeadersAloneForHeadAndEndWithTheConnectionForOldClients) {
  RunningServer running(FakeEngine::counting, often());
  Client client(running.port);
  ASSERT_TRUE(client.send("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const auto head = client.receive(true);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(client.get("/health")->status, 200) << "the connection goes on";

  Client old(running.port);
  ASSERT_TRUE(old.send("GET /events HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(old.receive(true)->headers.count("transfer-encoding"), 0U);
  ASSERT_TRUE(old.receive_until("}\n\ndata: {"));
  running.server->drain();
  EXPECT_TRUE(old.receive_end());
}

TEST(Events, HaveSoManyListenersAndNoMore) {
  RunningServer running(FakeEngine::counting, often(2));
  auto first = std::make_unique<Client>(running.port);
  Client second(running.port);
  for (Client* client : {first.get(), &second}) {
    ASSERT_TRUE(client->send(kEvents));
    ASSERT_TRUE(client->receive_until("data: "));
  }
  const auto refused = Client(running.port).get("/events");
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->headers.at("retry-after"), "10");
  EXPECT_EQ(refused->json()["error"]["code"], "too_many_listeners");
  // A listener that goes, by closing or by a reset, makes a place for another one.
  first->close();
  EXPECT_TRUE(becomes(running.port, 200));
  second.reset();
  EXPECT_TRUE(becomes(running.port, 200));
  EXPECT_TRUE(becomes(running.port, 200));
}

TEST(Events, EndWhenTheServerDrains) {
  ServerOptions options;  // an event a second: the drain does not wait for the next one
  options.live_interval = std::chrono::hours(1);
  RunningServer running(FakeEngine::silent, options);
  Client client(running.port);
  ASSERT_TRUE(client.send(kEvents));
  ASSERT_TRUE(client.receive_until("data: "));
  running.server->drain();
  ASSERT_TRUE(client.receive_until("\"draining\":true}\n\n\r\n0\r\n\r\n"));
  client.close();
  running.thread.join();
}

TEST(Events, EndWhenTheServerStops) {
  ServerOptions options;
  options.live_interval = std::chrono::hours(1);
  RunningServer running(FakeEngine::silent, options);
  Client client(running.port);
  ASSERT_TRUE(client.send(kEvents));
  ASSERT_TRUE(client.receive_until("data: "));
  running.stop();
  EXPECT_TRUE(client.receive_end());
}

TEST(Events, AskForTheKey) {
  ServerOptions options = often();
  options.api_key = "secret";
  RunningServer running(FakeEngine::counting, options);
  EXPECT_EQ(Client(running.port).get("/events")->status, 401);
  Client client(running.port);
  ASSERT_TRUE(client.send(
      "GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"));
  EXPECT_EQ(client.receive(true)->status, 200);
}

// What the client sends ahead does not end the stream, nor hurry it.
TEST(Events, GoOnWhileTheClientSends) {
  RunningServer running(FakeEngine::counting, often());
  Client client(running.port);
  ASSERT_TRUE(client.send(kEvents));
  ASSERT_TRUE(client.receive_until("data: "));
  ASSERT_TRUE(client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ASSERT_TRUE(becomes(running.port, 200));  // some events later
  running.server->drain();
  EXPECT_TRUE(client.receive_until("\"draining\":true}"));
}

}  // namespace
}  // namespace dovetail::serve
