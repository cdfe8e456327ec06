#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_source.h"
#include "load/stored_parts.h"

namespace dovetail::model {

// The model with what is stored in parts of some types (all, if none is said) as float32: for
// formulas to be compared, not the rounding of activations in quantised products.
inline std::shared_ptr<const load::ModelSource> unpacked(
    std::shared_ptr<const load::ModelSource> source,
    bool (*chosen)(kernels::DataType type) = nullptr) {
  auto out = std::make_shared<load::ModelSource>(*source);
  for (auto& [name, tensor] : out->tensors) {
    if (!tensor.parts || (chosen != nullptr && !chosen(tensor.type))) continue;
    std::vector<std::byte> rows(tensor.bytes());
    load::write_rows(*tensor.parts, 0, tensor.rows, rows.data());
    auto floats = std::make_shared<std::vector<float>>(tensor.rows * tensor.columns);
    for (std::size_t row = 0; row < tensor.rows; ++row) {
      kernels::best_kernels().dequantize_row(
          tensor.type, rows.data() + row * kernels::row_bytes(tensor.type, tensor.columns),
          tensor.columns, floats->data() + row * tensor.columns);
    }
    tensor.type = kernels::DataType::kF32;
    tensor.parts = nullptr;
    tensor.data = std::as_bytes(std::span(*floats));
    out->mappings.push_back(std::move(floats));
  }
  out->mappings.push_back(std::move(source));
  return out;
}

}  // namespace dovetail::model
