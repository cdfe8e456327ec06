#include <cassert>
#include <vector>

#include "kernels/portable/half.h"
#include "kernels/portable/portable.h"
#include "kernels/unpack.h"

namespace dovetail::kernels::portable {
namespace {

// A row of weights as bytes and whole scales, ready to meet all activations.
template <DataType T>
struct UnpackedRow {
  using U = Unpack<T>;

  explicit UnpackedRow(std::size_t k)
      : blocks(k / U::kElements),
        q(k),
        d(blocks),
        dmin(U::kMins ? blocks : 0),
        scales(U::kScales ? 16 * blocks : 0) {}

  void read(const std::byte* row) {
    const auto* source = reinterpret_cast<const typename U::Block*>(row);
    for (std::size_t b = 0; b < blocks; ++b) {
      U::quants(source[b], q.data() + b * U::kElements);
      d[b] = read_half(source[b].d);
      if constexpr (U::kMins) dmin[b] = read_half(source[b].dmin);
      if constexpr (U::kScales) U::scales(source[b], scales.data() + 16 * b);
    }
  }

  // The products of a block are whole numbers and exact; only the sum over the blocks rounds.
  float dot(const QuantRow& x) const {
    constexpr std::size_t kGroups = U::kElements / U::kGroup;
    float sum = 0.0F;
    for (std::size_t b = 0; b < blocks; ++b) {
      std::int32_t products = 0;
      std::int32_t offsets = 0;
      for (std::size_t g = 0; g < kGroups; ++g) {
        const std::size_t first = b * U::kElements + g * U::kGroup;
        std::int32_t group = 0;
        for (std::size_t i = first; i < first + U::kGroup; ++i) {
          group += static_cast<std::int32_t>(q[i]) * static_cast<std::int32_t>(x.q[i]);
        }
        products += U::kScales ? scales[16 * b + g] * group : group;
        if constexpr (U::kMins) offsets += scales[16 * b + 8 + g] * x.sum[b * kGroups + g];
      }
      sum += static_cast<float>(products) * (d[b] * x.scale[b]);
      if constexpr (U::kMins) sum -= static_cast<float>(offsets) * (dmin[b] * x.scale[b]);
    }
    return sum;
  }

  std::size_t blocks;
  std::vector<std::int8_t> q;
  std::vector<float> d, dmin;
  std::vector<std::int8_t> scales;  // 16 per block
};

template <DataType T>
void multiply(const MatmulArgs& a) {
  UnpackedRow<T> weights(a.k);
  for (std::size_t n = a.n_begin; n < a.n_end; ++n) {
    weights.read(a.weights + n * load::row_bytes(T, a.k));
    for (std::size_t m = 0; m < a.m; ++m) {
      a.output[m * a.output_stride + n] =
          weights.dot(quant_row<T>(a.activations + m * a.activation_stride, a.k));
    }
  }
}

}  // namespace

void quant_matmul(const MatmulArgs& args) {
  switch (args.type) {
    case DataType::kQ8_0:
      return multiply<DataType::kQ8_0>(args);
    case DataType::kQ4_0:
      return multiply<DataType::kQ4_0>(args);
    case DataType::kQ4_K:
      return multiply<DataType::kQ4_K>(args);
    case DataType::kQ5_K:
      return multiply<DataType::kQ5_K>(args);
    case DataType::kQ6_K:
      return multiply<DataType::kQ6_K>(args);
    default:
      assert(false);
  }
}

}  // namespace dovetail::kernels::portable
