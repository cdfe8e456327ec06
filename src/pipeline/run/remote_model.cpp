#include "pipeline/run/remote_model.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "pipeline/remote/chat_client.h"
#include "pipeline/run/local_model.h"

namespace dovetail::pipeline {
namespace {

constexpr Micros kShortestStallBound = 600 * kOneSecond;
// Answers of more bytes than these take long enough to read that free slots are told of before.
constexpr std::size_t kLongReading = 256 * 1024;
// A pipeline has one schema per column. An endpoint that refused so many takes none.
constexpr std::size_t kMostRefusedSchemas = 32;
// Of a prompt, for the budget of tokens: about what tokenizers make of English.
constexpr double kBytesPerToken = 4;
constexpr double kFirstCompletionTokens = 256;
constexpr double kCompletionTokensWeight = 1.0 / 16;

ErrorKind error_kind(const ChatOutcome& outcome, TransportError error) {
  switch (outcome.failure) {
    case FailureClass::kFinal:
      return ErrorKind::kInvalid;
    case FailureClass::kRetryable:
      return error == TransportError::kTimeout || error == TransportError::kConnectTimeout
                 ? ErrorKind::kTimeout
                 : ErrorKind::kUnavailable;
    case FailureClass::kNone:
    case FailureClass::kRateLimit:
    case FailureClass::kCancelled:
      break;
  }
  return ErrorKind::kUnavailable;
}

IdleCause idle_cause(Hindrance hindrance) {
  switch (hindrance) {
    case Hindrance::kNone:
      return IdleCause::kNone;
    case Hindrance::kLimit:
      return IdleCause::kLimit;
    case Hindrance::kCoolDown:
      return IdleCause::kCoolDown;
    case Hindrance::kBudget:
      return IdleCause::kBudget;
    case Hindrance::kBroken:
      return IdleCause::kBroken;
  }
  return IdleCause::kNone;
}

// Whether an endpoint complains about response_format and not about the request itself.
bool refuses_schema(const ChatOutcome& outcome) {
  if (outcome.status != 400 && outcome.status != 422) return false;
  for (const char* word : {"response_format", "json_schema", "guided", "not supported"}) {
    if (outcome.message.find(word) != std::string::npos) return true;
  }
  return false;
}

Json response_format(const Json& schema) {
  return {{"type", "json_schema"},
          {"json_schema", {{"name", "answer"}, {"strict", true}, {"schema", schema}}}};
}

std::uint32_t count(std::int64_t tokens) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(tokens, 0, std::numeric_limits<std::uint32_t>::max()));
}

// The beginning of the prompt, as far as the hash looks at it.
std::uint64_t prefix_of(const ModelRequest& request) {
  if (request.messages.empty()) return prefix_hash(request.prompt);
  if (request.messages.size() == 1) return prefix_hash(request.messages.front().content);
  std::string beginning;
  for (const ModelMessage& message : request.messages) {
    beginning += message.content;
    if (beginning.size() >= kPrefixBytes) break;
  }
  return prefix_hash(beginning);
}

std::size_t bytes_of(const ModelRequest& request) {
  std::size_t bytes = request.prompt.size();
  for (const ModelMessage& message : request.messages) bytes += message.content.size();
  return bytes;
}

}  // namespace

Result<std::shared_ptr<RemoteThreads>> RemoteThreads::create(HttpClientOptions options) {
  std::shared_ptr<RemoteThreads> made(new RemoteThreads());
  auto background = Background::create();
  if (!background) return fail(background.error());
  made->background_ = *std::move(background);
  auto http = HttpClient::create(std::move(options));
  if (!http) return fail(http.error());
  made->http_ = *std::move(http);
  return made;
}

// Lives until the last callback that knows of it is gone. After close() none of them does anything.
class RemoteModelHost::Impl : public std::enable_shared_from_this<Impl> {
 public:
  struct Endpoint {
    ChatClient client;
    std::string name;
    std::vector<Json> refused_schemas;
  };

  Impl(RemoteThreads& threads, std::string alias, const RemoteModel& model,
       const SamplingSpec& defaults, std::vector<Endpoint> endpoints,
       RemoteSchedulerOptions options)
      : http_(threads.http()),
        background_(threads.background()),
        alias_(std::move(alias)),
        model_(model),
        defaults_(defaults),
        endpoints_(std::move(endpoints)),
        scheduler_(std::move(options)) {}

