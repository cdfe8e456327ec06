#include "schedule/scheduler.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace dovetail::schedule {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), pool_(options.kv_blocks), slot_taken_(options.max_num_seqs, false) {
  assert(options.max_num_seqs > 0 && options.max_num_batched_tokens >= options.max_num_seqs);
  assert(options.block_size > 0 && options.max_context > 0);
  assert(kv::blocks_for(options.max_context, options.block_size) <= options.kv_blocks);
}

Status Scheduler::add(SequenceId id, std::uint32_t prompt_tokens) {
  assert(prompt_tokens > 0 && !arrivals_.contains(id));
  if (prompt_tokens >= options_.max_context) {
    return fail(ErrorKind::kInvalid,
                "prompt: {} tokens and at least one new token do not fit the context of {} "
                "positions ({} cache blocks of {})",
                prompt_tokens, options_.max_context, options_.kv_blocks, options_.block_size);
  }
  if (waiting_.size() >= options_.max_waiting) {
    return fail(ErrorKind::kExhausted, "the queue is full: {} sequences are waiting",
                waiting_.size());
  }
  const Arrival arrival = next_arrival_++;
  arrivals_.emplace(id, arrival);
  waiting_.emplace(arrival, Waiting{id, prompt_tokens});
  return {};
}

void Scheduler::cancel(SequenceId id) {
  const auto known = arrivals_.find(id);
  if (known == arrivals_.end()) return;
  if (const auto running = running_.find(known->second); running != running_.end()) {
    release(running->second);
    running_.erase(running);
  } else {
    waiting_.erase(known->second);
  }
  arrivals_.erase(known);
}

Result<StepPlan> Scheduler::plan() {
  StepPlan plan;

  // Decoding sequences first: a token, a row and, every block_size tokens, a block for each. A
  // victim is always younger than whom it gives way to, so that no row that is already planned can
  // be one.
  std::vector<Arrival> decoding;
  for (auto sequence = running_.begin(); sequence != running_.end();) {
    const Arrival arrival = sequence->first;
    if (std::holds_alternative<Decoding>(sequence->second.state) &&
        make_room_for_decode(sequence, plan)) {
      decoding.push_back(arrival);
    }
    sequence = running_.upper_bound(arrival);
  }

  std::uint32_t budget =
      options_.max_num_batched_tokens - static_cast<std::uint32_t>(decoding.size());
  const auto read_chunk = [&](const Running& sequence, const Prefilling& prefill) {
    const std::uint32_t chunk = std::min({sequence.tokens - prefill.read, chunk_limit(), budget});
    append_row(plan, sequence, prefill.read, chunk);
    budget -= chunk;
  };
  for (const auto& [arrival, sequence] : running_) {
    const auto* prefill = std::get_if<Prefilling>(&sequence.state);
    if (prefill != nullptr && budget > 0) read_chunk(sequence, *prefill);
  }
  while (budget > 0 && admit_oldest(plan)) {
    const Running& sequence = running_.at(arrivals_.at(plan.admitted.back()));
    read_chunk(sequence, std::get<Prefilling>(sequence.state));
  }
  // Admission is oldest first, but one that was preempted may be older than a prompt that is partly
  // read.
  std::sort(plan.rows.begin(), plan.rows.end(), [&](const Row& a, const Row& b) {
    return arrivals_.at(a.sequence) < arrivals_.at(b.sequence);
  });
  plan.prefill_rows = static_cast<std::uint32_t>(plan.rows.size());

  for (const Arrival arrival : decoding) {
    const Running& sequence = running_.at(arrival);
    append_row(plan, sequence, sequence.tokens - 1, 1);
  }
  for (const Row& row : plan.rows) plan.tokens += row.tokens;

  if (plan.rows.empty() && !idle()) {
    return fail(
        ErrorKind::kInternal,
        "scheduler stalled: {} running, {} waiting, {} of {} blocks free, and nothing to plan",
        running_.size(), waiting_.size(), pool_.free(), pool_.size());
  }
  return plan;
}

