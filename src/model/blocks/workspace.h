#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/linear.h"
#include "model/cpu/pass.h"
#include "model/cpu/scratch.h"
#include "model/mutation.h"
#include "model/share.h"

namespace dovetail::model {

// Floats that blocks of all layers use in turn: for each row of the pass as many as the block takes
// that wants the most. The rows of a tile lie from its place on, one after another in the width of
// the block that uses them, so that tiles in different layers never share any.
class ScratchRows {
 public:
  // Before the first pass: of a block whose rows are so wide.
  void need(std::size_t width) { width_ = std::max(width_, width); }
  void reserve(std::size_t rows) { grow(data_, rows * width_); }

  float* of(const RowTile& tile) { return data_.data() + tile.rows.begin * width_; }
  float* row(const RowTile& tile, std::size_t index, std::size_t width) {
    return of(tile) + index * width;
  }

 private:
  std::size_t width_ = 0;
  std::vector<float> data_;
};

// Which rows of a tile a step computes: all, or those that have outputs. The last layer computes
// keys and values of all rows, and all else for the latter.
enum class RowSet : std::uint8_t { kAll, kWanted };

// What the blocks of a model share: the pass under way, and the memory that its rows go through.
struct Workspace {
  Workspace(const kernels::Kernels& arithmetic, std::size_t lane_count, std::size_t hidden_size,
            std::size_t stream_count, bool whole)
      : kernels(arithmetic),
        lanes(lane_count),
        hidden(hidden_size),
        streams(stream_count),
        whole_tiles(whole) {}

  const kernels::Kernels& kernels;
  std::size_t lanes;
  std::size_t hidden;   // floats of a stream
  std::size_t streams;  // of a row of the residual (load::HyperConfig)
  bool whole_tiles;     // a tile's steps are cut as if it had the machine to itself

  Pass pass;
  const Cache* cache = nullptr;

  ScratchRows residual;   // the sum of all sublayers so far, by row of the tile
  ScratchRows projected;  // what goes into a sublayer and what it gives, by index of its row set
  ScratchRows query, key, value, attended, gate, up;  // within sublayers
  ScratchRows shared, shared_gate;                    // what a shared expert gives, and its share
  ScratchRows layer_inputs;  // what layers get of a token beside the residual, by row of the tile
  ScratchRows mixes;         // how what a sublayer gives goes back to the streams

  // Before the first pass: of a block whose rows are multiplied by `linear`.
  // `times`: rows of it that a row of the pass becomes.
  void prepares(const Linear& linear, std::size_t times = 1) {
    prepared_row_bytes_ = std::max(prepared_row_bytes_, times * linear.row_bytes());
  }

  // For the pass that is laid out.
  void reserve() {
    const std::size_t rows = pass.rows().size();
    for (ScratchRows* scratch : {&residual, &projected, &query, &key, &value, &attended, &gate, &up,
                                 &shared, &shared_gate, &layer_inputs, &mixes})
      scratch->reserve(rows);
    prepared_.reserve(rows * prepared_row_bytes_);
  }

  const RowTile& tile(std::uint32_t index) const { return pass.tiles()[index]; }

  // How many rows of a tile a set has, and the pass's row that is its `index`-th.
  std::uint32_t count(RowSet set, const RowTile& tile) const {
    return set == RowSet::kAll ? tile.rows.size() : tile.wanted.size();
  }
  std::uint32_t row(RowSet set, const RowTile& tile, std::uint32_t index) const {
    return set == RowSet::kAll ? tile.rows.begin + index : pass.wanted()[tile.wanted.begin + index];
  }

  std::size_t residual_size() const { return hidden * streams; }
  float* residual_row(const RowTile& tile, std::uint32_t row) {
    return residual.row(tile, row - tile.rows.begin, residual_size());
  }
  float* mix_row(const RowTile& tile, std::uint32_t row) {
    return mixes.row(tile, row - tile.rows.begin, streams + streams * streams);
  }

  // Where a tile's rows are prepared for products.
  std::byte* prepared(const RowTile& tile) {
    if (mutated(Mutant::kSharedRows)) return prepared_.data();
    return prepared_.data() + tile.rows.begin * prepared_row_bytes_;
  }

  // In how many blocks a tile's work is worth being cut.
  std::uint32_t share(const RowTile& tile, std::size_t items, std::size_t work) const {
    Share of;
    if (!whole_tiles) of = {tile.rows.size(), pass.rows().size()};
    return model::share(items, work, lanes, of);
  }
  std::uint32_t share_product(const RowTile& tile, const Linear& linear, std::size_t rows) const {
    return share(tile, linear.outputs(), rows * linear.columns() * linear.outputs());
  }

 private:
  AlignedBuffer prepared_;
  std::size_t prepared_row_bytes_ = 0;
};

}  // namespace dovetail::model