  std::uint32_t slots() const {
    return model_.max_parallel * static_cast<std::uint32_t>(endpoints_.size());
  }
  std::uint32_t room();
  void set_wake(std::function<void()> wake);
  Status submit(const ModelRequest& request, AnswerSink sink);
  Status check();
  std::vector<ModelState> state();
  void close();

 private:
  using Id = RemoteScheduler::Id;

  struct Flight {
    ChatRequest request;
    Json schema;
    AnswerSink sink;
    std::size_t endpoint = 0;
    bool with_schema = false;
    std::optional<HttpClient::RequestId> transfer;  // while it is on the wire
  };

  struct Arrived {
    Id id = 0;
    HttpResult result;
  };

  ChatRequest chat_request(const ModelRequest& request) const;
  double estimate(const ModelRequest& request) const;
  bool takes_schema(const Endpoint& endpoint, const Json& schema) const;
  Status send(RemoteScheduler::Sending sending, Flight& flight);
  void ended(Id id, HttpResult result);
  void work();
  bool read(const Arrived& arrived);
  void answer(Id id, const ChatAnswer& said, Micros on_wire);
  bool ask_without_schema(Id id, Flight& flight);
  void finish(Id id, Result<ModelAnswer> result);
  void resume();
  void tell_room();
  void arm();
  void on_timer();
  void abort(const Error& why);
  Flight* find(Id id);

  HttpClient& http_;
  Background& background_;
  const std::string alias_;
  const RemoteModel model_;
  const SamplingSpec defaults_;
  std::function<void()> wake_;  // set before the first submit()

  // Guards all below. Never held while a sink or `wake_` runs.
  std::mutex mutex_;
  std::condition_variable emptied_;
  std::vector<Endpoint> endpoints_;
  RemoteScheduler scheduler_;
  std::unordered_map<Id, Flight> flights_;
  std::size_t owed_ = 0;  // sinks that were taken and have not returned from their call
  std::vector<Arrived> arrived_;
  Micros armed_ = kNever;
  double completion_tokens_ = kFirstCompletionTokens;  // of an answer, as the latest ones were
  std::optional<Error> stopped_;
};

std::uint32_t RemoteModelHost::Impl::room() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint32_t>(scheduler_.room(Background::now()));
}

void RemoteModelHost::Impl::set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

ChatRequest RemoteModelHost::Impl::chat_request(const ModelRequest& request) const {
  ChatRequest result;
  result.model = model_.model;
  for (const ModelMessage& message : request.messages) {
    result.messages.push_back({message.role, message.content, ""});
  }
  if (request.messages.empty()) result.prompt = request.prompt;
  const SamplingSpec sampling = merged(request.sampling, defaults_);
  result.sampling.values = sampling.values;
  result.sampling.max_tokens = sampling.max_tokens;
  result.sampling.reasoning_budget = sampling.reasoning_budget;
  result.sampling.reasoning_budget_message = sampling.reasoning_budget_message;
  result.sampling.stop = sampling.stop;
  // OpenAI's field is a signed number.
  constexpr std::uint64_t kSeedBits = std::numeric_limits<std::int64_t>::max();
  result.sampling.seed = static_cast<std::int64_t>(request.seed & kSeedBits);
  result.extra_body = model_.extra_body;
  return result;
}

double RemoteModelHost::Impl::estimate(const ModelRequest& request) const {
  if (!model_.tokens_per_minute) return 0;
  const auto limit =
      request.sampling.max_tokens ? request.sampling.max_tokens : defaults_.max_tokens;
  const double answer =
      limit ? std::min(completion_tokens_, static_cast<double>(*limit)) : completion_tokens_;
  return static_cast<double>(bytes_of(request)) / kBytesPerToken + answer;
}

