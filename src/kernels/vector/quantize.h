#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/packed.h"

// Included after an instruction set's ints.h, which defines Ints.
namespace dovetail::kernels {
namespace {

// Rounds a row of activations to bytes, block by block: x = scale * q with |q| <= 127, as a
// function of the row alone. Sums are stored times `factor`. A block with an infinity or a NaN,
// which bytes cannot hold, has NaN for its scale and zeros for its bytes.
template <class T>
inline void quantize_row(const float* x, std::size_t k, std::int32_t factor, std::byte* out) {
  using Row = QuantRow<T>;
  constexpr std::size_t kSums = T::kElements / Row::kSumElements;
  static_assert(Row::kSumElements % Ints::kLanes == 0);
  const Row row(out, k);
  for (std::size_t b = 0; b < k / T::kElements; ++b) {
    const float* from = x + b * T::kElements;
    std::int8_t* q = row.q + b * T::kElements;
    typename Row::Sum* sums = row.sum + b * kSums;
    // Magnitudes are compared as whole numbers, which have no order of their own to keep.
    Ints::I tops = Ints::set1(0);
    for (std::size_t i = 0; i < T::kElements; i += Ints::kLanes) {
      tops = Ints::max(tops, Ints::magnitude(Ints::load(from + i)));
    }
    constexpr std::int32_t kInfinite = 0x7f800000;
    constexpr std::int32_t kLeast = 0x03800000;  // 2^-120: 127 divided by less may overflow
    const std::int32_t top = Ints::highest(tops);
    if (top >= kInfinite) {
      row.scale[b] = __builtin_nanf("");
      std::memset(q, 0, T::kElements);
      std::memset(sums, 0, kSums * sizeof *sums);
      continue;
    }
    const auto largest = __builtin_bit_cast(float, top);
    const float inverse = top >= kLeast ? 127.0F / largest : 0.0F;
    row.scale[b] = largest / 127.0F;
    for (std::size_t g = 0; g < kSums; ++g) {
      Ints::I sum = Ints::set1(0);
      for (std::size_t i = 0; i < Row::kSumElements; i += Ints::kLanes) {
        const std::size_t at = g * Row::kSumElements + i;
        const Ints::I whole = Ints::nearest(from + at, inverse);
        Ints::store_bytes(q + at, whole);
        sum = Ints::add(sum, whole);
      }
      sums[g] = static_cast<typename Row::Sum>(Ints::total(sum) * factor);
    }
  }
}

}  // namespace
}  // namespace dovetail::kernels
