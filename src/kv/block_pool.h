#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/prefix_index.h"

namespace dovetail::kv {

constexpr std::uint32_t blocks_for(std::uint32_t tokens, std::uint32_t block_size) {
  return tokens / block_size + (tokens % block_size != 0 ? 1U : 0U);
}

// Counts the blocks of a cache; their bytes are the model's. A block is
//   free    without a reference and not indexed,
//   cached  without a reference, but its content can be found by its tokens until it is reused, or
//   in use  with one reference per block table that names it.
// Free blocks are allocated first, the last freed first; then cached blocks, least recently used
// first. All memory is taken at the start. Not thread-safe: it belongs to
// one scheduler.
class BlockPool {
 public:
  // With `prefix_cache`, contents can be indexed.
  BlockPool(std::uint32_t blocks, std::uint32_t block_size, bool prefix_cache);

  std::uint32_t size() const { return static_cast<std::uint32_t>(references_.size()); }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t cached() const { return cached_; }
  std::uint32_t used() const { return size() - free() - cached(); }
  std::uint32_t references(BlockId block) const { return references_[block]; }
  bool prefix_cache() const { return index_.has_value(); }

  // Number of blocks that allocate() can give: free and cached blocks less withheld ones.
  std::uint32_t available() const {
    const std::uint32_t idle = free() + cached();
    return idle > withheld_ ? idle - withheld_ : 0;
  }
  // Withholds blocks from allocation. Blocks in use stay in use: withholding applies as they are
  // freed.
  void withhold(std::uint32_t blocks) { withheld_ = blocks; }
  std::uint32_t withheld() const { return withheld_; }

  // Allocates a block with one reference. Requires available() > 0. `dropped`: the block was
  // cached, and its content can no longer be found.
  struct Taken {
    BlockId block = 0;
    bool dropped = false;
  };
  Taken allocate();

  // Adds a reference to a block in use, or the first one to a cached block.
  void share(BlockId block);

  // Removes a reference. Without one the block is cached if it is indexed, else free.
  void release(BlockId block);

  // The index; requires prefix_cache(). index() takes a full block in use; false: another block
  // with the same content is indexed.
  std::optional<BlockId> find(const BlockHash& before, const BlockHash& hash,
                              std::span<const std::int32_t> tokens) const {
    return index_->find(before, hash, tokens);
  }
  bool index(BlockId block, const BlockHash& before, const BlockHash& hash,
             std::span<const std::int32_t> tokens) {
    return index_->insert(block, before, hash, tokens);
  }

  // The tokens of the last index() of a block in use.
  std::span<const std::int32_t> tokens(BlockId block) const { return index_->tokens(block); }

  // Prefetches what index() of a block with this hash reads.
  void prefetch(const BlockHash& hash) const { index_->prefetch(hash); }

  // Appends to `blocks` those whose content became stale since the last call (freed, or reused
  // while cached), also if they have a new owner. Recorded only with note_stale(true).
  void note_stale(bool on) { note_stale_ = on; }
  void take_stale(std::vector<BlockId>& blocks);

 private:
  static constexpr BlockId kNone = ~BlockId{0};

  void unlink(BlockId block);

  std::vector<std::uint32_t> references_;
  std::vector<BlockId> free_;  // a stack
  std::optional<PrefixIndex> index_;
  std::vector<BlockId> older_, newer_;  // cached blocks as a list
  BlockId oldest_ = kNone, newest_ = kNone;
  std::uint32_t cached_ = 0;
  std::uint32_t withheld_ = 0;
  bool note_stale_ = false;
  std::vector<BlockId> stale_;
};

}  // namespace dovetail::kv
