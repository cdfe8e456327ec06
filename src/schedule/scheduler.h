#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kv/block_pool.h"
#include "observe/event_log.h"
#include "schedule/fair_share.h"
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
  std::uint32_t max_context = 0;  // positions of a sequence; at most kv_blocks * block_size
  std::uint32_t max_waiting = 1024;

  bool mixed = true;  // false: a step has prefill rows or decode rows, never both
  bool prefix_cache = false;
  std::uint32_t speculative_tokens = 0;  // guesses per decode row, at most

  // A chunk that does not reach the prompt's end is cut to a multiple of this; 0: the larger of 64
  // and block_size; 1: anywhere.
  std::uint32_t prefill_alignment = 0;
  // Where prefill could run and decode rows would leave it nothing, it gets this many tokens in
  // every prefill_interval-th step (at most half of the step). Without mixed steps: so many decode
  // steps lie between two prefill steps.
  std::uint32_t min_prefill_tokens = 16;
  std::uint32_t prefill_interval = 1;

  // Bounds on the predicted time of a step with decode rows; effective once the cost is known. 0:
  // the second instead: times what the decode rows alone would take.
  double target_step_us = 0;
  double mixed_slowdown = 2.0;

  // Admission leaves so many blocks for every running sequence that will yet need one.
  std::uint32_t watermark = 1;

  Policy policy = Policy::kFcfs;
  // Under kPriority: a sequence that waits for so many steps counts as one class more urgent.
  std::uint32_t ageing_steps = 1000;
};

struct SequenceSpec {
  SequenceId id = 0;  // new
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_new_tokens = 0;  // 0, or more than the context has room for: to its end
  std::int32_t priority = 0;         // lower is more urgent; in [-kMaxPriority, kMaxPriority]
  std::uint32_t tenant = 0;
  std::uint32_t batch_class = 0;  // only sequences of one class share a step
  // With a prefix cache: the prompt, prompt_tokens of them (copied), and what its hashes start
  // with (kv::root_hash of the tenant's salt).
  std::span<const std::int32_t> prompt = {};
  kv::BlockHash root = {};
};

inline constexpr std::int32_t kMaxPriority = 1000;

// Decides who computes what in each step: a pure, deterministic state machine without clock,
// thread, I/O or model. It knows sequences by their lengths; by their tokens only to find cached
// prefixes. README.md says what it promises.
//
// The caller plans, carries out, commits. A second plan may be made before the first is committed
// ("ahead"); commits are in the order of plans. add(), cancel() and the rest may come at any time.
class Scheduler {
 public:
  // `log`, where there is one, must outlive the scheduler.
  explicit Scheduler(const SchedulerOptions& options, observe::EventLog* log = nullptr);

  // Queues a sequence. kInvalid: it can never fit; kExhausted: max_waiting sequences wait already.
  Status add(const SequenceSpec& spec);

  // Forgets a sequence; of an unknown one nothing. What it holds is free at once, or with the
  // commit of the last plan that has a row of it; that row's result is ignored.
  void cancel(SequenceId id);

  // The next step; its rows are valid until its commit. Empty when nothing runs and nothing waits,
  // when the memory for it is withheld, and, ahead, when nobody can go on before the commit of the
  // plan under way. kInternal if work waits and nothing can be planned otherwise, which no history
  // may bring about. At most one plan may be under way.
  Status plan(StepPlan& plan);

  // The oldest plan under way was carried out: every row advances. A sequence ends with a result
  // that says so or with its last new token.
  void commit(const StepPlan& plan, const StepResult& result);

  // How long steps take, for the bounds on it; in force from the next plan on.
  void set_cost(const StepCost& cost) { cost_ = cost; }

  // See kv::BlockPool::withhold.
  void withhold_blocks(std::uint32_t blocks);

