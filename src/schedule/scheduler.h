#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kv/kv_manager.h"
#include "observe/event_log.h"
#include "schedule/step_cost.h"
#include "schedule/step_plan.h"
#include "schedule/waiting_queue.h"

namespace dovetail::schedule {

enum class Policy : std::uint8_t {
  kFcfs,      // by arrival
  kPriority,  // by priority class, then arrival; a class ages into the next
  kFair,      // by the tenant that was served least, then arrival
};

struct SchedulerOptions {
  std::uint32_t max_num_seqs = 64;             // rows of a step, and slots
  std::uint32_t max_num_batched_tokens = 512;  // tokens of a step; at least max_num_seqs
  // Tokens of one prompt in one step; 0: no limit but the step's.
  std::uint32_t long_prefill_token_threshold = 0;
  std::uint32_t block_size = 16;
  std::uint32_t kv_blocks = 0;
  std::uint32_t max_context = 0;  // positions of a sequence; kv_blocks hold them in every group
  std::uint32_t max_waiting = 1024;

  bool mixed = true;  // false: a step has prefill rows or decode rows, never both
  bool prefix_cache = false;
  std::uint32_t speculative_tokens = 0;  // draft tokens per decode row, at most

  // What the model's layers keep of a sequence; see kv::KvOptions.
  std::vector<kv::CacheGroup> groups = {{}};
  bool tells_generated = false;
  bool has_states = false;
  std::uint32_t saved_states = 0;
  std::uint32_t state_interval = 32;

  bool whole_prompts = false;  // a prompt is computed in one step; it fits max_num_batched_tokens
  // A chunk that does not reach the prompt's end is cut to a multiple of this; 0: the larger of 64
  // and block_size; 1: anywhere.
  std::uint32_t prefill_alignment = 0;
  // Floor of prefill: tokens per prefill_interval-th step that decode rows leave to prefill (at
  // most half of the step). Without mixed steps prefill_interval is the number of decode steps
  // between two prefill steps.
  std::uint32_t min_prefill_tokens = 4;
  std::uint32_t prefill_interval = 1;

  // Bounds on the predicted time of a step with decode rows; effective once the cost is known. 0:
  // the second instead: times what the decode rows alone would take.
  double target_step_us = 0;
  double mixed_slowdown = 2.0;

  // Blocks that admission leaves for every running sequence that may grow.
  std::uint32_t watermark = 1;

  Policy policy = Policy::kFcfs;
  // Under kPriority: steps of waiting that count as one class more urgent.
  std::uint32_t ageing_steps = 1000;
};

// Tokens of one prompt in one step, at most.
constexpr std::uint32_t longest_chunk(const SchedulerOptions& options) {
  return options.long_prefill_token_threshold == 0
             ? options.max_num_batched_tokens
             : std::min(options.max_num_batched_tokens, options.long_prefill_token_threshold);
}

struct SequenceSpec {
  SequenceId id = 0;  // new
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_new_tokens = 0;  // 0, or beyond the context: to the context's end
  std::int32_t priority = 0;         // lower is more urgent; in [-kMaxPriority, kMaxPriority]
  std::uint32_t tenant = 0;
  std::uint32_t batch_class = 0;  // only sequences of one class share a step
  // With a prefix cache: the prompt_tokens tokens of the prompt (copied), and the root of its
  // hashes (kv::root_hash of the tenant's salt).
  std::span<const std::int32_t> prompt = {};
  kv::BlockHash root = {};
  // Every position of the prompt is computed once at least: a prefix is found only as far as the
  // sequence itself had come before a preemption.
  bool computes_all = false;
};

inline constexpr std::int32_t kMaxPriority = 1000;

// Plans the rows of each step: a pure, deterministic state machine without clock, thread, I/O or
// model. It knows sequences by their lengths, and by their tokens only to find cached prefixes.
// README.md has the contract.
//
// The caller plans, executes, commits. A second plan may be made before the first is committed
// ("ahead"); commits are in the order of plans. add(), cancel() and the rest may come at any time.
class Scheduler {
 public:
  // `log`, where there is one, must outlive the scheduler.
  explicit Scheduler(const SchedulerOptions& options, observe::EventLog* log = nullptr);

  // Queues a sequence. kInvalid: it can never fit; kExhausted: max_waiting sequences are waiting.
  Status add(const SequenceSpec& spec);

