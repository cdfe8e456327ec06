#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "load/model_config.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// How a sublayer, or the last norm, takes the streams of a row (load::HyperConfig): the sum that
// goes in, and how what it gives goes back. The weights must outlive it.
class StreamMix {
 public:
  // Of the tensors NAME.fn, NAME.base, NAME.scale. `gives_back`: of a sublayer.
  StreamMix(const load::HyperConfig& config, const ModelWeights& weights, const std::string& name,
            bool gives_back, Workspace& workspace);

  // streams: [streams][hidden]; row: the sum, [hidden]; back: for give_back(), [streams] and then
  // [streams][streams], or null where nothing goes back.
  void take(const Workspace& work, const float* streams, float* row, float* back) const;

 private:
  load::HyperConfig config_;
  const Matrix& product_;
  std::span<const float> base_, scale_;
};

// Replaces the streams X by X'_k = back_k * given + sum over j of mix[j][k] X_j.
void give_back(const Workspace& work, float* streams, const float* given, const float* back);

// Makes a matrix [n][n] of logits doubly stochastic, nearly: a softmax of each row plus `epsilon`,
// columns divided by their sum plus it, and then rows and columns in turns, `iterations` times in
// all (Sinkhorn).
void make_stochastic(std::span<float> matrix, std::size_t n, std::uint32_t iterations,
                     float epsilon);
// The same without the softmax: of what is not negative.
void balance(std::span<float> matrix, std::size_t n, std::uint32_t iterations, float epsilon);

}  // namespace dovetail::model