  const SchedulerOptions& options() const { return options_; }
  std::uint32_t running() const { return static_cast<std::uint32_t>(order_.size()); }
  std::uint32_t waiting() const { return waiting_.size(); }
  bool idle() const { return order_.empty() && waiting_.size() == 0 && in_flight_ == 0; }
  std::uint64_t preemptions() const { return preemptions_; }
  std::uint64_t recomputed_tokens() const { return recomputed_tokens_; }
  const kv::BlockPool& pool() const { return pool_; }
  kv::BlockPool& pool() { return pool_; }

 private:
  using Handle = WaitingQueue::Handle;

  // Where a sequence stands.
  enum class State : std::uint8_t {
    kWaiting,     // for a slot, for the first time or after a preemption
    kPrefilling,  // holds slot and blocks; not all of its first `target` tokens are planned
    kDecoding,    // all but its last token is computed or planned
    kLeaving,     // has ended; slot and blocks stay its own until plans under way are committed
    kGone,        // this record is unused
  };

  // The first cache line is what every step touches.
  struct alignas(64) Sequence {
    SequenceId id = 0;
    State state = State::kWaiting;
    std::uint8_t in_flight = 0;  // plans under way with a row of it
    std::uint8_t pending = 0;    // new tokens that they are sure to bring
    bool preempted = false;      // ever
    std::uint32_t slot = 0;
    std::uint32_t known = 0;         // tokens: prompt and generated, of committed steps
    std::uint32_t planned = 0;       // positions [0, planned) are in the cache after all plans
    std::uint32_t target = 0;        // tokens known when it was let in: its prefill ends there
    std::uint32_t final_length = 0;  // tokens at its last possible end
    std::uint32_t next_drafts = 0;
    std::uint32_t batch_class = 0;
    std::vector<kv::BlockId> blocks;

    // With a prefix cache: those that were known when it last waited. What it has generated since
    // is in the index, block by block, and with the slot.
    std::vector<std::int32_t> tokens;
    // hashes[0] is the root, [i] stands for i full blocks; as many as anybody has asked for.
    std::vector<kv::BlockHash> hashes;
    std::uint32_t indexed = 0;  // of its blocks, those that went through the index
    std::uint32_t tenant = 0;
    OrderKey key;
    std::int32_t priority = 0;
    std::uint32_t prompt = 0;
    std::uint32_t lost = 0;  // positions that were computed when it was preempted
  };

  struct BatchClass {
    std::uint32_t id = 0;
    std::uint32_t alive = 0;
    std::uint64_t served = 0;  // the last step with a row of it; at first the step it came in
    std::uint32_t steps_since_prefill = 0;  // of its own; at first as many as are ever asked for
    // Of the last decode row that was served when not all could be; at first before every key.
    OrderKey rotation = {std::numeric_limits<std::int64_t>::min(), 0};
  };

  // Hashes of a sequence that holds a slot.
  struct Chain {
    kv::BlockHash indexed;  // stands for the blocks that went through the index
    kv::BlockHash next;     // ... and the block after them, once its tokens are known
  };

  // A prefill row that is decided on.
  struct Chunk {
    Handle handle = 0;
    std::uint32_t tokens = 0;
  };

  // The blocks that letting a sequence in takes.
  struct Need {
    std::uint32_t cached_blocks = 0;  // found in the index
    std::uint32_t revived = 0;        // of them, those that nobody holds
    std::uint32_t fresh = 0;          // beside them, with room for one more token
  };

  // The head of a queue.
  struct Fit {
    bool fits = false;
    Handle handle = 0;
    std::uint32_t cached_blocks = 0;
  };

  // The step under construction.
  struct Draft {
    std::uint32_t batch_class = 0;
    std::uint32_t steps_since_prefill = 0;
    bool ahead = false;
    bool prefill_due = false;   // this step owes prefill its share
    bool decodes_only = false;  // no prefill rows
    bool prefill_full = false;  // an older prompt got nothing
    std::uint32_t budget = 0;   // tokens left
    std::uint32_t growing = 0;  // running sequences that will yet need a block
    bool bounded = false;       // by time
    double limit_us = 0;
    StepLoad load;
  };

