#pragma once

#include <span>
#include <string>

#include "load/model_config.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// A dense feed-forward, gated (SwiGLU and its kin, https://arxiv.org/abs/2002.05202) or not: takes
// prepared rows, leaves `projected`. The weights must outlive it.
class Mlp {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3.").
  Mlp(const load::MlpConfig& config, const ModelWeights& weights, const std::string& layer,
      RowSet set, Workspace& workspace);

  // Prepares the rows that come in.
  const Linear& input() const { return input_; }
  // Is still to be added to what it leaves; empty: none.
  std::span<const float> output_bias() const { return down_bias_; }

  void add_steps(Program& program);

 private:
  void activate(const RowTile& tile, const Range& rows);

  Workspace& work_;
  load::MlpConfig config_;
  RowSet set_;
  Linear input_, down_;
  std::span<const float> gate_bias_, up_bias_, down_bias_;  // empty: none
};

}  // namespace dovetail::model
