#include "laws/checker/law_checker.h"

#include <algorithm>

namespace dovetail::laws {

using observe::Event;
using observe::EventKind;
using schedule::Policy;

LawChecker::LawChecker(const schedule::SchedulerOptions& options, bool timed)
    : options_(options),
      timed_(timed),
      blocks_(options.kv_blocks),
      states_(options.saved_states),
      unowned_(options.kv_blocks) {}

void LawChecker::see(const Event& event) {
  if (!violations_.empty()) return;
  switch (event.kind) {
    case EventKind::kArrive:
      arrive(event);
      break;
    case EventKind::kPriority:
      prioritise(event);
      break;
    case EventKind::kRefuse:
      if (sequences_.contains(event.id) || ended_.contains(event.id))
        violate("law 4: {} was in and is refused", event.id);
      break;
    case EventKind::kAdmit:
      admit(event);
      break;
    case EventKind::kPreempt:
      preempt(event);
      break;
    case EventKind::kFinish:
      end(event, false);
      break;
    case EventKind::kCancel:
      end(event, true);
      break;
    case EventKind::kTakeBlock:
      take(event);
      break;
    case EventKind::kShareBlock:
      share(event);
      break;
    case EventKind::kReleaseBlock:
      release(event);
      break;
    case EventKind::kIndexBlock:
      index(event);
      break;
    case EventKind::kDropBlock:
      drop(event);
      break;
    case EventKind::kWithhold:
      withheld_ = event.a;
      break;
    case EventKind::kPlan:
      begin_plan(event);
      break;
    case EventKind::kRow:
      row(event);
      break;
    case EventKind::kPlanned:
      end_plan(event);
      break;
    case EventKind::kAccept:
      accept(event);
      break;
    case EventKind::kCommit:
      end_commit(event);
      break;
    case EventKind::kLoadState:
      load_state(event);
      break;
    case EventKind::kSaveState:
      save_state(event);
      break;
    case EventKind::kIndexState:
      index_state(event);
      break;
    case EventKind::kReleaseState:
      release_state(event);
      break;
    case EventKind::kDropState:
      drop_state(event);
      break;
    case EventKind::kForward:
    case EventKind::kForwarded:
    case EventKind::kSampled:
      break;
  }
  ++seen_;
}

void LawChecker::finish() {
  if (!violations_.empty()) return;
  if (!sequences_.empty()) violate("law 4: {} is lost", sequences_.begin()->first);
  if (unowned_ != options_.kv_blocks)
    violate("law 2: {} of {} blocks have an owner at the end", options_.kv_blocks - unowned_,
            options_.kv_blocks);
  for (std::size_t state = 0; state < states_.size(); ++state) {
    if (states_[state].owners > 0) violate("law 2: state {} has an owner at the end", state);
  }
}

LawChecker::Sequence* LawChecker::find(Id id, const char* what) {
  const auto found = sequences_.find(id);
  if (found != sequences_.end()) return &found->second;
  violate("law 4: {} {}, but it is not there", what, id);
  return nullptr;
}

void LawChecker::arrive(const Event& event) {
  if (sequences_.contains(event.id) || ended_.contains(event.id))
    return violate("law 4: {} arrives twice", event.id);
  Sequence& sequence = sequences_[event.id];
  sequence.id = event.id;
  sequence.prompt = sequence.num_tokens = event.a;
  sequence.final_length = event.a + event.b;
  sequence.tenant = event.c;
  sequence.key = {0, arrivals_++};
  sequence.last_row = steps_;
  if (event.b == 0 || sequence.final_length > options_.max_context)
    violate("law 2: {} with {} + {} tokens can never fit {}", event.id, event.a, event.b,
            options_.max_context);
  Tenant& tenant = tenants_[event.c];
  if (tenant.alive++ == 0) {
    std::optional<std::uint64_t> least;
    for (const auto& [other, its] : tenants_) {
      if (other != event.c && its.alive > 0)
        least = std::min(least.value_or(its.served), its.served);
    }
    tenant.served = std::max(tenant.served, least.value_or(0));
  }
}

void LawChecker::prioritise(const Event& event) {
  Sequence* sequence = find(event.id, "a priority for");
  if (sequence == nullptr) return;
  sequence->priority = static_cast<std::int32_t>(event.a);
  sequence->batch_class = event.b;
  sequence->computes_all = event.c != 0;
  if (options_.policy == Policy::kPriority) {
    sequence->key.first = static_cast<std::int64_t>(steps_) +
                          std::int64_t{sequence->priority} * options_.ageing_steps;
  }
  classes_.try_emplace(event.b, BatchClass{steps_, options_.prefill_interval});
  max_classes_ = std::max(max_classes_, classes_.size());
}

void LawChecker::admit(const Event& event) {
  Sequence* sequence = find(event.id, "admitted");
  if (sequence == nullptr) return;
  if (!planning_) return violate("law 1: {} is admitted outside of a plan", event.id);
  if (sequence->state != State::kWaiting) return violate("law 4: {} is admitted twice", event.id);
  if (rows_ > 0) return violate("law 3: {} is admitted after rows were settled", event.id);
  if (sequence->preempted_in_plan == plans_)
    return violate("law 4: {} is admitted by the plan that preempted it", event.id);
  for (const auto& [id, other] : sequences_) {
    if (other.state != State::kWaiting || other.batch_class != sequence->batch_class) continue;
    const bool comparable = options_.policy != Policy::kFair || other.tenant == sequence->tenant;
    if (comparable && other.key < sequence->key)
      return violate("law 4: {} overtakes {}", event.id, id);
  }
  if (options_.policy == Policy::kFair) judge_tenant(*sequence);
  if (slots_.size() >= options_.max_num_seqs)
    return violate("law 2: {} is admitted, but all {} slots are taken", event.id, slots_.size());
  for (std::uint32_t slot = 0; slot < event.a; ++slot) {
    if (!slots_.contains(slot))
      return violate("{} gets slot {}, but {} is free", event.id, event.a, slot);
  }
  if (!slots_.insert(event.a).second)
    return violate("law 2: {} gets slot {}, which is taken", event.id, event.a);
  const std::uint32_t most =
      options_.prefix_cache ? (sequence->num_tokens - 1) / options_.block_size * options_.block_size
                            : 0;
  if (event.b % options_.block_size != 0 || event.b > most)
    return violate("law 5: {} finds {} of {} tokens cached", event.id, event.b,
                   sequence->num_tokens);
  if (sequence->computes_all && event.b > sequence->computed_once)
    return violate("law 5: {} finds {} tokens cached, but computed {} itself", event.id, event.b,
                   sequence->computed_once);
  if ((event.c != 0) != sequence->preempted)
    return violate("{} says wrongly whether it was preempted", event.id);
  if (!sequence->preempted) tenants_[sequence->tenant].served += sequence->prompt;
  if (held(*sequence) == 0) sequence->blocks.clear();
  sequence->state = State::kRunning;
  sequence->needs_state = false;
  sequence->slot = event.a;
  sequence->prefill_end = sequence->num_tokens;
  sequence->num_computed_tokens = event.b;
  sequence->cached_blocks = event.b / options_.block_size;
  sequence->last_row = steps_;
  sequence->turns_missed = 0;
}

void LawChecker::judge_tenant(const Sequence& next) const {
  for (const auto& [id, other] : sequences_) {
    if (other.state != State::kWaiting || other.batch_class != next.batch_class) continue;
    if (tenants_.at(other.tenant).served < tenants_.at(next.tenant).served) {
      violations_.push_back(
          fmt::format("law 4: {} of tenant {} goes first, but tenant {} was served less", next.id,
                      next.tenant, other.tenant));
      return;
    }
  }
}

void LawChecker::preempt(const Event& event) {
  Sequence* preempted = find(event.id, "preempted");
  if (preempted == nullptr) return;
  if (!planning_ || ahead_) return violate("law 4: {} is preempted ahead of a plan", event.id);
  if (rows_ > 0) return violate("law 4: {} is preempted after rows were planned", event.id);
  if (preempted->state != State::kRunning)
    return violate("law 4: {} is preempted, but it waits", event.id);
  bool needed = false;
  for (const auto& [id, other] : sequences_) {
    if (other.state == State::kRunning && preempted->key < other.key)
      return violate("law 4: {} is preempted, but {} is younger", event.id, id);
    const bool needs_block =
        other.state == State::kRunning && can_go_on(other) && available() < lacks(other);
    const bool more_urgent = options_.policy == Policy::kPriority &&
                             other.state == State::kWaiting && other.key < preempted->key &&
                             other.priority < preempted->priority;
    needed |= needs_block || more_urgent;
  }
  if (!needed) return violate("law 4: {} is preempted without need", event.id);
  if (!slots_.contains(event.a) || event.a != preempted->slot)
    return violate("law 2: {} loses slot {}, which was not its own", event.id, event.a);
  if (event.b != preempted->num_computed_tokens)
    return violate("law 5: {} loses {} positions, but had {}", event.id, event.b,
                   preempted->num_computed_tokens);
  slots_.erase(event.a);
  preempted->state = State::kWaiting;
  preempted->preempted = true;
  preempted->preempted_in_plan = plans_;
  preempted->computed_once = std::max(preempted->computed_once, preempted->num_computed_tokens);
  preempted->num_computed_tokens = preempted->prefill_end = 0;
  preempted->cached_blocks = 0;
}

void LawChecker::end(const Event& event, bool cancelled) {
  Sequence* sequence = find(event.id, cancelled ? "cancelled" : "finished");
  if (sequence == nullptr) return;
  if (sequence->state == State::kLeaving) return violate("law 4: {} ends twice", event.id);
  if (cancelled && (event.a != 0) != !sequence->in_flight.empty())
    return violate("law 2: {} says wrongly whether a row of it is in flight", event.id);
  if (!cancelled && event.a != sequence->num_tokens - sequence->prompt)
    return violate("law 5: {} ends with {} new tokens, but it got {}", event.id, event.a,
                   sequence->num_tokens - sequence->prompt);
  --tenants_[sequence->tenant].alive;
  const bool last = std::none_of(sequences_.begin(), sequences_.end(), [&](const auto& other) {
    return other.second.state != State::kLeaving && other.first != event.id &&
           other.second.batch_class == sequence->batch_class;
  });
  if (last) classes_.erase(sequence->batch_class);
  if (sequence->state == State::kWaiting) {
    ended_.insert(event.id);
    sequences_.erase(event.id);
    return;
  }
  sequence->state = State::kLeaving;
  settle(*sequence);
}

// Forgets a sequence that has ended and given everything back.
void LawChecker::settle(Sequence& sequence) {
  if (sequence.state != State::kLeaving || held(sequence) > 0 || !sequence.in_flight.empty() ||
      sequence.loaded || !sequence.saving.empty() || !sequence.drafting.empty())
    return;
  slots_.erase(sequence.slot);
  ended_.insert(sequence.id);
  sequences_.erase(sequence.id);
}

void LawChecker::begin_plan(const Event& event) {
  if (planning_) return violate("a plan within a plan");
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.state == State::kLeaving && sequence.in_flight.empty())
      return violate("law 2: {} has ended and keeps {} blocks", id, held(sequence));
  }
  planning_ = true;
  ++plans_;
  ahead_ = event.a != 0;
  if (ahead_ != !drafts_in_flight_.empty())
    return violate("plan {} says wrongly whether another is in flight", event.id);
  if (event.id != steps_) return violate("plan {} should be {}", event.id, steps_);
  plan_class_.reset();
  last_key_.reset();
  rows_ = decode_rows_ = tokens_ = prefill_tokens_ = unaligned_ = drafts_ = 0;
}

