// The planning pass: decode rows first, then prefill.

#include <algorithm>
#include <cassert>
#include <limits>

#include "schedule/mutation.h"
#include "schedule/scheduler.h"

namespace dovetail::schedule {

using observe::EventKind;

Status Scheduler::plan(StepPlan& plan) {
  assert(in_flight_ <= 1);
  plan.clear();
  plan.number = steps_;
  ++plans_;
  const bool ahead = in_flight_ > 0;
  note(EventKind::kPlan, steps_, ahead ? 1 : 0);
  // Draft tokens in flight: the positions of the next rows are known with the commit.
  if (!(ahead && drafts_in_flight_) || mutated(Mutant::kAheadOfDrafts)) {
    bool possible = options_.policy != Policy::kPriority || preempt_for_priority(ahead, plan);
    // A class whose only sequence was preempted leaves the step to another class.
    while (possible && plan.rows.empty()) {
      const std::size_t preempted = plan.preempted.size();
      const std::optional<std::uint32_t> batch_class = next_class();
      possible = batch_class.has_value() && build(*batch_class, ahead, plan) &&
                 (!plan.rows.empty() || plan.preempted.size() > preempted);
    }
  }
  note(EventKind::kPlanned, steps_, plan.prefill_rows, plan.decode_rows(), plan.tokens);
  if (!plan.rows.empty()) {
    ++steps_;
    ++in_flight_;
    drafts_in_flight_ = plan.drafts > 0;
    return {};
  }
  if (ahead || idle() || pool().withheld() > 0) return {};
  return fail(ErrorKind::kInternal,
              "scheduler stalled: {} running, {} waiting, {} of {} blocks available, and nothing "
              "to plan",
              running(), waiting(), pool().available(), pool().size());
}

// Chooses, of the classes that can continue, the one that was served longest ago; of several the
// one with the oldest sequence. The others keep caches and slots.
std::optional<std::uint32_t> Scheduler::next_class() {
  const BatchClass* next = nullptr;
  for (const BatchClass& candidate : classes_) {
    const bool runs = std::any_of(order_.begin(), order_.end(), [&](Handle handle) {
      return sequences_[handle].batch_class == candidate.id && can_go_on(sequences_[handle]);
    });
    if (!runs && !check_head(candidate.id, count_may_grow()).can_admit) continue;
    if (next == nullptr || candidate.served < next->served ||
        (candidate.served == next->served && oldest_of(candidate.id) < oldest_of(next->id))) {
      next = &candidate;
    }
  }
  if (next == nullptr) return std::nullopt;
  return next->id;
}

OrderKey Scheduler::oldest_of(std::uint32_t batch_class) const {
  std::optional<OrderKey> oldest = waiting_.oldest(batch_class);
  for (const Handle handle : order_) {
    const Sequence& sequence = sequences_[handle];
    if (sequence.state == State::kLeaving || sequence.batch_class != batch_class) continue;
    if (!oldest || sequence.key < *oldest) oldest = sequence.key;
    break;
  }
  return *oldest;
}

// The sequence has tokens to compute that no plan in flight has.
bool Scheduler::can_go_on(const Sequence& sequence) const {
  switch (sequence.state) {
    case State::kPrefilling:
      return true;
    case State::kDecoding:
      return sequence.num_tokens + sequence.pending < sequence.final_length;
    default:
      return false;
  }
}

// False: a plan ahead preempts nothing, so that this one stays empty.
bool Scheduler::build(std::uint32_t batch_class, bool ahead, StepPlan& plan) {
  StepBuild step;
  step.batch_class = batch_class;
  step.steps_since_prefill = class_of(batch_class).steps_since_prefill;
  step.ahead = ahead;
  step.budget = options_.max_num_batched_tokens;
  if (!reserve_decodes(step, plan)) return false;
  share_budget(step);
  bound_time(step);
  chunks_.clear();
  if (!step.decodes_only) {
    resume_prefills(step);
    admit_waiting(step, plan);
  }
  emit_rows(step, plan);
  if (!plan.rows.empty()) {
    BatchClass& served = class_of(batch_class);
    served.served = steps_;
    served.steps_since_prefill = plan.prefill_rows > 0 ? 0 : served.steps_since_prefill + 1;
  }
  return true;
}

// Takes the blocks of each decoding sequence's next token, and those of prompts' windows, before
// any row is planned. Preempted sequences are younger and have no row yet.
bool Scheduler::reserve_decodes(StepBuild& step, StepPlan& plan) {
  decodes_.clear();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Handle handle = order_[i];
    const Sequence& sequence = sequences_[handle];
    if (sequence.state == State::kLeaving) continue;
    if (sequence.batch_class == step.batch_class && can_go_on(sequence)) {
      const std::uint32_t lacking = blocks_lacking(sequence);
      if (step.ahead && pool().available() < lacking) return false;
      if (!reserve_blocks(handle, lacking, plan)) break;  // it preempted itself
      if (sequence.state == State::kDecoding) decodes_.push_back(handle);
    }
    if (needs_more_blocks(sequence)) ++step.may_grow;
  }
  return true;
}

