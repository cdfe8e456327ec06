#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/avx2/eight_ints.h"

// For vector/products.h: bytes are multiplied to 16 bits. README.md tells the interface.
namespace dovetail::kernels {
namespace {

struct Ints : EightInts {
  // Vectors of a panel in a tile of M rows. Two in one of more than two rows keep float sums in
  // memory: worth it where unpacking, or one activation for both, takes more than that.
  template <class T, std::size_t M>
  static constexpr std::size_t vectors() {
    return M <= 2 || (T::kGroup > 16 && T::kBits < 8) ? 2 : 1;
  }
  // Products of a quad are pairs of 16 bits.
  using Sum = __m256i;
  // A group's scale, twice in each lane.
  using Scale = __m256i;
  // Two products with 127 fit 16 bits.
  static constexpr int kMostUnsigned = 128;

  // Quads whose products are summed in 16 bits.
  template <bool kSigned, int kMost>
  static constexpr std::size_t quads_of_sum() {
    constexpr int kFit = 32767 / (2 * 127 * kMost);
    return kFit > 1 ? static_cast<std::size_t>(kFit) : 1;
  }

  static Sum no_sum() { return _mm256_setzero_si256(); }
  // Signed weights go as sign and magnitude.
  template <bool kSigned>
  static Sum dot(Sum sum, I weights, I x) {
    const I pairs =
        kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights))
                : _mm256_maddubs_epi16(weights, x);
    sum = _mm256_add_epi16(sum, pairs);
    // One sum per tile element: a compiler that builds a tree of them runs out of registers.
    asm("" : "+x"(sum));
    return sum;
  }
  template <bool kScaled>
  static I add_sum(I products, Sum sum, Scale scale) {
    return add(products, _mm256_madd_epi16(sum, kScaled ? scale : _mm256_set1_epi16(1)));
  }
  static Scale even(I pairs) {
    return _mm256_blend_epi16(pairs, _mm256_slli_epi32(pairs, 16), 0xaa);
  }
  static Scale odd(I pairs) {
    return _mm256_blend_epi16(_mm256_srli_epi32(pairs, 16), pairs, 0xaa);
  }
  static I add_pairs(I sum, I pairs, I x) { return add(sum, _mm256_madd_epi16(pairs, x)); }
};

}  // namespace
}  // namespace dovetail::kernels