void LawChecker::row(const Event& event) {
  Sequence* sequence = find(event.id, "a row of");
  if (sequence == nullptr) return;
  if (!planning_ || sequence->state != State::kRunning)
    return violate("law 2: {} has a row, but does not run", event.id);
  if (sequence->row_in_plan == plans_) return violate("{} has two rows in a step", event.id);
  sequence->row_in_plan = plans_;
  if (ahead_ && drafts_in_flight_.back() > 0)
    return violate("law 5: {} is planned ahead of draft tokens", event.id);
  if (!plan_class_) plan_class_ = sequence->batch_class;
  if (*plan_class_ != sequence->batch_class)
    return violate("{} of class {} shares a step with class {}", event.id, sequence->batch_class,
                   *plan_class_);
  const bool decode = (event.flags & observe::kRowDecode) != 0;
  const bool final_chunk = (event.flags & observe::kRowFinalChunk) != 0;
  const bool sampled = (event.flags & observe::kRowSampled) != 0;
  if (!decode && decode_rows_ > 0)
    return violate("the prefill row of {} comes after decode rows", event.id);
  if (decode && decode_rows_ == 0) last_key_.reset();
  if (last_key_ && sequence->key < *last_key_)
    return violate("the row of {} is out of order", event.id);
  last_key_ = sequence->key;
  if (event.a != sequence->num_computed_tokens)
    return violate("law 5: {} computes from position {}, but {} come first", event.id, event.a,
                   sequence->num_computed_tokens);
  if (event.b == 0 || event.a + event.b > capacity(*sequence))
    return violate("law 2: {} computes {} positions in {} blocks", event.id, event.a + event.b,
                   sequence->blocks.size());
  const bool first_row = sequence->in_flight.empty() && event.a > 0 &&
                         event.a == sequence->cached_blocks * options_.block_size;
  if (options_.has_states && (first_row || sequence->needs_state) && !sequence->loaded)
    return violate("law 5: {} begins at position {} without a state", event.id, event.a);
  sequence->needs_state = false;
  if (options_.has_states && sequence->drafting.size() != event.c)
    return violate("law 5: {} has {} draft tokens and saves {} states before them", event.id,
                   event.c, sequence->drafting.size());
  for (const Saving& save : sequence->saving) {
    if (save.positions > event.a + event.b)
      return violate("law 5: {} saves a state at position {}, but computes {}", event.id,
                     save.positions, event.a + event.b);
  }
  const std::size_t blocks = (event.a + event.b - 1) / options_.block_size + 1;
  for (std::size_t place = 0; place < blocks * groups(); ++place) {
    if (place >= sequence->blocks.size() || sequence->blocks[place] == kNone) {
      const std::uint32_t window = options_.groups[place % groups()].window;
      const std::size_t last = (place / groups() + 1) * options_.block_size - 1;
      if (window == 0 || last + window > event.a)
        return violate("law 5: {} sees a block at index {} that it does not hold", event.id,
                       place / groups());
      continue;
    }
    if (place / groups() < event.a / options_.block_size) continue;
    const Block& block = blocks_[sequence->blocks[place]];
    if (block.owners != 1 || block.indexed)
      return violate("law 2: {} writes block {}, which is not its own alone", event.id,
                     sequence->blocks[place]);
  }
  ++rows_;
  tokens_ += event.b;
  if (decode) {
    if (!decoding(*sequence) || !can_go_on(*sequence) ||
        event.a + 1 != sequence->num_tokens + sequence->pending)
      return violate("law 5: {} decodes at {}, but {} tokens are known", event.id, event.a,
                     sequence->num_tokens);
    if (event.b != 1 + event.c || event.c > options_.speculative_tokens || !sampled || final_chunk)
      return violate("law 5: {} decodes {} tokens with {} draft tokens", event.id, event.b,
                     event.c);
    if (sequence->num_tokens + event.c >= sequence->final_length)
      return violate("law 5: {} drafts beyond its end", event.id);
    if (event.c > 0 && ahead_) return violate("law 5: {} drafts ahead of its last token", event.id);
    ++decode_rows_;
    drafts_ += event.c;
    ++sequence->num_computed_tokens;
    ++sequence->pending;
    sequence->turns_missed = 0;
  } else {
    if (decoding(*sequence) || event.a + event.b > sequence->prefill_end)
      return violate("law 5: {} prefills {} positions, but its prefill end is {}", event.id,
                     event.a + event.b, sequence->prefill_end);
    if (event.c != 0 || final_chunk != (event.a + event.b == sequence->prefill_end) ||
        sampled != final_chunk)
      return violate("law 5: {} is sampled wrongly at {} of {}", event.id, event.a + event.b,
                     sequence->prefill_end);
    if (options_.long_prefill_token_threshold > 0 &&
        event.b > options_.long_prefill_token_threshold)
      return violate("{} prefills {} tokens, the threshold is {}", event.id, event.b,
                     options_.long_prefill_token_threshold);
    if (!final_chunk && event.b % alignment() != 0) ++unaligned_;
    prefill_tokens_ += event.b;
    sequence->num_computed_tokens += event.b;
    if (final_chunk) sequence->pending = 1;
  }
  sequence->last_row = steps_;
  sequence->in_flight.push_back({steps_, event.a, event.b, event.c, event.flags});
}

