// How a server begins to listen, drains and stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace dovetail::serve
