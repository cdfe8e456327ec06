#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dovetail::kv {

using BlockId = std::uint32_t;

// Hash of all tokens from a sequence's start to the end of a full block (XXH3, 128 bits, over the
// hash of the block before and the block's tokens).
struct BlockHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const BlockHash&) const = default;
};

// The hash "before the first block". Sequences with different salts share no blocks.
BlockHash root_hash(std::span<const std::byte> salt);

BlockHash chain_hash(const BlockHash& before, std::span<const std::int32_t> tokens);

// Finds full blocks by content. The index stores the tokens of each block, so that a hit is
// compared token by token, not by hash alone. All memory is allocated by the constructor.
class PrefixIndex {
 public:
  PrefixIndex(std::uint32_t blocks, std::uint32_t block_size);

  // The block with `tokens` (block_size of them) after the prefix with the hash `before`.
  std::optional<BlockId> find(const BlockHash& before, const BlockHash& hash,
                              std::span<const std::int32_t> tokens) const;

  // False: a block with the same content is indexed already; this one is not.
  bool insert(BlockId block, const BlockHash& before, const BlockHash& hash,
              std::span<const std::int32_t> tokens);

  // Prefetches what insert() reads first.
  void prefetch(const BlockHash& hash) const {
    __builtin_prefetch(&table_[home_of(tag_of(hash))], 1);
  }

  // The tokens of the last insert() of this block, whether it returned true or false.
  std::span<const std::int32_t> tokens(BlockId block) const {
    return std::span(tokens_).subspan(std::size_t{block} * block_size_, block_size_);
  }

  bool contains(BlockId block) const { return present_[block]; }
  std::uint32_t size() const { return size_; }
  void erase(BlockId block);  // requires contains(block)

 private:
  static constexpr BlockId kNone = ~BlockId{0};

  // An entry of the hash table; the tag, a part of the hash, gives its home position.
  struct Entry {
    std::uint32_t tag = 0;
    BlockId block = kNone;
  };

  // Hashes of a block and of the block before it. They are read together.
  struct alignas(32) Chained {
    BlockHash before, hash;
  };

  static std::uint32_t tag_of(const BlockHash& hash) {
    return static_cast<std::uint32_t>(hash.low);
  }
  std::size_t home_of(std::uint32_t tag) const { return tag & (table_.size() - 1); }
  std::size_t after(std::size_t position) const { return (position + 1) & (table_.size() - 1); }
  // The entry with this content, or the empty entry where it would be inserted.
  std::size_t probe(const BlockHash& before, const BlockHash& hash,
                    std::span<const std::int32_t> tokens) const;

  std::uint32_t block_size_;
  std::uint32_t size_ = 0;
  // Linear probing, at most half full: a miss costs one read of memory.
  std::vector<Entry> table_;
  std::vector<Chained> chained_;  // by block
  std::vector<bool> present_;
  std::vector<std::int32_t> tokens_;  // [blocks][block_size]
};

}  // namespace dovetail::kv