  // Ends a sequence; an unknown id is ignored. Its slot and blocks are freed by this call, or by
  // the commit of the last plan with a row of it; that row's result is ignored.
  void cancel(SequenceId id);

  // Plans the next step; its rows are valid until its commit. The plan is empty when no sequence
  // runs or waits, when the memory for it is withheld, and, ahead, when no sequence can continue
  // before the commit of the plan in flight. kInternal if work waits and nothing can be planned
  // otherwise; no history leads there. At most one plan may be in flight.
  Status plan(StepPlan& plan);

  // Commits the oldest plan in flight. A sequence ends with a finished result or with its last new
  // token.
  void commit(const StepPlan& plan, const StepResult& result);

  // Sets the cost model behind the bounds on step time, from the next plan on.
  void set_cost(const StepCost& cost) { cost_ = cost; }

  // See kv::BlockPool::withhold.
  void withhold_blocks(std::uint32_t blocks);

  const SchedulerOptions& options() const { return options_; }
  std::uint32_t running() const { return static_cast<std::uint32_t>(order_.size()); }
  std::uint32_t waiting() const { return waiting_.size(); }
  bool idle() const { return order_.empty() && waiting_.size() == 0 && in_flight_ == 0; }
  std::uint64_t preemptions() const { return preemptions_; }
  std::uint64_t recomputed_tokens() const { return recomputed_tokens_; }
  const kv::KvManager& kv() const { return kv_; }
  const kv::BlockPool& pool() const { return kv_.pool(); }
  kv::BlockPool& pool() { return kv_.pool(); }

 private:
  using Handle = WaitingQueue::Handle;

  enum class State : std::uint8_t {
    kWaiting,     // for a slot, for the first time or after a preemption
    kPrefilling,  // holds slot and blocks; num_computed_tokens is below prefill_end
    kDecoding,    // all but its last token is computed or planned
    kLeaving,     // has ended; keeps slot and blocks until its plans in flight are committed
    kGone,        // unused record
  };

  // The first cache line is what every step touches.
  struct alignas(64) Sequence {
    SequenceId id = 0;
    State state = State::kWaiting;
    std::uint8_t in_flight = 0;  // plans in flight with a row of it
    std::uint8_t pending = 0;    // new tokens that their commits append at least
    bool preempted = false;      // ever
    bool computes_all = false;
    std::uint32_t slot = 0;
    std::uint32_t num_tokens = 0;           // prompt and output, of committed steps
    std::uint32_t num_computed_tokens = 0;  // after all plans in flight
    std::uint32_t prefill_end = 0;          // num_tokens at admission
    std::uint32_t final_length = 0;         // tokens at its last possible end
    std::uint32_t next_drafts = 0;
    std::uint32_t batch_class = 0;
    kv::BlockTable table;

    std::uint32_t tenant = 0;
    OrderKey key;
    std::int32_t priority = 0;
    std::uint32_t prompt = 0;
    std::uint32_t lost = 0;               // num_computed_tokens at the last preemption
    std::uint64_t preempted_in_plan = 0;  // the last plan that preempted it; 0: none
  };

  struct BatchClass {
    std::uint32_t id = 0;
    std::uint32_t alive = 0;
    std::uint64_t served = 0;  // last step with a row of the class; initially the step of arrival
    std::uint32_t steps_since_prefill = 0;  // steps of the class; initially prefill_interval
    // Key of the last decode row where decode rows took turns; initially before every key.
    OrderKey rotation = {std::numeric_limits<std::int64_t>::min(), 0};
  };

  // A prefill row of the step under construction.
  struct Chunk {
    Handle handle = 0;
    std::uint32_t tokens = 0;
  };

  // Blocks that the admission of a sequence takes.
  struct AdmissionCost {
    std::uint32_t cached_tokens = 0;  // found in the index
    std::uint32_t revived = 0;        // cached blocks without a holder
    std::uint32_t fresh = 0;          // further blocks, capacity for one more token included
  };

  // Whether the head of a queue can be admitted.
  struct HeadCheck {
    bool can_admit = false;
    Handle handle = 0;
    std::uint32_t cached_tokens = 0;
  };

