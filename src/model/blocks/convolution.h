#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "model/pass.h"
#include "model/weights.h"

namespace dovetail::model {

// Rows of a tile that are of one sequence, counted from the tile's first.
struct Run {
  std::uint32_t slot = 0;
  std::uint32_t begin = 0, end = 0;
  bool starts = false;  // at position 0
};

// Calls function(run) for each sequence that the tile has rows of, in their order.
template <class Function>
void for_each_run(const Pass& pass, const RowTile& tile, const Function& function) {
  for (std::uint32_t row = tile.rows.begin; row < tile.rows.end;) {
    const PassRow& first = pass.rows()[row];
    std::uint32_t end = row + 1;
    while (end < tile.rows.end && pass.rows()[end].segment == first.segment) ++end;
    function(Run{pass.segments()[first.segment].slot, row - tile.rows.begin, end - tile.rows.begin,
                 first.position == 0});
    row = end;
  }
}

// Rows of a tile, from its first on, in some scratch memory.
struct TileFloats {
  float* first = nullptr;
  std::size_t stride = 0;  // floats from one row to the next

  float* row(std::size_t index) const { return first + index * stride; }
};

// A convolution of each channel by itself over the last positions of a sequence. The state of a
// sequence is its last inputs, [position][channel], the oldest first: one less than the
// convolution has positions. Chunks leave no trace in it.
class Convolution {
 public:
  // `taps`: [channel][position], not packed. The kernels must outlive it.
  Convolution(const Matrix& taps, const kernels::Kernels& kernels);

  // Some channels of a run's rows, and their last inputs for the rows that follow. Different
  // channels may be computed by different threads.
  void apply(const Run& run, const Range& channels, const TileFloats& input,
             const TileFloats& output, float* state) const;

 private:
  const kernels::Kernels& kernels_;
  std::size_t channels_, width_;
  std::vector<float> taps_;  // [position][channel]
};

}  // namespace dovetail::model
