#include "kernels/avx512/roofline.h"

#include <immintrin.h>

// As avx2/roofline.cpp, which says why.
namespace dovetail::kernels::avx512 {
namespace {

constexpr int kByteSums = 6, kFloatSums = 12;

double byte_loop(std::uint64_t rounds) {
  __m512i x = _mm512_set1_epi8(3);
  const __m512i ones = _mm512_set1_epi16(1);
  __m512i columns[kByteSums], sums[kByteSums];
#pragma GCC unroll 6
  for (int i = 0; i < kByteSums; ++i) {
    columns[i] = _mm512_set1_epi8(static_cast<char>(7 + i));
    sums[i] = _mm512_setzero_si512();
  }
  for (; rounds > 0; --rounds) {
    asm volatile("" : "+v"(x));
#pragma GCC unroll 6
    for (int i = 0; i < kByteSums; ++i) {
      const __m512i pairs = _mm512_maddubs_epi16(x, columns[i]);
      sums[i] = _mm512_add_epi32(sums[i], _mm512_madd_epi16(pairs, ones));
    }
  }
#pragma GCC unroll 6
  for (int i = 1; i < kByteSums; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  std::int32_t lanes[16];
  _mm512_storeu_si512(lanes, sums[0]);
  double all = 0.0;
  for (const std::int32_t lane : lanes) all += lane;
  return all;
}

double float_loop(std::uint64_t rounds) {
  const __m512 x = _mm512_set1_ps(0.25F);
  __m512 sums[kFloatSums];
#pragma GCC unroll 12
  for (int i = 0; i < kFloatSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (; rounds > 0; --rounds) {
#pragma GCC unroll 12
    for (int i = 0; i < kFloatSums; ++i) sums[i] = _mm512_fmadd_ps(x, x, sums[i]);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kFloatSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  float lanes[16];
  _mm512_storeu_ps(lanes, sums[0]);
  double all = 0.0;
  for (const float lane : lanes) all += static_cast<double>(lane);
  return all;
}

}  // namespace

RooflineLoop byte_roofline() { return {kByteSums * 64, byte_loop}; }
RooflineLoop float_roofline() { return {kFloatSums * 16, float_loop}; }

}  // namespace dovetail::kernels::avx512
