// What the reference scheduler knows of the cache.

#include <algorithm>

#include "laws/checker/reference_scheduler.h"

namespace dovetail::laws {

// A generated token is another content than the same of a prompt, where layers tell them apart.
ReferenceScheduler::Tokens ReferenceScheduler::beginning_of(const Sequence& sequence,
                                                            std::size_t count) const {
  const Tokens& all = sequence.tokens;
  Tokens tokens(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = sequence.prompt; options_.tells_generated && i < count; ++i)
    tokens[i] = ~tokens[i];
  return tokens;
}

std::uint32_t ReferenceScheduler::blocks_for(std::uint32_t tokens) const {
  return (tokens + options_.block_size - 1) / options_.block_size;
}

namespace {

template <class Blocks>
std::uint32_t count_used(const Blocks& blocks) {
  return static_cast<std::uint32_t>(std::count_if(
      blocks.begin(), blocks.end(), [](const auto& block) { return block.owners > 0; }));
}

template <class Blocks>
std::uint32_t count_cached(const Blocks& blocks) {
  return static_cast<std::uint32_t>(
      std::count_if(blocks.begin(), blocks.end(),
                    [](const auto& block) { return block.owners == 0 && !block.prefix.empty(); }));
}

}  // namespace

std::uint32_t ReferenceScheduler::used_blocks() const { return count_used(blocks_); }
std::uint32_t ReferenceScheduler::cached_blocks() const { return count_cached(blocks_); }
std::uint32_t ReferenceScheduler::used_states() const { return count_used(states_); }
std::uint32_t ReferenceScheduler::cached_states() const { return count_cached(states_); }

std::uint32_t ReferenceScheduler::capacity(const Sequence& sequence) const {
  return static_cast<std::uint32_t>(sequence.blocks.size() / groups()) * options_.block_size;
}

// No position from `next` on sees a position of the block.
bool ReferenceScheduler::is_behind(std::size_t place, std::uint32_t next) const {
  const std::uint32_t window = options_.groups[place % groups()].window;
  if (window == 0) return false;
  const std::size_t begin = place / groups() * options_.block_size;
  for (std::size_t position = begin; position < begin + options_.block_size; ++position) {
    if (position + window > next) return false;
  }
  return true;
}

std::uint32_t ReferenceScheduler::available() const {
  const std::uint32_t idle = options_.kv_blocks - used_blocks();
  return idle - std::min(idle, withheld_);
}

void ReferenceScheduler::let_go(Block& block) {
  if (--block.owners == 0) block.let_go = ++let_go_;
}

void ReferenceScheduler::release(Sequence& sequence) {
  for (std::size_t i = sequence.blocks.size() / groups(); i > 0; --i) {
    for (std::size_t g = 0; g < groups(); ++g) {
      const std::size_t block = sequence.blocks[(i - 1) * groups() + g];
      if (block != kNone) let_go(blocks_[block]);
    }
  }
  sequence.blocks.clear();
  if (sequence.loaded != kNone) let_go(states_[sequence.loaded]);
  sequence.loaded = kNone;
  for (const Save& save : sequence.saving) let_go(states_[save.state]);
  sequence.saving.clear();
  for (const Save& save : sequence.drafting) let_go(states_[save.state]);
  sequence.drafting.clear();
}

// So many draft tokens can be taken back, beside those that are planned already.
std::uint32_t ReferenceScheduler::draft_places() const {
  std::size_t drafting = 0;
  for (const Sequence& sequence : sequences_) drafting += sequence.drafting.size();
  return static_cast<std::uint32_t>(
      std::min(states_.size() - used_states(), (states_.size() + 1) / 2 - drafting));
}

// The state after the last right token is the next row's, and those after wrong ones are given up.
void ReferenceScheduler::end_drafts(Sequence& sequence, std::uint32_t computed) {
  if (sequence.drafting.empty()) return;
  for (const Save& save : sequence.drafting) {
    if (save.positions == computed) {
      sequence.loaded = save.state;
    } else {
      let_go(states_[save.state]);
    }
  }
  sequence.drafting.clear();
  std::erase_if(sequence.saving, [&](const Save& save) {
    if (save.positions <= computed) return false;
    let_go(states_[save.state]);
    return true;
  });
}

std::size_t ReferenceScheduler::take(std::vector<Block>& from) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].owners > 0) continue;
    if (from[i].prefix.empty()) {
      best = i;
      break;
    }
    if (!best || from[i].let_go < from[*best].let_go) best = i;
  }
  from[*best] = {1, {}, 0, 0};
  return *best;
}

void ReferenceScheduler::take_blocks(Sequence& sequence) {
  for (std::size_t g = 0; g < groups(); ++g) {
    sequence.blocks.push_back(take(blocks_));
    blocks_[sequence.blocks.back()].group = g;
  }
  ++sequence.filled;
}

// So far its next row gets, in prefill.
std::uint32_t ReferenceScheduler::reach(const Sequence& sequence) const {
  std::uint32_t chunk = options_.max_num_batched_tokens;
  if (options_.long_prefill_token_threshold > 0)
    chunk = std::min(chunk, options_.long_prefill_token_threshold);
  return std::min(sequence.prefill_end, sequence.num_computed_tokens + chunk);
}

