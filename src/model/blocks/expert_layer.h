#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "load/model_config.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/experts.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// A layer of experts in place of a feed-forward, and the shared one that all rows have, if there is
// one: takes prepared rows and the same rows as floats in `projected`, leaves `projected`. Where
// they are apart (ExpertsConfig::apart) the rows are the shared one's, and those of the router and
// of experts are made of the residual behind it.
class ExpertLayer {
 public:
  // The `index`-th of `experts`, which must outlive it, as the weights must; its tensors' names
  // begin with `layer` ("blk.3.").
  ExpertLayer(const load::ExpertsConfig& config, const ModelWeights& weights,
              const std::string& layer, Experts& experts, std::uint32_t index, RowSet set,
              Workspace& workspace);

  // Prepares the rows that come in.
  const Linear& input() const { return input_; }
  // Experts add their biases themselves.
  static std::span<const float> output_bias() { return {}; }

  void add_steps(Program& program);

 private:
  Experts::Rows rows(std::uint32_t index) const {
    const RowTile& tile = work_.tile(index);
    return {index, tile.rows.begin, work_.count(set_, tile)};
  }

  void add_apart_steps(Program& program);
  void add_shared_steps(Program& program);
  void take_apart(std::uint32_t tile, const Range& rows);
  void multiply_input(std::uint32_t tile, std::uint32_t block, std::uint32_t blocks);
  void choose(std::uint32_t tile, const Range& part);
  void activate_shared(const RowTile& tile, const Range& rows);
  void combine(std::uint32_t tile, const Range& rows);

  Workspace& work_;
  load::ExpertsConfig config_;
  Experts& experts_;
  std::uint32_t index_;
  RowSet set_;
  // The router, and gate and up of the shared expert; what its output is multiplied with.
  Linear input_;
  std::optional<Linear> shared_down_;
  // Where they are apart: the input is gate and up of the shared one.
  std::optional<Linear> router_;
  Norm router_norm_, experts_norm_, shared_behind_, experts_behind_;
};

}  // namespace dovetail::model