Status RemoteModelHost::Impl::submit(const ModelRequest& request, AnswerSink sink) {
  const std::uint64_t prefix = prefix_of(request);
  RemoteScheduler::Sending sending;
  Flight* flight = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return fail(*stopped_);
    const auto begun =
        scheduler_.begin({prefix, estimate(request), request.seed}, Background::now());
    if (!begun) return fail(ErrorKind::kExhausted, "{}: no room for a request now", alias_);
    sending = *begun;
    flight = &flights_[sending.id];
    ++owed_;
  }
  flight->request = chat_request(request);
  flight->schema = request.schema;
  flight->sink = std::move(sink);
  const Status sent = send(sending, *flight);
  if (!sent) {
    const std::lock_guard lock(mutex_);
    const Micros now = Background::now();
    scheduler_.ended(sending.id, {}, now);
    scheduler_.failed(sending.id, FailureClass::kCancelled, sent.error().message, now);
    flights_.erase(sending.id);
    if (--owed_ == 0) emptied_.notify_all();
  }
  arm();
  return sent;
}

bool RemoteModelHost::Impl::takes_schema(const Endpoint& endpoint, const Json& schema) const {
  const std::vector<Json>& refused = endpoint.refused_schemas;
  if (schema.is_null() || refused.size() >= kMostRefusedSchemas) return false;
  return std::find(refused.begin(), refused.end(), schema) == refused.end();
}

Status RemoteModelHost::Impl::send(RemoteScheduler::Sending sending, Flight& flight) {
  Endpoint& endpoint = endpoints_[sending.endpoint];
  flight.endpoint = sending.endpoint;
  {
    const std::lock_guard lock(mutex_);
    flight.with_schema = takes_schema(endpoint, flight.schema);
  }
  flight.request.response_format = flight.with_schema ? response_format(flight.schema) : Json();
  auto prepared = endpoint.client.prepare(flight.request);
  if (!prepared) {
    return fail(prepared.error().kind, "{}: {}", alias_, prepared.error().message);
  }
  const auto self = shared_from_this();
  const Id id = sending.id;
  const std::lock_guard lock(mutex_);
  flight.transfer = endpoint.client.send(
      *std::move(prepared), [self, id](HttpResult result) { self->ended(id, std::move(result)); });
  // stop() came before this transfer was known.
  if (stopped_) endpoint.client.cancel(*flight.transfer);
  return {};
}

void RemoteModelHost::Impl::ended(Id id, HttpResult result) {
  const RemoteScheduler::WireEnd end{limit_outcome(result), breaker_outcome(result),
                                     result.retry_after};
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    flights_.at(id).transfer.reset();
    scheduler_.ended(id, end, Background::now());
    first = arrived_.empty();
    arrived_.push_back({id, std::move(result)});
  }
  if (first) background_.post([self = shared_from_this()] { self->work(); });
}

void RemoteModelHost::Impl::work() {
  std::vector<Arrived> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  resume();
  std::size_t bytes = 0;
  for (const Arrived& one : arrived) bytes += one.result.body.size();
  if (bytes > kLongReading) tell_room();
  bool grew = false;
  for (const Arrived& one : arrived) grew = !read(one) || grew;
  resume();
  if (grew) tell_room();
  arm();
}

RemoteModelHost::Impl::Flight* RemoteModelHost::Impl::find(Id id) {
  const std::lock_guard lock(mutex_);
  return &flights_.at(id);
}

// Whether its sink was called.
bool RemoteModelHost::Impl::read(const Arrived& arrived) {
  Flight& flight = *find(arrived.id);
  const ChatOutcome outcome =
      endpoints_[flight.endpoint].client.read(arrived.result, flight.request.form());
  if (outcome.failure == FailureClass::kNone) {
    answer(arrived.id, outcome.answer, outcome.on_wire);
    return true;
  }
  if (flight.with_schema && refuses_schema(outcome)) return ask_without_schema(arrived.id, flight);
  Error error{error_kind(outcome, arrived.result.error), ""};
  {
    const std::lock_guard lock(mutex_);
    const Retries::Decision decision = scheduler_.failed(
        arrived.id, outcome.failure, outcome.message, Background::now(), outcome.retry_after);
    if (decision.again) return false;
    error.message = outcome.failure == FailureClass::kRetryable
                        ? fmt::format("{}: {} ({})", alias_, outcome.message, decision.reason)
                        : fmt::format("{}: {}", alias_, outcome.message);
    if (outcome.failure != FailureClass::kFinal && stopped_) error = *stopped_;
  }
  finish(arrived.id, fail(std::move(error)));
  return true;
}

