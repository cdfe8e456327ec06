#include "dovetail/engine.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "cores/machine_cores.h"
#include "engine/options.h"
#include "engine/step_loop.h"
#include "grammar/compiler.h"
#include "load/model_source.h"
#include "text/tokenizer.h"

namespace dovetail {
namespace {

using Clock = std::chrono::steady_clock;

struct Submission {
  RequestId id = 0;
  Request request;
  EventSink sink;
  Clock::time_point arrived;
};

// Every choice of an accepted request has a last event, also if the request never reached the loop.
void end_unstarted(const Submission& submission, FinishReason reason, const Error& error) {
  for (std::int32_t choice = 0; choice < submission.request.n; ++choice) {
    OutputEvent event;
    event.request = submission.id;
    event.choice = choice;
    event.finish = reason;
    event.error = error;
    event.usage.prompt_tokens = static_cast<std::uint32_t>(submission.request.prompt.size());
    submission.sink(std::move(event));
  }
}

std::optional<grammar::SourceKind> source_kind(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return grammar::SourceKind::kJsonSchema;
    case GrammarKind::kRegex:
      return grammar::SourceKind::kRegex;
    case GrammarKind::kJsonObject:
      return grammar::SourceKind::kJsonObject;
    case GrammarKind::kStructure:
      return grammar::SourceKind::kStructure;
    case GrammarKind::kGbnf:
      return grammar::SourceKind::kGbnf;
  }
  return std::nullopt;
}

std::string_view text_of(GrammarKind kind, std::string_view text) {
  return kind == GrammarKind::kJsonObject ? std::string_view() : text;
}

}  // namespace

struct Engine::Impl {
  std::shared_ptr<const load::ModelSource> source;
  text::Tokenizer tokenizer;
  std::unique_ptr<engine::StepLoop>
      loop;  // used by the thread alone, except options() and validate()
  EngineOptions options;

  mutable std::mutex mutex;
  std::condition_variable wake;     // of the loop: work has arrived
  std::condition_variable settled;  // of drain(): the engine is idle
  std::vector<Submission> arrivals;
  std::vector<RequestId> cancels;
  std::uint64_t arriving = 0;  // choices not counted in `stats` yet
  std::vector<std::promise<EngineTrace>> trace_requests;
  bool stopped = false;  // the thread has ended
  RequestId next_id = 1;
  bool draining = false;
  bool stopping = false;
  bool busy = false;  // the loop has work taken from the lists
  EngineStats stats;
  Clock::time_point last_progress = Clock::now();
  std::optional<Error> failure;
  std::thread thread;

  std::once_flag compiler_made;  // made with the first grammar: building it is slow
  Result<std::unique_ptr<grammar::Compiler>> compiler;
  std::atomic<bool> has_compiler = false;  // then `compiler` can be read

  Impl(std::shared_ptr<const load::ModelSource> model, text::Tokenizer text,
       std::unique_ptr<engine::StepLoop> steps)
      : source(std::move(model)),
        tokenizer(std::move(text)),
        loop(std::move(steps)),
        options(loop->options()),
        stats(loop->stats()) {}

  Result<std::unique_ptr<grammar::Compiler>> make_compiler() const;
  void run();
  bool take_work();
  bool has_messages() const;
  void make_step();
};

Result<std::unique_ptr<grammar::Compiler>> Engine::Impl::make_compiler() const {
  auto tokens = tokenizer.token_bytes();
  if (!tokens) return fail(std::move(tokens.error()));
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    std::string& bytes = (*tokens)[i];
    if (tokenizer.is_special(id)) {
      bytes = grammar::control_token(tokenizer.token_text(id));
    } else if (grammar::holds_control_bytes(bytes)) {
      bytes.clear();  // no text of a grammar is UTF-8 with it
    }
  }
  // One bit per logit: models have logits without a token.
  tokens->resize(source->config.vocab_size);
  auto vocabulary = grammar::Vocabulary::create(*tokens, loop->end_ids());
  if (!vocabulary) return fail(std::move(vocabulary.error()));
  return std::make_unique<grammar::Compiler>(
      std::make_shared<const grammar::Vocabulary>(*std::move(vocabulary)));
}

