#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "dovetail/server.h"
#include "serve/fake_engine.h"
#include "serve/http_client.h"

namespace dovetail::serve {

// What tests ask a server: routes, and bodies of chats.
inline constexpr const char* kCompletions = "/v1/completions";
inline constexpr const char* kChat = "/v1/chat/completions";
inline constexpr const char* kHello =
    R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":3})";
inline constexpr const char* kStreamed =
    R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true})";

// A server on a free port of the loopback, in front of a fake engine.
class RunningServer {
 public:
  explicit RunningServer(FakeEngine::Script script = FakeEngine::counting,
                         ServerOptions options = {}, bool handle_signals = false,
                         const std::function<void(Backend&)>& change = nullptr)
      : engine(std::move(script)) {
    options.port = 0;
    options.handle_signals = handle_signals;
    Backend backend = engine.backend();
    if (change) change(backend);
    auto created = Server::create(std::move(backend), options);
    if (!created) {
      ADD_FAILURE() << created.error().message;
      return;
    }
    server = std::move(*created);
    port = server->port();
    thread = std::thread([this] {
      const Status status = server->run();
      EXPECT_TRUE(status.has_value());
    });
  }

  ~RunningServer() { stop(); }

  void stop() {
    if (!thread.joinable()) return;
    server->stop();
    thread.join();
  }

  FakeEngine engine;
  std::unique_ptr<Server> server;
  std::uint16_t port = 0;
  std::thread thread;
};

}  // namespace dovetail::serve
