#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cache_shape.h"
#include "schedule/step_plan.h"

namespace dovetail::study {

// What steps cannot do without, however they are computed.
struct StepWork {
  // Multiplications, each with its addition, by what the instruction set multiplies.
  double bytes = 0.0, bf16 = 0.0, floats = 0.0;
  // Bytes of weights and of the cache that are read, once in a step each.
  double memory = 0.0;

  StepWork& operator+=(const StepWork& other);
};

// How much work the steps of a model are. Norms, rotations and the like are not counted, nor what
// the last layer need not compute: keys and values apart, it serves rows that have logits.
class ModelWork {
 public:
  // BF16 weights multiply as floats unless `bf16`.
  ModelWork(const load::ModelSource& source, const model::CacheShape& cache, bool bf16);

  StepWork of_step(const schedule::StepPlan& plan) const;

 private:
  // Products of weights by what they serve.
  struct Products {
    StepWork every;   // row
    StepWork logits;  // row that has logits
    void add(const load::TensorView& matrix, bool every_row, double share, bool bf16);
  };

  // Layers with attention that are alike.
  struct Attention {
    std::uint32_t window = 0;
    double query = 0.0;           // elements of a row's queries
    double position_bytes = 0.0;  // of keys and values of a position
    double layers = 0.0;
    double last = 0.0;  // of these, those that serve rows with logits alone
  };

  Products products_;  // without `memory`
  std::vector<Attention> attention_;
  double weight_bytes_ = 0.0;  // that every step reads
  double expert_bytes_ = 0.0;  // of all experts
  double experts_used_ = 0.0;  // by a row, of a layer's; 0: there are none
};

}  // namespace dovetail::study
