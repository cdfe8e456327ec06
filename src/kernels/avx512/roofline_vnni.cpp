#include <immintrin.h>

#include "kernels/avx512/roofline.h"

// As avx2/roofline.cpp, which says why.
namespace dovetail::kernels::avx512::vnni {
namespace {

constexpr int kSums = 12;

double byte_loop(std::uint64_t rounds) {
  const __m512i x = _mm512_set1_epi8(3);
  __m512i sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_epi32(i);
  for (; rounds > 0; --rounds) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], x, x);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  std::int32_t lanes[16];
  _mm512_storeu_si512(lanes, sums[0]);
  double all = 0.0;
  for (const std::int32_t lane : lanes) all += lane;
  return all;
}

}  // namespace

RooflineLoop byte_roofline() { return {kSums * 64, byte_loop}; }

}  // namespace dovetail::kernels::avx512::vnni