  // The planning pass, in its order.
  bool build(std::uint32_t batch_class, bool ahead, StepPlan& plan);
  std::optional<std::uint32_t> next_class();
  OrderKey oldest_of(std::uint32_t batch_class) const;
  bool can_go_on(const Sequence& sequence) const;
  bool reserve_decodes(Draft& step, StepPlan& plan);
  bool reserve_decode_block(Handle handle, StepPlan& plan);
  bool prefill_possible(const Draft& step);
  void share_budget(Draft& step);
  void rotate_decodes(const Draft& step, std::uint32_t capacity);
  void reserve_guesses(Draft& step, std::uint32_t most);
  void bound_time(Draft& step) const;
  void resume_prefills(Draft& step);
  void admit_waiting(Draft& step, StepPlan& plan);
  std::uint32_t chunk(const Draft& step, std::uint32_t first, std::uint32_t remaining) const;
  void take_chunk(Draft& step, Handle handle, std::uint32_t tokens);
  void emit_rows(const Draft& step, StepPlan& plan);
  Row& emit_row(StepPlan& plan, Sequence& sequence, std::uint32_t tokens);
  void note_row(const Row& row);

  // Admission.
  bool make_way_for_priority(bool ahead, StepPlan& plan);
  std::uint32_t count_growing() const;
  Fit fit(std::uint32_t batch_class, std::uint32_t growing);
  Need need_of(Sequence& sequence) const;
  void admit(const Fit& fit, StepPlan& plan);

  void preempt(Handle handle, StepPlan& plan);
  bool commit_row(const Row& row, const RowResult& outcome,
                  std::span<const std::int32_t> new_tokens);
  void end(Handle handle);
  void vacate(Handle handle);
  void release(Sequence& sequence);
  void forget(Handle handle);
  void take_block(Sequence& sequence);
  void learn_token(Sequence& sequence, std::uint32_t position, std::int32_t token);
  void collect_tokens(Sequence& sequence);
  void index_prefill(Sequence& sequence, std::uint32_t computed);
  void index_block(Sequence& sequence, std::span<const std::int32_t> tokens,
                   const kv::BlockHash& hash);
  std::span<std::int32_t> last_tokens(const Sequence& sequence) {
    return std::span(last_tokens_)
        .subspan(std::size_t{sequence.slot} * options_.block_size, options_.block_size);
  }
  void extend_hashes(Sequence& sequence, std::uint32_t blocks) const;
  std::span<const std::int32_t> block_tokens(const Sequence& sequence, std::uint32_t i) const;
  std::optional<kv::BlockId> find_block(Sequence& sequence, std::uint32_t i) const;
  std::uint32_t positions_needed(const Sequence& sequence) const {
    return sequence.final_length - 1;
  }
  bool needs_more_blocks(const Sequence& sequence) const {
    return sequence.blocks.size() < kv::blocks_for(positions_needed(sequence), options_.block_size);
  }
  BatchClass& class_of(std::uint32_t id);

  void note(observe::EventKind kind, std::uint64_t id, std::uint32_t a = 0, std::uint32_t b = 0,
            std::uint32_t c = 0, std::uint16_t flags = 0) {
    if (log_ != nullptr) log_->write(kind, id, a, b, c, flags);
  }

  SchedulerOptions options_;
  observe::EventLog* log_;
  kv::BlockPool pool_;
  StepCost cost_;

  std::vector<Sequence> sequences_;  // by handle
  std::vector<Handle> unused_;
  std::unordered_map<SequenceId, Handle> handles_;
  std::vector<Handle> order_;  // of those that hold a slot, by key
  std::vector<Handle> slots_;  // by slot; kNoHandle: free
  // [slot][position % block_size]: a step touches them for all that decode, so they lie together.
  std::vector<std::int32_t> last_tokens_;
  std::vector<Chain> chains_;  // by slot
  WaitingQueue waiting_;
  FairShare fair_;
  std::vector<BatchClass> classes_;

  std::uint64_t next_arrival_ = 0;
  std::uint64_t steps_ = 0;
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
