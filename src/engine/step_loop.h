#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "cores/workers.h"
#include "dovetail/engine.h"
#include "engine/sequence.h"
#include "model/cache.h"
#include "model/dense.h"
#include "schedule/scheduler.h"
#include "text/tokenizer.h"

namespace dovetail::engine {

// Where tests look at a step, or break it to see that others notice. Empty functions are not
// called.
struct StepHooks {
  // Changes what is computed and nothing else. The sampled rows must stay as many.
  std::function<void(schedule::StepPlan& plan)> before_forward;
  // One row of logits per sampled row of the plan, in its order.
  std::function<void(const schedule::StepPlan& plan, std::span<const float> logits)> after_forward;
  const kernels::Kernels* kernels = nullptr;  // in place of those that the options name
};

// The step loop of one model without its thread: plan, execute, sample, emit. A caller that drives
// it step by step decides when requests arrive. One thread at a time.
class StepLoop {
 public:
  // Loads the weights' views and reserves the cache. `options` may have automatic values. The
  // tokenizer turns tokens into text; without one, text stays empty.
  static Result<std::unique_ptr<StepLoop>> create(std::shared_ptr<const load::ModelSource> source,
                                                  std::optional<text::Tokenizer> tokenizer,
                                                  EngineOptions options, StepHooks hooks = {});

  // With the automatic values filled in.
  const EngineOptions& options() const { return options_; }

  // Whether the request can be accepted by a loop of this kind; add() requires it. Thread-safe.
  Status validate(const Request& request) const;

  // Queues all choices of a valid request under an id that is new.
  Status add(RequestId id, Request request, EventSink sink);

  // Ends a request: each unfinished choice gets its last event, with kCancelled.
  void cancel(RequestId id);

  // Ends everything, with kCancelled or kError.
  void cancel_all();
  void abort(const Error& error);

  bool idle() const { return scheduler_.idle(); }

  // Makes one step. kInternal: an invariant is broken and no further step may be made.
  Status step();

  EngineStats stats() const;

 private:
  StepLoop(EngineOptions options, std::shared_ptr<const load::ModelSource> source,
           std::optional<text::Tokenizer> tokenizer, const kernels::Kernels& kernels,
           model::Cache cache, StepHooks hooks);

  void forward(const schedule::StepPlan& plan);
  std::vector<Sequence::Choice> sample(const schedule::StepPlan& plan);
  void end(schedule::SequenceId id, FinishReason reason, const Error& error);
  void forget(schedule::SequenceId id);

  EngineOptions options_;
  std::shared_ptr<const load::ModelSource> source_;
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<TokenId> end_ids_;
  cores::Workers workers_;
  model::DenseModel model_;
  model::Cache cache_;
  schedule::Scheduler scheduler_;
  std::unordered_map<schedule::SequenceId, Sequence> sequences_;
  std::unordered_map<RequestId, std::vector<schedule::SequenceId>> requests_;
  schedule::SequenceId next_sequence_ = 0;
  std::vector<model::Segment> segments_;
  std::vector<float> logits_;
  EngineStats stats_;
  StepHooks hooks_;
};

}  // namespace dovetail::engine
