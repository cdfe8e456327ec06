// Law 2, and what of law 5 is about the cache: blocks, windows and saved states.

#include <algorithm>

#include "laws/checker/law_checker.h"

namespace dovetail::laws {

using observe::Event;

void LawChecker::take(const Event& event) {
  Sequence* sequence = find(event.id, "a block for");
  if (sequence == nullptr) return;
  if (event.a >= blocks_.size()) return violate("law 2: block {} does not exist", event.a);
  Block& block = blocks_[event.a];
  if (block.owners > 0)
    return violate("law 2: {} takes block {}, which is in use", event.id, event.a);
  if (block.indexed)
    return violate("law 2: {} takes block {}, which can still be found", event.id, event.a);
  if (available() == 0) return violate("law 2: {} takes a block that is withheld", event.id);
  const std::size_t place = std::size_t{event.c} * groups() + event.b;
  const bool slides = event.b < groups() && options_.groups[event.b].window > 0;
  // Groups with windows take theirs later than the others.
  while (sequence->blocks.size() < place &&
         options_.groups[sequence->blocks.size() % groups()].window > 0)
    sequence->blocks.push_back(kNone);
  const bool later = slides && place < sequence->blocks.size() &&
                     sequence->blocks[place] == kNone && !behind_window(*sequence, place);
  if (sequence->state != State::kRunning || event.b >= groups() ||
      (place != sequence->blocks.size() && !later))
    return violate("law 2: {} takes block {} at index {}", event.id, event.a, event.c);
  block.owners = 1;
  --unowned_;
  if (later) {
    sequence->blocks[place] = event.a;
  } else {
    sequence->blocks.push_back(event.a);
  }
}

void LawChecker::share(const Event& event) {
  Sequence* sequence = find(event.id, "a block for");
  if (sequence == nullptr) return;
  if (event.a >= blocks_.size()) return violate("law 2: block {} does not exist", event.a);
  Block& block = blocks_[event.a];
  if (!block.indexed)
    return violate("law 2: {} shares block {}, which cannot be found", event.id, event.a);
  const std::size_t place = std::size_t{event.c} * groups() + event.b;
  if (event.b >= groups() || place < sequence->blocks.size() || event.c >= sequence->cached_blocks)
    return violate("law 2: {} shares block {} at index {}", event.id, event.a, event.c);
  while (sequence->blocks.size() < place) {
    if (!behind_window(*sequence, sequence->blocks.size()))
      return violate("law 2: {} shares block {} at index {}", event.id, event.a, event.c);
    sequence->blocks.push_back(kNone);
  }
  if (block.owners++ == 0) {
    if (available() == 0) return violate("law 2: {} takes a block that is withheld", event.id);
    cached_.erase({block.let_go, event.a});
    --unowned_;
  }
  sequence->blocks.push_back(event.a);
}

void LawChecker::release(const Event& event) {
  Sequence* sequence = find(event.id, "a block of");
  if (sequence == nullptr) return;
  const auto place = std::find(sequence->blocks.begin(), sequence->blocks.end(), event.a);
  if (place == sequence->blocks.end())
    return violate("law 2: {} releases block {}, which was not its own", event.id, event.a);
  // Of one that has ended, with the commit of the last plan that has a row of it.
  const bool in_its_last_commit = sequence->in_flight.size() == 1 &&
                                  sequence->in_flight.front().step == commits_ &&
                                  sequence->state == State::kLeaving;
  const bool runs = sequence->state == State::kRunning;
  if (!runs && !sequence->in_flight.empty() && !in_its_last_commit)
    return violate("law 2: {} releases block {} while a row of it is in flight", event.id, event.a);
  if (runs && !behind_window(*sequence, static_cast<std::size_t>(place - sequence->blocks.begin())))
    return violate("law 2: {} releases block {} and runs on", event.id, event.a);
  *place = kNone;
  Block& block = blocks_[event.a];
  if (--block.owners == 0) {
    ++unowned_;
    block.let_go = ++let_go_;
    if (block.indexed) cached_.insert({block.let_go, event.a});
  }
  settle(*sequence);
}

void LawChecker::index(const Event& event) {
  Sequence* sequence = find(event.id, "a block of");
  if (sequence == nullptr) return;
  const auto place = std::find(sequence->blocks.begin(), sequence->blocks.end(), event.a);
  if (place == sequence->blocks.end())
    return violate("law 2: block {} is indexed, but it is not {}'s", event.a, event.id);
  const std::uint32_t end =
      (static_cast<std::uint32_t>(place - sequence->blocks.begin()) / groups() + 1) *
      options_.block_size;
  // What the rows in flight will compute is not there yet.
  const std::uint32_t computed = sequence->in_flight.empty() ? sequence->num_computed_tokens
                                                             : sequence->in_flight.front().first;
  if (end > computed || end > sequence->num_tokens)
    return violate("law 5: block {} of {} is indexed, but it is not full", event.a, event.id);
  Block& block = blocks_[event.a];
  if (block.indexed) return violate("law 2: block {} is indexed twice", event.a);
  block.indexed = true;
}

void LawChecker::drop(const Event& event) {
  if (event.a >= blocks_.size()) return violate("law 2: block {} does not exist", event.a);
  Block& block = blocks_[event.a];
  if (!block.indexed || block.owners > 0)
    return violate("law 2: block {} is dropped, but it is in use", event.a);
  if (cached_.size() != unowned_)
    return violate("law 2: block {} is dropped, but others are free", event.a);
  if (cached_.begin()->second != event.a)
    return violate("law 2: block {} is dropped, but {} was let go before it", event.a,
                   cached_.begin()->second);
  cached_.erase(cached_.begin());
  block.indexed = false;
}

void LawChecker::load_state(const Event& event) {
  Sequence* sequence = find(event.id, "a state for");
  if (sequence == nullptr) return;
  if (event.a >= states_.size()) return violate("law 2: state {} does not exist", event.a);
  const bool own = std::any_of(
      sequence->drafting.begin(), sequence->drafting.end(),
      [&](const Saving& save) { return save.state == event.a && save.positions == event.b; });
  if (!planning_ && own && sequence->needs_state && event.b == sequence->num_computed_tokens) {
    ++states_[event.a].owners;
    sequence->loaded = event.a;
    return;
  }
  if (!states_[event.a].indexed)
    return violate("law 5: {} begins with state {}, which cannot be found", event.id, event.a);
  if (!planning_ || sequence->loaded || event.b == 0 || !sequence->blocks.empty() ||
      event.b != sequence->cached_blocks * options_.block_size)
    return violate("law 5: {} begins with state {} at position {}", event.id, event.a, event.b);
  ++states_[event.a].owners;
  sequence->loaded = event.a;
}

void LawChecker::save_state(const Event& event) {
  Sequence* sequence = find(event.id, "a state of");
  if (sequence == nullptr) return;
  if (event.a >= states_.size()) return violate("law 2: state {} does not exist", event.a);
  Block& state = states_[event.a];
  if (state.owners > 0 || state.indexed)
    return violate("law 2: {} saves over state {}, which may be read", event.id, event.a);
  const bool draft = event.c != 0;
  const std::size_t before = sequence->num_computed_tokens + sequence->drafting.size();
  if (!planning_ || event.b == 0 ||
      (draft ? event.b != before + 1 : event.b % options_.block_size != 0))
    return violate("law 5: {} saves state {} at position {}", event.id, event.a, event.b);
  state.owners = 1;
  if (draft) return sequence->drafting.push_back({event.a, event.b});
  sequence->saving.push_back({event.a, event.b});
}

void LawChecker::index_state(const Event& event) {
  Sequence* sequence = find(event.id, "a state of");
  if (sequence == nullptr) return;
  const std::uint32_t computed = sequence->in_flight.empty() ? sequence->num_computed_tokens
                                                             : sequence->in_flight.front().first;
  if (sequence->saving.empty() || sequence->saving.front().state != event.a ||
      sequence->saving.front().positions > computed)
    return violate("law 5: state {} of {} is indexed, but it is not saved", event.a, event.id);
  states_[event.a].indexed = true;
}

void LawChecker::release_state(const Event& event) {
  Sequence* sequence = find(event.id, "a state of");
  if (sequence == nullptr) return;
  const auto is_it = [&](const Saving& save) { return save.state == event.a; };
  const auto draft = std::find_if(sequence->drafting.begin(), sequence->drafting.end(), is_it);
  const auto saving = std::find_if(sequence->saving.begin(), sequence->saving.end(), is_it);
  if (draft != sequence->drafting.end()) {
    sequence->drafting.erase(draft);
  } else if (sequence->loaded == event.a) {
    sequence->loaded.reset();
  } else if (saving != sequence->saving.end() &&
             (saving == sequence->saving.begin() ||
              saving->positions > sequence->num_computed_tokens)) {
    sequence->saving.erase(saving);
  } else {
    return violate("law 2: {} releases state {}, which is not its own", event.id, event.a);
  }
  if (--states_[event.a].owners == 0) states_[event.a].let_go = ++let_go_;
  settle(*sequence);
}

void LawChecker::drop_state(const Event& event) {
  if (event.a >= states_.size()) return violate("law 2: state {} does not exist", event.a);
  Block& state = states_[event.a];
  if (!state.indexed || state.owners > 0)
    return violate("law 2: state {} is dropped, but it is in use", event.a);
  for (const Block& other : states_) {
    if (other.owners > 0) continue;
    if (!other.indexed || other.let_go < state.let_go)
      return violate("law 2: state {} is dropped, but another was let go before it", event.a);
  }
  state.indexed = false;
}

// The block at this place of the table is of positions that no row sees which is in flight or to
// come.
bool LawChecker::behind_window(const Sequence& sequence, std::size_t place) const {
  const std::uint32_t window = options_.groups[place % groups()].window;
  const std::uint64_t next =
      sequence.in_flight.empty() ? sequence.num_computed_tokens : sequence.in_flight.front().first;
  const std::uint64_t last = (place / groups() + 1) * std::uint64_t{options_.block_size} - 1;
  return window > 0 && last + window <= next;
}

// Law 2. Of those that run nothing is held that they do not see any more.
void LawChecker::judge_windows() {
  const bool none = std::all_of(options_.groups.begin(), options_.groups.end(),
                                [](const kv::CacheGroup& group) { return group.window == 0; });
  if (none) return;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence.state != State::kRunning) continue;
    for (std::size_t place = 0; place < sequence.blocks.size(); ++place) {
      if (sequence.blocks[place] != kNone && behind_window(sequence, place))
        return violate("law 2: {} keeps block {}, which is behind its window", id,
                       sequence.blocks[place]);
    }
  }
}

