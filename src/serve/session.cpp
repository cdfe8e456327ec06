#include "serve/session.h"

#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/basic_dynamic_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <optional>
#include <utility>

#include "serve/api_response.h"

namespace dovetail::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;

// Grows with what arrives, never with what a header announces.
using Parser = http::request_parser<http::basic_dynamic_body<boost::beast::flat_buffer>>;

constexpr auto kResult = asio::as_tuple(asio::use_awaitable);
constexpr std::uint32_t kHeaderLimit = 16 << 10;
constexpr std::size_t kPipelineLimit = 64 << 10;  // read ahead while an answer is made
constexpr std::size_t kLingerLimit = 16 << 20;
constexpr std::chrono::milliseconds kLingerTime = std::chrono::seconds(2);

std::string text_of(boost::beast::string_view view) { return {view.data(), view.size()}; }

HttpHead head_of(const Parser& parser) {
  const auto& request = parser.get();
  HttpHead head;
  head.method = text_of(request.method_string());
  head.target = text_of(request.target());
  head.keep_alive = request.keep_alive();
  head.http_1_0 = request.version() < 11;
  head.authorization = text_of(request[http::field::authorization]);
  head.content_type = text_of(request[http::field::content_type]);
  head.content_encoding = text_of(request[http::field::content_encoding]);
  if (const auto length = parser.content_length()) head.content_length = *length;
  return head;
}

std::string_view body_of(const Parser& parser) {
  const auto data = parser.get().body().cdata();
  return {static_cast<const char*>(data.data()), data.size()};
}

ApiError too_large(std::size_t limit) {
  ApiError error;
  error.status = 413;
  error.code = "body_too_large";
  error.message = fmt::format("the body is too large; expected at most {} bytes", limit);
  return error;
}

// What to answer to a head that cannot be read; nothing where nobody is left to read it.
std::optional<ApiError> broken_head(const ErrorCode& failure) {
  if (failure.category() != http::make_error_code(http::error::bad_method).category() ||
      failure == http::error::end_of_stream || failure == http::error::partial_message) {
    return std::nullopt;
  }
  ApiError error;
  error.code = "bad_http";
  error.message = fmt::format("not a valid HTTP/1.1 request: {}", failure.message());
  if (failure == http::error::header_limit || failure == http::error::buffer_overflow) {
    error.status = 431;
    error.message = fmt::format("the request's head is larger than {} bytes", kHeaderLimit);
  }
  return error;
}

}  // namespace

Session::Session(Core& core, asio::ip::tcp::socket socket, bool overloaded)
    : core_(core),
      socket_(std::move(socket)),
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

void Session::ended(const std::exception_ptr& failure) {
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      spdlog::error("a connection failed: {}", e.what());
    }
  }
  gone_ = true;
  forget_requests();
  deadline_ = Clock::time_point::max();
  watchdog_.cancel();
  ErrorCode ignored;
  socket_.close(ignored);
}

void Session::finish() {
  if (!busy_) abort();
}

void Session::abort() {
  gone_ = true;
  forget_requests();
  ErrorCode ignored;
  socket_.close(ignored);
  signal_.cancel();
}

// Cancels what is still being generated. The inbox is closed first, so that the end that follows
// finds nobody.
void Session::forget_requests() {
  if (inbox_) inbox_->close();
  inbox_.reset();
  for (const RequestId id : requests_) core_.backend.cancel(id);
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
      self->await_deadline();
    }
  });
}

void Session::watch() {
  stop_watch_ = false;
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](
                                                     const ErrorCode& failure, std::size_t size) {
    self->watching_ = false;
    self->buffer_.commit(size);
    if (failure && failure != asio::error::operation_aborted && !self->gone_) {
      self->abort();
      return;
    }
    if (!failure && !self->stop_watch_ && self->buffer_.size() < kPipelineLimit) {
      self->watch();
    }
    self->signal_.cancel();
  });
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

// Closing a socket with unread input resets the connection, and the reset may overtake the answer:
// so say that nothing follows, and read on for a while.
Session::Task Session::linger() {
  ErrorCode failure;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, failure);
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
    co_await refuse(Route::kUnknown, error);
    co_return;
  }
  bool next = true;
  while (next && !gone_ && !core_.stopping) next = co_await serve_one();
}

Session::Answered Session::serve_one() {
  Parser parser;
  parser.header_limit(kHeaderLimit);
  parser.body_limit(boost::none);  // judged below, where the answer can say so

  busy_ = false;
  arm(core_.options.header_timeout);
  const auto [broken, unused] = co_await http::async_read_header(socket_, buffer_, parser, kResult);
  disarm();
  busy_ = true;
  if (gone_) co_return false;
  if (broken) {
    const auto error = broken_head(broken);
    if (error) co_await refuse(Route::kUnknown, *error);
    co_return false;
  }
  const HttpHead head = head_of(parser);
  const Route route = route_of(head.target);
  if (const auto refused = refuse_head(head, core_.state)) {
    if (!parser.is_done()) {
      co_await refuse(route, *refused);
      co_return false;
    }
    const HttpResponse response = error_response(*refused);
    co_return co_await respond(head, route, response);
  }
  if (!parser.is_done() &&
      boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool sent = co_await send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return false;
  }
  parser.body_limit(core_.options.max_body_bytes);
  arm(core_.options.body_timeout);
  const auto [cut, unused_too] = co_await http::async_read(socket_, buffer_, parser, kResult);
  disarm();
  if (gone_) co_return false;
  if (cut) {
    std::optional<ApiError> error = broken_head(cut);
    if (cut == http::error::body_limit) error = too_large(core_.options.max_body_bytes);
    if (error) co_await refuse(route, *error);
    co_return false;
  }
  if (takes_body(route)) co_return co_await answer_body(head, route, body_of(parser));
  const HttpResponse response = answer_get(route, head.target, core_.state, core_.counts);
  co_return co_await respond(head, route, response);
}