  // The step under construction.
  struct StepBuild {
    std::uint32_t batch_class = 0;
    std::uint32_t steps_since_prefill = 0;
    bool ahead = false;
    bool prefill_due = false;    // prefill gets its floor in this step
    bool decodes_only = false;   // no prefill rows
    bool prefill_full = false;   // an older prompt got nothing
    std::uint32_t budget = 0;    // tokens left
    std::uint32_t may_grow = 0;  // running sequences that may take a further block
    bool bounded = false;        // by time
    double limit_us = 0;
    StepLoad load;
  };

  // The planning pass, in its order.
  bool build(std::uint32_t batch_class, bool ahead, StepPlan& plan);
  std::optional<std::uint32_t> next_class();
  OrderKey oldest_of(std::uint32_t batch_class) const;
  bool can_go_on(const Sequence& sequence) const;
  bool reserve_decodes(StepBuild& step, StepPlan& plan);
  std::uint32_t blocks_lacking(const Sequence& sequence) const;
  bool reserve_blocks(Handle handle, std::uint32_t lacking, StepPlan& plan);
  bool prefill_possible(const StepBuild& step);
  void share_budget(StepBuild& step);
  void rotate_decodes(const StepBuild& step, std::uint32_t capacity);
  void reserve_drafts(StepBuild& step, std::uint32_t max_drafts);
  void bound_time(StepBuild& step) const;
  void resume_prefills(StepBuild& step);
  void admit_waiting(StepBuild& step, StepPlan& plan);
  std::uint32_t chunk(const StepBuild& step, std::uint32_t first, std::uint32_t remaining) const;
  void take_chunk(StepBuild& step, Handle handle, std::uint32_t tokens);
  void emit_rows(const StepBuild& step, StepPlan& plan);
  Row& emit_row(StepPlan& plan, Sequence& sequence, std::uint32_t tokens, std::uint32_t end);
  void note_row(const Row& row);

  // Admission.
  bool preempt_for_priority(bool ahead, StepPlan& plan);
  std::uint32_t count_may_grow() const;
  std::uint64_t watermark_blocks(std::uint32_t may_grow) const {
    return std::uint64_t{options_.watermark} * may_grow * kv_.groups();
  }
  HeadCheck check_head(std::uint32_t batch_class, std::uint32_t may_grow);
  AdmissionCost admission_cost(Sequence& sequence);
  void admit(const HeadCheck& head, StepPlan& plan);

  void preempt(Handle handle, StepPlan& plan);
  bool commit_row(const Row& row, const RowResult& outcome,
                  std::span<const std::int32_t> new_tokens);
  void end(Handle handle);
  void vacate(Handle handle);
  void release(Sequence& sequence);
  void forget(Handle handle);
  std::uint32_t positions_needed(const Sequence& sequence) const {
    return sequence.final_length - 1;
  }
  // The first position that the next row of its prefill cannot reach.
  std::uint32_t reach(const Sequence& sequence) const {
    const std::uint32_t left = sequence.prefill_end - sequence.num_computed_tokens;
    return sequence.num_computed_tokens + std::min(left, kv_.options().reach);
  }
  bool needs_more_blocks(const Sequence& sequence) const {
    return kv_.capacity(sequence.table) < positions_needed(sequence);
  }
  BatchClass& class_of(std::uint32_t id);

  void note(observe::EventKind kind, std::uint64_t id, std::uint32_t a = 0, std::uint32_t b = 0,
            std::uint32_t c = 0, std::uint16_t flags = 0) {
    if (log_ != nullptr) log_->write(kind, id, a, b, c, flags);
  }

  SchedulerOptions options_;
  observe::EventLog* log_;
  kv::KvManager kv_;
  StepCost cost_;

  std::vector<Sequence> sequences_;  // by handle
  std::vector<Handle> unused_;
  std::unordered_map<SequenceId, Handle> handles_;
  std::vector<Handle> order_;  // sequences that hold a slot, by key
  std::vector<Handle> slots_;  // by slot; kNoHandle: free
  WaitingQueue waiting_;
  FairShare fair_;
  std::vector<BatchClass> classes_;

  std::uint64_t next_arrival_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t plans_ = 0;      // calls of plan(), empty plans included
  std::uint32_t in_flight_ = 0;  // plans
  bool drafts_in_flight_ = false;
  std::uint64_t preemptions_ = 0;
  std::uint64_t recomputed_tokens_ = 0;

  // Of the plan under construction.
  std::vector<Handle> decodes_;
  std::vector<std::uint32_t> drafts_;  // of decodes_
  std::vector<Chunk> chunks_;
};

}  // namespace dovetail::schedule