// Blocks that its next row may need and that it does not hold.
std::uint32_t Scheduler::blocks_lacking(const Sequence& sequence) const {
  if (sequence.state == State::kPrefilling) return kv_.lacks(sequence.table, reach(sequence));
  return kv_.capacity(sequence.table) > sequence.num_computed_tokens ? 0 : kv_.groups();
}

bool Scheduler::reserve_blocks(Handle handle, std::uint32_t lacking, StepPlan& plan) {
  while (pool().available() < lacking) {
    const Handle youngest = mutated(Mutant::kPreemptOldest) ? order_.front() : order_.back();
    preempt(youngest, plan);
    if (youngest == handle) return false;
  }
  if (lacking == 0) return true;
  Sequence& sequence = sequences_[handle];
  if (sequence.state == State::kPrefilling) {
    kv_.fill(sequence.table, sequence.id, reach(sequence));
  } else {
    kv_.append(sequence.table, sequence.id);
  }
  return true;
}

bool Scheduler::prefill_possible(const StepBuild& step) {
  const bool partly_read = std::any_of(order_.begin(), order_.end(), [&](Handle handle) {
    const Sequence& sequence = sequences_[handle];
    return sequence.state == State::kPrefilling && sequence.batch_class == step.batch_class;
  });
  return partly_read || check_head(step.batch_class, step.may_grow).can_admit;
}

// Decode rows come first; they take turns only where they would leave prefill less than its
// floor.
void Scheduler::share_budget(StepBuild& step) {
  const std::uint32_t budget = options_.max_num_batched_tokens;
  const auto count = static_cast<std::uint32_t>(decodes_.size());
  const std::uint32_t interval = std::max(options_.prefill_interval, budget == 1 ? 2U : 1U);
  step.prefill_due = step.steps_since_prefill + 1 >= interval;
  std::uint32_t capacity = budget;
  if (!options_.mixed) {
    if (count > 0 && prefill_possible(step)) {
      // A prefill step, then prefill_interval steps of decodes.
      if (step.steps_since_prefill >= options_.prefill_interval) {
        decodes_.clear();
      } else {
        step.decodes_only = true;
      }
    }
    step.decodes_only |= !decodes_.empty();
  } else if (step.prefill_due) {
    const std::uint32_t floor = std::min(options_.min_prefill_tokens, std::max(1U, budget / 2));
    const std::uint64_t wanted = std::uint64_t{count} * (1 + options_.speculative_tokens);
    const bool owed = wanted > budget - floor && !mutated(Mutant::kNoFloor);
    if (owed && prefill_possible(step)) capacity = budget - floor;
  }
  if (mutated(Mutant::kPrefillFirst) && prefill_possible(step)) decodes_.clear();
  if (decodes_.size() > capacity) rotate_decodes(step, capacity);
  drafts_.assign(decodes_.size(), 0);
  step.budget -= static_cast<std::uint32_t>(decodes_.size());
  if (mutated(Mutant::kReserveOfAll)) {
    for (const Handle handle : order_) {
      const Sequence& sequence = sequences_[handle];
      const bool barred = sequence.batch_class != step.batch_class;
      if (barred && sequence.state == State::kDecoding && step.budget > 0) --step.budget;
    }
  }
  if (!step.ahead && options_.speculative_tokens > 0) {
    reserve_drafts(step, capacity - static_cast<std::uint32_t>(decodes_.size()));
  }
}