Session::Answered Session::respond(const HttpHead& head, Route route,
                                   const HttpResponse& response) {
  core_.counts.answered(route_name(route), response.status);
  const bool keep = keeps_alive(head);
  const std::string text = response_text(response, keep, head.method == "HEAD");
  const bool sent = co_await send(text);
  if (sent && !keep) co_await linger();
  co_return sent&& keep;
}

Session::Task Session::refuse(Route route, const ApiError& error) {
  core_.counts.answered(route_name(route), error.status);
  const std::string text = response_text(error_response(error), false, false);
  const bool sent = co_await send(text);
  if (sent) co_await linger();
}

Session::Answered Session::answer_body(const HttpHead& head, Route route, std::string_view body) {
  watch();
  Outcome<Work> work = tl::unexpected<ApiError>(ApiError{});
  bool worked = false;
  // The frame stays until the worker has reported: `work` and `body` may be used from there.
  asio::post(core_.pool, [this, self = shared_from_this(), &work, &worked, route, body]() mutable {
    try {
      work = work_on(route, body, core_.state);
    } catch (const std::exception& e) {
      ApiError error;
      error.status = 500;
      error.code = "internal";
      error.message = fmt::format("the request could not be prepared: {}", e.what());
      work = tl::unexpected<ApiError>(std::move(error));
    }
    asio::post(core_.io, [self = std::move(self), &worked] {
      worked = true;
      self->signal_.cancel();
    });
  });
  while (!worked) co_await wait();

  const auto* generation = work ? std::get_if<Generation>(&*work) : nullptr;
  if (generation != nullptr && !gone_) {
    const bool next = co_await generate(head, route, *generation);
    forget_requests();
    co_return next;
  }
  co_await stop_watching();
  if (gone_) co_return false;
  const HttpResponse response =
      work ? std::move(std::get<HttpResponse>(*work)) : error_response(work.error());
  co_return co_await respond(head, route, response);
}

Session::Answered Session::generate(const HttpHead& head, Route route,
                                    const Generation& generation) {
  const auto inbox = std::make_shared<Inbox>(
      [weak = weak_from_this(), executor = core_.io.get_executor()] {
        asio::post(executor, [weak] {
          if (const auto self = weak.lock()) self->wake();
        });
      },
      generation.stream ? core_.options.max_stream_bytes : SIZE_MAX);
  inbox_ = inbox;
  for (std::size_t i = 0; i < generation.requests.size(); ++i) {
    const auto id = core_.backend.submit(
        generation.requests[i], [inbox, i](OutputEvent event) { inbox->put(i, std::move(event)); });
    if (!id) {
      forget_requests();
      ApiError error = from_engine(id.error());
      // The engine knows no messages: what it says of the prompt is said of them.
      if (generation.form == Form::kChat && error.param == "prompt") error.param = "messages";
      co_await stop_watching();
      if (gone_) co_return false;
      const HttpResponse response = error_response(error);
      co_return co_await respond(head, route, response);
    }
    requests_.push_back(*id);
  }
  Reply reply(generation, make_label(generation.form, core_.state.served_name),
              core_.backend.token_bytes);
  const bool next =
      generation.stream ? co_await stream(head, route, reply) : co_await gather(head, route, reply);
  const bool left = gone_ && !sent_away_ && !core_.stopping;
  if (left && !reply.complete()) ++core_.counts.disconnects;
  co_return next;
}

Session::Answered Session::stream(const HttpHead& head, Route route, Reply& reply) {
  core_.counts.answered(route_name(route), 200);
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("X-Accel-Buffering", "no");
  const Framing framing = head.http_1_0 ? Framing::kClose : Framing::kChunked;
  const bool keep = framing == Framing::kChunked && keeps_alive(head);
  const auto framed = [framing](std::string text) {
    return framing == Framing::kChunked ? chunk(text) : std::move(text);
  };

  std::string out = response_head(response, framing, 0, keep) + framed(reply.open());
  bool sent = co_await send(out);
  bool ended = false;
  while (sent && !ended && !gone_) {
    std::vector<Inbox::Item> items = inbox_->take();
    if (items.empty()) {
      co_await wait();
      continue;
    }
    out.clear();
    for (Inbox::Item& item : items) {
      if (!reply.failure()) out += reply.add(item.prompt, std::move(item.event));
    }
    ended = reply.complete() || reply.failure();
    if (ended) out += reply.close();
    out = framed(std::move(out));
    if (ended && framing == Framing::kChunked) out += kLastChunk;
    sent = co_await send(out);
  }
  forget_requests();
  co_await stop_watching();
  if (!sent || gone_) co_return false;
  if (!keep || core_.stopping) {
    co_await linger();
    co_return false;
  }
  co_return true;
}

Session::Answered Session::gather(const HttpHead& head, Route route, Reply& reply) {
  while (!gone_ && !reply.complete() && !reply.failure()) {
    std::vector<Inbox::Item> items = inbox_->take();
    if (items.empty()) {
      co_await wait();
      continue;
    }
    for (Inbox::Item& item : items) {
      if (!reply.failure()) reply.add(item.prompt, std::move(item.event));
    }
  }
  forget_requests();
  co_await stop_watching();
  if (gone_) co_return false;
  const HttpResponse response = reply.failure() ? error_response(*reply.failure()) : reply.body();
  co_return co_await respond(head, route, response);
}

}  // namespace dovetail::serve
