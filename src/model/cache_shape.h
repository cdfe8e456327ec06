#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_config.h"

namespace dovetail::model {

// What the cache holds: for every layer with attention and each of its key/value heads the keys and
// the values of kBlockSize positions in a block, or for all heads the latents that these are made
// of, in tiles of values. A layer with compressed entries is two: a row for each position, and the
// entries (EntryLayout). So is one of latents that an indexer picks: these, and its keys. Layers
// are in groups that have blocks of their own, all of one size, so that each group keeps what its
// layers see: all positions, or those of a window.
class CacheShape {
 public:
  struct Layer {
    std::uint32_t kv_heads = 0;
    std::uint32_t head_dim = 0;
    std::uint32_t tiles = 2;     // of one head in a block: keys and values; latents are both
    std::size_t tile_bytes = 0;  // of one of these
    std::size_t before = 0;      // bytes of a block in earlier layers of the group
    std::uint32_t group = 0;
    bool tells_generated = false;  // what is kept of a token depends on whether it was generated
  };

  CacheShape() = default;
  // `windows`: of the groups, at least one; 0: the group's layers see all positions.
  explicit CacheShape(kernels::CacheType type, std::vector<std::uint32_t> windows = {0})
      : type_(type), windows_(std::move(windows)), group_bytes_(windows_.size()) {}

  void add_layer(std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t group = 0) {
    add({kv_heads, head_dim, 2, 0, 0, group, false});
  }
  // A layer with one row for all heads, of so many elements, those that turn among them.
  void add_latents(std::uint32_t dim, std::uint32_t group = 0, bool tells_generated = true) {
    add({1, dim, 1, 0, 0, group, tells_generated});
  }
  // A layer with so many rows in a block, those of a slice of an entry.
  void add_slices(std::uint32_t rows, std::uint32_t dim, std::uint32_t group = 0) {
    add({1, dim, 1, 0, 0, group, false}, rows);
  }

  // A layer with a state for each sequence, of so many floats; in the order of such layers.
  void add_state(std::size_t floats) {
    states_.push_back(state_floats_);
    state_floats_ += floats;
  }

  // Of a sequence's states, one layer after the other: floats in all, and before a layer's.
  std::size_t state_floats() const { return state_floats_; }
  std::size_t state_begin(std::uint32_t layer) const { return states_[layer]; }

  // Whether what a layer keeps of a token depends on whether it was generated.
  bool tells_generated() const {
    return std::any_of(layers_.begin(), layers_.end(),
                       [](const Layer& layer) { return layer.tells_generated; });
  }

  // Whether the blocks of all groups are laid out alike: the first layers of all have tiles of one
  // size, and so on.
  bool groups_alike() const;

  kernels::CacheType type() const { return type_; }
  std::span<const Layer> layers() const { return layers_; }
  std::span<const std::uint32_t> windows() const { return windows_; }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(windows_.size()); }
  // Of a block, which is one group's; and of a block for each group.
  std::size_t unit_bytes() const { return unit_bytes_; }
  std::size_t block_bytes() const { return unit_bytes_ * groups(); }
  // Of the blocks that a sequence holds when so many of its positions are computed: of all groups,
  // and of one with that window.
  std::size_t sequence_bytes(std::uint32_t positions) const;
  std::size_t sequence_bytes(std::uint32_t positions, std::uint32_t window) const;

 private:
  void add(Layer layer, std::size_t rows = kernels::kBlockSize) {
    layer.tile_bytes = kernels::cache_tile_bytes(type_, layer.head_dim, rows);
    layer.before = group_bytes_[layer.group];
    group_bytes_[layer.group] += layer.tile_bytes * layer.kv_heads * layer.tiles;
    unit_bytes_ = std::max(unit_bytes_, group_bytes_[layer.group]);
    layers_.push_back(layer);
  }

  kernels::CacheType type_ = kernels::CacheType::kF16;
  std::vector<std::uint32_t> windows_ = {0};
  std::vector<std::size_t> group_bytes_ = {0};
  std::vector<Layer> layers_;
  std::size_t unit_bytes_ = 0;
  std::vector<std::size_t> states_;  // by layer: floats before it
  std::size_t state_floats_ = 0;
};

// How a layer's compressed entries lie in blocks. Each is cut into rows. Entries of a block's
// positions or fewer, and those that an indexer picks, lie in the block that has their last
// position and share its sixteen rows. Larger ones would leave most blocks empty: each lies in
// slices, row after row, in the blocks of the positions behind its own, as many as it has
// positions.
struct EntryLayout {
  std::uint32_t entries = 1;  // of a block: those that end in it, or the one that it has a slice of
  std::uint32_t rows = 0;     // of an entry
  std::uint32_t row_dim = 0;  // elements of a row
  std::uint32_t slice = 0;    // rows of it in a block; 0: the block has it whole

  explicit EntryLayout(const load::CompressedConfig& config);
  // Bytes of an entry's rows, which the sequence's state has where blocks have slices; and 0.
  std::size_t newest_bytes(kernels::CacheType type) const {
    return slice == 0 ? 0 : kernels::cache_tile_bytes(type, row_dim);
  }
};

// Of the layers of a model that have attention, and of those that have states, in their order; all
// layers in one group, which keeps all positions.
// `drafts`: with the layer that drafts tokens, behind all others.
CacheShape cache_shape(const load::ModelConfig& config, kernels::CacheType type,
                       bool drafts = false);

// The same with layers grouped by what they see: as few groups as waste at most a twelfth of what a
// sequence of max_context positions holds: blocks of all groups have the size of the largest.
CacheShape grouped_cache_shape(const load::ModelConfig& config, kernels::CacheType type,
                               bool drafts = false);

}  // namespace dovetail::model
