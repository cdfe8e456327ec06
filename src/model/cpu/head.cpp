#include "model/cpu/head.h"

#include <cassert>
#include <string>
#include <utility>

#include "base/aligned_buffer.h"

namespace dovetail::model {

Head::Head(const load::ModelConfig& config, const ModelWeights& weights,
           const kernels::Kernels& kernels)
    : kernels_(kernels), score_(config.score) {
  for (const load::HeadConfig& part : config.head) {
    const Matrix& matrix = weights.matrix(part.name + ".weight");
    parts_.push_back({part.function, Linear(kernels, {&matrix}),
                      part.bias ? weights.vector(part.name + ".bias") : std::span<const float>(),
                      Norm(part.norm, weights, part.name + ".norm", kernels)});
  }
}

std::vector<float> Head::apply(std::vector<float> row) const {
  AlignedBuffer prepared;
  for (const Part& part : parts_) {
    assert(row.size() == part.product.columns());
    prepared.reserve(part.product.row_bytes());
    part.product.prepare(row.data(), 0, 1, prepared.data());
    std::vector<float> out(part.product.outputs());
    part.product.multiply(0, 1, 1, prepared.data(), {{out.data(), out.size()}});
    if (!part.bias.empty()) kernels_.add(out.data(), part.bias.data(), out.size());
    switch (part.function) {
      case load::HeadFunction::kNone:
        break;
      case load::HeadFunction::kTanh:
        kernels_.apply(kernels::Function::kTanh, out.data(), out.size(), out.data());
        break;
      case load::HeadFunction::kGelu:
        kernels_.gate(kernels::Activation::kGelu, out.data(), nullptr, out.size(), out.data());
        break;
    }
    if (part.norm) part.norm.apply(out.data(), out.data());
    row = std::move(out);
  }
  return row;
}

float Head::score(std::span<const float> row) const {
  float number = row.front();
  if (score_ == load::Score::kShareOfTwo) number -= row.back();
  if (score_ != load::Score::kNumber)
    kernels_.apply(kernels::Function::kSigmoid, &number, 1, &number);
  return number;
}

}  // namespace dovetail::model
