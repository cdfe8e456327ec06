#include "dovetail/server.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <thread>
#include <utility>

#include "serve/backend.h"
#include "serve/session.h"
#include "serve/token_text.h"

namespace dovetail {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using serve::Core;
using serve::Session;

namespace serve {

Core::Core(Backend the_backend, const ServerOptions& the_options)
    : backend(std::move(the_backend)),
      options(the_options),
      state{backend, options,
            options.served_model_name.empty() ? backend.model.name : options.served_model_name,
            std::chrono::duration_cast<std::chrono::seconds>(
                std::chrono::system_clock::now().time_since_epoch())
                .count(),
            false} {}

}  // namespace serve

namespace {

// Beyond max_connections these many more may be told so; then connections are just closed.
constexpr std::size_t kRefusedAtOnce = 64;
constexpr std::chrono::milliseconds kRetryAccept{50};
constexpr std::chrono::seconds kFlushTime{10};  // for the last answers to be read

Status check(const ServerOptions& options, std::string_view model_name) {
  if (options.max_connections == 0) {
    return fail(ErrorKind::kInvalid, "max_connections is 0; expected at least 1");
  }
  if (options.max_choices == 0) {
    return fail(ErrorKind::kInvalid, "max_choices is 0; expected at least 1");
  }
  if (options.max_body_bytes == 0 || options.max_stream_bytes == 0) {
    return fail(ErrorKind::kInvalid, "max_body_bytes and max_stream_bytes: expected at least 1");
  }
  const std::string_view name =
      options.served_model_name.empty() ? model_name : options.served_model_name;
  if (name.empty() || !serve::is_utf8(name)) {
    return fail(ErrorKind::kInvalid, "the served model name must be non-empty UTF-8");
  }
  return {};
}

}  // namespace

struct Server::Impl {
  Impl(serve::Backend backend, const ServerOptions& options)
      : core(std::move(backend), options),
        acceptor(core.io),
        signals(core.io),
        flush_timer(core.io) {
    core.on_last_session = [this] {
      if (core.stopping) flush_timer.cancel();
    };
  }

  ~Impl() {
    stop_now();
    core.on_last_session = nullptr;
    if (drainer.joinable()) drainer.join();
    core.pool.stop();
    core.pool.join();
  }

  Status listen();
  asio::awaitable<void> accept();
  void await_signal();
  void begin_drain();
  void finish();
  void stop_now();

  Core core;
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer flush_timer;
  std::thread drainer;  // sits in Backend::drain, which blocks
};

Status Server::Impl::listen() {
  const ServerOptions& options = core.options;
  ErrorCode failure;
  tcp::resolver resolver(core.io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, failure);
  if (failure || found.empty()) {
    return fail(ErrorKind::kIo, "host {}: cannot be resolved: {}", options.host, failure.message());
  }
  // Clients that are given a name of both kinds (localhost) come by either; more know IPv4.
  const auto v4 = std::find_if(found.begin(), found.end(), [](const auto& entry) {
    return entry.endpoint().address().is_v4();
  });
  const tcp::endpoint endpoint = (v4 == found.end() ? found.begin() : v4)->endpoint();
  acceptor.open(endpoint.protocol(), failure);
  if (!failure) acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure) acceptor.bind(endpoint, failure);
  if (!failure) acceptor.listen(tcp::acceptor::max_listen_connections, failure);
  if (failure) {
    return fail(ErrorKind::kIo, "cannot listen on {} port {}: {}", options.host, options.port,
                failure.message());
  }
  if (options.handle_signals) {
    signals.add(SIGTERM, failure);
    if (!failure) signals.add(SIGINT, failure);
    if (failure) return fail(ErrorKind::kIo, "cannot handle signals: {}", failure.message());
    await_signal();
  }
  asio::co_spawn(core.io, accept(), asio::detached);
  return {};
}

asio::awaitable<void> Server::Impl::accept() {
  while (acceptor.is_open()) {
    auto [failure, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (!acceptor.is_open()) break;
    if (failure) {
      // Mostly no file descriptors left: what is open must end before more can be accepted.
      spdlog::warn("accepting a connection failed: {}", failure.message());
      flush_timer.expires_after(kRetryAccept);
      co_await flush_timer.async_wait(asio::as_tuple(asio::use_awaitable));
      continue;
    }
    const std::size_t open = core.sessions.size();
    if (open >= core.options.max_connections + kRefusedAtOnce) continue;
    ErrorCode ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    std::make_shared<Session>(core, std::move(socket), open >= core.options.max_connections)
        ->start();
  }
}

void Server::Impl::await_signal() {
  signals.async_wait([this](const ErrorCode& failure, int) {
    if (failure) return;
    if (core.state.draining) {
      stop_now();
      return;
    }
    spdlog::info("draining: accepted requests are finished, new ones refused");
    begin_drain();
    await_signal();
  });
}

void Server::Impl::begin_drain() {
  if (core.state.draining || core.stopping) return;
  core.state.draining = true;
  drainer = std::thread([this] {
    const bool all = core.backend.drain(core.options.drain_limit);
    asio::post(core.io, [this, all] {
      if (!all) spdlog::warn("the drain's time is up; what was left is cancelled");
      finish();
    });
  });
}

// Nothing is generated any more: lets the last answers be read, then ends the loop by leaving it
// without work.
void Server::Impl::finish() {
  if (core.stopping) return;
  core.stopping = true;
  ErrorCode ignored;
  acceptor.close(ignored);
  signals.cancel(ignored);
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
  ErrorCode ignored;
  acceptor.close(ignored);
  // A step under way is still waited for; a further signal ends the process.
  signals.clear(ignored);
  flush_timer.cancel();
  const std::vector<Session*> open(core.sessions.begin(), core.sessions.end());
  for (Session* session : open) session->abort();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::create(serve::Backend backend,
                                               const ServerOptions& options) {
  if (auto checked = check(options, backend.model.name); !checked) return fail(checked.error());
  try {
    auto impl = std::make_unique<Impl>(std::move(backend), options);
    if (auto listening = impl->listen(); !listening) return fail(listening.error());
    return std::unique_ptr<Server>(new Server(std::move(impl)));
  } catch (const std::exception& e) {
    return fail(ErrorKind::kIo, "the server cannot be set up: {}", e.what());
  }
}

std::uint16_t Server::port() const {
  ErrorCode ignored;
  return impl_->acceptor.local_endpoint(ignored).port();
}

std::string Server::url() const {
  ErrorCode ignored;
  const auto address = impl_->acceptor.local_endpoint(ignored).address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return fmt::format("http://{}:{}", host, port());
}

Status Server::run() {
  try {
    impl_->core.io.run();
  } catch (const std::exception& e) {
    impl_->stop_now();
    return fail(ErrorKind::kInternal, "the server's event loop failed: {}", e.what());
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
