#include <immintrin.h>

#include "kernels/avx512/roofline.h"

// As avx2/roofline.cpp, which says why.
namespace dovetail::kernels::avx512::bf16 {
namespace {

constexpr int kSums = 12;

double bf16_loop(std::uint64_t rounds) {
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3e80));  // 0.25
  __m512 sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (; rounds > 0; --rounds) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], x, x);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  float lanes[16];
  _mm512_storeu_ps(lanes, sums[0]);
  double all = 0.0;
  for (const float lane : lanes) all += static_cast<double>(lane);
  return all;
}

}  // namespace

RooflineLoop bf16_roofline() { return {kSums * 32, bf16_loop}; }

}  // namespace dovetail::kernels::avx512::bf16
