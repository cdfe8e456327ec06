// The planning pass: one step is made of in-flight work first, then prefill.

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
  const bool ahead = in_flight_ > 0;
  note(EventKind::kPlan, steps_, ahead ? 1 : 0);
  // How far a sequence with guesses under way will get is not known before the commit.
  if (!(ahead && drafts_in_flight_) || mutated(Mutant::kAheadOfGuesses)) {
    bool possible = options_.policy != Policy::kPriority || make_way_for_priority(ahead, plan);
    // A class whose only sequence had to give way leaves the step to another.
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
  if (ahead || idle() || pool_.withheld() > 0) return {};
  return fail(ErrorKind::kInternal,
              "scheduler stalled: {} running, {} waiting, {} of {} blocks available, and nothing "
              "to plan",
              running(), waiting(), pool_.available(), pool_.size());
}

// Of the classes that can go on the one that was served longest ago: the class of the oldest
// waiter. The others keep their caches and places.
std::optional<std::uint32_t> Scheduler::next_class() {
  const BatchClass* next = nullptr;
  for (const BatchClass& candidate : classes_) {
    const bool runs = std::any_of(order_.begin(), order_.end(), [&](Handle handle) {
      return sequences_[handle].batch_class == candidate.id && can_go_on(sequences_[handle]);
    });
    if (!runs && !fit(candidate.id, count_growing()).fits) continue;
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

// It has tokens to compute that no plan under way has.
bool Scheduler::can_go_on(const Sequence& sequence) const {
  switch (sequence.state) {
    case State::kPrefilling:
      return true;
    case State::kDecoding:
      return sequence.known + sequence.pending < sequence.final_length;
    default:
      return false;
  }
}

// False: ahead of a plan under way nobody gives way, so that there is no plan yet.
bool Scheduler::build(std::uint32_t batch_class, bool ahead, StepPlan& plan) {
  Draft step;
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

// Every decoding sequence has the block for its next token before anything else is planned; those
// that must give way are younger, and nothing of theirs is planned yet.
bool Scheduler::reserve_decodes(Draft& step, StepPlan& plan) {
  decodes_.clear();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Handle handle = order_[i];
    const Sequence& sequence = sequences_[handle];
    if (sequence.state == State::kLeaving) continue;
    if (sequence.state == State::kDecoding && sequence.batch_class == step.batch_class &&
        can_go_on(sequence)) {
      if (sequence.blocks.size() * options_.block_size <= sequence.planned) {
        if (step.ahead && pool_.available() == 0) return false;
        if (!reserve_decode_block(handle, plan)) break;  // it was the youngest and gave way itself
      }
      decodes_.push_back(handle);
    }
    if (needs_more_blocks(sequence)) ++step.growing;
  }
  return true;
}

bool Scheduler::reserve_decode_block(Handle handle, StepPlan& plan) {
  while (pool_.available() == 0) {
    const Handle youngest = mutated(Mutant::kOldestGivesWay) ? order_.front() : order_.back();
    preempt(youngest, plan);
    if (youngest == handle) return false;
  }
  take_block(sequences_[handle]);
  return true;
}

bool Scheduler::prefill_possible(const Draft& step) {
  const bool partly_read = std::any_of(order_.begin(), order_.end(), [&](Handle handle) {
    const Sequence& sequence = sequences_[handle];
    return sequence.state == State::kPrefilling && sequence.batch_class == step.batch_class;
  });
  return partly_read || fit(step.batch_class, step.growing).fits;
}

// Decodes first; what prefill is owed is taken from them only where they would leave it less.
void Scheduler::share_budget(Draft& step) {
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
  if (!step.ahead && options_.speculative_tokens > 0) {
    reserve_guesses(step, capacity - static_cast<std::uint32_t>(decodes_.size()));
  }
}

// Not all can have a row: those go on that come after the one that was served last.
void Scheduler::rotate_decodes(const Draft& step, std::uint32_t capacity) {
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

// Guesses take what is left: tokens of the step, blocks that nobody needs.
void Scheduler::reserve_guesses(Draft& step, std::uint32_t most) {
  for (std::size_t i = 0; i < decodes_.size(); ++i) {
    Sequence& sequence = sequences_[decodes_[i]];
    std::uint32_t guesses = std::min({sequence.next_drafts, options_.speculative_tokens,
                                      sequence.final_length - sequence.known - 1, most});
    if (guesses == 0) continue;
    const bool was_growing = needs_more_blocks(sequence);
    const std::uint32_t wanted =
        kv::blocks_for(sequence.planned + 1 + guesses, options_.block_size);
    while (sequence.blocks.size() < wanted && pool_.available() > 0) take_block(sequence);
    if (was_growing && !needs_more_blocks(sequence)) --step.growing;
    const auto room = static_cast<std::uint32_t>(sequence.blocks.size()) * options_.block_size;
    guesses = std::min(guesses, room - sequence.planned - 1);
    drafts_[i] = guesses;
    most -= guesses;
    step.budget -= guesses;
  }
}

// How long the step may take once its decode rows are known.
void Scheduler::bound_time(Draft& step) const {
  if (decodes_.empty() || !cost_.known()) return;
  for (std::size_t i = 0; i < decodes_.size(); ++i) {
    step.load.decode_rows += 1 + drafts_[i];
    step.load.context_tokens += context_read(sequences_[decodes_[i]].planned, 1 + drafts_[i]);
  }
  step.bounded = true;
  step.limit_us = options_.target_step_us > 0 ? options_.target_step_us
                                              : options_.mixed_slowdown * cost_.predict(step.load);
}

// Prompts that are partly read, oldest first. The first that gets nothing ends it: nobody
// overtakes.
void Scheduler::resume_prefills(Draft& step) {
  for (const Handle handle : order_) {
    const Sequence& sequence = sequences_[handle];
    if (sequence.state != State::kPrefilling || sequence.batch_class != step.batch_class) continue;
    const std::uint32_t tokens = chunk(step, sequence.planned, sequence.target - sequence.planned);
    if (tokens == 0) {
      step.prefill_full = true;
      return;
    }
    take_chunk(step, handle, tokens);
  }
}

void Scheduler::admit_waiting(Draft& step, StepPlan& plan) {
  while (!step.prefill_full && step.budget > 0) {
    const Fit next = fit(step.batch_class, step.growing);
    if (!next.fits) return;
    const std::uint32_t first = next.cached_blocks * options_.block_size;
    const std::uint32_t tokens = chunk(step, first, sequences_[next.handle].known - first);
    if (tokens == 0) return;
    admit(next, plan);
    if (needs_more_blocks(sequences_[next.handle])) ++step.growing;
    take_chunk(step, next.handle, tokens);
  }
}

// How many of a prompt's `remaining` tokens, from position `first` on, this step can take.
std::uint32_t Scheduler::chunk(const Draft& step, std::uint32_t first,
                               std::uint32_t remaining) const {
  const std::uint32_t threshold = options_.long_prefill_token_threshold > 0
                                      ? options_.long_prefill_token_threshold
                                      : std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t most = std::min({remaining, threshold, step.budget});
  const bool first_chunk = step.load.prefill_tokens == 0;
  std::uint32_t tokens = most;
  if (step.bounded) {
    tokens = cost_.affordable_chunk(step.load, first, most, step.limit_us);
    if (first_chunk && step.prefill_due) {
      tokens = std::max(tokens, std::min(options_.min_prefill_tokens, most));
    }
  }
  if (tokens == remaining) return tokens;
  const std::uint32_t alignment =
      std::min(options_.prefill_alignment > 0 ? options_.prefill_alignment
                                              : std::max(64U, options_.block_size),
               threshold);
  const std::uint32_t aligned = tokens / alignment * alignment;
  // A sliver is worth no row in a step that has prefill anyway.
  return aligned > 0 || !first_chunk ? aligned : tokens;
}

void Scheduler::take_chunk(Draft& step, Handle handle, std::uint32_t tokens) {
  chunks_.push_back({handle, tokens});
  step.budget -= tokens;
  step.load.prefill_tokens += tokens;
  step.load.context_tokens += context_read(sequences_[handle].planned, tokens);
}

void Scheduler::emit_rows(const Draft& step, StepPlan& plan) {
  // One that was preempted and came back may be older than a prompt that is partly read.
  const auto older = [&](const Chunk& a, const Chunk& b) {
    return sequences_[a.handle].key < sequences_[b.handle].key;
  };
  if (!std::is_sorted(chunks_.begin(), chunks_.end(), older)) {
    std::sort(chunks_.begin(), chunks_.end(), older);
  }
  for (const Chunk& chunk : chunks_) {
    Sequence& sequence = sequences_[chunk.handle];
    Row& row = emit_row(plan, sequence, chunk.tokens);
    sequence.planned += chunk.tokens;
    row.final_chunk = row.sampled = sequence.planned == sequence.target;
    if (row.sampled) {
      sequence.pending = 1;
      sequence.state = State::kDecoding;
    }
    note_row(row);
  }
  plan.prefill_rows = static_cast<std::uint32_t>(plan.rows.size());
  plan.prefill_tokens = step.load.prefill_tokens;
  for (std::size_t i = 0; i < decodes_.size(); ++i) {
    Sequence& sequence = sequences_[decodes_[i]];
    Row& row = emit_row(plan, sequence, 1 + drafts_[i]);
    row.drafts = drafts_[i];
    row.sampled = true;
    ++sequence.pending;
    ++sequence.planned;  // guesses count when they have turned out right
    plan.drafts += drafts_[i];
    note_row(row);
  }
  plan.tokens = options_.max_num_batched_tokens - step.budget;
}

Row& Scheduler::emit_row(StepPlan& plan, Sequence& sequence, std::uint32_t tokens) {
  Row& row = plan.rows.emplace_back();
  row.sequence = sequence.id;
  row.slot = sequence.slot;
  row.first_position = sequence.planned;
  row.tokens = tokens;
  row.blocks = std::span(sequence.blocks)
                   .first(kv::blocks_for(sequence.planned + tokens, options_.block_size));
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

// Whether the head of a class's queue can be let in.
Scheduler::Fit Scheduler::fit(std::uint32_t batch_class, std::uint32_t growing) {
  const std::optional<WaitingQueue::Entry> head = waiting_.head(batch_class, fair_);
  if (!head || order_.size() >= options_.max_num_seqs) return {};
  if (mutated(Mutant::kStaleFrontier) && !order_.empty()) return {};
  const Need need = need_of(sequences_[head->handle]);
  std::uint64_t slots = order_.size() + 1;
  std::uint64_t blocks =
      std::uint64_t{need.fresh} + need.revived + std::uint64_t{options_.watermark} * growing;
  // Who cannot share this step but is older keeps the room that it will need.
  waiting_.for_each_head(fair_, [&](std::uint32_t other, const WaitingQueue::Entry& its) {
    if (other == batch_class || head->key < its.key) return;
    slots += 1;
    blocks += need_of(sequences_[its.handle]).fresh;
  });
  if (mutated(Mutant::kPartOfTheBlocks)) blocks = 1;
  const bool fits = slots <= options_.max_num_seqs && blocks <= pool_.available();
  return {fits, head->handle, need.cached_blocks};
}

Scheduler::Need Scheduler::need_of(Sequence& sequence) const {
  Need need;
  if (options_.prefix_cache) {
    // The last token is always computed: its logits are wanted.
    const std::uint32_t last = mutated(Mutant::kLastBlockIsAHit) ? 0 : 1;
    const std::uint32_t most = (sequence.known - last) / options_.block_size;
    for (; need.cached_blocks < most; ++need.cached_blocks) {
      const std::optional<kv::BlockId> block = find_block(sequence, need.cached_blocks);
      if (!block) break;
      need.revived += pool_.references(*block) == 0 ? 1 : 0;
    }
  }
  const std::uint32_t positions = std::min(sequence.known + 1, positions_needed(sequence));
  need.fresh = kv::blocks_for(positions, options_.block_size) - need.cached_blocks;
  return need;
}

std::uint32_t Scheduler::count_growing() const {
  return static_cast<std::uint32_t>(std::count_if(order_.begin(), order_.end(), [&](Handle handle) {
    return sequences_[handle].state != State::kLeaving && needs_more_blocks(sequences_[handle]);
  }));
}

// The most urgent head takes the places of the youngest of less urgent classes, if that lets it in.
// False: they cannot give way ahead of a plan under way, so that there is no plan yet.
bool Scheduler::make_way_for_priority(bool ahead, StepPlan& plan) {
  std::optional<WaitingQueue::Entry> head;
  std::uint32_t batch_class = 0;
  waiting_.for_each_head(fair_, [&](std::uint32_t its_class, const WaitingQueue::Entry& its) {
    if (head && head->key < its.key) return;
    head = its;
    batch_class = its_class;
  });
  if (!head) return true;
  std::uint32_t growing = count_growing();
  if (fit(batch_class, growing).fits) return true;
  Sequence& urgent = sequences_[head->handle];
  const Need need = need_of(urgent);
  // More may be withheld than is free.
  std::int64_t available =
      std::int64_t{pool_.free()} + pool_.cached() - std::int64_t{pool_.withheld()};
  std::size_t victims = 0;
  const auto fits = [&] {
    return order_.size() - victims < options_.max_num_seqs &&
           std::int64_t{need.fresh} + need.revived + std::int64_t{options_.watermark} * growing <=
               available;
  };
  for (std::size_t last = order_.size(); !fits(); --last) {
    if (last == 0) return true;
    const Sequence& victim = sequences_[order_[last - 1]];
    if (victim.state == State::kLeaving) continue;
    if (victim.priority <= urgent.priority || victim.key < urgent.key) return true;
    ++victims;
    growing -= needs_more_blocks(victim) ? 1 : 0;
    for (std::uint32_t i = 0; i < victim.blocks.size(); ++i) {
      // Those who share a block have it at the same place. It comes free with the last of them,
      // and is taken at once if the urgent one would share it too.
      const auto holders = std::count_if(
          order_.begin() + static_cast<std::ptrdiff_t>(last - 1), order_.end(), [&](Handle other) {
            const auto& blocks = sequences_[other].blocks;
            return sequences_[other].state != State::kLeaving && i < blocks.size() &&
                   blocks[i] == victim.blocks[i];
          });
      if (holders != pool_.references(victim.blocks[i])) continue;
      if (i >= need.cached_blocks || find_block(urgent, i) != victim.blocks[i]) ++available;
    }
  }
  if (ahead) return false;
  for (; victims > 0; --victims) preempt(order_.back(), plan);
  return true;
}

}  // namespace dovetail::schedule
