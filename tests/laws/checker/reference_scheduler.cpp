#include "laws/checker/reference_scheduler.h"

#include <algorithm>

namespace dovetail::laws {

using schedule::Policy;

ReferenceScheduler::ReferenceScheduler(const schedule::SchedulerOptions& options,
                                       const schedule::StepCost& cost)
    : options_(options), cost_(cost), blocks_(options.kv_blocks), states_(options.saved_states) {}

bool ReferenceScheduler::add(const schedule::SequenceSpec& spec) {
  if (spec.prompt_tokens >= options_.max_context) return false;
  const auto waiting = std::count_if(sequences_.begin(), sequences_.end(),
                                     [](const Sequence& s) { return !s.running && !s.ended; });
  if (waiting >= options_.max_waiting) return false;
  Sequence sequence;
  sequence.id = spec.id;
  sequence.prompt = spec.prompt_tokens;
  sequence.tokens.assign(spec.prompt.begin(), spec.prompt.end());
  sequence.final_length = std::min(spec.prompt_tokens + spec.max_new_tokens, options_.max_context);
  sequence.key = {0, arrivals_++};
  if (options_.policy == Policy::kPriority)
    sequence.key.first =
        static_cast<std::int64_t>(steps_) + std::int64_t{spec.priority} * options_.ageing_steps;
  sequence.tenant = spec.tenant;
  sequence.batch_class = spec.batch_class;
  sequence.priority = spec.priority;
  sequence.computes_all = spec.computes_all;
  sequences_.push_back(sequence);
  classes_.try_emplace(spec.batch_class, Class{steps_, options_.prefill_interval, std::nullopt});
  Tenant& tenant = tenants_[spec.tenant];
  if (tenant.alive++ == 0) {
    std::optional<std::uint64_t> least;
    for (const auto& [number, other] : tenants_) {
      if (number != spec.tenant && other.alive > 0 && (!least || other.served < *least))
        least = other.served;
    }
    if (least && *least > tenant.served) tenant.served = *least;
  }
  return true;
}

// Removes it from all accounts; slot and blocks stay while a row of it is in flight.
void ReferenceScheduler::end(Sequence& sequence) {
  sequence.ended = true;
  --tenants_[sequence.tenant].alive;
  const bool last = std::none_of(sequences_.begin(), sequences_.end(), [&](const Sequence& other) {
    return !other.ended && other.batch_class == sequence.batch_class;
  });
  if (last) classes_.erase(sequence.batch_class);
  if (sequence.in_flight == 0) {
    release(sequence);
    sequence.running = false;
  }
}

void ReferenceScheduler::cancel(std::uint64_t id) {
  for (Sequence& sequence : sequences_) {
    if (sequence.id == id && !sequence.ended) end(sequence);
  }
}

std::vector<ReferenceScheduler::Sequence*> ReferenceScheduler::running() {
  std::vector<Sequence*> found;
  for (Sequence& sequence : sequences_) {
    if (sequence.running && !sequence.ended) found.push_back(&sequence);
  }
  std::sort(found.begin(), found.end(),
            [](const Sequence* a, const Sequence* b) { return a->key < b->key; });
  return found;
}

ReferenceScheduler::Sequence* ReferenceScheduler::head(std::uint32_t batch_class) {
  Sequence* best = nullptr;
  const auto rank = [&](const Sequence& sequence) {
    const std::uint64_t served =
        options_.policy == Policy::kFair ? tenants_[sequence.tenant].served : 0;
    return std::pair(served, sequence.key);
  };
  for (Sequence& sequence : sequences_) {
    if (sequence.running || sequence.ended || sequence.batch_class != batch_class) continue;
    if (best == nullptr || rank(sequence) < rank(*best)) best = &sequence;
  }
  return best;
}

std::uint32_t ReferenceScheduler::taken_slots() const {
  return static_cast<std::uint32_t>(std::count_if(sequences_.begin(), sequences_.end(),
                                                  [](const Sequence& s) { return s.running; }));
}

bool ReferenceScheduler::can_admit(Sequence* sequence) {
  if (sequence == nullptr || taken_slots() >= options_.max_num_seqs) return false;
  if (sequence->preempted_in_plan == plans_) return false;
  std::uint32_t slots = taken_slots() + 1;
  std::uint32_t blocks = fresh_blocks(*sequence);
  for (const std::size_t block : found(*sequence).blocks)
    blocks += block != kNone && blocks_[block].owners == 0 ? 1 : 0;
  for (const Sequence* other : running()) {
    if (capacity(*other) < other->final_length - 1)
      blocks += options_.watermark * static_cast<std::uint32_t>(groups());
  }
  for (const auto& [number, its] : classes_) {
    Sequence* other = number == sequence->batch_class ? nullptr : head(number);
    if (other == nullptr || sequence->key < other->key) continue;
    ++slots;
    blocks += fresh_blocks(*other);
  }
  return slots <= options_.max_num_seqs && blocks <= available();
}

bool ReferenceScheduler::can_go_on(const Sequence& sequence) const {
  return !sequence.decoding() || sequence.num_tokens() + sequence.pending < sequence.final_length;
}

void ReferenceScheduler::preempt(Sequence& sequence, Plan& plan) {
  release(sequence);
  sequence.running = false;
  sequence.preempted = true;
  sequence.preempted_in_plan = plans_;
  sequence.computed_once = std::max(sequence.computed_once, sequence.num_computed_tokens);
  sequence.num_computed_tokens = sequence.prefill_end = sequence.next_drafts = 0;
  plan.preempted.push_back(sequence.id);
}

std::optional<std::uint32_t> ReferenceScheduler::choose_class() {
  std::optional<std::uint32_t> best;
  const auto oldest = [&](std::uint32_t number) {
    std::optional<Key> key;
    for (const Sequence& sequence : sequences_) {
      if (!sequence.ended && sequence.batch_class == number && (!key || sequence.key < *key))
        key = sequence.key;
    }
    return *key;
  };
  for (const auto& [number, its] : classes_) {
    bool possible = can_admit(head(number));
    for (const Sequence* sequence : running())
      possible |= sequence->batch_class == number && can_go_on(*sequence);
    if (!possible) continue;
    if (!best ||
        std::pair(its.served, oldest(number)) < std::pair(classes_[*best].served, oldest(*best)))
      best = number;
  }
  return best;
}

ReferenceScheduler::Plan ReferenceScheduler::plan() {
  Plan plan;
  ++plans_;
  const bool ahead = !in_flight_.empty();
  if (ahead) {
    for (const Row& row : in_flight_.back().decode) {
      if (row.drafts > 0) return plan;
    }
  }
  if (options_.policy == Policy::kPriority) {
    Sequence* urgent = nullptr;
    for (const auto& [number, its] : classes_) {
      Sequence* candidate = head(number);
      if (candidate != nullptr && (urgent == nullptr || candidate->key < urgent->key))
        urgent = candidate;
    }
    if (urgent != nullptr && !can_admit(urgent)) {
      // Tried out: what would be there if the last ones gave way?
      std::vector<Sequence*> chosen;
      const auto tried = [&] {
        const auto saved_blocks = blocks_;
        const auto saved_states = states_;
        const auto saved = sequences_;
        for (Sequence* candidate : chosen) {
          release(*candidate);
          candidate->running = false;
        }
        // Who waits in other classes is younger: nothing is reserved for it.
        const bool enough = can_admit(urgent);
        blocks_ = saved_blocks;
        states_ = saved_states;
        for (std::size_t i = 0; i < saved.size(); ++i) sequences_[i] = saved[i];
        return enough;
      };
      const std::vector<Sequence*> order = running();
      bool enough = false;
      for (auto last = order.rbegin(); last != order.rend() && !enough; ++last) {
        if ((*last)->priority <= urgent->priority || (*last)->key < urgent->key) break;
        chosen.push_back(*last);
        enough = tried();
      }
      if (enough && ahead) return plan;
      if (enough) {
        for (Sequence* candidate : chosen) preempt(*candidate, plan);
      }
    }
  }
  while (plan.prefill.empty() && plan.decode.empty()) {
    const std::size_t preempted = plan.preempted.size();
    const std::optional<std::uint32_t> number = choose_class();
    if (!number || !build(*number, ahead, plan)) break;
    const bool empty = plan.prefill.empty() && plan.decode.empty();
    if (empty && plan.preempted.size() == preempted) break;
    if (empty) continue;
    Class& its = classes_[*number];
    its.served = steps_++;
    its.since_prefill = plan.prefill.empty() ? its.since_prefill + 1 : 0;
    in_flight_.push_back(plan);
  }
  return plan;
}

// False: it would preempt a sequence, and this plan is ahead.
bool ReferenceScheduler::build(std::uint32_t batch_class, bool ahead, Plan& plan) {
  std::vector<Sequence*> decodes;
  for (Sequence* sequence : running()) {
    if (!sequence->running || sequence->batch_class != batch_class || !can_go_on(*sequence))
      continue;
    while (sequence->running && lacks(*sequence) > available()) {
      if (ahead) return false;
      preempt(*running().back(), plan);
    }
    if (!sequence->running) continue;
    if (!sequence->decoding()) {
      fill(*sequence, reach(*sequence));
      continue;
    }
    if (lacks(*sequence) > 0) take_blocks(*sequence);
    decodes.push_back(sequence);
  }

  const auto partly_read = [&] {
    std::vector<Sequence*> found;
    for (Sequence* sequence : running()) {
      if (sequence->batch_class == batch_class && !sequence->decoding()) found.push_back(sequence);
    }
    return found;
  };
  const std::uint32_t whole = options_.max_num_batched_tokens;
  const std::uint32_t since = classes_[batch_class].since_prefill;
  const bool possible = !partly_read().empty() || can_admit(head(batch_class));
  const bool due = since + 1 >= std::max(options_.prefill_interval, whole == 1 ? 2U : 1U);
  std::uint32_t capacity = whole;
  bool prefill = true;
  if (options_.mixed) {
    // Its floor is kept free where decode rows and all draft tokens could take it.
    const std::uint32_t floor = std::min(options_.min_prefill_tokens, std::max(1U, whole / 2));
    const bool pressed = decodes.size() * (1 + options_.speculative_tokens) > whole - floor;
    if (possible && due && pressed) capacity = whole - floor;
  } else if (!decodes.empty()) {
    if (possible && since >= options_.prefill_interval) {
      decodes.clear();
    } else {
      prefill = false;
    }
  }
  if (decodes.size() > capacity) {
    std::vector<Sequence*> turn;
    for (const bool behind : {true, false}) {
      for (Sequence* sequence : decodes) {
        const std::optional<Key>& last = classes_[batch_class].rotation;
        if ((!last || sequence->key > *last) == behind && turn.size() < capacity)
          turn.push_back(sequence);
      }
    }
    if (!turn.empty()) classes_[batch_class].rotation = turn.back()->key;
    std::sort(turn.begin(), turn.end(),
              [](const Sequence* a, const Sequence* b) { return a->key < b->key; });
    decodes = turn;
  }
  auto left = static_cast<std::uint32_t>(capacity - decodes.size());
  std::uint32_t budget = whole;
  schedule::StepLoad load;
  for (Sequence* sequence : decodes) {
    std::uint32_t drafts = 0;
    if (!ahead) {
      drafts = std::min({sequence->next_drafts, options_.speculative_tokens,
                         sequence->final_length - sequence->num_tokens() - 1, left});
      if (options_.has_states) drafts = std::min(drafts, draft_places());
      while (drafts > 0 && this->capacity(*sequence) < sequence->num_computed_tokens + 1 + drafts) {
        if (can_take()) {
          take_blocks(*sequence);
        } else {
          --drafts;
        }
      }
      for (std::uint32_t i = 1; options_.has_states && i <= drafts; ++i)
        sequence->drafting.push_back({sequence->num_computed_tokens + i, take(states_)});
    }
    left -= drafts;
    budget -= 1 + drafts;
    load.decode_rows += 1 + drafts;
    load.context_tokens += schedule::context_read(sequence->num_computed_tokens, 1 + drafts);
    plan.decode.push_back({sequence->id,
                           sequence->slot,
                           sequence->num_computed_tokens,
                           1 + drafts,
                           drafts,
                           false,
                           true,
                           sequence->loaded != kNone && sequence->in_flight == 0,
                           {}});
  }

  const bool bounded = !decodes.empty() && cost_.known();
  const double limit = options_.target_step_us > 0 ? options_.target_step_us
                                                   : options_.mixed_slowdown * cost_.predict(load);
  const std::uint32_t threshold =
      options_.long_prefill_token_threshold > 0 ? options_.long_prefill_token_threshold : whole;
  const auto chunk = [&](std::uint32_t first, std::uint32_t remaining) -> std::uint32_t {
    const std::uint32_t most = std::min({remaining, threshold, budget});
    std::uint32_t tokens = most;
    if (bounded) {
      tokens = 0;
      for (std::uint32_t n = 1; n <= most; ++n) {
        schedule::StepLoad with = load;
        with.prefill_tokens += n;
        with.context_tokens += schedule::context_read(first, n);
        if (cost_.predict(with) <= limit) tokens = n;
      }
      if (due && load.prefill_tokens == 0)
        tokens = std::max(tokens, std::min(options_.min_prefill_tokens, most));
    }
    if (tokens == remaining) return tokens;
    std::uint32_t alignment = options_.prefill_alignment > 0 ? options_.prefill_alignment
                                                             : std::max(64U, options_.block_size);
    if (options_.long_prefill_token_threshold > 0) alignment = std::min(alignment, threshold);
    if (tokens >= alignment) return tokens - tokens % alignment;
    return load.prefill_tokens == 0 ? tokens : 0;
  };
  const auto read = [&](Sequence& sequence, std::uint32_t tokens) {
    const bool ends = sequence.num_computed_tokens + tokens == sequence.prefill_end;
    // The state stays until the commit of the row that begins with it.
    const bool loads = sequence.loaded != kNone && sequence.in_flight == 0;
    plan.prefill.push_back({sequence.id,
                            sequence.slot,
                            sequence.num_computed_tokens,
                            tokens,
                            0,
                            ends,
                            ends,
                            loads,
                            {}});
    load.prefill_tokens += tokens;
    load.context_tokens += schedule::context_read(sequence.num_computed_tokens, tokens);
    budget -= tokens;
  };
  if (prefill) {
    bool full = false;
    for (Sequence* sequence : partly_read()) {
      const std::uint32_t tokens =
          full ? 0
               : chunk(sequence->num_computed_tokens,
                       sequence->prefill_end - sequence->num_computed_tokens);
      full |= tokens == 0;
      if (tokens > 0) read(*sequence, tokens);
    }
    while (!full && budget > 0) {
      Sequence* next = head(batch_class);
      if (!can_admit(next)) break;
      const Found there = found(*next);
      const std::uint32_t first = there.edge * options_.block_size;
      const std::uint32_t tokens = chunk(first, next->num_tokens() - first);
      if (tokens == 0) break;
      std::uint32_t slot = 0;
      while (std::any_of(sequences_.begin(), sequences_.end(), [&](const Sequence& other) {
        return other.running && other.slot == slot;
      }))
        ++slot;
      next->running = true;
      next->slot = slot;
      next->prefill_end = next->num_tokens();
      next->num_computed_tokens = first;
      // Where the blocks go on and the states do not, others have branched off, and may again.
      next->branch = 0;
      for (std::uint32_t edge = most_edge(*next);
           options_.has_states && options_.prefix_cache && edge > there.edge && next->branch == 0;
           --edge) {
        if (found_at(*next, edge, false)) next->branch = edge;
      }
      for (const std::size_t block : there.blocks) {
        if (block != kNone) ++blocks_[block].owners;
      }
      next->blocks = there.blocks;
      next->loaded = there.state;
      if (there.state != kNone) ++states_[there.state].owners;
      next->filled = there.edge;
      const std::uint32_t within = std::max(there.edge, blocks_for(reach(*next)));
      for (std::uint32_t i = there.edge; i < blocks_for(next->num_tokens()); ++i) {
        for (std::size_t g = 0; g < groups(); ++g) {
          next->blocks.push_back(kNone);
          if (options_.groups[g].window > 0 && i >= within) continue;
          next->blocks.back() = take(blocks_);
          blocks_[next->blocks.back()].group = g;
        }
      }
      next->filled = within;
      plan.admitted.push_back({next->id, slot, first, next->preempted});
      if (!next->preempted) tenants_[next->tenant].served += next->prompt;
      read(*next, tokens);
    }
  }
  const auto key_of = [&](const Row& row) {
    return std::find_if(sequences_.begin(), sequences_.end(),
                        [&](const Sequence& s) { return s.id == row.sequence; })
        ->key;
  };
  std::sort(plan.prefill.begin(), plan.prefill.end(),
            [&](const Row& a, const Row& b) { return key_of(a) < key_of(b); });
  for (std::vector<Row>* part : {&plan.prefill, &plan.decode}) {
    for (Row& row : *part) {
      for (Sequence& sequence : sequences_) {
        if (sequence.id != row.sequence) continue;
        row.saves = save_states(sequence, row, part == &plan.prefill);
        sequence.num_computed_tokens += row.tokens - row.drafts;
        sequence.pending += row.sampled ? 1 : 0;
        sequence.next_drafts = 0;
        ++sequence.in_flight;
      }
    }
  }
  return true;
}

void ReferenceScheduler::commit(const std::map<std::uint64_t, Result>& results) {
  const Plan plan = in_flight_.front();
  in_flight_.erase(in_flight_.begin());
  for (const std::vector<Row>* part : {&plan.prefill, &plan.decode}) {
    for (const Row& row : *part) {
      for (Sequence& sequence : sequences_) {
        if (sequence.id != row.sequence) continue;
        --sequence.in_flight;
        if (sequence.ended) {
          if (sequence.in_flight == 0) {
            release(sequence);
            sequence.running = false;
          }
          continue;
        }
        if (row.loads) let_go(states_[sequence.loaded]);
        if (row.loads) sequence.loaded = kNone;
        std::uint32_t computed = row.first + row.tokens;
        bool finished = false;
        if (row.sampled) {
          const Result& result = results.at(sequence.id);
          --sequence.pending;
          sequence.tokens.insert(sequence.tokens.end(), result.tokens.begin(), result.tokens.end());
          sequence.next_drafts = result.next_drafts;
          if (!row.final_chunk)
            computed = row.first + static_cast<std::uint32_t>(result.tokens.size());
          if (row.drafts > 0) sequence.num_computed_tokens = computed;
          finished = result.finished || sequence.num_tokens() == sequence.final_length;
          tenants_[sequence.tenant].served += 2 * result.tokens.size();
        }
        if (row.drafts > 0) end_drafts(sequence, computed);
        for (std::size_t place = 0; options_.prefix_cache && place < sequence.blocks.size();
             ++place) {
          const std::size_t last = (place / groups() + 1) * options_.block_size;
          // A block that was not the first with its content is not looked at again.
          if (last > computed || last <= row.first) continue;
          Block& block = blocks_[sequence.blocks[place]];
          const Tokens prefix = beginning_of(sequence, last);
          const bool there = std::any_of(blocks_.begin(), blocks_.end(), [&](const Block& other) {
            return other.prefix == prefix && other.group == place % groups();
          });
          if (!there) block.prefix = prefix;
        }
        store_states(sequence, computed);
        for (std::size_t g = 0; g < groups(); ++g) {
          for (std::size_t place = g; place < sequence.blocks.size(); place += groups()) {
            if (sequence.blocks[place] == kNone || !is_behind(place, computed)) continue;
            let_go(blocks_[sequence.blocks[place]]);
            sequence.blocks[place] = kNone;
          }
        }
        if (finished) end(sequence);
      }
    }
  }
}

}  // namespace dovetail::laws