void LawChecker::end_plan(const Event& event) {
  planning_ = false;
  if (event.a + event.b != rows_ || event.b != decode_rows_ || event.c != tokens_)
    return violate("plan {} counts {} + {} rows and {} tokens wrongly", event.id, event.a, event.b,
                   event.c);
  if (rows_ > options_.max_num_seqs || tokens_ > options_.max_num_batched_tokens)
    return violate("a step of {} rows and {} tokens", rows_, tokens_);
  if (!options_.mixed && prefill_tokens_ > 0 && decode_rows_ > 0)
    return violate("a mixed step, but mixing is off");
  if (unaligned_ > 1)
    return violate("{} chunks are cut short of {} tokens", unaligned_, alignment());
  if (rows_ == 0) {
    if (!ahead_ && withheld_ == 0 && !sequences_.empty())
      violate("law 1: an empty step, but {} is there", sequences_.begin()->first);
    return;
  }
  judge_decodes(*plan_class_);
  if (violations_.empty()) judge_prefill(*plan_class_);
  if (violations_.empty()) judge_idle_capacity(*plan_class_);
  ++steps_;
  BatchClass& planned = classes_[*plan_class_];
  planned.served = steps_ - 1;
  planned.steps_since_prefill = prefill_tokens_ > 0 ? 0 : planned.steps_since_prefill + 1;
  drafts_in_flight_.push_back(drafts_);
  if (violations_.empty()) judge_waits();
}

