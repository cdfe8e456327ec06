// What a connection answers a request with: a body becomes requests of the engine, their events a
// stream or one body, which is sent, counted and recorded.
#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <new>
#include <thread>
#include <utility>
#include <variant>

#include "engine/finish_name.h"
#include "serve/api_response.h"
#include "serve/failure_log.h"
#include "serve/request_target.h"
#include "serve/session.h"

namespace dovetail::serve {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kEventsInARow = 64;  // of one response
constexpr std::size_t kManyEntries = 256;  // of prompts' logprobs: a millisecond or two
constexpr std::size_t kLargeResponse = 8 << 20;
constexpr std::chrono::milliseconds kRetryReport{10};

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

void Session::begin(const HttpHead* head) {
  route_ = head == nullptr ? nullptr : find_route(head->target, head->method);
  errors_ = head == nullptr ? ErrorShape::kOpenAi : errors_of(route_, head->target);
  const bool named = head != nullptr && !head->request_id.empty();
  headers_ = {{"X-Request-Id", named ? head->request_id : random_id("req-")}};
  began_ = Clock::now();
  record_ = {};
  record_.status = 0;  // there is no response yet
  record_.id = headers_.front().second;
  record_.route = route_name(route_);
  if (head != nullptr && route_ == nullptr) record_.path = path_of(head->target);
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
  if (record_.status == 0) record_.status = core_.stopping ? 503 : RequestRecord::kClientLeft;
  record_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  if (core_.options.on_request) core_.options.on_request(record_);
}

void Session::note(const Generation& generation, std::size_t prompt, const OutputEvent& event) {
  const auto n = static_cast<std::size_t>(generation.requests[prompt].n);
  Choice& choice = choices_[prompt * n + static_cast<std::size_t>(event.choice)];
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
    if (choice.last_token != Clock::time_point()) {
      core_.counts.between_tokens.add(seconds(now - choice.last_token) / static_cast<double>(many),
                                      many);
    }
    choice.last_token = now;
    choice.tokens += many;
  }
  if (!event.finish) return;
  choice.ended = true;
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

void Session::note_cancelled(const Generation& generation, FinishReason finish) {
  const auto n = static_cast<std::size_t>(generation.requests.front().n);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].ended) continue;
    record_.finish = engine::finish_name(finish);
    record_.completion_tokens += choices_[i].tokens;
    if (i % n == 0) record_.prompt_tokens += generation.requests[i / n].prompt.size();
  }
}

void Session::note_failure(int status, std::string code, std::string message) {
  record_.error_status = status;
  record_.error_code = std::move(code);
  record_.error_message = std::move(message);
}

HttpResponse Session::dressed(HttpResponse response) {
  record_.status = response.status;
  if (!response.error_code.empty()) {
    note_failure(response.status, std::move(response.error_code),
                 std::move(response.error_message));
  }
  core_.counts.count_response(route_name(route_), response.status);
  response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
  for (const auto& [name, value] : response.headers)
    if (name == kIgnoredHeader) record_.ignored = value;
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
  if (std::string ignored = generation.ignored.text(); !ignored.empty())
    headers_.emplace_back(kIgnoredHeader, std::move(ignored));
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
  choices_.assign(choices, {});
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
               {generation, make_label(generation.endpoint, core_.state.served.shown(), began_),
                core_.backend.token_bytes}});
  const Builder builder(building, &building->builder);
  const bool next = generation.stream ? co_await stream(head, generation, builder)
                                      : co_await gather(head, generation, builder);
  // A write may fail before the client is known to have gone.
  if (!builder->failure()) {
    // What a dialect ended is cancelled, too, and yet it is whole.
    note_cancelled(generation,
                   builder->complete() ? FinishReason::kLength : FinishReason::kCancelled);
  }
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
      if (builder->failure() || builder->complete() || gone_) continue;
      note(generation, item.prompt, item.event);
      const std::string text = co_await add_event(builder, item);
      out += text;
    }
    ended = builder->complete() || builder->failure();
    if (const auto& failure = builder->failure())
      note_failure(failure->status, failure_code(*failure), failure->message);
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
      if (builder->complete()) break;
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
