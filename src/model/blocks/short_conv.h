#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "load/model_config.h"
#include "model/blocks/convolution.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// A short convolution between two gates, as LFM2 has it: takes prepared rows, leaves `projected`.
// The weights must outlive it.
class ShortConv {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."), the `state_layer`-th that has
  // states. `set`: the rows that it computes beyond the states.
  ShortConv(const load::ShortConvConfig& config, const ModelWeights& weights,
            const std::string& layer, std::uint32_t state_layer, RowSet set, Workspace& workspace);

  // Prepares the rows that come in: all of a tile.
  const Linear& input() const { return input_; }
  static std::span<const float> output_bias() { return {}; }

  void add_steps(Program& program);

 private:
  void convolve(const RowTile& tile, const Range& channels);
  void prepare(const RowTile& tile, const Range& rows);

  Workspace& work_;
  std::uint32_t state_layer_;
  RowSet set_;
  std::size_t channels_;
  std::size_t width_;
  Linear input_, output_;
  Convolution convolution_;
};

}  // namespace dovetail::model