// Law 3. Every decoding sequence has a row, or other decode rows fill what the floor leaves.
void LawChecker::judge_decodes(std::uint32_t batch_class) {
  if (!options_.mixed && decode_rows_ == 0) {
    if (classes_[batch_class].steps_since_prefill >= options_.prefill_interval) return;
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.state == State::kRunning && sequence.batch_class == batch_class &&
          decoding(sequence) && can_go_on(sequence) && sequence.row_in_plan != plans_)
        return violate("law 3: {} waits for a second prefill step", id);
    }
    return;
  }
  const std::uint32_t capacity = options_.max_num_batched_tokens - (options_.mixed ? floor() : 0);
  const std::uint32_t turns = options_.max_num_seqs / std::max(1U, capacity) + 1;
  for (auto& [id, sequence] : sequences_) {
    const bool left_out = sequence.state == State::kRunning &&
                          sequence.batch_class == batch_class && sequence.row_in_plan != plans_ &&
                          decoding(sequence) && can_go_on(sequence);
    if (!left_out) continue;
    if (decode_rows_ < capacity)
      return violate("law 3: {} decodes and has no row, though {} rows of {} are taken", id,
                     decode_rows_, capacity);
    // With priorities younger ones may come in before it.
    if (++sequence.turns_missed > turns * (capacity == 0 ? 2 : 1) &&
        options_.policy != Policy::kPriority)
      return violate("law 3: {} decodes and has missed {} turns", id, sequence.turns_missed);
  }
}

