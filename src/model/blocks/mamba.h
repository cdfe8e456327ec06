#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "load/model_config.h"
#include "model/blocks/convolution.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Mamba-2 (https://arxiv.org/abs/2405.21060): takes prepared rows, leaves `projected`. The states
// of a sequence take one token after the other, in one order, so that chunks leave no trace. The
// weights must outlive it.
class Mamba {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."), the `state_layer`-th that has
  // states. `set`: the rows that it computes beyond the states.
  Mamba(const load::MambaConfig& config, const ModelWeights& weights, const std::string& layer,
        std::uint32_t state_layer, RowSet set, Workspace& workspace);

  // Prepares the rows that come in: all of a tile.
  const Linear& input() const { return input_; }
  static std::span<const float> output_bias() { return {}; }

  void add_steps(Program& program);

 private:
  void convolve(const RowTile& tile, const Range& channels);
  void update(const RowTile& tile, const Run& run, std::uint32_t head);
  void gate(const RowTile& tile, const Range& rows);

  // The convolution's last inputs, then the heads' states.
  LayerStates states() const { return {*work_.cache, state_layer_}; }
  std::size_t head_begin(std::uint32_t head) const {
    return (config_.convolution - 1) * channels_ + head * head_floats_;
  }

  Workspace& work_;
  load::MambaConfig config_;
  std::uint32_t state_layer_;
  RowSet set_;
  std::size_t inner_, channels_, width_;  // of a row: gates, what is convolved, all that comes in
  std::size_t head_floats_;               // of a head's state
  Linear input_, output_;
  Convolution convolution_;
  std::vector<float> rates_, step_bias_, skips_;  // by head
  std::vector<float> norm_;                       // weights, group by group; empty: there is none
};

}  // namespace dovetail::model