// Blocks that its next row may need.
std::uint32_t ReferenceScheduler::lacks(const Sequence& sequence) const {
  if (sequence.decoding())
    return capacity(sequence) < sequence.num_computed_tokens + 1
               ? static_cast<std::uint32_t>(groups())
               : 0;
  std::uint32_t lacking = 0;
  for (std::size_t g = 0; g < groups(); ++g) {
    for (std::uint32_t i = sequence.filled; i < blocks_for(reach(sequence)); ++i)
      lacking += options_.groups[g].window > 0 ? 1 : 0;
  }
  return lacking;
}

// Gives groups with windows their blocks before `end`.
void ReferenceScheduler::fill(Sequence& sequence, std::uint32_t end) {
  for (; sequence.filled < blocks_for(end); ++sequence.filled) {
    for (std::size_t g = 0; g < groups(); ++g) {
      if (options_.groups[g].window == 0) continue;
      std::size_t& block = sequence.blocks[sequence.filled * groups() + g];
      block = take(blocks_);
      blocks_[block].group = g;
    }
  }
}

// The states that a planned row of the sequence saves, where a place is left.
std::vector<std::uint32_t> ReferenceScheduler::save_states(Sequence& sequence, const Row& row,
                                                           bool prefill) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t end = row.first + 1; end <= row.first + row.tokens; ++end) {
    if (!options_.prefix_cache || end % options_.block_size != 0) continue;
    const std::uint32_t edge = end / options_.block_size;
    const bool wanted = edge % options_.state_interval == 0 || edge == sequence.branch ||
                        (prefill && edge == (sequence.prefill_end - 1) / options_.block_size);
    const bool known =
        prefill && std::any_of(states_.begin(), states_.end(), [&](const Block& state) {
          return state.prefix == beginning_of(sequence, end);
        });
    if (!wanted || known) continue;
    if (used_states() == states_.size()) break;
    sequence.saving.push_back({end, take(states_)});
    positions.push_back(end);
  }
  for (const Save& save : sequence.drafting) positions.push_back(save.positions);
  std::sort(positions.begin(), positions.end());
  return positions;
}

// What the rows up to `computed` positions have saved can be found, once for each content.
void ReferenceScheduler::store_states(Sequence& sequence, std::uint32_t computed) {
  while (!sequence.saving.empty() && sequence.saving.front().positions <= computed) {
    const Save save = sequence.saving.front();
    sequence.saving.erase(sequence.saving.begin());
    const Tokens prefix = beginning_of(sequence, save.positions);
    const bool there = std::any_of(states_.begin(), states_.end(),
                                   [&](const Block& other) { return other.prefix == prefix; });
    if (!there) states_[save.state].prefix = prefix;
    let_go(states_[save.state]);
  }
}

// What there is for a sequence that goes on behind so many blocks, if all is there.
std::optional<ReferenceScheduler::Found> ReferenceScheduler::found_at(const Sequence& sequence,
                                                                      std::uint32_t edge,
                                                                      bool states) const {
  Found found;
  found.edge = edge;
  const auto find = [](const std::vector<Block>& among, const Tokens& prefix, std::size_t group) {
    const auto block = std::find_if(among.begin(), among.end(), [&](const Block& other) {
      return other.prefix == prefix && other.group == group;
    });
    return block == among.end() ? kNone : static_cast<std::size_t>(block - among.begin());
  };
  for (std::size_t place = 0; place < edge * groups(); ++place) {
    found.blocks.push_back(kNone);
    if (is_behind(place, edge * options_.block_size)) continue;
    found.blocks.back() =
        find(blocks_, beginning_of(sequence, (place / groups() + 1) * options_.block_size),
             place % groups());
    if (found.blocks.back() == kNone) return std::nullopt;
  }
  if (states && edge > 0) {
    found.state = find(states_, beginning_of(sequence, edge * options_.block_size), 0);
    if (found.state == kNone) return std::nullopt;
  }
  return found;
}

// The last token is always computed, and of one that computes all what it never had itself.
std::uint32_t ReferenceScheduler::most_edge(const Sequence& sequence) const {
  std::uint32_t tokens = sequence.num_tokens() - 1;
  if (sequence.computes_all) tokens = std::min(tokens, sequence.computed_once);
  return tokens / options_.block_size;
}

ReferenceScheduler::Found ReferenceScheduler::found(const Sequence& sequence) const {
  if (!options_.prefix_cache) return {};
  for (std::uint32_t edge = most_edge(sequence); edge > 0; --edge) {
    if (const auto there = found_at(sequence, edge, options_.has_states)) return *there;
  }
  return {};
}

std::uint32_t ReferenceScheduler::fresh_blocks(const Sequence& sequence) const {
  const std::uint32_t positions = std::min(sequence.num_tokens() + 1, sequence.final_length - 1);
  Sequence admitted = sequence;
  admitted.num_computed_tokens = found(sequence).edge * options_.block_size;
  admitted.prefill_end = positions;
  std::uint32_t blocks = 0;
  for (const kv::CacheGroup group : options_.groups) {
    const std::uint32_t end = group.window == 0 ? positions : reach(admitted);
    blocks += blocks_for(end) - admitted.num_computed_tokens / options_.block_size;
  }
  return blocks;
}

}  // namespace dovetail::laws
