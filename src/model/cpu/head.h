#pragma once

#include <span>
#include <vector>

#include "load/model_config.h"
#include "model/blocks/norm.h"
#include "model/cpu/linear.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// What stands behind the pooled row of a sequence: products, one behind the other. A sequence's row
// alone decides what comes out. Any number of threads may use one; kernels and weights must outlive
// it.
class Head {
 public:
  Head(const load::ModelConfig& config, const ModelWeights& weights,
       const kernels::Kernels& kernels);

  // Of a row of hidden_size floats: embedding_size() of them.
  std::vector<float> apply(std::vector<float> row) const;
  // Of what apply() gives, where the model ranks.
  float score(std::span<const float> row) const;

 private:
  struct Part {
    load::HeadFunction function;
    Linear product;
    std::span<const float> bias;  // empty: none
    Norm norm;
  };

  const kernels::Kernels& kernels_;
  load::Score score_;
  std::vector<Part> parts_;
};

}  // namespace dovetail::model
