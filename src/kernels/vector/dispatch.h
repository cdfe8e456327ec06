#pragma once

#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/vector/float_matmul.h"

// Included after an instruction set's vec.h, which defines Vec.
//
// Float weights are multiplied with float activations; the block types go to the functions given.
namespace dovetail::kernels {
namespace {

constexpr bool is_float(load::DataType type) {
  return type == load::DataType::kF32 || type == load::DataType::kF16 ||
         type == load::DataType::kBF16;
}

template <std::size_t (*quantised)(load::DataType, std::size_t)>
inline std::size_t activation_bytes(load::DataType weights, std::size_t k) {
  return is_float(weights) ? float_activation_bytes(k) : quantised(weights, k);
}

template <void (*quantised)(load::DataType, const float*, std::size_t, std::byte*)>
inline void prepare(load::DataType weights, const float* x, std::size_t k, std::byte* out) {
  is_float(weights) ? float_prepare(x, k, out) : quantised(weights, x, k, out);
}

template <void (*quantised)(const MatmulArgs&)>
inline void matmul(const MatmulArgs& args) {
  switch (args.type) {
    case load::DataType::kF32:
      return float_matmul<WeightF32>(args);
    case load::DataType::kF16:
      return float_matmul<WeightF16>(args);
    case load::DataType::kBF16:
      return float_matmul<WeightBF16>(args);
    default:
      return quantised(args);
  }
}

}  // namespace
}  // namespace dovetail::kernels
