#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "load/model_config.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// What all layers get of a token beside the residual (load::LayerInputConfig): takes the rows that
// embeddings left there, leaves `layer_inputs`, of a row one layer's after the other's.
class LayerInputs {
 public:
  LayerInputs(const load::ModelConfig& config, const ModelWeights& weights, Workspace& workspace);

  void add_steps(Program& program);

 private:
  void prepare(const RowTile& tile, const Range& rows);
  void join(const RowTile& tile, const Range& rows);

  Workspace& work_;
  const Matrix& tokens_;
  Linear product_;
  std::size_t size_, all_;  // of a layer, and of all
  float embedding_scale_, product_scale_;
  Norm norm_;
};

// The end of a layer that takes them: of the residual, prepared, to `projected`.
class LayerInput {
 public:
  // Of the `index`-th layer, whose tensors' names begin with `layer` ("blk.3.").
  LayerInput(const load::ModelConfig& config, const ModelWeights& weights, const std::string& layer,
             std::size_t index, RowSet set, Workspace& workspace);

  // Prepares the rows that come in.
  const Linear& input() const { return gate_; }
  static std::span<const float> output_bias() { return {}; }

  void add_steps(Program& program);

 private:
  void activate(const RowTile& tile, const Range& rows);

  Workspace& work_;
  load::Activation activation_;
  std::size_t size_, all_, begin_;  // of its input, of all layers', and of those before
  RowSet set_;
  Linear gate_, output_;
};

}  // namespace dovetail::model