// Decode rows take turns: `capacity` of them, those after the last one that was served.
void Scheduler::rotate_decodes(const StepBuild& step, std::uint32_t capacity) {
  if (capacity == 0) {
    decodes_.clear();
    return;
  }
  OrderKey& rotation = class_of(step.batch_class).rotation;
  const auto after = std::upper_bound(
      decodes_.begin(), decodes_.end(), rotation,
      [&](const OrderKey& key, Handle handle) { return key < sequences_[handle].key; });
  std::rotate(decodes_.begin(), after, decodes_.end());
  decodes_.resize(capacity);
  rotation = sequences_[decodes_.back()].key;
  std::sort(decodes_.begin(), decodes_.end(),
            [&](Handle a, Handle b) { return sequences_[a].key < sequences_[b].key; });
}

// Draft tokens take what is left: tokens of the step, free blocks, and saved states.
void Scheduler::reserve_drafts(StepBuild& step, std::uint32_t max_drafts) {
  for (std::size_t i = 0; i < decodes_.size(); ++i) {
    Sequence& sequence = sequences_[decodes_[i]];
    std::uint32_t drafts =
        std::min({sequence.next_drafts, options_.speculative_tokens,
                  sequence.final_length - sequence.num_tokens - 1, max_drafts, kv_.draft_places()});
    if (drafts == 0) continue;
    const bool could_grow = needs_more_blocks(sequence);
    const std::uint32_t wanted = sequence.num_computed_tokens + 1 + drafts;
    while (kv_.capacity(sequence.table) < wanted && kv_.can_append())
      kv_.append(sequence.table, sequence.id);
    if (could_grow && !needs_more_blocks(sequence)) --step.may_grow;
    drafts = std::min(drafts, kv_.capacity(sequence.table) - sequence.num_computed_tokens - 1);
    kv_.save_before_drafts(sequence.table, sequence.id, sequence.num_computed_tokens, drafts);
    drafts_[i] = drafts;
    max_drafts -= drafts;
    step.budget -= drafts;
  }
}

// Bounds the time of a step whose decode rows are known.
void Scheduler::bound_time(StepBuild& step) const {
  if (decodes_.empty() || !cost_.known()) return;
  for (std::size_t i = 0; i < decodes_.size(); ++i) {
    step.load.decode_rows += 1 + drafts_[i];
    step.load.context_tokens +=
        context_read(sequences_[decodes_[i]].num_computed_tokens, 1 + drafts_[i]);
  }
  step.bounded = true;
  step.limit_us = options_.target_step_us > 0 ? options_.target_step_us
                                              : options_.mixed_slowdown * cost_.predict(step.load);
}

// Continues prefills, oldest first. The first one without a chunk ends the pass: no sequence
// overtakes it.
void Scheduler::resume_prefills(StepBuild& step) {
  for (const Handle handle : order_) {
    const Sequence& sequence = sequences_[handle];
    if (sequence.state != State::kPrefilling || sequence.batch_class != step.batch_class) continue;
    const std::uint32_t tokens = chunk(step, sequence.num_computed_tokens,
                                       sequence.prefill_end - sequence.num_computed_tokens);
    if (tokens == 0) {
      step.prefill_full = true;
      return;
    }
    take_chunk(step, handle, tokens);
  }
}

void Scheduler::admit_waiting(StepBuild& step, StepPlan& plan) {
  while (!step.prefill_full && step.budget > 0) {
    const HeadCheck next = check_head(step.batch_class, step.may_grow);
    if (!next.can_admit) return;
    const std::uint32_t first = next.cached_tokens;
    const std::uint32_t tokens = chunk(step, first, sequences_[next.handle].num_tokens - first);
    if (tokens == 0) return;
    admit(next, plan);
    if (needs_more_blocks(sequences_[next.handle])) ++step.may_grow;
    take_chunk(step, next.handle, tokens);
  }
}

// Number of a prompt's `remaining` tokens from position `first` on that this step takes.
std::uint32_t Scheduler::chunk(const StepBuild& step, std::uint32_t first,
                               std::uint32_t remaining) const {
  if (options_.whole_prompts) return remaining <= step.budget ? remaining : 0;
  const std::uint32_t threshold = options_.long_prefill_token_threshold > 0
                                      ? options_.long_prefill_token_threshold
                                      : std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t max_tokens = std::min({remaining, threshold, step.budget});
  const bool first_chunk = step.load.prefill_tokens == 0;
  std::uint32_t tokens = max_tokens;
  if (step.bounded) {
    tokens = cost_.affordable_chunk(step.load, first, max_tokens, step.limit_us);
    if (first_chunk && step.prefill_due) {
      tokens = std::max(tokens, std::min(options_.min_prefill_tokens, max_tokens));
    }
  }
  if (tokens == remaining) return tokens;
  const std::uint32_t alignment =
      std::min(options_.prefill_alignment > 0 ? options_.prefill_alignment
                                              : std::max(64U, options_.block_size),
               threshold);
  const std::uint32_t aligned = tokens / alignment * alignment;
  // A chunk below the alignment gets no row in a step that has another chunk.
  return aligned > 0 || !first_chunk ? aligned : tokens;
}

