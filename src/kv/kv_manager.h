#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kv/block_pool.h"
#include "kv/cache_groups.h"
#include "observe/event_log.h"

namespace dovetail::kv {

// In a block table: nothing is held, behind a window or too far ahead of it. As a state: none.
inline constexpr BlockId kNoBlock = std::numeric_limits<BlockId>::max();

struct KvOptions {
  std::uint32_t block_size = 16;
  std::uint32_t blocks = 0;
  std::uint32_t slots = 1;  // sequences that hold blocks at a time, at most
  bool prefix_cache = false;
  std::vector<CacheGroup> groups = {{}};
  // Tokens of one prompt in one step, at most: so far ahead groups with windows hold blocks.
  std::uint32_t reach = std::numeric_limits<std::uint32_t>::max() / 4;
  // What the layers keep of a token depends on whether it was generated, and so does that of the
  // tokens after it: a prefix is found only where the same of its tokens were.
  bool tells_generated = false;
  // The layers keep a state per slot, so that a prefix hit needs a saved one, and so do draft
  // tokens. Saved states at most; with a prefix cache: the distance of those within a sequence, in
  // blocks (at least 1).
  bool has_states = false;
  std::uint32_t saved_states = 0;
  std::uint32_t state_interval = 32;
};

// A saved state of a sequence: that after so many positions.
struct SavedState {
  std::uint32_t positions = 0;  // where others may find it: a multiple of the block size
  BlockId state = kNoBlock;
  bool operator==(const SavedState&) const = default;
};

// What one sequence holds, and what it can be found by. Owned by the sequence's scheduler; only a
// KvManager changes it.
struct BlockTable {
  // [block][group]: of the positions from 0 on.
  std::vector<BlockId> blocks;
  std::uint32_t slot = 0;
  std::uint32_t indexed = 0;  // blocks of each group that were given to the index
  std::uint32_t prompt = 0;   // with a prefix cache: tokens at its arrival
  // Only so many of its first tokens may be found in the cache; the others are computed.
  std::uint32_t findable = std::numeric_limits<std::uint32_t>::max();
  // With a prefix cache: the tokens at the last admission. Later ones are in the index, block by
  // block, and with the slot.
  std::vector<std::int32_t> tokens;
  // hashes[0] is the root, hashes[i] stands for i full blocks; extended on demand.
  std::vector<BlockHash> hashes;
};

// The cache's books: block tables, their growth, sharing and release, windows, saved states and
// prefix hits. Which sequence gets, waits or gives way is the scheduler's to say. A pure state
// machine without clock, thread or I/O. All methods with a table take its sequence's id, for the
// log. README.md has the contract.
class KvManager {
 public:
  // `log`, where there is one, must outlive the manager.
  explicit KvManager(const KvOptions& options, observe::EventLog* log = nullptr);

  const KvOptions& options() const { return options_; }
  const BlockPool& pool() const { return pool_; }
  BlockPool& pool() { return pool_; }
  const BlockPool& states() const { return states_; }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(options_.groups.size()); }

  // Places of a table for so many positions.
  std::uint32_t places_for(std::uint32_t positions) const {
    return groups() * kv::blocks_for(positions, options_.block_size);
  }
  // Positions that the table has places for.
  std::uint32_t capacity(const BlockTable& table) const {
    return static_cast<std::uint32_t>(table.blocks.size()) / groups() * options_.block_size;
  }

  // Prepares the table of a sequence that arrives. With a prefix cache: its tokens (copied), and
  // the root of its hashes.
  void arrive(BlockTable& table, std::span<const std::int32_t> tokens, const BlockHash& root) const;

  // What the cache has of the findable ones of a sequence's `tokens` tokens, the last of which is
  // always computed.
  struct Hit {
    std::uint32_t blocks = 0;   // of each group
    std::uint32_t revived = 0;  // cached blocks without a holder among them
    BlockId state = kNoBlock;   // after those blocks
    std::uint32_t branch = 0;   // blocks that would be found if all states were saved
  };
  Hit hit(BlockTable& table, std::uint32_t tokens);
  // Blocks that a sequence with this hit takes beside it at its admission, for so many positions.
  std::uint32_t fresh_blocks(const Hit& hit, std::uint32_t positions) const;
  // Whether the last hit() shares this block, at this place of a table's blocks.
  bool shares(std::size_t place, BlockId block) const {
    return place < found_.size() && found_[place] == block;
  }

  // Gives a sequence its slot, what hit() found, and blocks for `tokens` positions: of groups with
  // windows those within reach. The table may grow to `most` positions without an allocation of
  // memory. Requires available() for hit().revived and fresh_blocks().
  void admit(BlockTable& table, std::uint64_t id, std::uint32_t slot, std::uint32_t tokens,
             std::uint32_t most);

  // Blocks that groups with windows lack for the prefill of positions before `end`; fill() takes
  // them, and requires that so many are available().
  std::uint32_t lacks(const BlockTable& table, std::uint32_t end) const {
    const std::uint32_t wanted = kv::blocks_for(end, options_.block_size);
    return windows_ == 0 || wanted <= filled_[table.slot]
               ? 0
               : windows_ * (wanted - filled_[table.slot]);
  }
  void fill(BlockTable& table, std::uint64_t id, std::uint32_t end);

  // Takes a block of every group; requires that so many are available(), and nothing is lacking.
  bool can_append() const { return pool_.available() >= groups(); }
  void append(BlockTable& table, std::uint64_t id);

