#include "serve/session.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "engine/finish_name.h"
#include "serve/api_response.h"
#include "serve/http_framing.h"

namespace dovetail::serve {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr auto kResult = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::size_t kPipelineLimit = 64 << 10;  // read ahead while a response is made
constexpr std::size_t kBufferLimit = kPipelineLimit + kReadBytes;
constexpr std::size_t kEventsInARow = 64;  // of one response
constexpr std::size_t kManyEntries = 256;  // of prompts' logprobs: a millisecond or two
constexpr std::size_t kLargeResponse = 8 << 20;
constexpr std::size_t kLingerLimit = 16 << 20;
constexpr std::chrono::milliseconds kRetryReport{10};
constexpr std::chrono::milliseconds kLingerTime = std::chrono::seconds(2);

// Also where no memory is left for it.
void log_failure(const std::exception_ptr& failure) noexcept {
  try {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      spdlog::error("a request or its connection failed: {}", e.what());
    }
  } catch (...) {
    return;  // no memory is left for the line
  }
}

ApiError body_budget_used_up() {
  ApiError error;
  error.status = 503;
  error.code = "too_many_bodies";
  error.message = "the bodies of other requests take the memory for bodies; try again later";
  error.retry_after = 1;
  return error;
}

ApiError not_prepared() {
  ApiError error;
  error.status = 500;
  error.code = "internal";
  error.message = "the request could not be prepared; the server's log says why";
  return error;
}

// `grammar`: the body was read, and no more grammars may wait.
ApiError too_busy(bool grammar) {
  ApiError error;
  error.status = 429;
  error.code = "queue_full";
  error.retry_after = 1;
  error.message = grammar ? "too many new grammars are waiting to be compiled, of all users or of "
                            "this one; try again later"
                          : "too many requests are waiting to be read; try again later";
  return error;
}

// On a worker: what `work` throws is logged, and leaves its outcome as it was.
template <class F>
void run_guarded(const F& work) noexcept {
  try {
    work();
  } catch (...) {
    log_failure(std::current_exception());
  }
}

}  // namespace

Session::Session(Core& core, asio::ip::tcp::socket socket, bool overloaded)
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

