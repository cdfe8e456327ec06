#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/unpack.h"

// Included after an instruction set's vec.h, which defines Vec.
namespace dovetail::kernels {
namespace {

// Rounds a row of activations to bytes, block by block: x = scale * q with |q| <= 127. The sums are
// stored times `sum_factor`. A block with an infinity or a NaN, which bytes cannot hold, has NaN
// for its scale.
template <DataType T>
inline void quantize_activations(const float* x, std::size_t k, std::byte* out,
                                 std::int32_t sum_factor) {
  using U = Unpack<T>;
  const QuantRow row = quant_row<T>(out, k);
  auto* q = const_cast<std::int8_t*>(row.q);
  auto* scales = const_cast<float*>(row.scale);
  auto* sums = const_cast<std::int32_t*>(row.sum);
  for (std::size_t b = 0; b < k / U::kElements; ++b, x += U::kElements, q += U::kElements) {
    Vec::F top = Vec::zero();
    Vec::F fault = Vec::zero();  // 0, or NaN
    for (std::size_t i = 0; i < U::kElements; i += Vec::kWidth) {
      const Vec::F v = Vec::load(x + i);
      top = Vec::max(top, Vec::abs(v));
      fault = Vec::fma(v, Vec::zero(), fault);
    }
    const float largest = Vec::max_of(top);
    const float inverse = largest > 0.0F ? 127.0F / largest : 0.0F;
    scales[b] = largest / 127.0F + Vec::sum(fault);
    for (std::size_t i = 0; i < U::kElements; ++i) {
      // Adding 1.5 * 2^23 rounds to nearest even and leaves the whole number in the low bits.
      const auto bits = __builtin_bit_cast(std::uint32_t, x[i] * inverse + 0x1.8p23F);
      q[i] = static_cast<std::int8_t>(bits & 0xffU);
    }
    for (std::size_t g = 0; g < U::kElements / U::kGroup; ++g) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < U::kGroup; ++i) sum += q[g * U::kGroup + i];
      *sums++ = sum * sum_factor;
    }
  }
}

inline std::size_t quant_activation_bytes(DataType weights, std::size_t k) {
  switch (weights) {
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
    default:
      return 0;
  }
}

inline void quant_prepare(DataType weights, const float* x, std::size_t k, std::byte* out,
                          std::int32_t sum_factor) {
  switch (weights) {
    case DataType::kQ8_0:
      return quantize_activations<DataType::kQ8_0>(x, k, out, sum_factor);
    case DataType::kQ4_0:
      return quantize_activations<DataType::kQ4_0>(x, k, out, sum_factor);
    case DataType::kQ4_K:
      return quantize_activations<DataType::kQ4_K>(x, k, out, sum_factor);
    case DataType::kQ5_K:
      return quantize_activations<DataType::kQ5_K>(x, k, out, sum_factor);
    case DataType::kQ6_K:
      return quantize_activations<DataType::kQ6_K>(x, k, out, sum_factor);
    default:
      return;
  }
}

}  // namespace
}  // namespace dovetail::kernels
