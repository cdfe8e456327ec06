#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Sixteen floats of AVX-512 (F, BW, VL, DQ). README.md tells the interface.
namespace dovetail::kernels {
namespace {

struct Vec {
  using F = __m512;
  static constexpr std::size_t kWidth = 16;
  using Part = Vec;
  static constexpr std::size_t kParts = 1;
  template <std::size_t>
  static F& part(F& v) {
    return v;
  }
  static constexpr std::size_t kTileM = 4, kTileN = 6, kTileSingle = 8;
  static constexpr std::size_t kPairs = 6, kPairSums = 24;
  static constexpr std::size_t kMakeE4M3From = 10;

  static __mmask16 mask(std::size_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static F zero() { return _mm512_setzero_ps(); }
  static F load(const void* p) { return _mm512_loadu_ps(p); }
  static F load_n(const void* p, std::size_t n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static F hold(F v) { return v; }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void store_n(float* p, F v, std::size_t n) { _mm512_mask_storeu_ps(p, mask(n), v); }
  static F load_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_f16_n(const std::byte* p, std::size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(n), p));
  }
  static F widen(__m256i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
  }
  static F load_bf16(const std::byte* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_bf16_n(const std::byte* p, std::size_t n) {
    return widen(_mm256_maskz_loadu_epi16(mask(n), p));
  }
  // Sixteen of OCP's E4M3, over 2^8: the halves that have the same bits of exponent and fraction.
  static F load_e4m3(const std::byte* p) {
    // The sign comes twice, the second time as the exponent's highest bit.
    const __m256i bits = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_cvtph_ps(
        _mm256_and_si256(_mm256_slli_epi16(bits, 7), _mm256_set1_epi16(-0x4080)));
  }
  // Signed bytes.
  static F load_i8(const std::byte* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static void store_f16_n(std::byte* p, F v, std::size_t n) {
    _mm256_mask_storeu_epi16(p, mask(n),
                             _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F v) { return _mm512_abs_ps(v); }
  static F copy_sign(F v, F sign) {
    const F bit = _mm512_set1_ps(-0.0F);
    return _mm512_or_ps(_mm512_andnot_ps(bit, v), _mm512_and_ps(bit, sign));
  }
  static F less(F a, F b, F x, F y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  static __m256 high(F v) { return _mm512_extractf32x8_ps(v, 1); }
  static float sum(F v) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), high(v));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  // As sum() of each, with all of them in the same instructions. A quarter has four lanes.
  template <std::size_t N>
  static void sums(const F (&v)[N], float* out) {
    static_assert(N <= 8);
    F halves[4];  // of two vectors: two quarters of each
    for (std::size_t i = 0; i < 4; ++i) {
      const F a = v[2 * i < N ? 2 * i : N - 1];
      const F b = v[2 * i + 1 < N ? 2 * i + 1 : N - 1];
      halves[i] = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    F quarters[2];  // of four vectors: one of each
    for (std::size_t i = 0; i < 2; ++i) {
      const F a = halves[2 * i];
      const F b = halves[2 * i + 1];
      quarters[i] = add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    const __m512d a = _mm512_castps_pd(quarters[0]);
    const __m512d b = _mm512_castps_pd(quarters[1]);
    const F pairs =
        add(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    // Of vector i in lane 4 i, of vector i + 4 in lane 4 i + 2.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256 sorted =
        _mm512_castps512_ps256(_mm512_permutexvar_ps(order, add(pairs, _mm512_movehdup_ps(pairs))));
    if constexpr (N == 8)
      _mm256_storeu_ps(out, sorted);
    else
      _mm256_mask_storeu_ps(out, static_cast<__mmask8>((1U << N) - 1U), sorted);
  }
  static float max_of(F v) {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), high(v));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }
  static F keep(F v, std::size_t begin, std::size_t end, F other) {
    const __mmask16 before = mask(begin < kWidth ? begin : kWidth);
    const __mmask16 until = mask(end < kWidth ? end : kWidth);
    return _mm512_mask_blend_ps(static_cast<__mmask16>(until & ~before), other, v);
  }
  static F round(F v) {
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static F scale_by_power(F v, F n) { return _mm512_scalef_ps(v, n); }
};

}  // namespace
}  // namespace dovetail::kernels
