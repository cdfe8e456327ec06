#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dovetail::kv {

using BlockId = std::uint32_t;

// 128 bits that stand for all tokens from a sequence's start to the end of a full block (XXH3 over
// the hash of the block before and the block's tokens).
struct BlockHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const BlockHash&) const = default;
};

// The hash "before the first block". Sequences with different salts share no blocks.
BlockHash root_hash(std::span<const std::byte> salt);

BlockHash chain_hash(const BlockHash& before, std::span<const std::int32_t> tokens);

// Finds full blocks by content. Keeps what it was told of each block, so that a hit is compared
// token by token and not believed for its hash. All memory is taken at the start.
class PrefixIndex {
 public:
  PrefixIndex(std::uint32_t blocks, std::uint32_t block_size);

  // The block that holds `tokens` (block_size of them) after the prefix that `before` stands for.
  std::optional<BlockId> find(const BlockHash& before, const BlockHash& hash,
                              std::span<const std::int32_t> tokens) const;

  // False: a block with the same content is findable already, and this one will not be.
  bool insert(BlockId block, const BlockHash& before, const BlockHash& hash,
              std::span<const std::int32_t> tokens);

  bool contains(BlockId block) const { return present_[block] != 0; }
  std::uint32_t size() const { return size_; }
  void erase(BlockId block);  // which must be in

 private:
  static constexpr BlockId kNone = ~BlockId{0};

  std::span<const std::int32_t> tokens_of(BlockId block) const;
  std::size_t bucket_of(const BlockHash& hash) const { return hash.low & (heads_.size() - 1); }

  std::uint32_t block_size_;
  std::uint32_t size_ = 0;
  std::vector<BlockId> heads_, next_;  // chains per bucket
  std::vector<BlockHash> before_, hash_;
  std::vector<std::uint8_t> present_;
  std::vector<std::int32_t> tokens_;  // [blocks][block_size]
};

}  // namespace dovetail::kv
