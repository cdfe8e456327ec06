#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/kernels.h"

namespace dovetail::model {

// What one block of cache holds: for every layer and key/value head the keys and the values of
// kBlockSize positions.
struct CacheShape {
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  kernels::CacheType type = kernels::CacheType::kF16;

  std::size_t tile_bytes() const {  // one layer, one head, keys or values of one block
    return kernels::cache_tile_bytes(type, head_dim);
  }
  std::size_t block_bytes() const { return tile_bytes() * kv_heads * layers * 2; }
};

// The bytes behind the blocks that the scheduler counts. Memory is reserved at once and taken from
// the system, in huge pages where it has them, when it is first written. Different blocks may be
// written by different threads; the cache does no locking.
//
// Blocks are stored in groups of kGroup. The tiles of a layer and head are contiguous within a
// group, so that attention reads long stretches where a sequence has neighbouring blocks.
class Cache {
 public:
  // kExhausted: the system does not grant the address space.
  static Result<Cache> create(const CacheShape& shape, std::uint32_t blocks);

  const CacheShape& shape() const { return shape_; }
  std::uint32_t blocks() const { return blocks_; }

  // Blocks in a group; the last one may have fewer.
  static constexpr std::uint32_t kGroup = 16;

  // Tiles: see kernels/cache_type.h.
  std::byte* keys(std::uint32_t layer, std::uint32_t head, std::uint32_t block) const {
    return tile(layer, head, block, 0);
  }
  std::byte* values(std::uint32_t layer, std::uint32_t head, std::uint32_t block) const {
    return tile(layer, head, block, 1);
  }

  // Fills a block with NaN, so that reading what was never written shows.
  void poison(std::uint32_t block) const;

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };

  Cache(const CacheShape& shape, std::uint32_t blocks, std::unique_ptr<std::byte[], Unmap> memory)
      : shape_(shape), blocks_(blocks), memory_(std::move(memory)) {}

  std::byte* tile(std::uint32_t layer, std::uint32_t head, std::uint32_t block,
                  std::size_t which) const;

  CacheShape shape_;
  std::uint32_t blocks_ = 0;
  std::unique_ptr<std::byte[], Unmap> memory_;
};

}  // namespace dovetail::model
