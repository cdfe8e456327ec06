#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "cores/recording.h"
#include "cores/thread_pins.h"
#include "dovetail/engine.h"
#include "engine/background.h"
#include "engine/draft_choice.h"
#include "engine/host.h"
#include "engine/options.h"
#include "engine/prompt_scorer.h"
#include "engine/sequence.h"
#include "engine/step_cost_estimator.h"
#include "model/backend.h"
#include "observe/event_log.h"
#include "schedule/scheduler.h"
#include "text/tokenizer.h"

namespace dovetail::engine {

// Opens what a loop computes with. A backend may use the executor for its passes.
using OpenBackend = std::function<Result<std::unique_ptr<model::Backend>>(
    std::shared_ptr<const load::ModelSource> source, const ResolvedOptions& resolved,
    cores::Executor& executor)>;

// The model on the executor's lanes, with ResolvedOptions::kernels. May throw std::bad_alloc and
// std::system_error.
Result<std::unique_ptr<model::Backend>> open_on_cpu(std::shared_ptr<const load::ModelSource> source,
                                                    const ResolvedOptions& resolved,
                                                    cores::Executor& executor);

// Hooks for tests that inspect a step, or break it. Empty functions are not called.
struct StepHooks {
  OpenBackend open_backend;  // in place of open_on_cpu()
  // After sampling: per sampled row of the plan, in its order, its result and its logit_rows() rows
  // of logits; none where the sequence has ended since the plan was made.
  std::function<void(const schedule::StepPlan& plan, const schedule::StepResult& result,
                     std::span<const std::span<const float>> logits)>
      after_sampling;
  // Replaces the system's statistics of the threads; see cores::PinRule::look().
  std::function<std::optional<double>()> waited_for_cores;
};

// The step loop of one model without its thread: plan, execute, sample, emit. What executes is a
// backend; the loop samples on this machine's lanes. A caller that drives it step by step decides
// when requests arrive. Calls come from one thread; with async_scheduling
// the loop has a second thread of its own, which computes while the caller's thread plans.
class StepLoop {
 public:
  using Clock = std::chrono::steady_clock;

  // Loads the weights' views and reserves the cache. `options` may have automatic values. The
  // tokenizer turns tokens into text; without one, text stays empty.
  static Result<std::unique_ptr<StepLoop>> create(std::shared_ptr<const load::ModelSource> source,
                                                  std::optional<text::Tokenizer> tokenizer,
                                                  EngineOptions options, StepHooks hooks = {});
  ~StepLoop();

  // With the automatic values filled in.
  const EngineOptions& options() const { return options_; }

  // Tokens that end an output: those of the model and of its tokenizer that have a logit.
  std::span<const TokenId> end_ids() const { return end_ids_; }

  // Whether this loop can accept the request; add() requires it. Thread-safe.
  Status validate(const Request& request) const;

  // Queues all choices of a valid request under an id that is new. Its timeout starts
  // at `arrived`.
  Status add(RequestId id, Request request, EventSink sink,
             Clock::time_point arrived = Clock::now());

  // Ends a request: each unfinished choice gets its last event, with kCancelled.
  void cancel(RequestId id);

  // Counts choices that were cancelled before add().
  void count_cancelled(std::uint64_t choices) { stats_.requests_cancelled += choices; }

  // Ends requests whose deadline has passed, with kError and kTimeout.
  void expire(Clock::time_point now);

  // Ends all requests, with kCancelled.
  void cancel_all();

  // Ends all requests, with kError, after a failed step. Only stats() and trace() may follow.
  void abort(const Error& error);

  // No request runs or waits, and no step is in flight.
  bool idle() const { return aborted_ || scheduler_.idle(); }

  // Makes one step; with async_scheduling, completes the step in flight and launches the next.
  // kInternal: an invariant is broken and no further step may be made.
  Status step();

  EngineStats stats() const;

  // Withholds blocks of the cache; see kv::BlockPool::withhold.
  void withhold_blocks(std::uint32_t blocks) { scheduler_.withhold_blocks(blocks); }