// Law 3, the other direction: what is in prefill goes on in every prefill_interval-th step.
void LawChecker::judge_prefill(std::uint32_t batch_class) {
  if (prefill_tokens_ > 0) return;
  const std::uint32_t since = classes_[batch_class].steps_since_prefill;
  const std::uint32_t interval =
      std::max(options_.prefill_interval, options_.max_num_batched_tokens == 1 ? 2U : 1U);
  const bool due = options_.mixed ? since + 1 >= interval : since >= options_.prefill_interval;
  if (!due) return;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.state == State::kRunning && sequence.batch_class == batch_class &&
        sequence.row_in_plan != plans_ && !decoding(sequence))
      return violate("law 3: {} is in prefill and left out for {} steps", id, since + 1);
  }
}

// Law 1: no sequence waits while capacity for it is free.
void LawChecker::judge_idle_capacity(std::uint32_t batch_class) {
  const std::uint32_t left = options_.max_num_batched_tokens - tokens_;
  if (timed_ || left == 0 || (!options_.mixed && decode_rows_ > 0)) return;
  const auto could_use = [&](std::uint32_t remaining) {
    return prefill_tokens_ == 0 || left >= std::min(remaining, alignment());
  };
  // Those that run come before those that wait, each by the order key: if the first cannot use what
  // is left, none behind it may.
  const Sequence* partly_read = nullptr;
  const Sequence* head = nullptr;
  std::uint32_t reserved_slots = 0, reserved_blocks = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.state == State::kWaiting && sequence.batch_class != batch_class) {
      // At most these are kept for older ones of other classes.
      ++reserved_slots;
      reserved_blocks += fresh_blocks(sequence);
    } else if (sequence.state == State::kWaiting) {
      if (head == nullptr || sequence.key < head->key) head = &sequence;
    } else if (sequence.state == State::kRunning && sequence.batch_class == batch_class &&
               !decoding(sequence) && sequence.row_in_plan != plans_) {
      if (partly_read == nullptr || sequence.key < partly_read->key) partly_read = &sequence;
    }
  }
  if (partly_read != nullptr) {
    if (could_use(partly_read->prefill_end - partly_read->num_computed_tokens))
      violate("law 1: {} is in prefill, and {} tokens of the step are unused", partly_read->id,
              left);
    return;
  }
  // Which of the tenants' heads is next is judged when it is admitted.
  if (options_.policy == Policy::kFair) return;
  if (head == nullptr || !could_use(head->num_tokens)) return;
  if (head->preempted_in_plan == plans_) return;
  const std::uint64_t needed = std::uint64_t{fresh_blocks(*head)} + reserved_blocks +
                               std::uint64_t{options_.watermark} * may_grow() * groups();
  if (slots_.size() + 1 + reserved_slots <= options_.max_num_seqs && needed <= available())
    violate(
        "law 1: {} waits, though a slot, {} of {} blocks and {} tokens of the step are there for "
        "it",
        head->id, available(), needed, left);
}

