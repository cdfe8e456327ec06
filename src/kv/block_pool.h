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
//   free    nobody holds it and nothing can be found in it,
//   cached  nobody holds it, but its content can be found by its tokens until it is reused, or
//   in use  with as many references as there are block tables that name it.
// Free blocks are handed out first, the one that was freed last before the others; then cached
// ones, least recently used first. All memory is taken at the start. Not thread-safe: it belongs to
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

  // How many blocks allocate() would give: free and cached ones, less what is withheld.
  std::uint32_t available() const {
    const std::uint32_t idle = free() + cached();
    return idle > withheld_ ? idle - withheld_ : 0;
  }
  // The owner of the memory keeps so many blocks back. Blocks in use stay in use: the number counts
  // as they come free.
  void withhold(std::uint32_t blocks) { withheld_ = blocks; }
  std::uint32_t withheld() const { return withheld_; }

  // Takes a block with one reference. Requires available() > 0. `dropped` says whether it was
  // cached and cannot be found any more.
  struct Taken {
    BlockId block = 0;
    bool dropped = false;
  };
  Taken allocate();

  // One more holder of a block in use, or the first of a cached one.
  void share(BlockId block);

  // One holder less. After the last the block is cached if it is indexed, else free.
  void release(BlockId block);

  // The index; requires prefix_cache(). index() is for a full block in use; false: the same content
  // is findable under another block.
  std::optional<BlockId> find(const BlockHash& before, const BlockHash& hash,
                              std::span<const std::int32_t> tokens) const {
    return index_->find(before, hash, tokens);
  }
  bool index(BlockId block, const BlockHash& before, const BlockHash& hash,
             std::span<const std::int32_t> tokens) {
    return index_->insert(block, before, hash, tokens);
  }

  // The tokens that a block in use was given to index() with.
  std::span<const std::int32_t> tokens(BlockId block) const { return index_->tokens(block); }

  // A block with this hash will be indexed soon: what must be read for it is fetched.
  void prefetch(const BlockHash& hash) const { index_->prefetch(hash); }

  // The blocks whose content became stale since the last call (freed, or reused while cached); one
  // may have a new owner by now. Appended to `blocks`. Nothing is noted unless note_stale(true).
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
