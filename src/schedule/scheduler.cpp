#include "schedule/scheduler.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "schedule/mutation.h"

namespace dovetail::schedule {
namespace {

using observe::EventKind;

constexpr std::uint32_t kNoHandle = std::numeric_limits<std::uint32_t>::max();

kv::KvOptions kv_options(const SchedulerOptions& options) {
  return {.block_size = options.block_size,
          .blocks = options.kv_blocks,
          .slots = options.max_num_seqs,
          .prefix_cache = options.prefix_cache,
          .groups = options.groups,
          .reach = longest_chunk(options),
          .tells_generated = options.tells_generated,
          .has_states = options.has_states,
          .saved_states = options.saved_states,
          .state_interval = options.state_interval};
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, observe::EventLog* log)
    : options_(options),
      log_(log),
      kv_(kv_options(options), log),
      slots_(options.max_num_seqs, kNoHandle),
      waiting_(options.policy == Policy::kFair) {
  assert(options.max_num_seqs > 0 && options.max_num_batched_tokens > 0);
  assert(options.block_size > 0 && options.max_context > 0);
  assert(kv::blocks_alone(options.groups, options.block_size, longest_chunk(options),
                          options.max_context) <= options.kv_blocks);
  assert(options.min_prefill_tokens > 0 && options.prefill_interval > 0);
  order_.reserve(options.max_num_seqs);
  decodes_.reserve(options.max_num_seqs);
  drafts_.reserve(options.max_num_seqs);
  chunks_.reserve(options.max_num_seqs);
}

Status Scheduler::add(const SequenceSpec& spec) {
  assert(spec.prompt_tokens > 0 && !handles_.contains(spec.id));
  assert(!options_.prefix_cache || spec.prompt.size() == spec.prompt_tokens);
  assert(spec.priority >= -kMaxPriority && spec.priority <= kMaxPriority);
  const std::uint32_t capacity =
      options_.max_context - std::min(options_.max_context, spec.prompt_tokens);
  if (capacity == 0) {
    note(EventKind::kRefuse, spec.id);
    return fail(ErrorKind::kInvalid,
                "prompt: {} tokens and at least one new token do not fit the context of {} "
                "positions ({} cache blocks of {})",
                spec.prompt_tokens, options_.max_context, options_.kv_blocks / kv_.groups(),
                options_.block_size);
  }
  if (waiting_.size() >= options_.max_waiting) {
    note(EventKind::kRefuse, spec.id);
    return fail(ErrorKind::kExhausted, "the queue is full: {} sequences are waiting",
                waiting_.size());
  }
  const std::uint32_t new_tokens =
      spec.max_new_tokens == 0 ? capacity : std::min(spec.max_new_tokens, capacity);

  if (unused_.empty()) {
    unused_.push_back(static_cast<Handle>(sequences_.size()));
    sequences_.emplace_back();
  }
  const Handle handle = unused_.back();
  unused_.pop_back();
  Sequence& sequence = sequences_[handle];
  sequence = {};
  sequence.id = spec.id;
  sequence.num_tokens = sequence.prompt = spec.prompt_tokens;
  sequence.final_length = spec.prompt_tokens + new_tokens;
  sequence.key.arrival = next_arrival_++;
  if (mutated(Mutant::kOvertake)) sequence.key.arrival = ~sequence.key.arrival;
  if (options_.policy == Policy::kPriority) {
    sequence.key.urgency =
        static_cast<std::int64_t>(steps_) + std::int64_t{spec.priority} * options_.ageing_steps;
  }
  sequence.batch_class = spec.batch_class;
  sequence.tenant = spec.tenant;
  sequence.priority = spec.priority;
  kv_.arrive(sequence.table, spec.prompt, spec.root);
  sequence.computes_all = spec.computes_all;
  if (spec.computes_all && !mutated(Mutant::kFindsOthers)) sequence.table.findable = 0;
  handles_.emplace(spec.id, handle);
  ++class_of(spec.batch_class).alive;
  if (options_.policy == Policy::kFair) fair_.enter(spec.tenant);
  waiting_.push({sequence.key, handle}, spec.batch_class, spec.tenant);
  note(EventKind::kArrive, spec.id, spec.prompt_tokens, new_tokens, spec.tenant);
  note(EventKind::kPriority, spec.id, static_cast<std::uint32_t>(spec.priority), spec.batch_class,
       spec.computes_all ? 1 : 0);
  return {};
}

void Scheduler::cancel(SequenceId id) {
  const auto known = handles_.find(id);
  if (known == handles_.end()) return;
  const Handle handle = known->second;
  const Sequence& sequence = sequences_[handle];
  note(EventKind::kCancel, id, sequence.in_flight > 0 ? 1 : 0);
  if (sequence.state == State::kWaiting) {
    waiting_.erase({sequence.key, handle}, sequence.batch_class, sequence.tenant);
    forget(handle);
    unused_.push_back(handle);
    return;
  }
  end(handle);
  if (sequence.state == State::kGone) std::erase(order_, handle);
}

void Scheduler::withhold_blocks(std::uint32_t blocks) {
  kv_.pool().withhold(blocks);
  note(EventKind::kWithhold, 0, blocks);
}

void Scheduler::commit(const StepPlan& plan, const StepResult& result) {
  if (plan.rows.empty()) return;
  assert(in_flight_ > 0);
  --in_flight_;
  drafts_in_flight_ = false;
  std::size_t sampled = 0;
  std::span<const std::int32_t> tokens = result.tokens;
  bool some_gone = false;
  for (const Row& row : plan.rows) {
    const RowResult outcome = row.sampled ? result.rows.at(sampled++) : RowResult{0, false, 0};
    const auto new_tokens = tokens.first(options_.prefix_cache ? outcome.new_tokens : 0);
    tokens = tokens.subspan(new_tokens.size());
    some_gone |= commit_row(row, outcome, new_tokens);
  }
  assert(sampled == result.rows.size());
  if (some_gone) {
    std::erase_if(order_, [&](Handle handle) { return sequences_[handle].state == State::kGone; });
  }
  note(EventKind::kCommit, plan.number);
}

// True: the row's sequence is kGone.
bool Scheduler::commit_row(const Row& row, const RowResult& outcome,
                           std::span<const std::int32_t> new_tokens) {
  const Handle handle = slots_[row.slot];
  Sequence& sequence = sequences_[handle];
  assert(sequence.id == row.sequence && sequence.in_flight > 0);
  --sequence.in_flight;
  if (sequence.state == State::kLeaving) {
    if (sequence.in_flight > 0) return false;
    vacate(handle);
    return true;
  }
  const bool decode = row.sampled && !row.final_chunk;
  const std::uint32_t computed = row.first_position + (decode ? outcome.new_tokens : row.tokens);
  if (row.sampled) {
    assert(outcome.new_tokens >= 1 && outcome.new_tokens <= row.drafts + 1);
    --sequence.pending;
    sequence.num_tokens += outcome.new_tokens;
    assert(sequence.num_tokens <= sequence.final_length);
    if (row.drafts > 0) sequence.num_computed_tokens = computed;
    if (mutated(Mutant::kWrongDraftsStay))
      sequence.num_computed_tokens += row.drafts + 1 - outcome.new_tokens;
    sequence.next_drafts = outcome.next_drafts;
    if (options_.policy == Policy::kFair) {
      fair_.charge(sequence.tenant, FairShare::kOutputWeight * outcome.new_tokens);
    }
  }
  const bool ends =
      row.sampled && (outcome.finished || sequence.num_tokens == sequence.final_length);
  note(EventKind::kAccept, row.sequence, outcome.new_tokens, computed, ends ? 1 : 0);
  kv_.commit(sequence.table, sequence.id, computed,
             sequence.num_tokens - static_cast<std::uint32_t>(new_tokens.size()), new_tokens,
             !decode);
  if (!ends) return false;
  note(EventKind::kFinish, row.sequence, sequence.num_tokens - sequence.prompt);
  end(handle);
  return sequence.state == State::kGone;
}

// Gives the head of a queue a slot and all blocks of its prefill.
void Scheduler::admit(const HeadCheck& head, StepPlan& plan) {
  Sequence& sequence = sequences_[head.handle];
  waiting_.erase({sequence.key, head.handle}, sequence.batch_class, sequence.tenant);
  const auto slot = std::find(slots_.begin(), slots_.end(), kNoHandle);
  assert(slot != slots_.end());
  *slot = head.handle;
  sequence.slot = static_cast<std::uint32_t>(slot - slots_.begin());
  sequence.state = State::kPrefilling;
  sequence.prefill_end = mutated(Mutant::kPromptOnlyTarget) ? sequence.prompt : sequence.num_tokens;
  sequence.num_computed_tokens = head.cached_tokens;
  note(EventKind::kAdmit, sequence.id, sequence.slot, sequence.num_computed_tokens,
       sequence.preempted ? 1 : 0);
  std::uint32_t held = sequence.num_tokens;
  if (mutated(Mutant::kPartOfTheBlocks)) {
    const std::uint32_t fit = pool().available() / kv_.groups() * options_.block_size;
    held = std::min(held, head.cached_tokens + fit);
  }
  // A running sequence allocates nothing later.
  kv_.admit(sequence.table, sequence.id, sequence.slot, held, positions_needed(sequence));
  order_.insert(std::upper_bound(
                    order_.begin(), order_.end(), sequence.key,
                    [&](const OrderKey& key, Handle other) { return key < sequences_[other].key; }),
                head.handle);
  plan.admitted.push_back(
      {sequence.id, sequence.slot, sequence.num_computed_tokens, sequence.preempted});
  if (sequence.preempted) {
    recomputed_tokens_ += sequence.lost - std::min(sequence.lost, sequence.num_computed_tokens);
  } else if (options_.policy == Policy::kFair) {
    fair_.charge(sequence.tenant, FairShare::kPromptWeight * sequence.prompt);
  }
}

// Returns a sequence to its position in the queue; its computed blocks can be found until they are
// reused.
void Scheduler::preempt(Handle handle, StepPlan& plan) {
  Sequence& sequence = sequences_[handle];
  assert(sequence.in_flight == 0);
  note(EventKind::kPreempt, sequence.id, sequence.slot, sequence.num_computed_tokens);
  plan.preempted.push_back(sequence.id);
  ++preemptions_;
  sequence.lost = sequence.num_computed_tokens;
  sequence.preempted = true;
  sequence.preempted_in_plan = plans_;
  sequence.next_drafts = 0;
  if (sequence.computes_all) {
    sequence.table.findable = std::max(sequence.table.findable, sequence.num_computed_tokens);
  }
  kv_.keep_tokens(sequence.table, sequence.num_tokens);
  release(sequence);
  std::erase(order_, handle);
  if (mutated(Mutant::kPartlyReadIsCut) && sequence.state == State::kPrefilling)
    sequence.num_tokens = std::max(sequence.num_tokens - 1, 1U);
  if (mutated(Mutant::kBackOfTheQueue)) sequence.key.arrival = next_arrival_++;
  if (mutated(Mutant::kDropOnShortage)) {
    sequence.state = State::kGone;
    return forget(handle);
  }
  sequence.state = State::kWaiting;
  waiting_.push({sequence.key, handle}, sequence.batch_class, sequence.tenant);
}

// Ends a sequence that holds a slot. If its state is kGone then, the caller removes it from
// order_.
void Scheduler::end(Handle handle) {
  forget(handle);
  if (sequences_[handle].in_flight > 0) {
    sequences_[handle].state = State::kLeaving;
  } else {
    vacate(handle);
  }
}

void Scheduler::vacate(Handle handle) {
  release(sequences_[handle]);
  sequences_[handle].state = State::kGone;
  unused_.push_back(handle);
}

void Scheduler::release(Sequence& sequence) {
  kv_.release(sequence.table, sequence.id);
  slots_[sequence.slot] = kNoHandle;
}

// Removes a sequence from the accounts of ids, tenants and classes.
void Scheduler::forget(Handle handle) {
  const Sequence& sequence = sequences_[handle];
  handles_.erase(sequence.id);
  if (options_.policy == Policy::kFair) fair_.leave(sequence.tenant);
  BatchClass& batch_class = class_of(sequence.batch_class);
  if (--batch_class.alive == 0) {
    batch_class = classes_.back();
    classes_.pop_back();
  }
}

Scheduler::BatchClass& Scheduler::class_of(std::uint32_t id) {
  for (BatchClass& batch_class : classes_) {
    if (batch_class.id == id) return batch_class;
  }
  BatchClass& added = classes_.emplace_back();
  added.id = id;
  added.served = steps_;
  added.steps_since_prefill = options_.prefill_interval;
  return added;
}

}  // namespace dovetail::schedule
