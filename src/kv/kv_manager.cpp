#include "kv/kv_manager.h"

#include <algorithm>
#include <cassert>

#include "kv/mutation.h"

namespace dovetail::kv {
namespace {

using observe::EventKind;

constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;

// The groups' blocks of the same tokens are different contents. The first group's hash is the
// tokens' own.
BlockHash in_group(BlockHash hash, std::size_t group) {
  hash.low ^= group * kSpread;
  return hash;
}

}  // namespace

KvManager::KvManager(const KvOptions& options, observe::EventLog* log)
    : options_(options),
      log_(log),
      windows_(static_cast<std::uint32_t>(
          std::count_if(options.groups.begin(), options.groups.end(),
                        [](const CacheGroup& group) { return group.window > 0; }))),
      pool_(options.blocks, options.block_size, options.prefix_cache),
      states_(options.saved_states, options.block_size, true) {
  assert(!options.groups.empty() && options.block_size > 0 && options.state_interval > 0);
  assert(options.has_states || options.saved_states == 0);
  if (options.prefix_cache) {
    last_tokens_.resize(std::size_t{options.slots} * options.block_size);
    chains_.resize(options.slots);
  }
  if (windows_ > 0) {
    behind_.resize(std::size_t{options.slots} * groups());
    filled_.resize(options.slots);
  }
  if (options.has_states) {
    loads_.resize(options.slots);
    branches_.assign(options.slots, 0);
    saves_.resize(options.slots);
    drafts_.resize(options.slots);
  }
}

void KvManager::arrive(BlockTable& table, std::span<const std::int32_t> tokens,
                       const BlockHash& root) const {
  if (!options_.prefix_cache) return;
  table.tokens.assign(tokens.begin(), tokens.end());
  table.prompt = static_cast<std::uint32_t>(tokens.size());
  table.hashes.push_back(root);
}

KvManager::Hit KvManager::hit(BlockTable& table, std::uint32_t tokens) {
  Hit hit;
  found_.clear();
  if (!options_.prefix_cache) return hit;
  const std::uint32_t last = mutated(Mutant::kLastBlockIsAHit) ? 0 : 1;
  const std::uint32_t most = std::min(tokens - last, table.findable) / options_.block_size;
  const auto has = [&](std::size_t group, std::uint32_t i) {
    const std::optional<BlockId> block = find(table, group, i);
    if (!block) return false;
    const std::size_t place = std::size_t{i} * groups() + group;
    if (found_.size() <= place) found_.resize(place + 1, kNoBlock);
    found_[place] = *block;
    return true;
  };
  const std::span<const CacheGroup> asked =
      std::span(options_.groups).first(mutated(Mutant::kHitWithoutWindow) ? 1 : groups());
  const auto always = [](std::uint32_t) { return true; };
  hit.blocks = hit.branch = longest_hit(asked, options_.block_size, most, has, always);
  if (options_.has_states) {
    const auto has_state = [&](std::uint32_t edge) { return find_state(table, edge).has_value(); };
    hit.blocks = longest_hit(asked, options_.block_size, hit.branch, has, has_state);
    if (hit.blocks > 0) hit.state = *find_state(table, hit.blocks);
  }
  found_.resize(std::size_t{hit.blocks} * groups(), kNoBlock);
  for (std::size_t place = 0; place < found_.size(); ++place) {
    const CacheGroup group = options_.groups[place % groups()];
    const auto i = static_cast<std::uint32_t>(place / groups());
    if (i < first_needed(group, hit.blocks * options_.block_size, options_.block_size)) {
      found_[place] = kNoBlock;
    } else if (found_[place] != kNoBlock) {
      hit.revived += pool_.references(found_[place]) == 0 ? 1 : 0;
    }
  }
  return hit;
}

void KvManager::admit(BlockTable& table, std::uint64_t id, std::uint32_t slot, std::uint32_t tokens,
                      std::uint32_t most) {
  assert(table.blocks.empty());
  const Hit found = hit(table, tokens);
  table.slot = slot;
  table.indexed = found.blocks;
  table.blocks.reserve(places_for(most));
  if (windows_ > 0) {
    filled_[slot] = found.blocks;
    for (std::size_t g = 0; g < groups(); ++g) {
      behind_[std::size_t{slot} * groups() + g] =
          first_needed(options_.groups[g], found.blocks * options_.block_size, options_.block_size);
    }
  }
  if (options_.prefix_cache) {
    if (options_.groups[0].window > 0) table.tokens.reserve(most + 1);
    extend_hashes(table, found.blocks);
    chains_[slot].indexed = table.hashes[found.blocks];
    const std::size_t border = table.tokens.size() / options_.block_size * options_.block_size;
    std::copy(table.tokens.begin() + static_cast<std::ptrdiff_t>(border), table.tokens.end(),
              last_tokens(table).begin());
  }
  if (options_.has_states) {
    loads_[slot] = {found.blocks * options_.block_size, found.state};
    branches_[slot] = found.branch > found.blocks ? found.branch : 0;
    if (found.state != kNoBlock) {
      if (!mutated(Mutant::kStateOfOthers)) states_.share(found.state);
      note(EventKind::kLoadState, id, found.state, found.blocks * options_.block_size);
    }
  }
  for (std::size_t place = 0; place < found_.size(); ++place) {
    const BlockId block = found_[place];
    table.blocks.push_back(block);
    if (block == kNoBlock) continue;
    pool_.share(block);
    note(EventKind::kShareBlock, id, block, static_cast<std::uint32_t>(place % groups()),
         static_cast<std::uint32_t>(place / groups()));
  }
  const std::size_t begin = table.blocks.size();
  table.blocks.resize(std::max<std::size_t>(begin, places_for(tokens)), kNoBlock);
  const std::uint32_t within = within_reach(found, tokens);
  if (windows_ > 0) filled_[slot] = std::max(filled_[slot], within);
  for (std::size_t place = begin; place < table.blocks.size(); ++place) {
    const bool slides = options_.groups[place % groups()].window > 0;
    if (!slides || place / groups() < within) take(table, id, place);
  }
}

std::uint32_t KvManager::within_reach(const Hit& hit, std::uint32_t positions) const {
  const std::uint32_t end = hit.blocks * options_.block_size + options_.reach;
  return kv::blocks_for(std::min(positions, end), options_.block_size);
}

std::uint32_t KvManager::fresh_blocks(const Hit& hit, std::uint32_t positions) const {
  const std::uint32_t all = kv::blocks_for(positions, options_.block_size);
  return (groups() - windows_) * (all - hit.blocks) +
         windows_ * (within_reach(hit, positions) - hit.blocks);
}

void KvManager::fill(BlockTable& table, std::uint64_t id, std::uint32_t end) {
  const std::uint32_t wanted = kv::blocks_for(end, options_.block_size);
  for (std::uint32_t& filled = filled_[table.slot]; filled < wanted; ++filled) {
    for (std::size_t g = 0; g < groups(); ++g) {
      if (options_.groups[g].window > 0) take(table, id, std::size_t{filled} * groups() + g);
    }
  }
}

void KvManager::append(BlockTable& table, std::uint64_t id) {
  const std::size_t begin = table.blocks.size();
  if (windows_ > 0) {
    assert(filled_[table.slot] == begin / groups());
    ++filled_[table.slot];
  }
  table.blocks.resize(begin + groups(), kNoBlock);
  for (std::size_t place = begin; place < table.blocks.size(); ++place) take(table, id, place);
}

void KvManager::take(BlockTable& table, std::uint64_t id, std::size_t place) {
  const BlockPool::Taken taken = pool_.allocate();
  if (taken.dropped) note(EventKind::kDropBlock, id, taken.block);
  note(EventKind::kTakeBlock, id, taken.block, static_cast<std::uint32_t>(place % groups()),
       static_cast<std::uint32_t>(place / groups()));
  table.blocks[place] = taken.block;
}

bool KvManager::wants_save(const BlockTable& table, std::uint32_t edge, std::uint32_t end) const {
  return edge % options_.state_interval == 0 || edge == branches_[table.slot] ||
         (end > 0 && edge == (end - 1) / options_.block_size);
}

void KvManager::save_before_drafts(BlockTable& table, std::uint64_t id, std::uint32_t first,
                                   std::uint32_t drafts) {
  if (!options_.has_states) return;
  assert(drafts <= draft_places() && drafts_[table.slot].empty());
  for (std::uint32_t i = 1; i <= drafts; ++i)
    drafts_[table.slot].push_back(save(id, first + i, true));
  draft_states_ += drafts;
}

SavedState KvManager::save(std::uint64_t id, std::uint32_t positions, bool draft) {
  const BlockPool::Taken taken = states_.allocate();
  if (taken.dropped) note(EventKind::kDropState, id, taken.block);
  note(EventKind::kSaveState, id, taken.block, positions, draft ? 1 : 0);
  return {positions, taken.block};
}

void KvManager::plan_saves(BlockTable& table, std::uint64_t id, std::uint32_t first,
                           std::uint32_t tokens, std::uint32_t end,
                           std::vector<SavedState>& saves) {
  if (states_.size() == 0) return;
  const auto begin = static_cast<std::ptrdiff_t>(saves.size());
  if (options_.prefix_cache) save_edges(table, id, first, tokens, end, saves);
  const auto edges = static_cast<std::ptrdiff_t>(saves.size());
  saves.insert(saves.end(), drafts_[table.slot].begin(), drafts_[table.slot].end());
  std::inplace_merge(
      saves.begin() + begin, saves.begin() + edges, saves.end(),
      [](const SavedState& a, const SavedState& b) { return a.positions < b.positions; });
}

void KvManager::save_edges(BlockTable& table, std::uint64_t id, std::uint32_t first,
                           std::uint32_t tokens, std::uint32_t end,
                           std::vector<SavedState>& saves) {
  assert(end == 0 || end <= table.tokens.size());
  const std::uint32_t last = (first + tokens) / options_.block_size;
  for (std::uint32_t edge = first / options_.block_size + 1; edge <= last; ++edge) {
    if (!wants_save(table, edge, end)) continue;
    // What a decode row completes has no hash yet.
    if (end > 0 && find_state(table, edge)) continue;
    if (states_.available() == 0) return;
    const SavedState edge_state = save(id, edge * options_.block_size, false);
    saves.push_back(edge_state);
    if (mutated(Mutant::kStateIsEarly)) --saves.back().positions;
    saves_[table.slot].push_back(edge_state);
  }
}

void KvManager::commit(BlockTable& table, std::uint64_t id, std::uint32_t computed,
                       std::uint32_t tokens, std::span<const std::int32_t> new_tokens,
                       bool prefill) {
  end_load(table, id);
  end_drafts(table, id, computed);
  if (options_.prefix_cache) {
    while (prefill && table.indexed < computed / options_.block_size) {
      const auto full = block_tokens(table, table.indexed);
      index_block(table, id, full,
                  hash_of(table, table.indexed, chains_[table.slot].indexed, full));
    }
    for (std::size_t i = 0; i < new_tokens.size(); ++i)
      append_token(table, id, tokens + static_cast<std::uint32_t>(i), new_tokens[i]);
  }
  if (windows_ > 0) slide(table, id, computed);
}

// Appends the token at `position`; all positions before it are computed.
void KvManager::append_token(BlockTable& table, std::uint64_t id, std::uint32_t position,
                             std::int32_t token) {
  const std::span<std::int32_t> last = last_tokens(table);
  const std::uint32_t offset = position % options_.block_size;
  if (offset == 0 && table.indexed < position / options_.block_size)
    index_block(table, id, last, chains_[table.slot].next);
  last[offset] = token;
  if (offset + 1 == options_.block_size) {
    Chain& chain = chains_[table.slot];
    chain.next = hash_of(table, position / options_.block_size, chain.indexed, last);
    for (std::size_t g = 0; g < groups(); ++g) pool_.prefetch(in_group(chain.next, g));
  }
}

// Indexes the next block of each group, and the state after it; it holds `tokens`.
void KvManager::index_block(BlockTable& table, std::uint64_t id,
                            std::span<const std::int32_t> tokens, const BlockHash& hash) {
  BlockHash& before = chains_[table.slot].indexed;
  for (std::size_t g = 0; g < groups(); ++g) {
    const BlockId block = table.blocks[std::size_t{table.indexed} * groups() + g];
    if (pool_.index(block, before, in_group(hash, g), tokens))
      note(EventKind::kIndexBlock, id, block);
  }
  ++table.indexed;
  if (options_.has_states) {
    std::vector<SavedState>& saves = saves_[table.slot];
    if (!saves.empty() && saves.front().positions == table.indexed * options_.block_size) {
      const BlockId state = saves.front().state;
      if (states_.index(state, before, hash, tokens)) note(EventKind::kIndexState, id, state);
      release_state(state, id);
      saves.erase(saves.begin());
    }
  }
  before = hash;
}

// Releases the blocks that no row after `computed` positions sees.
void KvManager::slide(BlockTable& table, std::uint64_t id, std::uint32_t computed) {
  if (mutated(Mutant::kWindowStays)) return;
  for (std::size_t g = 0; g < groups(); ++g) {
    const std::uint32_t next = computed + (mutated(Mutant::kWindowIsShort) ? 1 : 0);
    const std::uint32_t first = first_needed(options_.groups[g], next, options_.block_size);
    std::uint32_t& behind = behind_[std::size_t{table.slot} * groups() + g];
    if (behind >= first) continue;
    // The index knows the tokens of these blocks while they are held.
    if (g == 0 && options_.prefix_cache) keep_tokens(table, first * options_.block_size);
    for (; behind < first; ++behind) release_block(table, id, std::size_t{behind} * groups() + g);
  }
}

void KvManager::release_block(BlockTable& table, std::uint64_t id, std::size_t place) {
  const BlockId block = std::exchange(table.blocks[place], kNoBlock);
  if (block == kNoBlock) return;
  pool_.release(block);
  note(EventKind::kReleaseBlock, id, block);
}

void KvManager::keep_tokens(BlockTable& table, std::uint32_t tokens) {
  if (!options_.prefix_cache) return;
  while (table.tokens.size() < tokens) {
    const auto at = static_cast<std::uint32_t>(table.tokens.size());
    const std::uint32_t i = at / options_.block_size;
    const std::span<const std::int32_t> from =
        i < table.indexed ? pool_.tokens(table.blocks[std::size_t{i} * groups()])
                          : last_tokens(table);
    const std::uint32_t first = at % options_.block_size;
    const std::uint32_t count = std::min(options_.block_size - first, tokens - at);
    const auto part = from.subspan(first, count);
    table.tokens.insert(table.tokens.end(), part.begin(), part.end());
  }
}

void KvManager::release(BlockTable& table, std::uint64_t id) {
  if (mutated(Mutant::kBlocksStay)) table.blocks[0] = kNoBlock;
  for (std::size_t i = table.blocks.size() / groups(); i > 0; --i) {
    for (std::size_t g = 0; g < groups(); ++g) release_block(table, id, (i - 1) * groups() + g);
  }
  table.blocks.clear();
  if (!options_.has_states) return;
  end_load(table, id);
  drop_drafts(table, id);
  for (const SavedState& save : saves_[table.slot]) release_state(save.state, id);
  saves_[table.slot].clear();
}

void KvManager::end_load(BlockTable& table, std::uint64_t id) {
  if (!options_.has_states) return;
  const SavedState load = std::exchange(loads_[table.slot], {});
  if (load.state != kNoBlock && !mutated(Mutant::kStateOfOthers)) release_state(load.state, id);
}

// A row with draft tokens is computed up to `computed` positions: what it saved behind them has
// taken wrong tokens, and so has the slot, if any of them were wrong.
void KvManager::end_drafts(BlockTable& table, std::uint64_t id, std::uint32_t computed) {
  if (!options_.has_states || drafts_[table.slot].empty()) return;
  for (const SavedState& before : drafts_[table.slot]) {
    if (before.positions != computed || mutated(Mutant::kWrongDraftsInState)) continue;
    states_.share(before.state);
    loads_[table.slot] = before;
    note(EventKind::kLoadState, id, before.state, computed);
  }
  drop_drafts(table, id);
  if (mutated(Mutant::kWrongDraftsSaved)) return;
  std::vector<SavedState>& saves = saves_[table.slot];
  while (!saves.empty() && saves.back().positions > computed) {
    release_state(saves.back().state, id);
    saves.pop_back();
  }
}

void KvManager::drop_drafts(BlockTable& table, std::uint64_t id) {
  std::vector<SavedState>& drafts = drafts_[table.slot];
  for (const SavedState& before : drafts) release_state(before.state, id);
  draft_states_ -= static_cast<std::uint32_t>(drafts.size());
  drafts.clear();
}

void KvManager::release_state(BlockId state, std::uint64_t id) {
  states_.release(state);
  note(EventKind::kReleaseState, id, state);
}

// Extends hashes to [0 .. blocks].
void KvManager::extend_hashes(BlockTable& table, std::uint32_t blocks) const {
  while (table.hashes.size() <= blocks) {
    const auto i = static_cast<std::uint32_t>(table.hashes.size() - 1);
    table.hashes.push_back(hash_of(table, i, table.hashes.back(), block_tokens(table, i)));
  }
}

// Of a full block and all before it.
BlockHash KvManager::hash_of(const BlockTable& table, std::uint32_t block, const BlockHash& before,
                             std::span<const std::int32_t> tokens) const {
  BlockHash hash = chain_hash(before, tokens);
  const std::uint32_t end = (block + 1) * options_.block_size;
  if (!options_.tells_generated || end <= table.prompt || mutated(Mutant::kGeneratedAsPrompt))
    return hash;
  hash.high ^= kSpread * std::min(end - table.prompt, options_.block_size);
  return hash;
}

std::span<const std::int32_t> KvManager::block_tokens(const BlockTable& table,
                                                      std::uint32_t i) const {
  return std::span(table.tokens).subspan(std::size_t{i} * options_.block_size, options_.block_size);
}

std::optional<BlockId> KvManager::find(BlockTable& table, std::size_t group,
                                       std::uint32_t i) const {
  extend_hashes(table, i + 1);
  return pool_.find(table.hashes[i], in_group(table.hashes[i + 1], group), block_tokens(table, i));
}

std::optional<BlockId> KvManager::find_state(BlockTable& table, std::uint32_t edge) const {
  extend_hashes(table, edge);
  return states_.find(table.hashes[edge - 1], table.hashes[edge], block_tokens(table, edge - 1));
}

}  // namespace dovetail::kv
