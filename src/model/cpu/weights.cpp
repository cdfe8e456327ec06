#include "model/cpu/weights.h"

#include <cassert>
#include <utility>

namespace dovetail::model {

const Matrix& ModelWeights::matrix(std::string_view name) const {
  const auto found = matrices.find(name);
  assert(found != matrices.end());
  return found->second;
}

std::span<const float> ModelWeights::vector(std::string_view name) const {
  const auto found = vectors.find(name);
  assert(found != vectors.end());
  return found->second;
}

ModelWeights bind_weights(std::shared_ptr<const load::ModelSource> source,
                          const kernels::Kernels& kernels, bool drafts) {
  ModelWeights weights;
  const bool leave_out = !drafts && source->config.draft_layer;
  const std::string of_drafts = source->config.draft_prefix();
  for (const auto& [name, view] : source->tensors) {
    if (leave_out && name.starts_with(of_drafts)) continue;
    weights.matrices[name] = {view.type, view.rows,        view.columns, view.data.data(),
                              false,     view.parts.get(), view.factor};
    if (view.rows != 1 || !kernels::is_plain(view.type)) continue;
    std::vector<float>& values = weights.vectors[name];
    values.resize(view.columns);
    kernels.dequantize_row(view.type, view.data.data(), view.columns, values.data());
  }
  if (source->config.tied_embeddings)
    weights.matrices["output.weight"] = weights.matrix("token_embd.weight");
  weights.source = std::move(source);
  return weights;
}

}  // namespace dovetail::model
