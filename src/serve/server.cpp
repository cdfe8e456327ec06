#include "dovetail/server.h"

#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "serve/backend.h"
#include "serve/session.h"
#include "serve/socket_file.h"
#include "serve/token_text.h"

namespace dovetail {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using serve::Core;
using serve::Session;
using serve::StreamSocket;

namespace serve {
namespace {

ServedNames names_of(const ServerOptions& options, const std::string& model_name) {
  return ServedNames(options.served_model_names.empty() ? std::vector{model_name}
                                                        : options.served_model_names);
}

}  // namespace

Core::Core(Backend the_backend, const ServerOptions& the_options)
    : backend(std::move(the_backend)),
      options(the_options),
      state{backend,
            options,
            names_of(options, backend.model.name),
            std::chrono::duration_cast<std::chrono::seconds>(
                std::chrono::system_clock::now().time_since_epoch())
                .count(),
            false,
            {},
            &dialogs,
            &calls},
      body_budget(the_options.max_pending_body_bytes),
      jobs({options.max_queued_bodies, options.max_queued_grammars,
            options.max_queued_grammars_per_user}) {}

}  // namespace serve

namespace {

// Beyond max_connections these many more may be told so; then connections are just closed.
constexpr std::size_t kMaxRefused = 64;
constexpr std::chrono::milliseconds kRetryAccept{50};
constexpr std::chrono::seconds kFlushTime{10};  // for the last responses to be read

Status check(const ServerOptions& options, const std::string& model_name) {
  if (options.max_connections == 0) {
    return fail(ErrorKind::kInvalid, "max_connections is 0; expected at least 1");
  }
  if (options.max_queued_bodies == 0 || options.max_queued_grammars == 0 ||
      options.max_queued_grammars_per_user == 0) {
    return fail(ErrorKind::kInvalid,
                "max_queued_bodies, max_queued_grammars and max_queued_grammars_per_user: expected "
                "at least 1");
  }
  if (options.throughput_interval.count() < 1) {
    return fail(ErrorKind::kInvalid, "throughput_interval is {} ms; expected at least 1",
                options.throughput_interval.count());
  }
  if (options.live_interval.count() < 1) {
    return fail(ErrorKind::kInvalid, "live_interval is {} ms; expected at least 1",
                options.live_interval.count());
  }
  if (options.max_choices == 0) {
    return fail(ErrorKind::kInvalid, "max_choices is 0; expected at least 1");
  }
  if (options.max_body_bytes == 0 || options.max_stream_bytes == 0) {
    return fail(ErrorKind::kInvalid, "max_body_bytes and max_stream_bytes: expected at least 1");
  }
  if (options.max_pending_body_bytes < options.max_body_bytes) {
    return fail(ErrorKind::kInvalid,
                "max_pending_body_bytes is {}; expected at least max_body_bytes, which is {}",
                options.max_pending_body_bytes, options.max_body_bytes);
  }
  const serve::ServedNames names = serve::names_of(options, model_name);
  for (const std::string& name : names.all()) {
    if (name.empty() || !serve::is_utf8(name)) {
      return fail(ErrorKind::kInvalid, "the served model name must be non-empty UTF-8");
    }
  }
  return {};
}

}  // namespace

struct Server::Impl {
  Impl(serve::Backend backend, const ServerOptions& options)
      : core(std::move(backend), options),
        acceptor(core.io),
        signals(core.io),
        flush_timer(core.io),
        report_timer(core.io) {
    core.on_last_session = [this] {
      if (core.stopping) flush_timer.cancel();
    };
  }

  ~Impl() {
    stop_now();
    core.on_last_session = nullptr;
    if (drainer.joinable()) drainer.join();
    core.jobs.stop();
  }

  Status listen(BoundAddress address);
  void start_accepting(std::chrono::milliseconds pause);
  asio::awaitable<void> accept(std::chrono::milliseconds pause);
  void admit(StreamSocket socket);
  bool make_slot();
  void recover(const std::exception& failure) noexcept;
  void await_signal();
  void await_report(const EngineStats& before);
  void begin_drain();
  void stop_listening();
  void finish();
  void stop_now();

