#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace dovetail {

class Engine;

namespace serve {
struct Backend;
}

struct ServerOptions {
  std::string host = "127.0.0.1";  // address or name to bind to
  std::uint16_t port = 8000;       // 0: any free port, see Server::port()
  std::string api_key;             // asked for as "Authorization: Bearer KEY"; empty: none
  std::string served_model_name;   // empty: the model's own name
  std::string chat_template;       // Jinja source in the place of the model's; empty: the model's
  bool handle_signals = true;      // SIGTERM and SIGINT drain; the second one stops at once

  std::size_t max_body_bytes = std::size_t{8} << 20;  // of a request; beyond: 413
  std::size_t max_stream_bytes = std::size_t{1}
                                 << 20;  // events that a slow reader may leave unread
  std::uint32_t max_connections = 1024;  // beyond: 503
  std::uint32_t max_choices = 512;       // prompts times n of one request

  std::chrono::milliseconds header_timeout = std::chrono::seconds(30);  // idle time included
  std::chrono::milliseconds body_timeout = std::chrono::seconds(120);
  std::chrono::milliseconds write_timeout = std::chrono::seconds(60);  // without any progress
  std::chrono::milliseconds drain_limit = std::chrono::minutes(5);     // then what is left is cut
  std::chrono::milliseconds stall = std::chrono::seconds(30);  // no step for so long: not healthy
};

// The OpenAI-compatible HTTP server of one engine. create() binds and listens, run() serves on the
// calling thread until drained or stopped. drain() and stop() may be called from any thread, also
// before run().
class Server {
 public:
  // `engine` must outlive the server. kInvalid: an option out of range or a chat template that does
  // not parse; kIo: the address cannot be bound.
  static Result<std::unique_ptr<Server>> create(Engine& engine, const ServerOptions& options);
  // The same for anything that can stand for an engine.
  static Result<std::unique_ptr<Server>> create(serve::Backend backend,
                                                const ServerOptions& options);

  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;  // the port that is bound
  std::string url() const;     // "http://127.0.0.1:8000"

  // Returns when drained or stopped, with no connection left. An error only if the event loop
  // itself failed.
  Status run();

  // New requests get 503 from now on, accepted ones are finished (at most
  // ServerOptions::drain_limit long), then run() returns.
  void drain();
  // Cancels everything and lets run() return.
  void stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dovetail
