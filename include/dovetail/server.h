#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sampling_table.h"

namespace dovetail {

class Engine;

namespace serve {
struct Backend;
class SocketFile;
}  // namespace serve

// What a server did with one request.
struct RequestRecord {
  // Of a client that left before there was a response; no client sees it. As nginx writes it.
  static constexpr int kClientLeft = 499;

  std::string id;                  // as the response's X-Request-Id
  std::string key;                 // the key's name; empty: it has none, or none is asked for
  std::string_view method, route;  // "POST", "/v1/completions"; live for ever, but for odd methods
  int status = 200;  // or kClientLeft; 503 also where the server stopped before it had responded
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  double queue_seconds = 0.0;        // of the choice that waited longest
  double first_token_seconds = 0.0;  // from the engine's acceptance; 0: there was none
  double seconds = 0.0;              // from the end of the request's head to that of the response
  // Of the first choice; "cancelled": the client left before all choices had ended, or the server
  // stopped. Empty: nothing was generated.
  std::string_view finish;
  // Where `route` is "unknown": what was asked for, as the client wrote it, without its query. Any
  // bytes, up to some 16 KiB; empty: nothing that could be read.
  std::string path;
  std::string ignored;  // fields of the body that are not known, as X-Dovetail-Ignored names them
  // What the response said of a failure: its code, or type where it has none, and its message,
  // which may quote what the client sent. Of a stream that ends with an error, the status is one
  // that it would have had. 0: nothing failed.
  int error_status = 0;
  std::string error_code, error_message;
};

// What a server's engine did in the last seconds.
struct ThroughputRecord {
  double seconds = 0.0;
  double prompt_tokens = 0.0, generated_tokens = 0.0;  // a second
  std::uint32_t running = 0, waiting = 0;              // sequences, now
  double cache_used = 0.0;                             // share of its blocks, now
  double prefix_hits = 0.0;  // of the prompt tokens of that time, what was found in the cache
};

// A key that a server takes, and what it is called in its log and as a tenant.
struct NamedKey {
  std::string name, key;
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // address or name to bind to
  std::uint16_t port = 8000;       // 0: any free port, see Server::port()
  // A socket in the file system, in the place of host and port; empty: none. What a program left
  // there when it ended is replaced; the file is gone when the server is.
  std::string unix_socket;
  std::uint32_t unix_socket_mode = 0600;  // who may connect: rights of its file, 0 to 0777
  // Asked for as "Authorization: Bearer KEY" or "X-Api-Key: KEY"; empty, as are named ones: none.
  std::string api_key;
  std::vector<NamedKey> named_keys;
  // The model answers to each; answers show the first. None: the model's own name.
  std::vector<std::string> served_model_names;
  // Jinja source in the place of the model's, or the name of a built-in template (docs/models.md);
  // empty: the model's own, or the one that is built in for its family.
  std::string chat_template;
  // Origins of web pages that may use the server, such as "https://example.org"; "*": all. None: no
  // page of another origin gets anything.
  std::vector<std::string> cors_origins;
  bool strict_fields = false;  // a field that is not known is refused, not ignored
  // Where a request leaves a parameter out; before what the model's makers recommend.
  SamplingValues sampling;
  // Most tokens of reasoning in an answer to messages, where a request does not say; -1: any
  // number; 0: none.
  std::int32_t reasoning_budget = -1;
  // Written as plain text before reasoning is closed whose budget, this one or the request's, is
  // spent; not where it is 0. Empty: nothing.
  std::string reasoning_budget_message;
  // Called on the loop's thread when a request was answered, or its client had gone; must not
  // block.
  std::function<void(const RequestRecord&)> on_request;
  // The same every `throughput_interval` in which tokens were computed.
  std::function<void(const ThroughputRecord&)> on_throughput;
  std::chrono::milliseconds throughput_interval = std::chrono::seconds(10);
  std::chrono::milliseconds live_interval = std::chrono::seconds(1);  // of the events of /events
  std::uint32_t max_listeners = 16;  // of /events, at once; beyond: 503
  bool handle_signals = true;        // SIGTERM and SIGINT drain; the second one stops at once