  Core core;
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor;
  std::unique_ptr<serve::SocketFile> file;  // of a local socket; null: it is TCP
  asio::signal_set signals;
  asio::steady_timer flush_timer;
  asio::steady_timer report_timer;
  bool accepting = false;  // the coroutine of accept() is there
  std::optional<int> stopped_by;
  std::thread drainer;  // sits in Backend::drain, which blocks
};

Status Server::Impl::listen(BoundAddress address) {
  const ServerOptions& options = core.options;
  ErrorCode failure;
  const bool loopback = address.is_loopback();
  const int protocol = address.is_local() ? 0 : IPPROTO_TCP;
  acceptor.assign(asio::generic::stream_protocol(address.family(), protocol), address.release(),
                  failure);
  file = address.release_file();
  if (!failure) acceptor.listen(tcp::acceptor::max_listen_connections, failure);
  if (failure) {
    const std::string where = file == nullptr
                                  ? fmt::format("{} port {}", options.host, options.port)
                                  : options.unix_socket;
    return fail(ErrorKind::kIo, "cannot listen on {}: {}", where, failure.message());
  }
  if (options.handle_signals) {
    signals.add(SIGTERM, failure);
    if (!failure) signals.add(SIGINT, failure);
    if (failure) return fail(ErrorKind::kIo, "cannot handle signals: {}", failure.message());
    await_signal();
  }
  // No web page reaches a local socket by a name of its own, and what a proxy in front of it lets
  // through is the proxy's business.
  if (!options.asks_for_key() && loopback) {
    core.state.host_names = serve::loopback_names(options.host);
  }
  if (options.on_throughput) await_report(core.backend.stats());
  start_accepting({});
  return {};
}

void Server::Impl::start_accepting(std::chrono::milliseconds pause) {
  asio::co_spawn(core.io, accept(pause), [this](const std::exception_ptr& failure) {
    accepting = false;
    if (failure) std::rethrow_exception(failure);  // run() starts it again
  });
  accepting = true;
}

asio::awaitable<void> Server::Impl::accept(std::chrono::milliseconds pause) {
  while (acceptor.is_open()) {
    if (pause.count() > 0) {
      flush_timer.expires_after(pause);
      co_await flush_timer.async_wait(asio::as_tuple(asio::use_awaitable));
      pause = {};
      continue;
    }
    auto [failure, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (!acceptor.is_open()) break;
    if (failure) {
      // Mostly no file descriptors left: what is open must end before more can be accepted.
      spdlog::warn("accepting a connection failed: {}", failure.message());
      pause = kRetryAccept;
      continue;
    }
    admit(std::move(socket));
  }
}

void Server::Impl::admit(StreamSocket socket) {
  const bool slot = make_slot();
  if (!slot && core.sessions.size() >= core.options.max_connections + kMaxRefused) return;
  ErrorCode ignored;
  if (file == nullptr) socket.set_option(tcp::no_delay(true), ignored);
  std::make_shared<Session>(core, std::move(socket), !slot)->start();
}

// Whether one more connection has a slot. Where all are taken, the kept connection that has waited
// longest for its next request ends for it.
bool Server::Impl::make_slot() {
  if (core.sessions.size() < core.options.max_connections) return true;
  std::size_t taken = 0;
  Session* oldest = nullptr;
  auto since = std::chrono::steady_clock::time_point::max();
  for (Session* session : core.sessions) {
    if (!session->holds_slot()) continue;
    ++taken;
    const auto idle = session->idle_since();
    if (!idle || *idle >= since || session->has_input()) continue;
    oldest = session;
    since = *idle;
  }
  if (taken < core.options.max_connections) return true;
  if (oldest == nullptr) return false;
  oldest->finish();
  return true;
}

// After an exception that came out of the event loop.
void Server::Impl::recover(const std::exception& failure) noexcept {
  while (true) {
    try {
      spdlog::error("the server's event loop goes on after an error: {}", failure.what());
      if (!accepting && acceptor.is_open()) start_accepting(kRetryAccept);
      return;
    } catch (...) {  // no memory even for that
      std::this_thread::sleep_for(kRetryAccept);
    }
  }
}

void Server::Impl::await_signal() {
  signals.async_wait([this](const ErrorCode& failure, int number) {
    if (failure) return;
    if (core.state.draining) {
      stopped_by = number;
      stop_now();
      return;
    }
    spdlog::info(
        "draining: accepted requests are finished, new ones refused; once more stops at once");
    await_signal();
    begin_drain();
  });
}

void Server::Impl::await_report(const EngineStats& before) {
  const std::chrono::duration<double> seconds = core.options.throughput_interval;
  report_timer.expires_after(core.options.throughput_interval);
  report_timer.async_wait([this, before, seconds](const ErrorCode& cancelled) {
    if (cancelled || core.stopping) return;
    const EngineStats now = core.backend.stats();
    await_report(now);
    if (const auto record = serve::throughput(before, now, seconds.count()))
      core.options.on_throughput(*record);
  });
}

void Server::Impl::begin_drain() {
  if (core.state.draining || core.stopping) return;
  drainer = std::thread([this] {
    const bool all = core.backend.drain(core.options.drain_limit);
    asio::post(core.io, [this, all] {
      if (!all) spdlog::warn("the drain's time is up; what was left is cancelled");
      finish();
    });
  });
  core.state.draining = true;
  for (Session* session : core.sessions) session->notice_drain();
}

void Server::Impl::stop_listening() {
  if (file) file->remove();  // before the socket is free for another program
  ErrorCode ignored;
  acceptor.close(ignored);
}

// Nothing is generated any more: lets the last responses be read, then ends the loop by leaving it
// without work.
void Server::Impl::finish() {
  if (core.stopping) return;
  core.stopping = true;
  stop_listening();
  ErrorCode ignored;
  signals.cancel(ignored);
  report_timer.cancel();
  const std::vector<Session*> open(core.sessions.begin(), core.sessions.end());
  for (Session* session : open) session->finish();
  if (open.empty()) return;
  flush_timer.expires_after(kFlushTime);
  flush_timer.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) stop_now();
  });
}

