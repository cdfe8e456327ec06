#include "kernels/packed.h"
#include "kernels/portable/half.h"
#include "kernels/portable/portable.h"
#include "kernels/types/all.h"

namespace dovetail::kernels::portable {
namespace {

void dequantize(F32, const std::byte* row, std::size_t k, float* out) {
  std::memcpy(out, row, k * sizeof(float));
}

void dequantize(F16, const std::byte* row, std::size_t k, float* out) {
  for (std::size_t i = 0; i < k; ++i) out[i] = read_half(row + 2 * i);
}

void dequantize(BF16, const std::byte* row, std::size_t k, float* out) {
  for (std::size_t i = 0; i < k; ++i) out[i] = bfloat_to_float(read_u16(row + 2 * i));
}

void dequantize(FP8_E4M3, const std::byte* row, std::size_t k, float* out) {
  const auto* blocks = reinterpret_cast<const FP8_E4M3::Block*>(row);
  for (std::size_t i = 0; i < k; ++i) {
    const FP8_E4M3::Block& block = blocks[i / FP8_E4M3::kElements];
    float scale;
    std::memcpy(&scale, block.scale, sizeof scale);
    out[i] = e4m3_over_256(block.q[i % FP8_E4M3::kElements]) * (scale * 256.0F);
  }
}

template <class T>
float block_scale(const typename T::Block& block, std::size_t group) {
  const std::uint32_t bits = float_scale_bits<T>(block, group);
  switch (T::kScaleForm) {
    case ScaleForm::kHalf:
      return T::kScaleFactor * half_to_float(static_cast<std::uint16_t>(bits));
    case ScaleForm::kE8M0:
      return T::kScaleFactor * exponent_to_float(static_cast<std::uint16_t>(bits));
    case ScaleForm::kFloat:
      return T::kScaleFactor * std::bit_cast<float>(bits);
    case ScaleForm::kE4M3:
      return T::kScaleFactor * (e4m3_over_256(bits) * 256.0F);
  }
  __builtin_unreachable();
}

template <class T>
void dequantize(T, const std::byte* row, std::size_t k, float* out) {
  const auto* blocks = reinterpret_cast<const typename T::Block*>(row);
  for (std::size_t b = 0; b < k / T::kElements; ++b) {
    const typename T::Block& block = blocks[b];
    std::uint8_t codes[T::kElements];
    std::int8_t scales[T::kElements / T::kGroup];
    std::int8_t minimums[T::kElements / T::kGroup];
    T::codes(block, codes);
    if constexpr (T::kScales) T::scales(block, scales);
    if constexpr (T::kScales && T::kMinimums) T::minimums(block, minimums);
    for (std::size_t g = 0; g < T::kElements / T::kGroup; ++g) {
      float scale = block_scale<T>(block, g);
      float minimum = 0.0F;
      if constexpr (T::kScales) scale *= static_cast<float>(scales[g]);
      if constexpr (T::kMinimums) {
        minimum = T::kMinimumFactor * half_to_float(T::minimum_bits(block));
        if constexpr (T::kScales) minimum *= static_cast<float>(minimums[g]);
      }
      for (std::size_t i = g * T::kGroup; i < (g + 1) * T::kGroup; ++i, ++out) {
        int value = value_of<T>(codes[i]);
        if constexpr (T::kZeros) value -= T::zero(block);
        *out = scale * static_cast<float>(value);
        if constexpr (T::kMinimums) *out -= minimum;
      }
    }
  }
}

}  // namespace

void dequantize_row(DataType type, const std::byte* row, std::size_t k, float* out) {
  with_type(type, [&](auto of) { dequantize(of, row, k, out); });
}

}  // namespace dovetail::kernels::portable
