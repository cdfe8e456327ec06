#include <cassert>

#include "kernels/portable/half.h"
#include "kernels/portable/portable.h"
#include "kernels/unpack.h"

namespace dovetail::kernels::portable {
namespace {

template <DataType T>
void dequantize_blocks(const std::byte* row, std::size_t k, float* out) {
  using U = Unpack<T>;
  const auto* blocks = reinterpret_cast<const typename U::Block*>(row);
  for (std::size_t b = 0; b < k / U::kElements; ++b, out += U::kElements) {
    std::int8_t q[U::kElements];
    U::quants(blocks[b], q);
    const float d = read_half(blocks[b].d);
    if constexpr (!U::kScales) {
      for (std::size_t i = 0; i < U::kElements; ++i) out[i] = d * static_cast<float>(q[i]);
    } else {
      std::int8_t scales[16];
      U::scales(blocks[b], scales);
      float dmin = 0.0F;
      if constexpr (U::kMins) dmin = read_half(blocks[b].dmin);
      for (std::size_t i = 0; i < U::kElements; ++i) {
        const std::size_t group = i / U::kGroup;
        out[i] = d * static_cast<float>(scales[group]) * static_cast<float>(q[i]);
        if constexpr (U::kMins) out[i] -= dmin * static_cast<float>(scales[8 + group]);
      }
    }
  }
}

}  // namespace

void dequantize_row(DataType type, const std::byte* row, std::size_t k, float* out) {
  switch (type) {
    case DataType::kF32:
      std::memcpy(out, row, k * sizeof(float));
      return;
    case DataType::kF16:
      for (std::size_t i = 0; i < k; ++i) out[i] = read_half(row + 2 * i);
      return;
    case DataType::kBF16:
      for (std::size_t i = 0; i < k; ++i) out[i] = bfloat_to_float(read_u16(row + 2 * i));
      return;
    case DataType::kQ8_0:
      return dequantize_blocks<DataType::kQ8_0>(row, k, out);
    case DataType::kQ4_0:
      return dequantize_blocks<DataType::kQ4_0>(row, k, out);
    case DataType::kQ4_K:
      return dequantize_blocks<DataType::kQ4_K>(row, k, out);
    case DataType::kQ5_K:
      return dequantize_blocks<DataType::kQ5_K>(row, k, out);
    case DataType::kQ6_K:
      return dequantize_blocks<DataType::kQ6_K>(row, k, out);
  }
  assert(false);
}

}  // namespace dovetail::kernels::portable
