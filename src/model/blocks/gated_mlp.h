#pragma once

#include <span>
#include <string>

#include "load/model_config.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/weights.h"

namespace dovetail::model {

// A dense feed-forward (SwiGLU and its kin, https://arxiv.org/abs/2002.05202): takes prepared rows,
// leaves `projected`. The weights must outlive it.
class Mlp {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3.").
  Mlp(const load::MlpConfig& config, const ModelWeights& weights, const std::string& layer,
      RowSet set, Workspace& workspace);

  // Prepares the rows that come in.
  const Linear& input() const { return input_; }

  void add_steps(Program& program);

 private:
  void activate(const RowTile& tile, const Range& rows);

  Workspace& work_;
  load::MlpConfig config_;
  RowSet set_;
  Linear input_, down_;
};

}  // namespace dovetail::model
