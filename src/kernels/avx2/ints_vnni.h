#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/avx2/eight_ints.h"

// For vector/products.h: AVX-VNNI multiplies bytes and adds them in 32 bits. README.md tells the
// interface.
namespace dovetail::kernels {
namespace {

struct Ints : EightInts {
  // As in ints.h; here they also have twice as many sums that wait for no other.
  template <class T, std::size_t M>
  static constexpr std::size_t vectors() {
    return M <= 2 || T::kGroup > 16 ? 2 : 1;
  }
  using Sum = __m256i;
  using Scale = __m256i;
  static constexpr int kMostUnsigned = 255;

  template <bool kSigned, int kMost>
  static constexpr std::size_t quads_of_sum() {
    static_assert(!kSigned);
    return 64;
  }
  static Sum no_sum() { return _mm256_setzero_si256(); }
  template <bool kSigned>
  static Sum dot(Sum sum, I weights, I x) {
    return _mm256_dpbusd_avx_epi32(sum, weights, x);
  }
  template <bool kScaled>
  static I add_sum(I products, Sum sum, Scale scale) {
    return add(products, kScaled ? mul(sum, scale) : sum);
  }
  static Scale even(I pairs) { return _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16); }
  static Scale odd(I pairs) { return _mm256_srai_epi32(pairs, 16); }
  static I add_pairs(I sum, I pairs, I x) { return _mm256_dpwssd_avx_epi32(sum, pairs, x); }
};

}  // namespace
}  // namespace dovetail::kernels