  // The scheduler's options.
  const schedule::SchedulerOptions& scheduling() const { return scheduler_.options(); }

  // Pins of the computing threads. Without async_scheduling the caller of step() is the first
  // lane's thread.
  cores::ThreadPins& pins() { return host_->pins; }

  // See EngineOptions::trace_events.
  EngineTrace trace() const;

 private:
  // A plan and its inputs, from launch to commit.
  struct InFlightStep {
    schedule::StepPlan plan;
    std::vector<TokenId> tokens;  // of all computed rows
    std::vector<model::Segment> segments;
    std::vector<model::StateSave> saves;
    std::vector<std::size_t> logits_of;  // by row of the plan: its first row of logits
    std::size_t logit_rows = 0;
    std::vector<std::size_t> hidden_of;  // by row of the plan: its first hidden row
    std::size_t hidden_rows = 0;
    schedule::StepLoad load;   // of the computed rows
    std::uint32_t drafts = 0;  // draft tokens among them
    Clock::time_point launched;
    double forward_seconds = 0;
    Status computed;  // of forward(), without a background thread
  };

  StepLoop(EngineOptions options, std::shared_ptr<const load::ModelSource> source,
           std::optional<text::Tokenizer> tokenizer, std::unique_ptr<Host> host,
           std::unique_ptr<model::Backend> backend, StepHooks hooks);

  void update_pins(Clock::time_point now);
  Status make_plan(InFlightStep& step);
  void launch(InFlightStep& step);
  void prepare_inputs(InFlightStep& step);
  Status wait(InFlightStep& step);
  void pool(const InFlightStep& step);
  Status score(const InFlightStep& step);
  void sample(const InFlightStep& step);
  void append_tokens(std::size_t row);
  Status draft(const InFlightStep& step);
  void commit(InFlightStep& step);
  void count(const InFlightStep& step);
  void deliver();
  void note(observe::EventKind kind, std::uint64_t id);
  void end(schedule::SequenceId id, FinishReason reason, const Error& error);
  void forget(schedule::SequenceId id);

  EngineOptions options_;
  std::shared_ptr<const load::ModelSource> source_;
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<TokenId> end_ids_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<model::Backend> backend_;  // uses the host's executor
  std::optional<observe::EventLog> log_;
  std::optional<observe::LaneLog> lanes_;
  schedule::Scheduler scheduler_;
  StepCostEstimator estimator_;
  std::unordered_map<schedule::SequenceId, Sequence> sequences_;
  std::unordered_map<RequestId, std::vector<schedule::SequenceId>> requests_;
  std::set<std::pair<Clock::time_point, RequestId>> deadlines_;
  schedule::SequenceId next_sequence_ = 0;
  std::mt19937_64 seeds_;  // for requests without a seed

  std::array<InFlightStep, 2> in_flight_steps_;
  std::size_t current_ = 0;  // index of the step in flight, or of the next one
  bool in_flight_ = false;
  bool drafts_offered_ = false;   // at the last commit
  bool drafts_by_layer_ = false;  // of the model; else they are looked up
  DraftChoice draft_choice_;
  std::vector<model::DraftRow> draft_rows_;
  double draft_seconds_ = 0;  // of the step
  std::vector<kv::BlockId> stale_blocks_;
  std::vector<float> logits_, hidden_;
  PromptScorer scorer_;
  // By sampled row of the step:
  std::vector<Sequence*> sampled_;  // null: the sequence has ended
  std::vector<std::span<const float>> sampled_logits_;
  std::vector<Sequence::Appended> appended_;
  cores::Recording sampling_;  // append_tokens() for all rows
  schedule::StepResult result_;
  std::vector<std::pair<std::shared_ptr<const SharedRequest>, OutputEvent>> undelivered_;
  bool aborted_ = false;
  EngineStats stats_;
  StepHooks hooks_;
  std::optional<Background> background_;  // last: it uses all members above
};

}  // namespace dovetail::engine
