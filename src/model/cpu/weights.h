#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cpu/type_set.h"

namespace dovetail::model {

// A weight matrix: `rows` outputs of `columns` inputs, as it lies in the file, or packed for
// products (Kernels::pack). One that its file stores in another form has no data before
// pack_weights() made them, but the parts to make them of; these may have its columns in another
// order (StoredParts::order), in which it takes a row then.
struct Matrix {
  kernels::DataType type = kernels::DataType::kF32;
  std::size_t rows = 0;
  std::size_t columns = 0;
  const std::byte* data = nullptr;
  bool packed = false;
  const load::StoredParts* parts = nullptr;  // the source owns them
  float factor = 1.0F;  // of products with its rows, as load::TensorView has it
};

// Weights of a model by the names of their tensors. Matrices lie in the mapped file, which `source`
// keeps alive, or packed in memory of their own. Addresses of matrices and vectors remain when it
// is moved.
struct ModelWeights {
  std::shared_ptr<const load::ModelSource> source;
  std::shared_ptr<const void> packed;
  TypeSet packs;  // whose matrices products may have in panels: what pack_weights() was to pack
  std::map<std::string, Matrix, std::less<>> matrices;
  std::map<std::string, std::vector<float>, std::less<>> vectors;  // norms, biases: small

  // Of a tensor that the model has.
  const Matrix& matrix(std::string_view name) const;
  std::span<const float> vector(std::string_view name) const;
};

// Requires a source that open_model() made: every tensor is there and has its shape. Matrices with
// `parts` are still to be made by pack_weights(). A tied output.weight is the embedding once more.
// Without `drafts` those of the layer that drafts tokens are left out.
ModelWeights bind_weights(std::shared_ptr<const load::ModelSource> source,
                          const kernels::Kernels& kernels, bool drafts = true);

}  // namespace dovetail::model