  std::size_t max_body_bytes = std::size_t{8} << 20;  // of a request; beyond: 413
  // Of all requests that are being read or parsed, together; beyond: 503.
  std::size_t max_pending_body_bytes = std::size_t{256} << 20;
  std::size_t max_stream_bytes = std::size_t{1}
                                 << 20;  // events that a slow reader may leave unread
  std::uint32_t max_connections = 1024;  // beyond: 503
  std::uint32_t max_choices = 512;       // prompts times n of one request
  // Of an answer that is not streamed and so is held until its end: choices times max_tokens times
  // (1 + logprobs). An entry takes up to some 150 bytes.
  std::uint64_t max_answer_entries = std::uint64_t{1} << 20;
  // Requests whose bodies wait to be read (large bodies beside small ones), and those that wait for
  // a new grammar, of all users and of one; beyond: 429.
  std::uint32_t max_queued_bodies = 512;
  std::uint32_t max_queued_grammars = 256;
  std::uint32_t max_queued_grammars_per_user = 64;

  std::chrono::milliseconds header_timeout = std::chrono::seconds(30);  // idle time included
  std::chrono::milliseconds body_timeout = std::chrono::seconds(120);
  std::chrono::milliseconds write_timeout = std::chrono::seconds(60);  // without any progress
  std::chrono::milliseconds drain_limit = std::chrono::minutes(5);     // then what is left is cut
  std::chrono::milliseconds stall = std::chrono::seconds(30);  // no step for so long: not healthy

  bool asks_for_key() const { return !api_key.empty() || !named_keys.empty(); }
};

// An address that is bound but not listened on: another program cannot get it any more, and clients
// are refused until a server takes it over. To be had before a model is loaded.
class BoundAddress {
 public:
  // Of `host` and `port`, or of `unix_socket`. kInvalid: its path is too long, or its mode is none;
  // kIo: what the system said, or what is at the path. An error names them.
  static Result<BoundAddress> bind(const ServerOptions& options);

  BoundAddress(BoundAddress&& other) noexcept;
  BoundAddress& operator=(BoundAddress&& other) noexcept;
  BoundAddress(const BoundAddress&) = delete;
  BoundAddress& operator=(const BoundAddress&) = delete;
  ~BoundAddress();

  bool is_loopback() const { return is_loopback_; }   // of TCP, out of reach of other machines
  bool is_local() const { return file_ != nullptr; }  // a socket in the file system
  int family() const { return family_; }              // AF_INET, AF_INET6 or AF_UNIX
  int release();  // the socket, which is the caller's from now on
  // The file of a local socket, likewise; null: it is none. After release().
  std::unique_ptr<serve::SocketFile> release_file();

 private:
  BoundAddress();
  int socket_ = -1;
  int family_ = 0;
  bool is_loopback_ = false;
  std::unique_ptr<serve::SocketFile> file_;
};

// The OpenAI-compatible HTTP server of one engine. create() binds and listens, run() serves on the
// calling thread until drained or stopped. drain() and stop() may be called from any thread, also
// before run().
class Server {
 public:
  // `engine` must outlive the server. kInvalid: an option out of range or a chat template that does
  // not parse; kIo: the address cannot be bound.
  static Result<std::unique_ptr<Server>> create(Engine& engine, const ServerOptions& options);
  // Listens on an address that was bound before.
  static Result<std::unique_ptr<Server>> create(Engine& engine, const ServerOptions& options,
                                                BoundAddress address);
  // The same for anything that can stand for an engine.
  static Result<std::unique_ptr<Server>> create(serve::Backend backend,
                                                const ServerOptions& options);
  static Result<std::unique_ptr<Server>> create(serve::Backend backend,
                                                const ServerOptions& options, BoundAddress address);

  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;  // the port that is bound; 0: a local socket is
  std::string url() const;     // "http://127.0.0.1:8000"; "unix:PATH" of a local socket
  // How the model writes calls of functions and its reasoning, in words; empty: it has no chat
  // template.
  std::string dialog() const;

  // Returns when drained or stopped, with no connection left. A failure while a connection is
  // served (memory that runs out, say) costs that connection alone.
  Status run();

  // The signal that stopped everything at once, the second one after a first that drained; nothing:
  // there was none. After run().
  std::optional<int> stopped_by() const;

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
