#include "serve/session.h"

#include <fmt/core.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "serve/http_framing.h"

namespace dovetail::serve {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

constexpr auto kResult = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::size_t kPipelineLimit = 64 << 10;  // read ahead while a response is made
constexpr std::size_t kBufferLimit = kPipelineLimit + kReadBytes;
constexpr std::size_t kLingerLimit = 16 << 20;
constexpr std::chrono::milliseconds kLingerTime = std::chrono::seconds(2);

ApiError body_budget_used_up() {
  ApiError error;
  error.status = 503;
  error.code = "too_many_bodies";
  error.message = "the bodies of other requests take the memory for bodies; try again later";
  error.retry_after = 1;
  return error;
}

}  // namespace

Session::Session(Core& core, StreamSocket socket, bool overloaded)
    : core_(core),
      socket_(std::move(socket)),
      buffer_(kBufferLimit),
      signal_(core.io),
      watchdog_(core.io),
      overloaded_(overloaded) {
  core_.sessions.insert(this);
  core_.counts.connections = static_cast<std::uint32_t>(core_.sessions.size());
}

Session::~Session() {
  forget_requests();
  core_.sessions.erase(this);
  core_.counts.connections = static_cast<std::uint32_t>(core_.sessions.size());
  if (core_.sessions.empty() && core_.on_last_session) core_.on_last_session();
}

void Session::start() {
  asio::co_spawn(core_.io, run(), [self = shared_from_this()](const std::exception_ptr& failure) {
    self->ended(failure);
  });
}

void Session::ended(const std::exception_ptr& failure) noexcept {
  if (failure) log_failure(failure);
  deadline_ = Clock::time_point::max();
  abort();
  watchdog_.cancel();
}

void Session::finish() {
  if (!busy_) abort();
}

void Session::abort() noexcept {
  gone_ = true;
  forget_requests();
  if (job_ && core_.jobs.withdraw(job_)) job_.reset();
  ErrorCode ignored;
  socket_.close(ignored);
  signal_.cancel();
}

std::optional<std::chrono::steady_clock::time_point> Session::idle_since() const {
  const bool responded = responded_ != Clock::time_point::max();
  if (busy_ || gone_ || !responded || buffer_.size() > 0) return std::nullopt;
  return responded_;
}

bool Session::has_input() const {
  ErrorCode unknown;
  return buffer_.size() > 0 || socket_.available(unknown) > 0;
}

// Cancels what is still being generated. The inbox is closed first: it takes no event of the
// end that follows.
void Session::forget_requests() noexcept {
  if (inbox_) inbox_->close();
  inbox_.reset();
  for (const RequestId id : requests_) {
    try {
      core_.backend.cancel(id);
    } catch (...) {
      log_failure(std::current_exception());
    }
  }
  requests_.clear();
}

void Session::wake() {
  if (inbox_ && inbox_->overflowed()) {
    // The coroutine may hang in a write that will never end: only closing the socket ends it.
    ++core_.counts.slow_readers;
    sent_away_ = true;
    abort();
    return;
  }
  signal_.cancel();
}

Session::Task Session::wait() {
  signal_.expires_at(Clock::time_point::max());
  co_await signal_.async_wait(kResult);
}

void Session::arm(std::chrono::milliseconds limit) {
  deadline_ = Clock::now() + limit;
  if (watchdog_.expiry() > deadline_ || watchdog_.expiry() <= Clock::now()) await_deadline();
}

void Session::disarm() { deadline_ = Clock::time_point::max(); }

// One timer for all deadlines of a connection: they are moved more often than they pass, so it
// looks again when it fires instead of being set anew each time.
void Session::await_deadline() {
  watchdog_.expires_at(deadline_);
  watchdog_.async_wait([weak = weak_from_this()](const ErrorCode& cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self || self->deadline_ == Clock::time_point::max()) return;
    if (Clock::now() >= self->deadline_) {
      self->abort();
    } else {
      self->guarded([&self] { self->await_deadline(); });
    }
  });
}

void Session::watch() {
  stop_watch_ = false;
  const auto space = buffer_.prepare(4096);
  socket_.async_read_some(
      space, [self = shared_from_this()](const ErrorCode& failure, std::size_t size) {
        self->watching_ = false;
        self->buffer_.commit(size);
        if (failure && failure != asio::error::operation_aborted && !self->gone_) {
          self->abort();
          return;
        }
        if (!failure && !self->stop_watch_ && self->buffer_.size() < kPipelineLimit) {
          self->guarded([&self] { self->watch(); });
        }
        self->signal_.cancel();
      });
  watching_ = true;
}

Session::Task Session::stop_watching() {
  stop_watch_ = true;
  if (!watching_) co_return;
  ErrorCode ignored;
  socket_.cancel(ignored);
  while (watching_) co_await wait();
}

bool Session::keeps_alive(const HttpHead& head) const {
  return head.keep_alive && !core_.state.draining && !core_.stopping;
}

