#pragma once

#include <array>
#include <atomic>
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
#include "engine/sequence.h"
#include "engine/step_cost_estimator.h"
#include "model/cache.h"
#include "model/decoder.h"
#include "observe/event_log.h"
#include "observe/lane_log.h"
#include "schedule/scheduler.h"
#include "text/tokenizer.h"

namespace dovetail::engine {

// Where tests look at a step, or break it to see that others notice. Empty functions are not
// called.
struct StepHooks {
  // Changes what is computed and nothing else. Rows that are not sampled may be removed.
  std::function<void(schedule::StepPlan& plan)> before_forward;
  // After sampling: per sampled row of the plan, in its order, what became of it, and its
  // logit_rows() rows of logits; none where the sequence has ended since the plan was made.
  std::function<void(const schedule::StepPlan& plan, const schedule::StepResult& result,
                     std::span<const std::span<const float>> logits)>
      after_sampling;
  // In place of what the system says of the threads; see cores::PinRule::look().
  std::function<std::optional<double>()> waited_for_cores;
  const kernels::Kernels* kernels = nullptr;  // in place of those that the options name
};

// The step loop of one model without its thread: plan, execute, sample, emit. A caller that drives
// it step by step decides when requests arrive. One thread at a time; with async_scheduling the
// loop has a second one of its own, which computes while the caller's plans.
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

  // The tokens that end an output: those of the model and of its tokenizer that have a logit.
  std::span<const TokenId> end_ids() const { return end_ids_; }

  // Whether the request can be accepted by a loop of this kind; add() requires it. Thread-safe.
  Status validate(const Request& request) const;

  // Queues all choices of a valid request under an id that is new. `arrived` is when its timeout
  // starts.
  Status add(RequestId id, Request request, EventSink sink,
             Clock::time_point arrived = Clock::now());

  // Ends a request: each unfinished choice gets its last event, with kCancelled.
  void cancel(RequestId id);

  // Choices that were cancelled before they came to this loop.
  void count_cancelled(std::uint64_t choices) { stats_.requests_cancelled += choices; }

  // Ends requests whose time has passed, with kError and kTimeout.
  void expire(Clock::time_point now);

  // Ends everything, with kCancelled.
  void cancel_all();

  // Ends everything, with kError: a step has failed. Nothing more may be asked of this loop but its
  // figures and its trace.
  void abort(const Error& error);

  // Nothing runs, waits or is under way.
  bool idle() const { return aborted_ || scheduler_.idle(); }

  // Makes one step; with async_scheduling, completes the one under way and starts the next.
  // kInternal: an invariant is broken and no further step may be made.
  Status step();

  EngineStats stats() const;

  // Blocks that the cache is short of from now on; see kv::BlockPool::withhold.
  void withhold_blocks(std::uint32_t blocks) { scheduler_.withhold_blocks(blocks); }

  // What the scheduler was told.
  const schedule::SchedulerOptions& scheduling() const { return scheduler_.options(); }

  // Of the threads that compute. Whoever calls step() works for the core of the first lane, unless
  // with async_scheduling.
  cores::ThreadPins& pins() { return pins_; }

  // See EngineOptions::trace_events.
  EngineTrace trace() const;

 private:
  // A plan on its way through the model.
  struct Flight {
    schedule::StepPlan plan;
    std::vector<TokenId> tokens;  // of all rows that are computed
    std::vector<model::Segment> segments;
    std::vector<std::size_t> logits_of;  // by row of the plan: where its logits begin, in rows
    std::size_t logit_rows = 0;
    schedule::StepLoad load;   // of the rows that are computed
    std::uint32_t drafts = 0;  // among them
    Clock::time_point launched;
    double forward_seconds = 0;
  };

  StepLoop(EngineOptions options, std::shared_ptr<const load::ModelSource> source,
           std::optional<text::Tokenizer> tokenizer, const kernels::Kernels& kernels,
           model::Cache cache, StepHooks hooks);

  void look_at_cores(Clock::time_point now);
  Status make_plan(Flight& flight);
  void launch(Flight& flight);
  void lay_out(const schedule::StepPlan& plan, Flight& flight);
  template <class SliceOf>
  void write_lanes(const SliceOf& slice_of);
  Status land(Flight& flight);
  void sample(Flight& flight);
  void advance(std::size_t row);
  void conclude(Flight& flight);
  void count(const Flight& flight);
  void deliver();
  void note(observe::EventKind kind, std::uint64_t id);
  void end(schedule::SequenceId id, FinishReason reason, const Error& error);
  void forget(schedule::SequenceId id);

  EngineOptions options_;
  std::shared_ptr<const load::ModelSource> source_;
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<TokenId> end_ids_;
  std::atomic<std::uint64_t> step_{0};  // launched last, for the executor's watchdog
  cores::ThreadPins pins_;
  cores::Executor executor_;
  model::Decoder model_;
  model::Cache cache_;
  std::optional<observe::EventLog> log_;
  std::optional<observe::LaneLog> lanes_;
  schedule::Scheduler scheduler_;
  StepCostEstimator estimator_;
  std::unordered_map<schedule::SequenceId, Sequence> sequences_;
  std::unordered_map<RequestId, std::vector<schedule::SequenceId>> requests_;
  std::set<std::pair<Clock::time_point, RequestId>> deadlines_;
  schedule::SequenceId next_sequence_ = 0;
  std::mt19937_64 seeds_;  // for requests that bring none

  std::array<Flight, 2> flights_;
  std::size_t current_ = 0;  // the flight under way, or the next one
  bool flying_ = false;
  bool guesses_offered_ = false;  // at the last commit
  std::vector<kv::BlockId> stale_blocks_;
  std::vector<float> logits_;
  // Of the flight, by sampled row:
  std::vector<Sequence*> sampled_;  // null: it has ended
  std::vector<std::span<const float>> sampled_logits_;
  std::vector<Sequence::News> news_;
  cores::Recording sampling_;  // advance() for all rows
  schedule::StepResult result_;
  std::vector<std::pair<std::shared_ptr<const SharedRequest>, OutputEvent>> undelivered_;
  bool aborted_ = false;
  EngineStats stats_;
  StepHooks hooks_;
  std::optional<Background> background_;  // last: it works on all of the above
};

}  // namespace dovetail::engine