void RemoteModelHost::Impl::answer(Id id, const ChatAnswer& said, Micros on_wire) {
  ModelAnswer result;
  result.text = said.content;
  result.cut = said.finish_reason == "length";
  result.on_wire_us = static_cast<std::uint64_t>(on_wire);
  std::optional<double> tokens;
  if (said.usage) {
    result.usage.prompt_tokens = count(said.usage->prompt_tokens);
    result.usage.cached_tokens = count(said.usage->cached_tokens);
    result.usage.completion_tokens = count(said.usage->completion_tokens);
    tokens = static_cast<double>(said.usage->prompt_tokens) +
             static_cast<double>(said.usage->completion_tokens);
  }
  {
    const std::lock_guard lock(mutex_);
    result.attempts = static_cast<std::uint32_t>(scheduler_.sends(id));
    scheduler_.answered(id, tokens, Background::now());
    if (said.usage) {
      completion_tokens_ +=
          kCompletionTokensWeight *
          (static_cast<double>(said.usage->completion_tokens) - completion_tokens_);
    }
  }
  finish(id, std::move(result));
}

// Whether its sink was called.
bool RemoteModelHost::Impl::ask_without_schema(Id id, Flight& flight) {
  Error error;
  {
    const std::lock_guard lock(mutex_);
    Endpoint& endpoint = endpoints_[flight.endpoint];
    if (takes_schema(endpoint, flight.schema)) endpoint.refused_schemas.push_back(flight.schema);
    if (scheduler_.once_more(id, Background::now())) return false;
    error = *stopped_;
  }
  finish(id, fail(std::move(error)));
  return true;
}

// The scheduler has forgotten it.
void RemoteModelHost::Impl::finish(Id id, Result<ModelAnswer> result) {
  AnswerSink sink;
  {
    const std::lock_guard lock(mutex_);
    const auto found = flights_.find(id);
    sink = std::move(found->second.sink);
    flights_.erase(found);
  }
  sink(std::move(result));
  sink = nullptr;
  const std::lock_guard lock(mutex_);
  if (--owed_ == 0) emptied_.notify_all();
}

void RemoteModelHost::Impl::resume() {
  for (;;) {
    std::optional<RemoteScheduler::Sending> next;
    Flight* flight = nullptr;
    {
      const std::lock_guard lock(mutex_);
      next = scheduler_.resume(Background::now());
      if (!next) return;
      flight = &flights_.at(next->id);
    }
    if (const Status sent = send(*next, *flight); !sent) {
      // Only the schema has changed since it was sent the last time.
      {
        const std::lock_guard lock(mutex_);
        const Micros now = Background::now();
        scheduler_.ended(next->id, {}, now);
        scheduler_.failed(next->id, FailureClass::kFinal, sent.error().message, now);
      }
      finish(next->id, fail(sent.error()));
    }
  }
}

void RemoteModelHost::Impl::tell_room() {
  if (wake_ && room() > 0) wake_();
}

void RemoteModelHost::Impl::arm() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  const Micros next = scheduler_.next_time(Background::now());
  if (next >= armed_) return;
  armed_ = next;
  background_.post_at(next, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_timer();
  });
}

void RemoteModelHost::Impl::on_timer() {
  {
    const std::lock_guard lock(mutex_);
    if (Background::now() >= armed_) armed_ = kNever;
  }
  resume();
  tell_room();
  arm();
}

Status RemoteModelHost::Impl::check() {
  Error error;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return fail(*stopped_);
    const Status status = scheduler_.check(Background::now());
    if (status) return {};
    error = status.error();
  }
  background_.post([self = shared_from_this(), error] { self->abort(error); });
  return fail(std::move(error));
}

std::vector<ModelState> RemoteModelHost::Impl::state() {
  const std::lock_guard lock(mutex_);
  std::vector<ModelState> result;
  for (const auto& state : scheduler_.state(Background::now())) {
    const Endpoint& endpoint = endpoints_[result.size()];
    const IdleCause cause = idle_cause(state.hindrance);
    result.push_back({endpoint.name, static_cast<std::uint32_t>(state.in_flight),
                      static_cast<std::uint32_t>(state.limit), cause,
                      endpoint.refused_schemas.empty()
                          ? ""
                          : "takes no response_format: answers are only checked",
                      std::string(cause == IdleCause::kBroken ? state.failure : "")});
  }
  return result;
}

