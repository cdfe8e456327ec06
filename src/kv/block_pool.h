#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <vector>

namespace dovetail::kv {

using BlockId = std::uint32_t;

// The blocks of one sequence: entry i holds positions [i * block_size, (i + 1) * block_size).
using BlockTable = std::vector<BlockId>;

constexpr std::uint32_t blocks_for(std::uint32_t tokens, std::uint32_t block_size) {
  return tokens / block_size + (tokens % block_size != 0 ? 1U : 0U);
}

// Counts the blocks of a cache; their bytes are the model's. A block is free, or has as many
// references as there are block tables (or other holders) that name it. Blocks are handed out
// longest-free first. Not thread-safe: it belongs to one scheduler.
class BlockPool {
 public:
  explicit BlockPool(std::uint32_t blocks);

  std::uint32_t size() const { return static_cast<std::uint32_t>(references_.size()); }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t used() const { return size() - free(); }
  std::uint32_t references(BlockId block) const { return references_.at(block); }

  // Takes a free block with one reference. Requires free() > 0.
  BlockId allocate();

  // One more holder of a block in use.
  void share(BlockId block);

  // One holder less; the block is free again when it was the last.
  void release(BlockId block);

  // The blocks that became free since the last call, in that order; what lies in them is stale.
  std::vector<BlockId> take_freed();

 private:
  std::vector<std::uint32_t> references_;
  std::deque<BlockId> free_;
  std::vector<BlockId> freed_;
};

}  // namespace dovetail::kv