// Waits for work and takes it. False: the engine stops.
bool Engine::Impl::take_work() {
  std::vector<Submission> taken;
  std::vector<RequestId> cancelled;
  std::vector<std::promise<EngineTrace>> traces;
  std::uint64_t choices = 0;
  bool stop = false;
  {
    std::unique_lock lock(mutex);
    const bool was_idle = loop->idle();
    if (was_idle) {
      busy = false;
      settled.notify_all();
    }
    // Deadlines need no alarm: a request with a deadline keeps the loop from being idle.
    wake.wait(lock, [&] { return has_messages() || !loop->idle(); });
    if (was_idle) last_progress = Clock::now();
    busy = true;
    stop = stopping;
    taken.swap(arrivals);
    cancelled.swap(cancels);
    choices = arriving;
    traces.swap(trace_requests);
  }
  for (auto& trace : traces) trace.set_value(loop->trace());
  const std::unordered_set<RequestId> gone(cancelled.begin(), cancelled.end());
  for (Submission& submission : taken) {
    if (stop || gone.contains(submission.id)) {
      end_unstarted(submission, FinishReason::kCancelled, {});
      loop->count_cancelled(static_cast<std::uint64_t>(submission.request.n));
    } else if (failure) {
      end_unstarted(submission, FinishReason::kError, *failure);
    } else if (const Status added = loop->add(submission.id, submission.request, submission.sink,
                                              submission.arrived);
               !added) {
      end_unstarted(submission, FinishReason::kError, added.error());
    }
  }
  for (const RequestId id : cancelled) loop->cancel(id);
  loop->expire(Clock::now());
  // Before the step, which may be long: taken requests count as waiting meanwhile.
  const std::lock_guard lock(mutex);
  stats = loop->stats();
  arriving -= choices;
  return !stop;
}

bool Engine::Impl::has_messages() const {
  return stopping || !arrivals.empty() || !cancels.empty() || !trace_requests.empty();
}

void Engine::Impl::make_step() {
  Status done;
  try {
    done = loop->step();
  } catch (const std::exception& exception) {
    done = fail(ErrorKind::kInternal, "a step failed: {}", exception.what());
  }
  if (!done) {
    loop->abort(done.error());
    const std::lock_guard lock(mutex);
    failure = done.error();
  }
}

void Engine::Impl::run() {
  while (take_work()) {
    if (!loop->idle()) make_step();
    const std::lock_guard lock(mutex);
    stats = loop->stats();
    last_progress = Clock::now();
  }
  loop->cancel_all();
  const std::lock_guard lock(mutex);
  stats = loop->stats();
  busy = false;
  stopped = true;
  for (auto& trace : trace_requests) trace.set_value(loop->trace());
  trace_requests.clear();
  settled.notify_all();
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const load::ModelSource> source,
                                               const EngineOptions& options) {
  if (!source->has_weights) {
    return fail(ErrorKind::kInvalid, "{}: a configuration without weights, expected a model",
                source->path.string());
  }
  Result<text::Tokenizer> tokenizer = text::Tokenizer::create(*source);
  if (!tokenizer) return fail(tokenizer.error());
  auto loop = engine::StepLoop::create(source, *tokenizer, options);
  if (!loop) return fail(loop.error());
  auto impl = std::make_unique<Impl>(std::move(source), *std::move(tokenizer), *std::move(loop));
  try {
    impl->thread = std::thread([running = impl.get()] {
      // Without async_scheduling this thread is the first lane's.
      std::optional<cores::ThreadPins::Member> member;
      if (!running->options.async_scheduling) member.emplace(running->loop->pins(), 0);
      running->run();
    });
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "the system does not start a thread for the engine: {}",
                error.what());
  }
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::~Engine() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->draining = true;
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

Result<RequestId> Engine::submit(Request request, EventSink sink) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  auto ids = submit_all(std::move(one), [sink = std::move(sink)](std::size_t, OutputEvent event) {
    sink(std::move(event));
  });
  if (!ids) return fail(ids.error());
  return ids->front();
}