// Nothing is begun any more; what waits ends now, what is on the wire soon.
void RemoteModelHost::Impl::abort(const Error& why) {
  std::vector<Id> waited;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = why;
    waited = scheduler_.stop(Background::now());
    for (const auto& [id, flight] : flights_) {
      if (flight.transfer) http_.cancel(*flight.transfer);
    }
  }
  for (const Id id : waited) finish(id, fail(why));
}

void RemoteModelHost::Impl::close() {
  abort({ErrorKind::kUnavailable, alias_ + ": the model was stopped"});
  {
    std::unique_lock lock(mutex_);
    emptied_.wait(lock, [this] { return owed_ == 0; });
  }
  // Whatever calls `wake_` now is done after this; whatever comes later finds no room.
  std::promise<void> passed;
  background_.post([&passed] { passed.set_value(); });
  passed.get_future().wait();
}

RemoteModelHost::RemoteModelHost(std::shared_ptr<RemoteThreads> threads, std::shared_ptr<Impl> impl)
    : threads_(std::move(threads)), impl_(std::move(impl)) {}

RemoteModelHost::~RemoteModelHost() { impl_->close(); }

Result<std::unique_ptr<RemoteModelHost>> RemoteModelHost::create(
    std::shared_ptr<RemoteThreads> threads, const std::string& alias, const RemoteModel& model,
    const SamplingSpec& defaults, const RemoteHostOptions& options) {
  ChatEndpoint endpoint;
  if (!model.api_key_env.empty()) {
    const char* key = std::getenv(model.api_key_env.c_str());
    if (key == nullptr || *key == 0) {
      return fail(
          ErrorKind::kInvalid,
          "api_key_env: the environment variable {} is not set; it is to hold the endpoint's key",
          model.api_key_env);
    }
    endpoint.api_key = key;
  }
  if (const Status good = check_extra_body(model.extra_body); !good) {
    return fail(good.error());
  }
  if (model.base_urls.empty()) {
    return fail(ErrorKind::kInvalid, "endpoint: there is no URL");
  }
  endpoint.headers = model.headers;
  endpoint.timeouts.total = model.timeout.count() * 1000;
  if (endpoint.timeouts.total > 0) {
    endpoint.timeouts.connect = std::min(endpoint.timeouts.connect, endpoint.timeouts.total);
  }
  RemoteSchedulerOptions scheduler;
  scheduler.name = "model " + alias;
  std::vector<Impl::Endpoint> endpoints;
  for (const std::string& url : model.base_urls) {
    endpoint.base_url = url;
    auto client = ChatClient::create(threads->http(), endpoint);
    if (!client) return fail(client.error());
    endpoints.push_back({*std::move(client), public_url(url), {}});
    scheduler.endpoints.push_back(url);
  }
  scheduler.limit = options.limit;
  scheduler.limit.max_parallel = static_cast<int>(model.max_parallel);
  scheduler.rate.requests_per_minute = model.requests_per_minute.value_or(0.0);
  scheduler.rate.tokens_per_minute = model.tokens_per_minute.value_or(0.0);
  scheduler.breaker = options.breaker;
  scheduler.retry = options.retry;
  scheduler.group = options.group;
  scheduler.most_off_wire = options.most_off_wire;
  scheduler.stall_bound =
      options.stall_bound.value_or(std::max(kShortestStallBound, 2 * endpoint.timeouts.total));
  auto impl = std::make_shared<Impl>(*threads, alias, model, defaults, std::move(endpoints),
                                     std::move(scheduler));
  return std::unique_ptr<RemoteModelHost>(new RemoteModelHost(std::move(threads), std::move(impl)));
}

ModelClient RemoteModelHost::client() {
  ModelClient client;
  Impl* impl = impl_.get();
  client.slots = impl->slots();
  client.room = [impl] { return impl->room(); };
  client.on_room = [impl](std::function<void()> wake) { impl->set_wake(std::move(wake)); };
  client.submit = [impl](const ModelRequest& request, AnswerSink sink) {
    return impl->submit(request, std::move(sink));
  };
  client.check = [impl] { return impl->check(); };
  client.state = [impl] { return impl->state(); };
  return client;
}

}  // namespace dovetail::pipeline
