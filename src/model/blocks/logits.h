#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/aligned_buffer.h"
#include "cores/recording.h"
#include "load/model_config.h"
#include "model/blocks/join.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// The end of the last sublayer for the rows that have outputs: those that have hidden rows leave
// them, the others are multiplied into logits.
class Logits {
 public:
  // `norm`: the name of the last norm.
  Logits(const load::ModelConfig& config, Residual before, const ModelWeights& weights,
         const std::string& norm, Workspace& workspace, std::optional<StreamMix> mix = {});

  void add_steps(Program& program);

  // For the pass that is laid out: where [rows with logits][vocabulary] and [hidden rows][hidden
  // size] go, and, unless it is null, the normed rows of all that has an output or is kept, or
  // their streams, as they are, where there are several: [rows][Workspace::residual_size()].
  void reserve(std::span<float> logits, std::span<float> hidden, float* kept);

  // The same products of hidden rows that an earlier pass gave, as tasks of their own: recorded
  // once; before each run, where the rows are, where their logits go, and in how many blocks the
  // tasks are cut.
  cores::Recording record();
  void reserve(std::span<const float* const> hidden, std::span<float> logits);
  void cut(cores::Recording& recording) const;

 private:
  void prepare(const RowTile& tile, const Range& rows);
  void reserve(std::span<float> logits, std::size_t rows);
  void multiply(const cores::Part& part, std::uint32_t blocks);
  void cap(const cores::Part& part, std::uint32_t blocks);
  std::uint32_t share_product() const;
  std::uint32_t share_cap() const;

  Workspace& work_;
  Residual before_;
  Norm norm_;
  std::optional<StreamMix> mix_;
  std::optional<Linear> product_;  // not in models that have hidden rows alone
  float scale_, softcap_;
  std::size_t rows_ = 0;  // that are multiplied
  std::span<float> logits_, hidden_;
  std::span<const float* const> earlier_;  // hidden rows of an earlier pass
  float* kept_ = nullptr;
  AlignedBuffer prepared_;
};

}  // namespace dovetail::model
