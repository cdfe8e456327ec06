#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "load/model_config.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/weights.h"

namespace dovetail::model {

// Gated DeltaNet (https://arxiv.org/abs/2412.06464): takes prepared rows, leaves `projected`. The
// states of a sequence take one token after the other, in one order, so that chunks leave no trace.
// The weights must outlive it.
class Delta {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."), the `state_layer`-th that has
  // states. `set`: the rows that it computes beyond the states.
  Delta(const load::DeltaConfig& config, const ModelWeights& weights, const std::string& layer,
        std::uint32_t state_layer, RowSet set, Workspace& workspace);

  // Prepares the rows that come in: all of a tile.
  const Linear& input() const { return input_; }
  static std::span<const float> output_bias() { return {}; }

  void add_steps(Program& program);

 private:
  // Rows of a tile that are of one sequence, counted from the tile's first.
  struct Run {
    std::uint32_t slot = 0;
    std::uint32_t begin = 0, end = 0;
    std::uint32_t position = 0;  // of the first
    std::span<const StateSave> saves;

    bool starts() const { return position == 0; }
    // Rows of it up to a save.
    std::uint32_t until(const StateSave& save) const { return save.positions - position; }
  };
  template <class Function>
  void for_each_run(const RowTile& tile, const Function& function) const;

  void multiply(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void part(const RowTile& tile, const Range& rows);
  void convolve(const RowTile& tile, const Range& channels);
  void keep_inputs(const RowTile& tile, const Run& run, std::size_t length, const Range& channels,
                   float* to) const;
  void update(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void update(const RowTile& tile, const Run& run, std::uint32_t head);
  void gate(const RowTile& tile, const Range& rows);

  // A layer's state: the convolution's last inputs, [position][channel], and the heads'.
  float* state(std::uint32_t slot) const { return work_.cache->state(state_layer_, slot); }
  float* saved(const StateSave& save) const {
    return work_.cache->saved_state(state_layer_, save.saved);
  }
  std::size_t head_begin(std::uint32_t head) const {
    return (config_.convolution - 1) * channels_ +
           std::size_t{head} * config_.key_dim * config_.value_dim;
  }

  Workspace& work_;
  load::DeltaConfig config_;
  std::uint32_t state_layer_;
  RowSet set_;
  std::size_t channels_, value_size_, rates_;  // of a row
  Linear input_, output_;
  std::vector<float> weights_;             // of the convolution, [position][channel]
  std::vector<float> rates_a_, rates_dt_;  // by value head
  Norm norm_;
};

}  // namespace dovetail::model
