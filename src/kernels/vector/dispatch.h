#pragma once

#include <cassert>
#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/vector/float_matmul.h"
#include "kernels/vector/quantize.h"

// Included after an instruction set's vec.h, which defines Vec.
namespace dovetail::kernels {
namespace {

inline std::size_t activation_bytes(DataType weights, std::size_t k) {
  switch (weights) {
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kBF16:
      return float_activation_bytes(k);
    case DataType::kQ8_0:
      return quant_activation_bytes<DataType::kQ8_0>(k);
    case DataType::kQ4_0:
      return quant_activation_bytes<DataType::kQ4_0>(k);
    case DataType::kQ4_K:
      return quant_activation_bytes<DataType::kQ4_K>(k);
    case DataType::kQ5_K:
      return quant_activation_bytes<DataType::kQ5_K>(k);
    case DataType::kQ6_K:
      return quant_activation_bytes<DataType::kQ6_K>(k);
  }
  assert(false);
  return 0;
}

inline void prepare(DataType weights, const float* x, std::size_t k, std::byte* out) {
  switch (weights) {
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kBF16:
      return float_prepare(x, k, out);
    case DataType::kQ8_0:
      return quantize_activations<DataType::kQ8_0>(x, k, out);
    case DataType::kQ4_0:
      return quantize_activations<DataType::kQ4_0>(x, k, out);
    case DataType::kQ4_K:
      return quantize_activations<DataType::kQ4_K>(x, k, out);
    case DataType::kQ5_K:
      return quantize_activations<DataType::kQ5_K>(x, k, out);
    case DataType::kQ6_K:
      return quantize_activations<DataType::kQ6_K>(x, k, out);
  }
  assert(false);
}

// Float weights here; the block types go to `quantised`.
template <void (*quantised)(const MatmulArgs&)>
inline void matmul(const MatmulArgs& args) {
  switch (args.type) {
    case DataType::kF32:
      return float_matmul<WeightF32>(args);
    case DataType::kF16:
      return float_matmul<WeightF16>(args);
    case DataType::kBF16:
      return float_matmul<WeightBF16>(args);
    default:
      return quantised(args);
  }
}

}  // namespace
}  // namespace dovetail::kernels
