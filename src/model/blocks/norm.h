#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_config.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// A norm of rows. The kernels must outlive it.
class Norm {
 public:
  Norm() = default;
  // Of the tensors NAME.weight and NAME.bias.
  Norm(const load::NormConfig& config, const ModelWeights& weights, std::string_view name,
       const kernels::Kernels& kernels)
      : config_(config), kernels_(&kernels) {
    if (!config) return;
    const std::span<const float> stored = weights.vector(std::string(name) + ".weight");
    weight_.assign(stored.begin(), stored.end());
    if (config.offset != 0.0F) {
      for (float& value : weight_) value += config.offset;
    }
    if (config.bias) {
      const std::span<const float> bias = weights.vector(std::string(name) + ".bias");
      bias_.assign(bias.begin(), bias.end());
    }
  }

  // Without weights, of rows of `size` floats.
  Norm(const load::NormConfig& config, std::size_t size, const kernels::Kernels& kernels)
      : config_(config), kernels_(&kernels), weight_(config ? size : 0, 1.0F) {}

  // Of what it gives.
  void scale(float factor) {
    for (float& value : weight_) value *= factor;
  }

  explicit operator bool() const { return static_cast<bool>(config_); }

  // Of one row of weight().size() floats; out may be x.
  void apply(const float* x, float* out) const {
    if (config_.kind == load::NormKind::kRms) {
      kernels_->rms_norm(x, weight_.data(), weight_.size(), config_.epsilon, out);
    } else {
      kernels_->layer_norm(x, weight_.data(), bias_.empty() ? nullptr : bias_.data(),
                           weight_.size(), config_.epsilon, out);
    }
  }

 private:
  load::NormConfig config_;
  const kernels::Kernels* kernels_ = nullptr;
  std::vector<float> weight_, bias_;
};

}  // namespace dovetail::model
