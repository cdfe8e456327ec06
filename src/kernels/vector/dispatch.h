#pragma once

#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/vector/float_matmul.h"

// Included after an instruction set's vec.h, which defines Vec.
//
// Float weights are multiplied with float activations; the block types go to the functions given.
namespace dovetail::kernels {
namespace {

template <std::size_t (*quantised)(DataType, std::size_t)>
inline std::size_t activation_bytes(DataType weights, std::size_t k) {
  return is_float(weights) ? float_activation_bytes(k) : quantised(weights, k);
}

template <void (*quantised)(DataType, const float*, std::size_t, std::byte*)>
inline void prepare(DataType weights, const float* x, std::size_t k, std::byte* out) {
  is_float(weights) ? float_prepare(x, k, out) : quantised(weights, x, k, out);
}

template <void (*quantised)(const MatmulArgs&)>
inline void matmul(const MatmulArgs& args) {
  switch (args.type) {
    case DataType::kF32:
      return float_matmul<WeightF32>(args);
    case DataType::kF16:
      return float_matmul_expanded<WeightF16>(args);
    case DataType::kBF16:
      return float_matmul_expanded<WeightBF16>(args);
    case DataType::kFP8_E4M3:
      return float_matmul_expanded<WeightE4M3>(args);
    default:
      return quantised(args);
  }
}

}  // namespace
}  // namespace dovetail::kernels
