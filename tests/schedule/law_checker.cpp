#include "schedule/law_checker.h"

#include <algorithm>
#include <utility>

namespace dovetail::schedule {

LawChecker::LawChecker(const SchedulerOptions& options)
    : options_(options), free_(options.kv_blocks) {}

void LawChecker::see(const Event& event) {
  if (!violations_.empty()) return;
  must_be_freed_.clear();
  freed_count_ = 0;
  std::visit([&](const auto& what) { judge(what); }, event.what);
  if (violations_.empty()) judge_freed(event);
  ++seen_;
}

void LawChecker::judge(const Added& added) {
  const bool fits = added.prompt + 1 <= options_.max_context;
  const std::uint32_t waiting = static_cast<std::uint32_t>(alive_.size()) - running();
  const bool welcome = fits && waiting < options_.max_waiting;
  if (added.accepted != welcome) {
    violate("a prompt of {} tokens was {} with {} waiting", added.prompt,
            added.accepted ? "accepted" : "refused", waiting);
  }
  if (!added.accepted) return;
  arrivals_[added.id] = next_arrival_;
  Sequence sequence;
  sequence.id = added.id;
  sequence.known = added.prompt;
  alive_.emplace(next_arrival_++, sequence);
}

void LawChecker::judge(const Cancelled& cancelled) {
  Sequence* sequence = find(cancelled.id);
  if (sequence == nullptr) return;
  if (sequence->running) release(*sequence);
  alive_.erase(arrivals_.at(cancelled.id));
}

void LawChecker::judge(const Planned& planned) {
  const StepPlan& plan = planned.plan;
  plan_ = plan;
  judge_totals(plan);
  if (!violations_.empty()) return;
  judge_preemptions(plan);
  if (!violations_.empty()) return;
  judge_decodes(plan, static_cast<std::uint32_t>(plan.preempted.size()));
  if (!violations_.empty()) return;
  judge_admissions(plan);
  if (!violations_.empty()) return;
  judge_prefills(plan);
  for (const Row& row : plan.rows) {
    if (violations_.empty()) judge_row(plan, row);
  }
}

void LawChecker::judge(const Committed& committed) {
  std::size_t sampled = 0;
  for (const Row& row : plan_.rows) {
    if (row.sampled && sampled == committed.result.finished.size()) {
      return violate("fewer results than sampled rows");
    }
    const bool finished = row.sampled && committed.result.finished[sampled++];
    Sequence* sequence = find(row.sequence);
    if (sequence == nullptr) continue;
    sequence->computed += row.tokens;
    if (!row.sampled) continue;
    if (finished) {
      release(*sequence);
      alive_.erase(arrivals_.at(row.sequence));
    } else {
      ++sequence->known;
      sequence->decoding = true;
    }
  }
  if (sampled != committed.result.finished.size()) violate("more results than sampled rows");
}

void LawChecker::judge_totals(const StepPlan& plan) {
  std::uint32_t tokens = 0;
  std::set<SequenceId> once;
  for (const Row& row : plan.rows) {
    tokens += row.tokens;
    if (row.tokens == 0) violate("sequence {} has a row without tokens", row.sequence);
    if (!once.insert(row.sequence).second) violate("sequence {} has two rows", row.sequence);
    if (find(row.sequence) == nullptr) violate("sequence {} is not alive", row.sequence);
  }
  if (plan.tokens != tokens) violate("{} tokens are said, {} are planned", plan.tokens, tokens);
  if (tokens > options_.max_num_batched_tokens) {
    violate("{} tokens exceed the budget of {}", tokens, options_.max_num_batched_tokens);
  }
  if (plan.rows.size() > options_.max_num_seqs) {
    violate("{} rows exceed {} slots", plan.rows.size(), options_.max_num_seqs);
  }
  if (plan.prefill_rows > plan.rows.size()) violate("more prefill rows than rows");
  // The oldest gets a row in every step; each sequence becomes the oldest at some time, and so
  // ends.
  if (!alive_.empty() && !once.contains(alive_.begin()->second.id)) {
    violate("the oldest sequence, {}, has no row", alive_.begin()->second.id);
  }
}

void LawChecker::judge_preemptions(const StepPlan& plan) {
  std::vector<Arrival> victims;
  for (const SequenceId id : plan.preempted) {
    const Sequence* sequence = find(id);
    if (sequence == nullptr || !sequence->running) {
      return violate("sequence {} was preempted and did not run", id);
    }
    const Arrival arrival = arrivals_.at(id);
    if (std::find(victims.begin(), victims.end(), arrival) != victims.end()) {
      return violate("sequence {} was preempted twice", id);
    }
    victims.push_back(arrival);
    for (const Row& row : plan.rows) {
      if (arrivals_.at(row.sequence) >= arrival) {
        return violate("sequence {} was preempted and {}, not older, has a row", id, row.sequence);
      }
    }
  }
  std::sort(victims.begin(), victims.end());
  for (const auto& [arrival, sequence] : alive_) {
    if (sequence.running && !victims.empty() && arrival > victims.front() &&
        !std::binary_search(victims.begin(), victims.end(), arrival)) {
      return violate("sequence {} was spared and an older one preempted", sequence.id);
    }
  }
  if (!victims.empty()) {
    const Sequence& oldest = alive_.at(victims.front());
    oldest_victim_needed_a_block_ = oldest.decoding && blocks_for(oldest.known) > oldest.held;
    kept_but_for_oldest_victim_ = free_;
  }
  for (const Arrival arrival : victims) {
    Sequence& victim = alive_.at(arrival);
    if (arrival != victims.front()) kept_but_for_oldest_victim_ += victim.held;
    release(victim);
  }
}

void LawChecker::judge_decodes(const StepPlan& plan, std::uint32_t victims) {
  std::vector<SequenceId> expected;
  std::uint32_t wanted = 0;
  for (auto& [arrival, sequence] : alive_) {
    if (!sequence.running || !sequence.decoding) continue;
    expected.push_back(sequence.id);
    const std::uint32_t needs = blocks_for(sequence.known);
    if (needs > sequence.held) {
      wanted += needs - sequence.held;
      sequence.held = needs;
    }
  }
  std::vector<SequenceId> planned;
  for (std::size_t i = plan.prefill_rows; i < plan.rows.size(); ++i) {
    planned.push_back(plan.rows[i].sequence);
  }
  if (planned != expected) {
    return violate("decode rows [{}], but [{}] decode, by arrival", fmt::join(planned, " "),
                   fmt::join(expected, " "));
  }
  if (wanted > free_) return violate("decodes need {} blocks of {} free", wanted, free_);
  if (victims > 0 &&
      kept_but_for_oldest_victim_ >= wanted + (oldest_victim_needed_a_block_ ? 1U : 0U)) {
    return violate("a sequence was preempted although memory sufficed");
  }
  free_ -= wanted;
}

void LawChecker::judge_admissions(const StepPlan& plan) {
  const auto oldest_waiting = [&] {
    return std::find_if(alive_.begin(), alive_.end(),
                        [](const auto& entry) { return !entry.second.running; });
  };
  for (const SequenceId id : plan.admitted) {
    const auto oldest = oldest_waiting();
    if (oldest == alive_.end() || oldest->second.id != id) {
      return violate("sequence {} was admitted and is not the oldest that waits", id);
    }
    Sequence& sequence = oldest->second;
    if (running() == options_.max_num_seqs) return violate("sequence {} has no slot left", id);
    if (blocks_for(sequence.known + 1) > free_) {
      return violate("sequence {} was admitted with {} blocks free", id, free_);
    }
    const auto row = std::find_if(plan.rows.begin(), plan.rows.end(),
                                  [&](const Row& other) { return other.sequence == id; });
    if (row == plan.rows.end()) return violate("sequence {} was admitted without a row", id);
    std::uint32_t lowest = 0;
    while (slots_.contains(lowest)) ++lowest;
    if (row->slot != lowest) {
      return violate("sequence {} got slot {}, and {} is the lowest free", id, row->slot, lowest);
    }
    slots_.insert(lowest);
    sequence.running = true;
    sequence.slot = lowest;
    sequence.held = blocks_for(sequence.known);
    free_ -= sequence.held;
  }
  const auto next = oldest_waiting();
  if (next != alive_.end() && plan.tokens < options_.max_num_batched_tokens &&
      running() < options_.max_num_seqs && blocks_for(next->second.known + 1) <= free_) {
    violate("sequence {} waits although budget, slot and blocks are free", next->second.id);
  }
}

void LawChecker::judge_prefills(const StepPlan& plan) {
  const std::uint32_t cap = options_.long_prefill_token_threshold > 0
                                ? options_.long_prefill_token_threshold
                                : options_.max_num_batched_tokens;
  const bool exhausted = plan.tokens == options_.max_num_batched_tokens;
  std::uint32_t next = 0;
  bool cut = false;
  for (const auto& [arrival, sequence] : alive_) {
    if (!sequence.running || sequence.decoding) continue;
    if (next == plan.prefill_rows) {
      if (!exhausted) violate("sequence {} is left out with budget to spare", sequence.id);
      return;
    }
    const Row& row = plan.rows[next++];
    if (row.sequence != sequence.id) {
      return violate("prefill row {} is of {}, and by arrival of {}", next - 1, row.sequence,
                     sequence.id);
    }
    if (cut) return violate("sequence {} was served and an older one cut short", sequence.id);
    if (row.tokens > cap) {
      return violate("sequence {} reads {} tokens over a limit of {}", sequence.id, row.tokens,
                     cap);
    }
    cut = row.tokens < std::min(cap, sequence.known - sequence.computed);
    if (cut && !exhausted) {
      return violate("sequence {} was cut short with budget to spare", sequence.id);
    }
  }
  if (next != plan.prefill_rows) violate("prefill row {} is of no prompt that is read", next);
}

void LawChecker::judge_row(const StepPlan& plan, const Row& row) {
  Sequence* found = find(row.sequence);
  if (found == nullptr || !found->running) return violate("sequence {} has no slot", row.sequence);
  Sequence& sequence = *found;
  if (row.slot != sequence.slot) {
    return violate("sequence {} moved from slot {} to {}", row.sequence, sequence.slot, row.slot);
  }
  if (row.first_position != sequence.computed) {
    return violate("sequence {} computes from position {}, and {} are computed", row.sequence,
                   row.first_position, sequence.computed);
  }
  const std::uint32_t end = row.first_position + row.tokens;
  if (end > sequence.known) {
    return violate("sequence {} computes {} positions of {} tokens", row.sequence, end,
                   sequence.known);
  }
  if (row.sampled != (end == sequence.known)) {
    return violate("sequence {} is {} at position {} of {}", row.sequence,
                   row.sampled ? "sampled" : "not sampled", end, sequence.known);
  }
  if (std::size_t{row.table_begin} + row.table_size > plan.block_tables.size()) {
    return violate("sequence {} has its block table out of range", row.sequence);
  }
  if (row.table_size < blocks_for(end) || row.table_size > sequence.held) {
    return violate("sequence {} has {} blocks for {} positions and holds {}", row.sequence,
                   row.table_size, end, sequence.held);
  }
  const auto table = plan.block_table(row);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const kv::BlockId block = table[i];
    if (block >= options_.kv_blocks) return violate("block {} does not exist", block);
    if (i < sequence.blocks.size()) {
      if (block != sequence.blocks[i]) {
        return violate("sequence {} has block {} at {}, and wrote to {}", row.sequence, block, i,
                       sequence.blocks[i]);
      }
      continue;
    }
    const auto [owner, fresh] = owners_.emplace(block, row.sequence);
    if (!fresh) {
      return violate("sequence {} has block {} of sequence {}", row.sequence, block, owner->second);
    }
    sequence.blocks.push_back(block);
  }
}