template <class Function>
void Session::guarded(Function&& function) noexcept {
  try {
    function();
  } catch (...) {
    log_failure(std::current_exception());
    abort();
  }
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

std::optional<Clock::time_point> Session::idle_since() const {
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

void Session::begin(const HttpHead* head) {
  route_ = head == nullptr ? nullptr : find_route(head->target);
  errors_ = head == nullptr ? ErrorShape::kOpenAi : errors_of(route_, head->target);
  const bool named = head != nullptr && !head->request_id.empty();
  headers_ = {{"X-Request-Id", named ? head->request_id : random_id("req-")}};
  began_ = Clock::now();
  record_ = {};
  record_.id = headers_.front().second;
  record_.route = route_name(route_);
  recorded_ = false;
  if (head != nullptr) {
    constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "DELETE", "OPTIONS"};
    for (const std::string_view method : kMethods)
      if (head->method == method) record_.method = method;
    record_.key = key_name(*head, core_.options).value_or("");
  }
  if (head == nullptr || !allows_origin(head->origin, core_.options)) return;
  headers_.emplace_back("Access-Control-Allow-Origin", head->origin);
  headers_.emplace_back("Access-Control-Expose-Headers",
                        fmt::format("X-Request-Id, Retry-After, {}", kIgnoredHeader));
  headers_.emplace_back("Vary", "Origin");
}

void Session::finish_record() {
  if (recorded_) return;
  recorded_ = true;
  record_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (core_.options.on_request) core_.options.on_request(record_);
}

void Session::note(const Generation& generation, std::size_t prompt, const OutputEvent& event) {
  const auto n = static_cast<std::size_t>(generation.requests[prompt].n);
  Clock::time_point& last = last_token_[prompt * n + static_cast<std::size_t>(event.choice)];
  const Clock::time_point now = Clock::now();
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  if (!event.tokens.empty()) {
    if (record_.first_token_seconds == 0.0) {
      record_.first_token_seconds = seconds(now - accepted_);
      core_.counts.first_token.add(record_.first_token_seconds);
    }
    // Tokens that come together share the time since the last ones.
    const std::size_t many = event.tokens.size();
    if (last != Clock::time_point())
      core_.counts.between_tokens.add(seconds(now - last) / static_cast<double>(many), many);
    last = now;
  }
  if (!event.finish) return;
  record_.completion_tokens += event.usage.completion_tokens;
  if (event.choice == 0) {
    record_.prompt_tokens += event.usage.prompt_tokens;
    record_.cached_tokens += event.usage.cached_tokens;
  }
  record_.queue_seconds = std::max(record_.queue_seconds, event.usage.queue_seconds);
  if (record_.finish.empty()) record_.finish = engine::finish_name(*event.finish);
  core_.counts.queue.add(event.usage.queue_seconds);
  core_.counts.whole.add(seconds(now - accepted_));
}

HttpResponse Session::dressed(HttpResponse response) {
  record_.status = response.status;
  core_.counts.count_response(route_name(route_), response.status);
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  return response;
}

Session::Reusable Session::respond(const HttpHead& head, HttpResponse response) {
  const bool keep = keeps_alive(head);
  const std::string text = response_text(dressed(std::move(response)), keep, head.method == "HEAD");
  const bool sent = co_await send(text);
  if (sent && !keep) co_await linger();
  co_return sent&& keep;
}

Session::Reusable Session::respond_in_parts(const HttpHead& head, std::vector<std::string> parts) {
  const bool keep = keeps_alive(head);
  std::size_t size = 0;
  for (const std::string& part : parts) size += part.size();
  const std::string start = response_head(dressed({}), Framing::kLength, size, keep);
  bool sent = co_await send(start);
  for (std::size_t i = 0; sent && i < parts.size(); ++i) {
    sent = co_await send(parts[i]);
    parts[i] = std::string();
  }
  if (size > kLargeResponse) {
    // What a large response left free stays with the process otherwise. Where the queue is full,
    // the next large response does it.
    core_.jobs.add(
        JobClass::kLargeBody, {}, [](const std::atomic<bool>&) { ::malloc_trim(0); }, [] {});
  }
  if (sent && !keep) co_await linger();
  co_return sent&& keep;
}

Session::Task Session::refuse(const ApiError& error) {
  const std::string text = response_text(dressed(error_response(error, errors_)), false, false);
  const bool sent = co_await send(text);
  if (sent) co_await linger();
}

asio::awaitable<bool> Session::on_worker(JobClass kind, std::string tenant, BodyJobs::Work work) {
  job_ = core_.jobs.add(kind, std::move(tenant), std::move(work),
                        [&core = core_, weak = weak_from_this()] {
                          // The session must not end on the worker's thread.
                          const auto report = [weak] {
                            if (const auto self = weak.lock()) {
                              self->job_.reset();
                              self->signal_.cancel();
                            }
                          };
                          for (bool reported = false; !reported;) {
                            try {
                              asio::post(core.io, report);
                              reported = true;
                            } catch (const std::bad_alloc&) {
                              std::this_thread::sleep_for(kRetryReport);
                            }
                          }
                        });
  if (!job_) co_return false;
  while (job_) co_await wait();
  co_return true;
}

Session::Reusable Session::work(const HttpHead& head, const Route& route, RequestBody body) {
  watch();
  // Shared with the workers, since this frame may end by an exception before they are done.
  struct Job {
    RequestBody body;
    WorkOrder order;
    Outcome<Work> work;
  };
  const auto job = std::make_shared<Job>(Job{std::move(body),
                                             {head.method, head.target, record_.key},
                                             tl::unexpected<ApiError>(not_prepared())});
  // The work has a name each time: g++ 12 destroys closures in an expression with co_await twice.
  BodyJobs::Work read = [&core = core_, job, &route](const std::atomic<bool>&) {
    run_guarded([&] { job->work = work_on(route, job->order, job->body.view(), core.state); });
    job->body.clear();
  };
  const bool large = job->body.view().size() > BodyJobs::kLargeBody;
  bool queued =
      co_await on_worker(large ? JobClass::kLargeBody : JobClass::kBody, {}, std::move(read));
  auto* generation = job->work ? std::get_if<Generation>(&*job->work) : nullptr;
  if (generation != nullptr && !record_.key.empty()) {
    // Users of different keys are different tenants, whatever they call themselves.
    for (Request& request : generation->requests)
      request.tenant = request.tenant.empty() ? record_.key : record_.key + '/' + request.tenant;
  }
  if (queued && !gone_ && generation != nullptr && generation->format) {
    std::string tenant = generation->requests.front().tenant;
    BodyJobs::Work compile = [&core = core_, job](const std::atomic<bool>& stop) {
      auto ready = std::get<Generation>(std::move(*job->work));
      job->work = tl::unexpected<ApiError>(not_prepared());
      run_guarded([&] {
        auto problem = compile_format(ready, core.backend, stop);
        if (problem) {
          job->work = tl::unexpected<ApiError>(*std::move(problem));
        } else {
          job->work = Work(std::move(ready));
        }
      });
    };
    queued = co_await on_worker(JobClass::kGrammar, std::move(tenant), std::move(compile));
    generation = queued && job->work ? std::get_if<Generation>(&*job->work) : nullptr;
  }
  if (!queued) job->work = tl::unexpected<ApiError>(too_busy(job->work.has_value()));

  Outcome<Work>& work = job->work;
  if (generation != nullptr && !gone_) {
    const std::shared_ptr<const Generation> shared(job, generation);
    const bool next = co_await generate(head, shared);
    forget_requests();
    co_return next;
  }
  co_await stop_watching();
  if (gone_) co_return false;
  HttpResponse response =
      work ? std::move(std::get<HttpResponse>(*work)) : error_response(work.error(), errors_);
  co_return co_await respond(head, std::move(response));
}

Session::Reusable Session::generate(const HttpHead& head,
                                    const std::shared_ptr<const Generation>& shared) {
  const Generation& generation = *shared;
  if (!generation.ignored.empty()) headers_.emplace_back(kIgnoredHeader, generation.ignored);
  const auto inbox = std::make_shared<Inbox>(
      [weak = weak_from_this(), executor = core_.io.get_executor()] {
        asio::post(executor, [weak] {
          if (const auto self = weak.lock()) self->guarded([&self] { self->wake(); });
        });
      },
      generation.stream ? core_.options.max_stream_bytes : SIZE_MAX);
  inbox_ = inbox;
  // A name, since g++ 12 destroys closures in an expression with co_await twice.
  const GroupSink sink = [inbox](std::size_t prompt, OutputEvent event) {
    inbox->put(prompt, std::move(event));
  };
  accepted_ = Clock::now();
  std::size_t choices = 0;
  for (const Request& request : generation.requests) choices += static_cast<std::size_t>(request.n);
  last_token_.assign(choices, Clock::time_point());
  auto ids = core_.backend.submit(generation.requests, sink);
  if (!ids) {
    forget_requests();
    ApiError error = from_engine(ids.error());
    // The engine knows no messages: what it says of the prompt is said of them.
    if (generation.is_dialog && error.param == "prompt") error.param = "messages";
    co_await stop_watching();
    if (gone_) co_return false;
    HttpResponse response = error_response(error, errors_);
    co_return co_await respond(head, std::move(response));
  }
  requests_ = *std::move(ids);
  struct Building {
    std::shared_ptr<const Generation> generation;
    ResponseBuilder builder;
  };
  const auto building = std::make_shared<Building>(
      Building{shared,
               {generation, make_label(generation.endpoint, core_.state.served_name),
                core_.backend.token_bytes}});
  const Builder builder(building, &building->builder);
  const bool next = generation.stream ? co_await stream(head, generation, builder)
                                      : co_await gather(head, generation, builder);
  const bool left = gone_ && !sent_away_ && !core_.stopping;
  if (left && !builder->complete()) ++core_.counts.disconnects;
  co_return next;
}

Session::Reusable Session::stream(const HttpHead& head, const Generation& generation,
                                  const Builder& builder) {
  HttpResponse response = event_stream_response();
  response.content_type = builder->stream_type();
  const Framing framing = head.http_1_0 ? Framing::kClose : Framing::kChunked;
  const bool keep = framing == Framing::kChunked && keeps_alive(head);
  const auto framed = [framing](std::string text) {
    return framing == Framing::kChunked ? chunk(text) : std::move(text);
  };

  std::string out =
      response_head(dressed(std::move(response)), framing, 0, keep) + framed(builder->open());
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
      if (builder->failure() || gone_) continue;
      note(generation, item.prompt, item.event);
      const std::string text = co_await add_event(builder, item);
      out += text;
    }
    ended = builder->complete() || builder->failure();
    if (ended) out += builder->close();
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

boost::asio::awaitable<std::string> Session::add_event(const Builder& builder, Inbox::Item& item) {
  std::size_t entries = 0;
  for (const OutputToken& token : item.event.prompt_logprobs) entries += 1 + token.top.size();
  if (entries < kManyEntries) co_return builder->add(item.prompt, std::move(item.event));
  struct Job {
    Inbox::Item item;
    std::string text;
    bool done = false;
  };
  const auto job = std::make_shared<Job>(Job{std::move(item), {}});
  BodyJobs::Work write = [builder, job](const std::atomic<bool>&) {
    run_guarded([&] {
      job->text = builder->add(job->item.prompt, std::move(job->item.event));
      job->done = true;
    });
  };
  const bool queued = co_await on_worker(JobClass::kLargeBody, {}, std::move(write));
  if (!queued) co_return builder->add(job->item.prompt, std::move(job->item.event));
  if (!job->done) abort();  // it failed, or the client has gone
  co_return std::move(job->text);
}

Session::Reusable Session::gather(const HttpHead& head, const Generation& generation,
                                  const Builder& builder) {
  while (!gone_ && !builder->complete() && !builder->failure()) {
    std::vector<Inbox::Item> items = inbox_->take();
    if (items.empty()) {
      co_await wait();
      continue;
    }
    for (std::size_t i = 0; i < items.size() && !builder->failure() && !gone_; ++i) {
      note(generation, items[i].prompt, items[i].event);
      co_await add_event(builder, items[i]);
      // Other connections have their turn between.
      if (i % kEventsInARow == kEventsInARow - 1) {
        co_await asio::post(core_.io, asio::use_awaitable);
      }
    }
  }
  forget_requests();
  co_await stop_watching();
  if (gone_) co_return false;
  if (builder->failure()) {
    HttpResponse response = error_response(*builder->failure(), errors_);
    co_return co_await respond(head, std::move(response));
  }
  std::vector<std::string> parts = builder->take_body();
  co_return co_await respond_in_parts(head, std::move(parts));
}

}  // namespace dovetail::serve