// Law 4: no running sequence lacks a row for longer than all others together can take.
void LawChecker::judge_waits() {
  const std::uint64_t turns =
      options_.max_num_seqs / std::max(1U, options_.max_num_batched_tokens - floor()) + 1;
  const std::uint64_t bound = (std::uint64_t{options_.max_context} * options_.max_num_seqs + 8) *
                              (options_.prefill_interval + 1) * max_classes_ * turns;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.state == State::kRunning && sequence.in_flight.empty() &&
        steps_ - sequence.last_row > bound)
      return violate("law 4: {} runs and had no row for {} steps", id, bound);
  }
  // A class whose sequences can go on waits for one step of each other class, at most; a plan ahead
  // may find none of them able to.
  if (classes_.size() < 2 || ahead_) return;
  for (const auto& [batch_class, its] : classes_) {
    if (steps_ - its.served <= 2 * max_classes_ + 2) continue;
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.batch_class == batch_class && sequence.state == State::kRunning &&
          can_go_on(sequence) && sequence.in_flight.empty() &&
          steps_ - sequence.last_row > 2 * max_classes_ + 2)
        return violate("law 4: {} of class {} waits for other classes since step {}", id,
                       batch_class, its.served);
    }
  }
}

void LawChecker::accept(const Event& event) {
  Sequence* sequence = find(event.id, "a result of");
  if (sequence == nullptr) return;
  if (sequence->in_flight.empty()) return violate("law 5: {} has a result without a row", event.id);
  const InFlightRow row = sequence->in_flight.front();
  sequence->in_flight.pop_front();
  const bool sampled = (row.flags & observe::kRowSampled) != 0;
  const bool decode = (row.flags & observe::kRowDecode) != 0;
  if (sampled ? event.a < 1 || event.a > row.drafts + 1 : event.a != 0)
    return violate("law 5: {} gets {} new tokens of a row with {} draft tokens", event.id, event.a,
                   row.drafts);
  if (event.b != row.first + (decode ? event.a : row.tokens))
    return violate("law 5: {} has {} positions after {} + {}", event.id, event.b, row.first,
                   row.tokens);
  if (sampled) {
    --sequence->pending;
    sequence->num_tokens += event.a;
    if (row.drafts > 0) sequence->num_computed_tokens = event.b;
    sequence->needs_state = options_.has_states && event.a <= row.drafts && row.drafts > 0;
    tenants_[sequence->tenant].served += 2ULL * event.a;
  }
  if (sequence->num_tokens > sequence->final_length ||
      (sequence->num_tokens == sequence->final_length && event.c == 0))
    return violate("law 5: {} goes on beyond {} tokens", event.id, sequence->final_length);
}

