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

template <class T>
float block_scale(const typename T::Block& block) {
  const std::uint16_t bits = T::scale_bits(block);
  const bool half = T::kScaleForm == ScaleForm::kHalf;
  return T::kScaleFactor * (half ? half_to_float(bits) : exponent_to_float(bits));
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
      float scale = block_scale<T>(block);
      float minimum = 0.0F;
      if constexpr (T::kScales) scale *= static_cast<float>(scales[g]);
      if constexpr (T::kMinimums) {
        minimum = T::kMinimumFactor * half_to_float(T::minimum_bits(block));
        if constexpr (T::kScales) minimum *= static_cast<float>(minimums[g]);
      }
      for (std::size_t i = g * T::kGroup; i < (g + 1) * T::kGroup; ++i, ++out) {
        *out = scale * static_cast<float>(value_of<T>(codes[i]));
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
