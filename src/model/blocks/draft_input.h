#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Makes the rows of a pass of the layer that drafts tokens: a product of two rows, the embedding of
// the row's token, which is the one behind its position, and the hidden row of the position
// (ModelConfig::draft_layer). Where there are streams, a product of the one and a product of each
// stream of the other, added up.
class DraftInput {
 public:
  // `layer`: "blk.61."
  DraftInput(const load::ModelConfig& config, const ModelWeights& weights, const std::string& layer,
             Workspace& workspace);
  DraftInput(const DraftInput&) = delete;  // steps refer to it
  DraftInput& operator=(const DraftInput&) = delete;

  void add_steps(Program& program);

  // For the pass that is laid out: the hidden row of each of its rows, until it has ended.
  void take(std::span<const float* const> hidden) { hidden_ = hidden; }

 private:
  void add_stream_steps(Program& program);
  // The product of a tile's prepared rows, `inputs` of each, into rows of `out`.
  void add_product(Program& program, const char* name, const Linear& product, std::size_t inputs,
                   ScratchRows& out);
  void embed(const PassRow& row, float* out) const;
  void prepare(const RowTile& tile, const Range& rows);

  Workspace& work_;
  const Matrix& tokens_;
  float scale_;
  Norm token_norm_, hidden_norm_;
  Linear product_;
  std::optional<Linear> stream_product_;
  std::span<const float* const> hidden_;
};

}  // namespace dovetail::model