void Scheduler::take_chunk(StepBuild& step, Handle handle, std::uint32_t tokens) {
  chunks_.push_back({handle, tokens});
  step.budget -= tokens;
  step.load.prefill_tokens += tokens;
  step.load.context_tokens += context_read(sequences_[handle].num_computed_tokens, tokens);
}

void Scheduler::emit_rows(const StepBuild& step, StepPlan& plan) {
  // A resumed sequence may be older than one whose prefill continues.
  const auto older = [&](const Chunk& a, const Chunk& b) {
    return sequences_[a.handle].key < sequences_[b.handle].key;
  };
  if (!std::is_sorted(chunks_.begin(), chunks_.end(), older)) {
    std::sort(chunks_.begin(), chunks_.end(), older);
  }
  for (const Chunk& chunk : chunks_) {
    Sequence& sequence = sequences_[chunk.handle];
    Row& row = emit_row(plan, sequence, chunk.tokens, sequence.prefill_end);
    sequence.num_computed_tokens += chunk.tokens;
    row.final_chunk = row.sampled = sequence.num_computed_tokens == sequence.prefill_end;
    if (mutated(Mutant::kMiddleIsSampled)) row.sampled = true;
    if (row.final_chunk) {
      sequence.pending = 1;
      sequence.state = State::kDecoding;
    }
    note_row(row);
  }
  plan.prefill_rows = static_cast<std::uint32_t>(plan.rows.size());
  plan.prefill_tokens = step.load.prefill_tokens;
  for (std::size_t i = 0; i < decodes_.size(); ++i) {
    Sequence& sequence = sequences_[decodes_[i]];
    Row& row = emit_row(plan, sequence, 1 + drafts_[i], 0);
    row.drafts = drafts_[i];
    row.sampled = true;
    ++sequence.pending;
    ++sequence.num_computed_tokens;  // draft tokens count once they are accepted
    plan.drafts += drafts_[i];
    note_row(row);
  }
  plan.tokens = options_.max_num_batched_tokens - step.budget;
}

// `end`: of the prefill that the row is a part of; 0: a decode row.
Row& Scheduler::emit_row(StepPlan& plan, Sequence& sequence, std::uint32_t tokens,
                         std::uint32_t end) {
  Row& row = plan.rows.emplace_back();
  row.sequence = sequence.id;
  row.slot = sequence.slot;
  row.first_position = sequence.num_computed_tokens;
  row.tokens = tokens;
  row.blocks =
      std::span(sequence.table.blocks).first(kv_.places_for(sequence.num_computed_tokens + tokens));
  row.load = kv_.state_to_load(sequence.table, row.first_position);
  row.first_save = static_cast<std::uint32_t>(plan.saves.size());
  kv_.plan_saves(sequence.table, sequence.id, row.first_position, tokens, end, plan.saves);
  row.saves = static_cast<std::uint32_t>(plan.saves.size()) - row.first_save;
  ++sequence.in_flight;
  sequence.next_drafts = 0;
  return row;
}

void Scheduler::note_row(const Row& row) {
  const bool decode = row.sampled && !row.final_chunk;
  note(EventKind::kRow, row.sequence, row.first_position, row.tokens, row.drafts,
       static_cast<std::uint16_t>((row.final_chunk ? observe::kRowFinalChunk : 0) |
                                  (row.sampled ? observe::kRowSampled : 0) |
                                  (decode ? observe::kRowDecode : 0)));
}