void LawChecker::end_commit(const Event& event) {
  if (event.id != commits_) return violate("commit {} should be {}", event.id, commits_);
  if (drafts_in_flight_.empty()) return violate("commit {} of no plan", event.id);
  drafts_in_flight_.pop_front();
  // Of those that have ended meanwhile the row is over, too.
  for (auto next = sequences_.begin(); next != sequences_.end();) {
    Sequence& sequence = (next++)->second;
    if (sequence.in_flight.empty() || sequence.in_flight.front().step != commits_) continue;
    if (sequence.state != State::kLeaving)
      return violate("law 5: the row of {} in step {} has no result", sequence.id, commits_);
    sequence.in_flight.pop_front();
    settle(sequence);
  }
  ++commits_;
  judge_windows();
}

bool LawChecker::can_go_on(const Sequence& sequence) const {
  return !decoding(sequence) || sequence.num_tokens + sequence.pending < sequence.final_length;
}

std::uint32_t LawChecker::floor() const {
  return std::min(options_.min_prefill_tokens, std::max(1U, options_.max_num_batched_tokens / 2));
}

std::uint32_t LawChecker::alignment() const {
  const std::uint32_t chosen = options_.prefill_alignment > 0 ? options_.prefill_alignment
                                                              : std::max(64U, options_.block_size);
  return options_.long_prefill_token_threshold > 0
             ? std::min(chosen, options_.long_prefill_token_threshold)
             : chosen;
}

}  // namespace dovetail::laws
