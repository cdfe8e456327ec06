#include <immintrin.h>

#include "kernels/avx2/roofline.h"

// As roofline.cpp, which says why.
namespace dovetail::kernels::avx2::vnni {
namespace {

constexpr int kSums = 12;

double byte_loop(std::uint64_t rounds) {
  const __m256i x = _mm256_set1_epi8(3);
  __m256i sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_epi32(i);
  for (; rounds > 0; --rounds) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_dpbusd_avx_epi32(sums[i], x, x);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
  std::int32_t lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sums[0]);
  double all = 0.0;
  for (const std::int32_t lane : lanes) all += lane;
  return all;
}

}  // namespace

RooflineLoop byte_roofline() { return {kSums * 32, byte_loop}; }

}  // namespace dovetail::kernels::avx2::vnni