// Checks whether the head of a class's queue can be admitted.
Scheduler::HeadCheck Scheduler::check_head(std::uint32_t batch_class, std::uint32_t may_grow) {
  const std::optional<WaitingQueue::Entry> head = waiting_.head(batch_class, fair_);
  if (!head || order_.size() >= options_.max_num_seqs) return {};
  if (mutated(Mutant::kStaleFrontier) && !order_.empty()) return {};
  // A plan that preempts a sequence does not admit it again.
  const bool preempted_now = sequences_[head->handle].preempted_in_plan == plans_;
  if (preempted_now && !mutated(Mutant::kReadmitAtOnce)) return {};
  const AdmissionCost cost = admission_cost(sequences_[head->handle]);
  std::uint64_t slots = order_.size() + 1;
  std::uint64_t blocks = std::uint64_t{cost.fresh} + cost.revived + watermark_blocks(may_grow);
  // Older heads of other classes keep the slots and blocks of their admission.
  waiting_.for_each_head(fair_, [&](std::uint32_t other, const WaitingQueue::Entry& its) {
    if (other == batch_class || head->key < its.key) return;
    slots += 1;
    blocks += admission_cost(sequences_[its.handle]).fresh;
  });
  if (mutated(Mutant::kPartOfTheBlocks)) blocks = 1;
  const bool can_admit = slots <= options_.max_num_seqs && blocks <= pool().available();
  return {can_admit, head->handle, cost.cached_tokens};
}

Scheduler::AdmissionCost Scheduler::admission_cost(Sequence& sequence) {
  const kv::KvManager::Hit hit = kv_.hit(sequence.table, sequence.num_tokens);
  const std::uint32_t positions = std::min(sequence.num_tokens + 1, positions_needed(sequence));
  return {hit.blocks * options_.block_size, hit.revived, kv_.fresh_blocks(hit, positions)};
}

std::uint32_t Scheduler::count_may_grow() const {
  return static_cast<std::uint32_t>(std::count_if(order_.begin(), order_.end(), [&](Handle handle) {
    return sequences_[handle].state != State::kLeaving && needs_more_blocks(sequences_[handle]);
  }));
}

// Preempts the youngest sequences of less urgent classes if the most urgent head can be admitted
// then. False: a plan ahead preempts nothing, so that this one stays empty.
bool Scheduler::preempt_for_priority(bool ahead, StepPlan& plan) {
  std::optional<WaitingQueue::Entry> head;
  std::uint32_t batch_class = 0;
  waiting_.for_each_head(fair_, [&](std::uint32_t its_class, const WaitingQueue::Entry& its) {
    if (head && head->key < its.key) return;
    head = its;
    batch_class = its_class;
  });
  if (!head) return true;
  std::uint32_t may_grow = count_may_grow();
  if (check_head(batch_class, may_grow).can_admit) return true;
  Sequence& urgent = sequences_[head->handle];
  const AdmissionCost cost = admission_cost(urgent);
  // More blocks may be withheld than are free.
  std::int64_t available =
      std::int64_t{pool().free()} + pool().cached() - std::int64_t{pool().withheld()};
  std::size_t chosen = 0;
  const auto fits = [&] {
    return order_.size() - chosen < options_.max_num_seqs &&
           std::int64_t{cost.fresh} + cost.revived +
                   static_cast<std::int64_t>(watermark_blocks(may_grow)) <=
               available;
  };
  for (std::size_t last = order_.size(); !fits(); --last) {
    if (last == 0) return true;
    const Sequence& candidate = sequences_[order_[last - 1]];
    if (candidate.state == State::kLeaving) continue;
    if (candidate.priority <= urgent.priority || candidate.key < urgent.key) return true;
    ++chosen;
    may_grow -= needs_more_blocks(candidate) ? 1 : 0;
    const std::vector<kv::BlockId>& its = candidate.table.blocks;
    for (std::size_t i = 0; i < its.size(); ++i) {
      if (its[i] == kv::kNoBlock) continue;
      // Holders of a shared block have it at the same index. It is freed with its last holder, and
      // gives no capacity if the urgent sequence shares it too.
      const auto holders = std::count_if(order_.begin() + static_cast<std::ptrdiff_t>(last - 1),
                                         order_.end(), [&](Handle other) {
                                           const auto& blocks = sequences_[other].table.blocks;
                                           return sequences_[other].state != State::kLeaving &&
                                                  i < blocks.size() && blocks[i] == its[i];
                                         });
      if (holders != pool().references(its[i])) continue;
      if (!kv_.shares(i, its[i])) ++available;
    }
  }
  if (ahead) return false;
  for (; chosen > 0; --chosen) preempt(order_.back(), plan);
  return true;
}

}  // namespace dovetail::schedule