  // Draft tokens for which there are places to save states: at most half of all, so that prompts
  // can save theirs. No limit where layers have no states.
  std::uint32_t draft_places() const {
    if (!options_.has_states) return std::numeric_limits<std::uint32_t>::max();
    return std::min(states_.available(), (states_.size() + 1) / 2 - draft_states_);
  }
  // The next row, from position `first` on, has so many draft tokens: what it saves before each of
  // them is there for the row after it, if they turn out wrong. Requires as many draft_places().
  void save_before_drafts(BlockTable& table, std::uint64_t id, std::uint32_t first,
                          std::uint32_t drafts);

  // Appends to `saves` the states that a row of positions [first, first + tokens) saves, in order;
  // of several at one position, those for its draft tokens last. `end`: the tokens of its prefill,
  // or 0 for a decode row. Fewer where all places are in use.
  void plan_saves(BlockTable& table, std::uint64_t id, std::uint32_t first, std::uint32_t tokens,
                  std::uint32_t end, std::vector<SavedState>& saves);
  // The saved state that a row from `first` on begins with: after a prefix hit, and after draft
  // tokens that were wrong. It stays until the commit of that row.
  BlockId state_to_load(const BlockTable& table, std::uint32_t first) const {
    if (loads_.empty() || loads_[table.slot].positions != first) return kNoBlock;
    return loads_[table.slot].state;
  }

  // A row is computed, up to `computed` positions: its full blocks can be found, new_tokens (with
  // a prefix cache) are appended after the `tokens` known before, and what is behind the windows is
  // released.
  void commit(BlockTable& table, std::uint64_t id, std::uint32_t computed, std::uint32_t tokens,
              std::span<const std::int32_t> new_tokens, bool prefill);
  // Before release(): keeps all `tokens` tokens with the table, for the next admission.
  void keep_tokens(BlockTable& table, std::uint32_t tokens);
  // Releases slot and blocks, the last block first: the beginnings of sequences, which others may
  // share, can be found longest. No row of it may be in flight.
  void release(BlockTable& table, std::uint64_t id);

 private:
  // Hashes of a sequence that holds a slot.
  struct Chain {
    BlockHash indexed;  // of the blocks that were given to the index
    BlockHash next;     // ... and of the block after them, once it is full
  };

  std::optional<BlockId> find(BlockTable& table, std::size_t group, std::uint32_t i) const;
  std::optional<BlockId> find_state(BlockTable& table, std::uint32_t edge) const;
  void extend_hashes(BlockTable& table, std::uint32_t blocks) const;
  BlockHash hash_of(const BlockTable& table, std::uint32_t block, const BlockHash& before,
                    std::span<const std::int32_t> tokens) const;
  std::span<const std::int32_t> block_tokens(const BlockTable& table, std::uint32_t i) const;
  std::span<std::int32_t> last_tokens(const BlockTable& table) {
    return std::span(last_tokens_)
        .subspan(std::size_t{table.slot} * options_.block_size, options_.block_size);
  }
  std::uint32_t within_reach(const Hit& hit, std::uint32_t positions) const;
  void take(BlockTable& table, std::uint64_t id, std::size_t place);
  void append_token(BlockTable& table, std::uint64_t id, std::uint32_t position,
                    std::int32_t token);
  void index_block(BlockTable& table, std::uint64_t id, std::span<const std::int32_t> tokens,
                   const BlockHash& hash);
  void slide(BlockTable& table, std::uint64_t id, std::uint32_t computed);
  void release_block(BlockTable& table, std::uint64_t id, std::size_t place);
  void end_load(BlockTable& table, std::uint64_t id);
  void end_drafts(BlockTable& table, std::uint64_t id, std::uint32_t computed);
  void release_state(BlockId state, std::uint64_t id);
  void drop_drafts(BlockTable& table, std::uint64_t id);
  SavedState save(std::uint64_t id, std::uint32_t positions, bool draft);
  void save_edges(BlockTable& table, std::uint64_t id, std::uint32_t first, std::uint32_t tokens,
                  std::uint32_t end, std::vector<SavedState>& saves);
  bool wants_save(const BlockTable& table, std::uint32_t edge, std::uint32_t end) const;

  void note(observe::EventKind kind, std::uint64_t id, std::uint32_t a, std::uint32_t b = 0,
            std::uint32_t c = 0) {
    if (log_ != nullptr) log_->write(kind, id, a, b, c);
  }

  KvOptions options_;
  observe::EventLog* log_;
  std::uint32_t windows_ = 0;  // groups that have one
  BlockPool pool_;
  BlockPool states_;

  // [slot][position % block_size]: contiguous, since a step touches them for all decode rows.
  std::vector<std::int32_t> last_tokens_;
  std::vector<Chain> chains_;            // by slot
  std::vector<std::uint32_t> filled_;    // by slot: blocks that groups with windows had so far
  std::vector<std::uint32_t> behind_;    // [slot][group]: blocks that were released
  std::vector<SavedState> loads_;        // by slot: of the next row
  std::vector<std::uint32_t> branches_;  // by slot: an edge that other sequences share; 0: none
  std::vector<std::vector<SavedState>> saves_;  // by slot: of rows in flight, in order
  // By slot: of the draft tokens in flight; and how many these are.
  std::vector<std::vector<SavedState>> drafts_;
  std::uint32_t draft_states_ = 0;
  std::vector<BlockId> found_;  // by the last hit(), as in a table
};

}  // namespace dovetail::kv