void LawChecker::judge_freed(const Event& event) {
  const std::set<kv::BlockId> freed(event.freed.begin(), event.freed.end());
  if (freed.size() != event.freed.size()) violate("a block was freed twice");
  for (const kv::BlockId block : must_be_freed_) {
    if (!freed.contains(block)) violate("block {} was given up and not reported", block);
  }
  if (event.freed.size() != freed_count_) {
    violate("{} blocks were freed, and {} given up", event.freed.size(), freed_count_);
  }
  // In a plan a freed block may have its next owner at once.
  if (!std::holds_alternative<Planned>(event.what)) {
    for (const kv::BlockId block : freed) {
      if (owners_.contains(block)) violate("block {} was freed in use", block);
    }
  }
  if (event.free != free_) violate("{} blocks are free, and should be {}", event.free, free_);
  if (event.running != running()) violate("{} run, and {} should", event.running, running());
  if (event.running + event.waiting != alive_.size()) {
    violate("{} run, {} wait, and {} are alive", event.running, event.waiting, alive_.size());
  }
}

LawChecker::Sequence* LawChecker::find(SequenceId id) {
  const auto arrival = arrivals_.find(id);
  if (arrival == arrivals_.end()) return nullptr;
  const auto sequence = alive_.find(arrival->second);
  return sequence == alive_.end() ? nullptr : &sequence->second;
}

void LawChecker::release(Sequence& sequence) {
  for (const kv::BlockId block : sequence.blocks) {
    must_be_freed_.insert(block);
    owners_.erase(block);
  }
  freed_count_ += sequence.held;
  free_ += sequence.held;
  slots_.erase(sequence.slot);
  sequence.blocks.clear();
  sequence.held = 0;
  sequence.computed = 0;
  sequence.running = false;
  sequence.decoding = false;
}

std::uint32_t LawChecker::blocks_for(std::uint32_t tokens) const {
  return (tokens + options_.block_size - 1) / options_.block_size;
}

std::uint32_t LawChecker::running() const {
  return static_cast<std::uint32_t>(std::count_if(
      alive_.begin(), alive_.end(), [](const auto& entry) { return entry.second.running; }));
}

std::vector<std::string> violations(const History& history) {
  LawChecker checker(history.options);
  for (const Event& event : history.events) checker.see(event);
  std::vector<std::string> found = checker.violations();
  if (found.empty() && !checker.all_ended()) found.push_back("a sequence never ended");
  return found;
}

}  // namespace dovetail::schedule
