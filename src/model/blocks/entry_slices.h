#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/kernels.h"
#include "load/model_config.h"
#include "model/blocks/program.h"
#include "model/blocks/states.h"
#include "model/blocks/workspace.h"
#include "model/cache_shape.h"

namespace dovetail::model {

// Compressed entries that are cut into slices (EntryLayout): rows of an entry's tile in each block
// of the positions behind its own. What such a block has was complete before its first position and
// is stored with that, so that sequences may share a block, however each of them goes on. The
// newest entry is in the sequence's state as well, behind the compressor's rows: some of its blocks
// are not there yet. In a pass each tile has copies of those that were the newest for its rows.
class EntrySlices {
 public:
  // Makes of an entry's sums what attention sees.
  using Finish = std::function<void(std::uint32_t entry, float* values)>;

  // `layer` of the cache's; `state_layer` of the layers with states.
  EntrySlices(const load::CompressedConfig& config, std::uint32_t layer, std::uint32_t state_layer,
              Finish finish, Workspace& workspace);

  // Behind the compressor's, which leaves the sums of each row that ends an entry in `up`; they
  // keep the tile's copies there.
  void add_steps(Program& program);

  // What a row of the tile sees, in floats: an entry that is not the last one that it sees,
  // [kBlockSize][EntryLayout::row_dim], and the last of `seen`, at least one.
  void load(const Segment& segment, std::uint32_t entry, float* values) const;
  const float* newest(const RowTile& tile, std::uint32_t row, std::uint32_t seen) const;

 private:
  void apply(const RowTile& tile, const Run& run);
  void store(const Segment& segment, std::uint32_t position, const std::byte* whole) const;
  std::byte* slice_of(const Segment& segment, std::size_t block) const;
  std::byte* newest_of(float* state) const {
    return reinterpret_cast<std::byte*>(state + state_floats_);
  }
  template <class Function>
  void for_each_stretch(std::uint32_t slice, const Function& function) const;

  Workspace& work_;
  std::uint32_t ratio_, layer_, state_layer_;
  std::size_t dim_;
  std::size_t state_floats_;  // of the compressor
  EntryLayout layout_;
  Finish finish_;
};

}  // namespace dovetail::model
