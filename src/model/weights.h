#pragma once

#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_source.h"

namespace dovetail::model {

// A weight matrix: `rows` outputs of `columns` inputs, as it lies in the file, or packed for
// products (Kernels::pack). One that its file stores in another form has no data before
// pack_weights() made them, but the parts to make them of.
struct Matrix {
  kernels::DataType type = kernels::DataType::kF32;
  std::size_t rows = 0;
  std::size_t columns = 0;
  const std::byte* data = nullptr;
  bool packed = false;
  const load::StoredParts* parts = nullptr;  // the source owns them
};

// A gated feed-forward (SwiGLU): the whole of a dense layer's, or one expert.
struct FeedForward {
  Matrix gate, up, down;
};

// Weights of one layer. Vectors are small and kept as floats; empty where the model has none.
struct LayerWeights {
  std::vector<float> attention_norm, query_norm, key_norm, mlp_norm;
  std::vector<float> query_bias, key_bias, value_bias;
  Matrix query, key, value, attention_output;
  Matrix router;                          // experts x hidden; of layers of experts alone
  std::vector<FeedForward> feed_forward;  // one, or the experts
};

// Weights of a decoder. Matrices lie in the mapped file, which `source` keeps alive, or packed in
// memory of their own.
struct DecoderWeights {
  std::shared_ptr<const load::ModelSource> source;
  std::shared_ptr<const void> packed;
  Matrix embedding;  // as in the file: single rows are looked up
  Matrix output;
  std::vector<float> output_norm;
  std::vector<LayerWeights> layers;
};

// Requires a source that open_model() made: every tensor is there and has its shape. Matrices with
// `parts` are still to be made by pack_weights().
DecoderWeights bind_weights(std::shared_ptr<const load::ModelSource> source,
                            const kernels::Kernels& kernels);

}  // namespace dovetail::model
