#include "kernels/avx2/roofline.h"

#include <immintrin.h>

namespace dovetail::kernels::avx2 {
namespace {

// What the 16 registers hold with the products under way. Rows share their sums: to add takes a
// cycle alone.
constexpr int kByteRows = 2, kByteColumns = 4;
constexpr int kFloatSums = 12;

double byte_loop(std::uint64_t rounds) {
  __m256i rows[kByteRows] = {_mm256_set1_epi8(3), _mm256_set1_epi8(5)};
  __m256i columns[kByteColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kByteColumns; ++i) columns[i] = _mm256_set1_epi8(static_cast<char>(7 + i));
  const __m256i ones = _mm256_set1_epi16(1);
  // All loops over it are unrolled, so that it is registers.
  __m256i sums[kByteColumns];
#pragma GCC unroll 4
  for (int i = 0; i < kByteColumns; ++i) sums[i] = _mm256_setzero_si256();
  for (; rounds > 0; --rounds) {
#pragma GCC unroll 2
    for (int row = 0; row < kByteRows; ++row) {
      // May be others than in the last round, as far as the compiler knows.
      asm volatile("" : "+x"(rows[row]));
#pragma GCC unroll 4
      for (int column = 0; column < kByteColumns; ++column) {
        const __m256i pairs = _mm256_maddubs_epi16(rows[row], columns[column]);
        sums[column] = _mm256_add_epi32(sums[column], _mm256_madd_epi16(pairs, ones));
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 1; i < kByteColumns; ++i) sums[0] = _mm256_add_epi32(sums[0], sums[i]);
  std::int32_t lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sums[0]);
  double all = 0.0;
  for (const std::int32_t lane : lanes) all += lane;
  return all;
}

double float_loop(std::uint64_t rounds) {
  const __m256 x = _mm256_set1_ps(0.25F);
  // Sums that begin alike would be one and the same to a compiler.
  __m256 sums[kFloatSums];
#pragma GCC unroll 12
  for (int i = 0; i < kFloatSums; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (; rounds > 0; --rounds) {
#pragma GCC unroll 12
    for (int i = 0; i < kFloatSums; ++i) sums[i] = _mm256_fmadd_ps(x, x, sums[i]);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kFloatSums; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  float lanes[8];
  _mm256_storeu_ps(lanes, sums[0]);
  double all = 0.0;
  for (const float lane : lanes) all += static_cast<double>(lane);
  return all;
}

}  // namespace

RooflineLoop byte_roofline() { return {kByteRows * kByteColumns * 32, byte_loop}; }
RooflineLoop float_roofline() { return {kFloatSums * 8, float_loop}; }

}  // namespace dovetail::kernels::avx2