void Server::Impl::stop_now() {
  core.state.draining = true;
  core.stopping = true;
  stop_listening();
  ErrorCode ignored;
  // A step under way is still waited for; a further signal ends the process.
  signals.clear(ignored);
  flush_timer.cancel();
  report_timer.cancel();
  const std::vector<Session*> open(core.sessions.begin(), core.sessions.end());
  for (Session* session : open) session->abort();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::create(serve::Backend backend,
                                               const ServerOptions& options) {
  auto address = BoundAddress::bind(options);
  if (!address) return fail(address.error());
  return create(std::move(backend), options, *std::move(address));
}

Result<std::unique_ptr<Server>> Server::create(serve::Backend backend, const ServerOptions& options,
                                               BoundAddress address) {
  if (auto checked = check(options, backend.model.name); !checked) return fail(checked.error());
  try {
    auto impl = std::make_unique<Impl>(std::move(backend), options);
    if (auto listening = impl->listen(std::move(address)); !listening)
      return fail(listening.error());
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const std::exception& e) {
    return fail(ErrorKind::kIo, "the server cannot be set up: {}", e.what());
  }
}

std::optional<int> Server::stopped_by() const { return impl_->stopped_by; }

namespace {

// Of an acceptor that is bound to an address of TCP.
template <class Acceptor>
tcp::endpoint tcp_endpoint(const Acceptor& acceptor) {
  ErrorCode ignored;
  const auto bound = acceptor.local_endpoint(ignored);
  tcp::endpoint endpoint;
  if (bound.size() <= endpoint.capacity()) {
    endpoint.resize(bound.size());
    std::memcpy(endpoint.data(), bound.data(), bound.size());
  }
  return endpoint;
}

}  // namespace

std::uint16_t Server::port() const {
  return impl_->file == nullptr ? tcp_endpoint(impl_->acceptor).port() : 0;
}

std::string Server::dialog() const {
  const auto& dialog = impl_->core.backend.dialog;
  return dialog ? dialog->description() : std::string();
}

std::string Server::url() const {
  if (impl_->file != nullptr) return "unix:" + impl_->core.options.unix_socket;
  const auto address = tcp_endpoint(impl_->acceptor).address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return fmt::format("http://{}:{}", host, port());
}

Status Server::run() {
  // What a connection's handlers throw ends that connection, so this is what remains: memory that
  // ran out between two connections. The loop goes on.
  while (true) {
    try {
      impl_->core.io.run();
      break;
    } catch (const std::exception& e) {
      impl_->recover(e);
    }
  }
  if (impl_->drainer.joinable()) impl_->drainer.join();
  return {};
}

void Server::drain() {
  asio::post(impl_->core.io, [impl = impl_.get()] { impl->begin_drain(); });
}

void Server::stop() {
  asio::post(impl_->core.io, [impl = impl_.get()] { impl->stop_now(); });
}

}  // namespace dovetail
