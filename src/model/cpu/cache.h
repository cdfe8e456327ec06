#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "model/cache_shape.h"

namespace dovetail::model {

// The bytes behind the blocks that the scheduler counts. Memory is reserved at once and taken from
// the system, in small pages, when it is first written. Different blocks may be written by
// different threads; the cache does no locking.
//
// Blocks are stored in runs of kRun. The tiles of a layer and head are contiguous within a run, so
// that attention reads long stretches where a sequence has neighbouring blocks. Where groups have
// blocks of their own layout, each block lies by itself: any of a run may become any group's.
class Cache {
 public:
  // kExhausted: the system does not grant the address space. `blocks`: of each of the shape's
  // groups. `slots`: sequences that have states at a time; `saved`: states that are kept for
  // others.
  static Result<Cache> create(CacheShape shape, std::uint32_t blocks, std::uint32_t slots = 1,
                              std::uint32_t saved = 0);

  const CacheShape& shape() const { return shape_; }
  std::uint32_t blocks() const { return blocks_; }  // of all groups

  // Blocks in a run; the last one may have fewer.
  static constexpr std::uint32_t kRun = 16;

  // Tiles: see kernels/cache_type.h. `layer` is that of the shape. Latents are values alone.
  std::byte* keys(std::uint32_t layer, std::uint32_t head, std::uint32_t block) const {
    return tile(layer, head, block, 0);
  }
  std::byte* values(std::uint32_t layer, std::uint32_t head, std::uint32_t block) const {
    return tile(layer, head, block, shape_.layers()[layer].tiles - 1);
  }

  // The state of the `layer`-th layer with states, of the sequence that has the slot.
  float* state(std::uint32_t layer, std::uint32_t slot) const {
    return reinterpret_cast<float*>(states_.get()) + slot * shape_.state_floats() +
           shape_.state_begin(layer);
  }
  float* saved_state(std::uint32_t layer, std::uint32_t saved) const {
    return reinterpret_cast<float*>(saved_.get()) + saved * shape_.state_floats() +
           shape_.state_begin(layer);
  }
  // Gives a slot the saved states of all layers.
  void load_state(std::uint32_t slot, std::uint32_t saved) const;

  // Gives a block what another one holds.
  void copy(std::uint32_t from, std::uint32_t to) const;

  // Fill a block, or a slot, with NaN, so that reading what was never written shows.
  void poison(std::uint32_t block) const;
  void poison_state(std::uint32_t slot) const;

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };

  using Memory = std::unique_ptr<std::byte[], Unmap>;

  Cache(CacheShape shape, std::uint32_t blocks, Memory memory, Memory states, Memory saved)
      : shape_(std::move(shape)),
        blocks_(blocks),
        run_(shape_.groups_alike() ? kRun : 1),
        memory_(std::move(memory)),
        states_(std::move(states)),
        saved_(std::move(saved)) {}

  std::byte* tile(std::uint32_t layer, std::uint32_t head, std::uint32_t block,
                  std::size_t which) const;
  // Calls `function(layer, head, bytes)` for what lies together in a block: tiles, from the first.
  template <class Function>
  void for_each_tiles(const Function& function) const;

  CacheShape shape_;
  std::uint32_t blocks_ = 0;
  std::uint32_t run_ = kRun;
  Memory memory_;
  Memory states_;  // [slot][state_floats()]
  Memory saved_;   // [saved][state_floats()]
};

}  // namespace dovetail::model
