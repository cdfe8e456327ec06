#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "load/model_config.h"
#include "model/blocks/hyper_connections.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// The end of a sublayer: what it gave gets the bias of its last product, is normed, scaled and
// added to the residual, which is normed and scaled then, as far as the model does so. The first
// layer follows no sublayer.
class Residual {
 public:
  Residual() = default;
  // `layer` ("blk.3."), the names of the two norms in it, and the bias, empty where there is none.
  Residual(const load::SublayerConfig& config, const ModelWeights& weights,
           const std::string& layer, const char* behind, const char* after,
           std::span<const float> bias, const kernels::Kernels& kernels)
      : adds_(true),
        bias_(bias),
        scale_(config.scale),
        behind_(config.behind, weights, layer + behind, kernels),
        after_(config.after, weights, layer + after, kernels) {}

  // The layer ends here: what the residual comes to is multiplied by a number.
  void scale_sum(float scale) { sum_scale_ = scale; }

  // Of a row of the pass; what the sublayer gave is lost.
  void add(Workspace& work, const RowTile& tile, std::uint32_t row, float* given) const;

 private:
  bool adds_ = false;
  std::span<const float> bias_;
  float scale_ = 1.0F, sum_scale_ = 1.0F;
  Norm behind_, after_;
};

// What stands between two sublayers: the end of the one before, and the norm and preparation of the
// rows that the next one multiplies. Where the two are parallel, the rows are those without what
// the one before gave.
class Join {
 public:
  // The next sublayer takes the rows of `set`; `input` is its product, and prepares them.
  // Where there are streams, `mix` says how it takes them.
  Join(Residual before, Norm norm, RowSet set, const Linear& input, Workspace& workspace,
       bool parallel = false, std::optional<StreamMix> mix = {})
      : work_(workspace),
        before_(std::move(before)),
        norm_(std::move(norm)),
        set_(set),
        input_(&input),
        parallel_(parallel),
        mix_(std::move(mix)) {
    workspace.projected.need(workspace.hidden);
    if (parallel) workspace.attended.need(workspace.hidden);
    workspace.prepares(input);
  }

  void add_steps(const char* name, Program& program);

 private:
  void run(const RowTile& tile, const Range& rows);
  void take(const float* residual, float* row) const;

  Workspace& work_;
  Residual before_;
  Norm norm_;
  RowSet set_;
  const Linear* input_;
  bool parallel_;
  std::optional<StreamMix> mix_;
};

}  // namespace dovetail::model
