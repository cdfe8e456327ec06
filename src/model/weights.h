#pragma once

#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_source.h"

namespace dovetail::model {

// A weight matrix as it lies in the file: `rows` outputs of `columns` inputs.
using Matrix = load::TensorView;

// Weights of one layer. Vectors are small and kept as floats; empty where the model has none.
struct LayerWeights {
  std::vector<float> attention_norm, query_norm, key_norm, mlp_norm;
  std::vector<float> query_bias, key_bias, value_bias;
  Matrix query, key, value, attention_output;
  Matrix gate, up, down;
};

// Weights of a dense decoder (Llama, Mistral, Qwen2, Qwen3). Matrices stay in the mapped file,
// which `source` keeps alive.
struct DenseWeights {
  std::shared_ptr<const load::ModelSource> source;
  Matrix embedding, output;
  std::vector<float> output_norm;
  std::vector<LayerWeights> layers;
};

// Requires a source that open_model() made: every tensor is there and has its shape.
DenseWeights bind_weights(std::shared_ptr<const load::ModelSource> source,
                          const kernels::Kernels& kernels);

}  // namespace dovetail::model
