#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "load/model_config.h"

namespace dovetail::model {

// What one block of cache holds: for every layer with attention and each of its key/value heads the
// keys and the values of kBlockSize positions.
class CacheShape {
 public:
  struct Layer {
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim = 0;
    std::size_t tile_bytes = 0;  // of one head, keys or values of one block
    std::size_t before = 0;      // bytes of a block in earlier layers
  };

  CacheShape() = default;
  explicit CacheShape(kernels::CacheType type) : type_(type) {}

  void add_layer(std::uint32_t kv_heads, std::uint32_t head_dim) {
    const std::size_t tile = kernels::cache_tile_bytes(type_, head_dim);
    layers_.push_back({kv_heads, head_dim, tile, block_bytes_});
    block_bytes_ += tile * kv_heads * 2;
  }

  // A layer with a state for each sequence, of so many floats; in the order of such layers.
  void add_state(std::size_t floats) {
    states_.push_back(state_floats_);
    state_floats_ += floats;
  }

  // Of a sequence's states, one layer after the other: floats in all, and before a layer's.
  std::size_t state_floats() const { return state_floats_; }
  std::size_t state_begin(std::uint32_t layer) const { return states_[layer]; }

  kernels::CacheType type() const { return type_; }
  std::span<const Layer> layers() const { return layers_; }
  std::size_t block_bytes() const { return block_bytes_; }

 private:
  kernels::CacheType type_ = kernels::CacheType::kF16;
  std::vector<Layer> layers_;
  std::size_t block_bytes_ = 0;
  std::vector<std::size_t> states_;  // by layer: floats before it
  std::size_t state_floats_ = 0;
};

// Of the layers of a model that have attention, and of those that have states, in their order.
CacheShape cache_shape(const load::ModelConfig& config, kernels::CacheType type);

// The bytes behind the blocks that the scheduler counts. Memory is reserved at once and taken from
// the system, in huge pages where it has them, when it is first written. Different blocks may be
// written by different threads; the cache does no locking.
//
// Blocks are stored in groups of kGroup. The tiles of a layer and head are contiguous within a
// group, so that attention reads long stretches where a sequence has neighbouring blocks.
class Cache {
 public:
  // kExhausted: the system does not grant the address space.
  // `slots`: sequences that have states at a time.
  static Result<Cache> create(CacheShape shape, std::uint32_t blocks, std::uint32_t slots = 1);

  const CacheShape& shape() const { return shape_; }
  std::uint32_t blocks() const { return blocks_; }

  // Blocks in a group; the last one may have fewer.
  static constexpr std::uint32_t kGroup = 16;

  // Tiles: see kernels/cache_type.h. `layer` is that of the shape.
  std::byte* keys(std::uint32_t layer, std::uint32_t head, std::uint32_t block) const {
    return tile(layer, head, block, 0);
  }
  std::byte* values(std::uint32_t layer, std::uint32_t head, std::uint32_t block) const {
    return tile(layer, head, block, 1);
  }

  // The state of the `layer`-th layer with states, of the sequence that has the slot.
  float* state(std::uint32_t layer, std::uint32_t slot) const {
    return reinterpret_cast<float*>(states_.get()) + slot * shape_.state_floats() +
           shape_.state_begin(layer);
  }

  // Fill a block, or a slot, with NaN, so that reading what was never written shows.
  void poison(std::uint32_t block) const;
  void poison_state(std::uint32_t slot) const;

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };

  using Memory = std::unique_ptr<std::byte[], Unmap>;

  Cache(CacheShape shape, std::uint32_t blocks, Memory memory, Memory states)
      : shape_(std::move(shape)),
        blocks_(blocks),
        memory_(std::move(memory)),
        states_(std::move(states)) {}

  std::byte* tile(std::uint32_t layer, std::uint32_t head, std::uint32_t block,
                  std::size_t which) const;

  CacheShape shape_;
  std::uint32_t blocks_ = 0;
  Memory memory_;
  Memory states_;  // [slot][state_floats()]
};

}  // namespace dovetail::model
