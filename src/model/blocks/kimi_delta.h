#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "load/model_config.h"
#include "model/blocks/convolution.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Kimi Delta Attention (https://arxiv.org/abs/2510.26692): takes prepared rows, leaves `projected`.
// The states of a sequence take one token after the other, in one order, so that chunks leave no
// trace. The weights must outlive it.
class KimiDelta {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."), the `state_layer`-th that has
  // states. `set`: the rows that it computes beyond the states.
  KimiDelta(const load::KimiDeltaConfig& config, const ModelWeights& weights,
            const std::string& layer, std::uint32_t state_layer, RowSet set, Workspace& workspace);

  // Prepares the rows that come in: all of a tile.
  const Linear& input() const { return input_; }
  static std::span<const float> output_bias() { return {}; }

  void add_steps(Program& program);

 private:
  // Adds the second product of what is of low rank: of rows of the input's, from `begin` on, into
  // `to`.
  void add_second(Program& program, const char* name, const Linear& linear, std::size_t begin,
                  ScratchRows& to);
  void multiply(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void convolve(const RowTile& tile, const Range& channels);
  void update(const RowTile& tile, const Run& run, std::uint32_t head);
  void gate(const RowTile& tile, const Range& rows);

  // The convolution's last inputs, then the heads' states.
  LayerStates states() const { return {*work_.cache, state_layer_}; }
  std::size_t head_begin(std::uint32_t head) const {
    return (config_.convolution - 1) * channels_ +
           std::size_t{head} * config_.head_dim * config_.head_dim;
  }

  Workspace& work_;
  load::KimiDeltaConfig config_;
  std::uint32_t state_layer_;
  RowSet set_;
  std::size_t size_, channels_;  // of a row: of all heads; of the convolution
  std::size_t narrow_;           // how much of each is written, and what is of low rank
  Linear input_, decay_, gate_, output_;
  Convolution convolution_;
  std::vector<float> rates_;       // by head
  std::vector<float> decay_bias_;  // by channel of the heads
  Norm norm_;
};

}  // namespace dovetail::model