Result<std::vector<RequestId>> Engine::submit_all(std::vector<Request> requests,
                                                  const GroupSink& sink) {
  std::uint64_t choices = 0;
  for (const Request& request : requests) {
    if (const Status valid = impl_->loop->validate(request); !valid) return fail(valid.error());
    choices += static_cast<std::uint64_t>(request.n);
  }
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->failure)
      return fail(ErrorKind::kUnavailable, "the engine has failed: {}", impl_->failure->message);
    if (impl_->draining) return fail(ErrorKind::kUnavailable, "the engine is shutting down");
    const std::uint64_t waiting = impl_->arriving + impl_->stats.waiting;
    const std::uint64_t slots = impl_->options.max_num_seqs;
    const std::uint64_t unused = slots - std::min<std::uint64_t>(slots, impl_->stats.running);
    const bool fits = waiting + choices <= impl_->options.max_waiting + unused;
    const bool never_fits = choices > impl_->options.max_waiting + slots;
    if (!fits && (waiting > 0 || !never_fits)) {
      return fail(ErrorKind::kExhausted,
                  "the queue is full: {} sequences are waiting and at most {} may", waiting,
                  impl_->options.max_waiting);
    }
    if (!impl_->busy && impl_->arrivals.empty()) impl_->last_progress = Clock::now();
    impl_->arriving += choices;
    const Clock::time_point now = Clock::now();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ids.push_back(impl_->next_id++);
      impl_->arrivals.push_back({ids.back(), std::move(requests[i]),
                                 [sink, i](OutputEvent event) { sink(i, std::move(event)); }, now});
    }
  }
  impl_->wake.notify_one();
  return ids;
}

Result<CompiledGrammar> Engine::compile(GrammarKind kind, std::string_view text,
                                        const std::atomic<bool>* stop) {
  std::call_once(impl_->compiler_made, [&] {
    impl_->compiler = impl_->make_compiler();
    impl_->has_compiler = impl_->compiler.has_value();
  });
  if (!impl_->compiler) return fail(impl_->compiler.error());
  const auto source = source_kind(kind);
  if (!source) return fail(ErrorKind::kInvalid, "grammar: an unknown kind");
  return (*impl_->compiler)->compile(*source, text_of(kind, text), stop);
}

std::optional<Result<CompiledGrammar>> Engine::find_grammar(GrammarKind kind,
                                                            std::string_view text) const {
  const auto source = source_kind(kind);
  if (!impl_->has_compiler || !source) return std::nullopt;
  return (*impl_->compiler)->find(*source, text_of(kind, text));
}

void Engine::cancel(RequestId id) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (id == 0 || id >= impl_->next_id) return;
    impl_->cancels.push_back(id);
  }
  impl_->wake.notify_one();
}

bool Engine::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(impl_->mutex);
  impl_->draining = true;
  const auto empty = [&] { return !impl_->busy && impl_->arrivals.empty(); };
  if (impl_->settled.wait_for(lock, limit, empty)) return true;
  impl_->stopping = true;
  impl_->wake.notify_all();
  impl_->settled.wait(lock, empty);
  return false;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->mutex);
  EngineStats stats = impl_->stats;
  stats.waiting += static_cast<std::uint32_t>(impl_->arriving);
  return stats;
}

EngineHealth Engine::health(std::chrono::milliseconds stall) const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->failure) return {false, "the engine has failed: " + impl_->failure->message};
  const bool has_work = impl_->busy || !impl_->arrivals.empty();
  const auto quiet =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - impl_->last_progress);
  if (has_work && quiet > stall)
    return {false, fmt::format("work is waiting and no step has ended for {} ms", quiet.count())};
  return {};
}

EngineTrace Engine::trace() const {
  std::future<EngineTrace> trace;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) return impl_->loop->trace();
    trace = impl_->trace_requests.emplace_back().get_future();
  }
  impl_->wake.notify_one();
  return trace.get();
}

const load::ModelSource& Engine::source() const { return *impl_->source; }
const text::Tokenizer& Engine::tokenizer() const { return impl_->tokenizer; }
const EngineOptions& Engine::options() const { return impl_->options; }

}  // namespace dovetail
