#pragma once

#include <cstdint>
#include <vector>

#include "load/model_config.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Makes the rows of a pass from their tokens: the embedding's rows, scaled, with those of learned
// positions and of token types added, and normed, as far as the model does so.
class Embed {
 public:
  Embed(const load::ModelConfig& config, const ModelWeights& weights, Workspace& workspace);

  void add_steps(Program& program);

 private:
  void run(const RowTile& tile, const Range& rows);
  void look_up(const Matrix& matrix, std::size_t row, float* out) const;

  Workspace& work_;
  const Matrix& tokens_;
  const Matrix* positions_ = nullptr;
  std::uint32_t position_offset_;
  std::vector<float> types_;  // of the first text's tokens, and of the second's; empty: none
  float scale_;
  Norm norm_;
};

}  // namespace dovetail::model
