#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "model/blocks/states.h"
#include "model/cpu/pass.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

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
  // `taps`: [channel][position], not packed, of one part of the channels after the other. `bias`:
  // of each channel, or empty. The kernels must outlive it.
  Convolution(std::initializer_list<const Matrix*> taps, const kernels::Kernels& kernels,
              std::span<const float> bias = {});

  // Multiplies the taps of some channels, but not their biases.
  void scale(const Range& channels, float factor);

  // Some channels of a run's rows, and their last inputs for the rows that follow and where they
  // are saved. A state begins with the convolution's. Different channels may be computed by
  // different threads.
  void apply(const Run& run, const Range& channels, const TileFloats& input,
             const TileFloats& output, const LayerStates& states) const;
  // The same of all rows of a tile, each then its SiLU.
  void activate(const Pass& pass, const RowTile& tile, const Range& channels,
                const TileFloats& input, const TileFloats& output, const LayerStates& states) const;

 private:
  void keep_inputs(const Run& run, const Range& channels, const TileFloats& input,
                   std::size_t length, const float* before, float* to) const;

  const kernels::Kernels& kernels_;
  std::size_t channels_, width_;
  std::vector<float> taps_;  // [position][channel]
  std::vector<float> bias_;
};

}  // namespace dovetail::model