// Blocks that its next row may need.
std::uint32_t LawChecker::lacks(const Sequence& sequence) const {
  if (decoding(sequence)) {
    return capacity(sequence) <= sequence.num_computed_tokens ? groups() : 0;
  }
  const std::uint32_t reach = std::min(
      sequence.prefill_end, sequence.num_computed_tokens + schedule::longest_chunk(options_));
  std::uint32_t lacking = 0;
  for (std::size_t place = 0; place < std::size_t{blocks_for(reach)} * groups(); ++place) {
    const bool held = place < sequence.blocks.size() && sequence.blocks[place] != kNone;
    lacking += held || behind_window(sequence, place) ? 0 : 1;
  }
  return lacking;
}

std::uint32_t LawChecker::may_grow() const {
  return static_cast<std::uint32_t>(
      std::count_if(sequences_.begin(), sequences_.end(), [&](const auto& entry) {
        const Sequence& sequence = entry.second;
        return sequence.state == State::kRunning && capacity(sequence) < sequence.final_length - 1;
      }));
}

std::uint32_t LawChecker::fresh_blocks(const Sequence& sequence) const {
  const std::uint32_t positions = std::min(sequence.num_tokens + 1, sequence.final_length - 1);
  std::uint32_t blocks = 0;
  for (const kv::CacheGroup group : options_.groups) {
    // What is found of a window takes blocks as well, beside what the first row reaches.
    const std::uint32_t found = options_.prefix_cache ? blocks_for(group.window) + 1 : 0;
    const std::uint32_t reach = std::min(positions, schedule::longest_chunk(options_));
    blocks += group.window == 0 ? blocks_for(positions)
                                : std::min(blocks_for(positions), blocks_for(reach) + found);
  }
  return blocks;
}

}  // namespace dovetail::laws
