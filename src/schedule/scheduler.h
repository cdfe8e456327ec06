#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "kv/block_pool.h"
#include "schedule/step_plan.h"

namespace dovetail::schedule {

struct SchedulerOptions {
  std::uint32_t max_num_seqs = 64;             // rows of a step, and slots
  std::uint32_t max_num_batched_tokens = 512;  // tokens of a step; at least max_num_seqs
  std::uint32_t long_prefill_token_threshold =
      0;  // tokens of one prompt in one step; 0: the step's
  std::uint32_t block_size = 16;
  std::uint32_t kv_blocks = 0;
  std::uint32_t max_context = 0;  // positions of a sequence; at most kv_blocks * block_size
  std::uint32_t max_waiting = 1024;
};

// Decides who computes what in each step: a pure, deterministic state machine without clock,
// thread, I/O or model. It knows sequences by their lengths alone.
//
// Order is by arrival. Decoding sequences are planned first, then prompts that are partly read,
// then new ones; a new one is let in when a slot and all blocks of its prompt and first new token
// are free, and never before an older one. When a decoding sequence needs a block and none is free,
// the youngest running sequences give way: they lose slot and blocks, return to their old place in
// the queue and later compute prompt and generated tokens again.
//
// The caller alternates plan() and commit(); add() and cancel() may come at any time, also between
// the two.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // Queues a sequence with a prompt of so many tokens (at least 1). The id is new. kInvalid: it can
  // never fit; kExhausted: max_waiting sequences wait already.
  Status add(SequenceId id, std::uint32_t prompt_tokens);

  // Forgets a sequence and frees what it holds; of an unknown one nothing. A row of it in the plan
  // under way is ignored by commit().
  void cancel(SequenceId id);

  // The next step. Empty when nothing runs and nothing waits; kInternal if work waits and nothing
  // can be planned, which no history may bring about.
  Result<StepPlan> plan();

  // The plan was carried out: every row advances, sampled rows by one new token; finished sequences
  // free slot and blocks.
  void commit(const StepPlan& plan, const StepResult& result);

  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  std::uint64_t preemptions() const { return preemptions_; }
  const kv::BlockPool& pool() const { return pool_; }
  std::vector<kv::BlockId> take_freed_blocks() { return pool_.take_freed(); }

 private:
  using Arrival = std::uint64_t;

  // A sequence that waits for a slot, for the first time or after a preemption.
  struct Waiting {
    SequenceId id = 0;
    std::uint32_t tokens = 0;  // to read: prompt, and what it had generated
  };
  // Part of its tokens has been read; nothing to sample yet.
  struct Prefilling {
    std::uint32_t read = 0;
  };
  // All but its last token is in the cache.
  struct Decoding {};

  struct Running {
    SequenceId id = 0;
    std::uint32_t slot = 0;
    std::uint32_t tokens = 0;  // known: prompt and generated
    kv::BlockTable blocks;
    std::variant<Prefilling, Decoding> state;
  };

  std::uint32_t chunk_limit() const;
  bool make_room_for_decode(std::map<Arrival, Running>::iterator needy, StepPlan& plan);
  void preempt(std::map<Arrival, Running>::iterator victim, StepPlan& plan);
  void release(Running& sequence);
  bool admit_oldest(StepPlan& plan);
  void append_row(StepPlan& plan, const Running& sequence, std::uint32_t first,
                  std::uint32_t tokens) const;

  SchedulerOptions options_;
  kv::BlockPool pool_;
  Arrival next_arrival_ = 0;
  std::map<Arrival, Waiting> waiting_;
  std::map<Arrival, Running> running_;
  std::unordered_map<SequenceId, Arrival> arrivals_;
  std::vector<bool> slot_taken_;
  std::uint64_t preemptions_ = 0;
};

}  // namespace dovetail::schedule