boost::asio::awaitable<bool> Session::send(std::string_view data) {
  while (!data.empty()) {
    arm(core_.options.write_timeout);
    const auto [failure, size] =
        co_await socket_.async_write_some(asio::buffer(data.data(), data.size()), kResult);
    disarm();
    if (failure) co_return false;
    data.remove_prefix(size);
  }
  co_return !gone_;
}

// Closing a socket with unread input resets the connection, and the reset may overtake the
// response: so say that nothing follows, and read on for a while.
Session::Task Session::linger() {
  finish_record();  // what follows is not the response
  ErrorCode failure;
  socket_.shutdown(StreamSocket::shutdown_send, failure);
  if (failure) co_return;
  std::array<char, 16384> scratch;
  arm(kLingerTime);
  for (std::size_t total = 0; total < kLingerLimit;) {
    const auto [ended, size] = co_await socket_.async_read_some(asio::buffer(scratch), kResult);
    if (ended) break;
    total += size;
  }
  disarm();
}

Session::Task Session::run() {
  if (overloaded_) {
    ApiError error;
    error.status = 503;
    error.code = "too_many_connections";
    error.message = fmt::format("the server has its {} connections; try again later",
                                core_.options.max_connections);
    error.retry_after = 1;
    begin(nullptr);
    co_await refuse(error);
    finish_record();
    co_return;
  }
  bool next = true;
  while (next && !gone_ && !core_.stopping) {
    next = co_await serve_one();
    finish_record();
    responded_ = Clock::now();
  }
}

std::string_view Session::buffered() const {
  const auto data = buffer_.cdata();
  return {static_cast<const char*>(data.data()), data.size()};
}

boost::asio::awaitable<bool> Session::fill() {
  const auto space = buffer_.prepare(kReadBytes);
  const auto [failure, size] = co_await socket_.async_read_some(space, kResult);
  buffer_.commit(size);
  co_return !failure && !gone_;
}

boost::asio::awaitable<std::optional<Outcome<HttpHead>>> Session::read_head() {
  HeadScanner scanner;
  while (true) {
    if (auto problem = scanner.scan(buffered())) {
      co_return Outcome<HttpHead>(tl::unexpected<ApiError>(std::move(*problem)));
    }
    if (scanner.done()) break;
    const bool more = co_await fill();
    if (!more) co_return std::nullopt;
  }
  const std::size_t size = scanner.end() - scanner.begin();
  auto head = parse_head(buffered().substr(scanner.begin(), size));
  buffer_.consume(scanner.end());
  co_return std::move(head);
}

boost::asio::awaitable<bool> Session::read_body(const HttpHead& head, RequestBody& body,
                                                Problem& problem) {
  const std::size_t limit = core_.options.max_body_bytes;
  // The router has refused what announces more than the limit.
  const auto most = static_cast<std::size_t>(head.content_length.value_or(limit));
  BodyDecoder decoder = head.chunked ? BodyDecoder::of_chunks(limit) : BodyDecoder::of_length(most);
  while (!decoder.done()) {
    if (buffer_.size() == 0) {
      const bool more = co_await fill();
      if (!more) co_return false;
    }
    auto step = decoder.next(buffered());
    if (!step) {
      problem = std::move(step.error());
    } else if (!body.append(step->payload, most)) {
      problem = body_budget_used_up();
    }
    if (problem) co_return true;
    buffer_.consume(step->taken);
  }
  co_return true;
}

Session::Reusable Session::serve_one() {
  busy_ = false;
  arm(core_.options.header_timeout);
  const auto read = co_await read_head();
  disarm();
  busy_ = true;
  if (gone_ || !read) co_return false;
  if (!*read) {
    begin(nullptr);
    co_await refuse(read->error());
    co_return false;
  }
  const HttpHead& head = **read;
  begin(&head);
  if (head.method == "OPTIONS" && !head.has_body() && allows_origin(head.origin, core_.options)) {
    HttpResponse response = preflight_response();
    co_return co_await respond(head, std::move(response));
  }
  if (const auto refused = refuse_head(head, core_.state)) {
    if (head.has_body()) {
      co_await refuse(*refused);
      co_return false;
    }
    HttpResponse response = error_response(*refused, errors_);
    co_return co_await respond(head, std::move(response));
  }
  if (head.has_body() && head.expects_continue) {
    const bool sent = co_await send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return false;
  }
  RequestBody body(core_.body_budget);
  if (head.has_body()) {
    Problem problem;
    arm(core_.options.body_timeout);
    const bool here = co_await read_body(head, body, problem);
    disarm();
    if (gone_ || !here) co_return false;
    if (problem) {
      body.clear();
      co_await refuse(*problem);
      co_return false;
    }
  }
  if (takes_work(*route_, head.method)) co_return co_await work(head, *route_, std::move(body));
  if (route_->get == nullptr) co_return co_await stream_live(head);
  HttpResponse response = route_->get(head.target, core_.state, core_.counts);
  co_return co_await respond(head, std::move(response));
}

}  // namespace dovetail::serve