void Scheduler::commit(const StepPlan& plan, const StepResult& result) {
  std::size_t sampled = 0;
  for (const Row& row : plan.rows) {
    const bool finished = row.sampled && result.finished.at(sampled++);
    const auto known = arrivals_.find(row.sequence);
    if (known == arrivals_.end()) continue;  // cancelled after plan()
    const auto entry = running_.find(known->second);
    Running& sequence = entry->second;
    if (!row.sampled) {
      std::get<Prefilling>(sequence.state).read = row.first_position + row.tokens;
      continue;
    }
    if (finished) {
      release(sequence);
      running_.erase(entry);
      arrivals_.erase(known);
      continue;
    }
    ++sequence.tokens;
    sequence.state = Decoding{};
  }
  assert(sampled == result.finished.size());
}

std::uint32_t Scheduler::chunk_limit() const {
  return options_.long_prefill_token_threshold > 0 ? options_.long_prefill_token_threshold
                                                   : options_.max_num_batched_tokens;
}

// Gives `needy` the block for its next token, if it needs one. False: it was the youngest itself
// and had to give way.
bool Scheduler::make_room_for_decode(std::map<Arrival, Running>::iterator needy, StepPlan& plan) {
  Running& sequence = needy->second;
  const std::uint32_t wanted = kv::blocks_for(sequence.tokens, options_.block_size);
  assert(wanted <= sequence.blocks.size() + 1);
  if (wanted <= sequence.blocks.size()) return true;
  while (pool_.free() == 0) {
    const auto youngest = std::prev(running_.end());
    const bool itself = youngest == needy;
    preempt(youngest, plan);
    if (itself) return false;
  }
  sequence.blocks.push_back(pool_.allocate());
  return true;
}

void Scheduler::preempt(std::map<Arrival, Running>::iterator victim, StepPlan& plan) {
  plan.preempted.push_back(victim->second.id);
  ++preemptions_;
  waiting_.emplace(victim->first, Waiting{victim->second.id, victim->second.tokens});
  release(victim->second);
  running_.erase(victim);
}

void Scheduler::release(Running& sequence) {
  for (const kv::BlockId block : sequence.blocks) pool_.release(block);
  sequence.blocks.clear();
  slot_taken_[sequence.slot] = false;
}

// Lets the oldest waiting sequence in if a slot and its blocks are free; nobody overtakes it.
bool Scheduler::admit_oldest(StepPlan& plan) {
  if (waiting_.empty() || running_.size() == options_.max_num_seqs) return false;
  const auto oldest = waiting_.begin();
  const Waiting& next = oldest->second;
  if (kv::blocks_for(next.tokens + 1, options_.block_size) > pool_.free()) return false;

  const auto slot = std::find(slot_taken_.begin(), slot_taken_.end(), false);
  assert(slot != slot_taken_.end());
  *slot = true;
  Running sequence{next.id,
                   static_cast<std::uint32_t>(slot - slot_taken_.begin()),
                   next.tokens,
                   {},
                   Prefilling{}};
  for (std::uint32_t i = 0; i < kv::blocks_for(next.tokens, options_.block_size); ++i) {
    sequence.blocks.push_back(pool_.allocate());
  }
  plan.admitted.push_back(next.id);
  running_.emplace(oldest->first, std::move(sequence));
  waiting_.erase(oldest);
  return true;
}

void Scheduler::append_row(StepPlan& plan, const Running& sequence, std::uint32_t first,
                           std::uint32_t tokens) const {
  Row row;
  row.sequence = sequence.id;
  row.slot = sequence.slot;
  row.first_position = first;
  row.tokens = tokens;
  row.sampled = first + tokens == sequence.tokens;
  row.table_begin = static_cast<std::uint32_t>(plan.block_tables.size());
  row.table_size = kv::blocks_for(first + tokens, options_.block_size);
  assert(row.table_size <= sequence.blocks.size());
  plan.block_tables.insert(plan.block_tables.end(), sequence.blocks.begin(),
                           sequence.blocks.begin() + row.table_size);
  plan.rows.push_back(row);
}

}  // namespace dovetail::schedule
