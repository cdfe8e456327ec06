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
  static constexpr std::size_t kTileM = 4, kTileN = 6, kTileSingle = 8, kTilePairs = 4;

  static __mmask16 mask(std::size_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static F zero() { return _mm512_setzero_ps(); }
  static F load(const void* p) { return _mm512_loadu_ps(p); }
  static F load_n(const void* p, std::size_t n) { return _mm512_maskz_loadu_ps(mask(n), p); }
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
  static __m256 high(F v) { return _mm512_extractf32x8_ps(v, 1); }
  static float sum(F v) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), high(v));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
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
  // Pairs of 32, then of 64 bits within the 128-bit quarters, then the quarters themselves.
  static void transpose(F (&r)[kWidth]) {
    F t[kWidth];
    for (std::size_t i = 0; i < kWidth; i += 2) {
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (std::size_t i = 0; i < kWidth; i += 4) {
      for (std::size_t j = 0; j < 2; ++j) {
        const __m512d a = _mm512_castps_pd(t[i + j]);
        const __m512d b = _mm512_castps_pd(t[i + j + 2]);
        r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
      }
    }
    for (std::size_t j = 0; j < 4; ++j) {
      const F a = _mm512_shuffle_f32x4(r[j], r[j + 4], 0x88);
      const F b = _mm512_shuffle_f32x4(r[j], r[j + 4], 0xdd);
      const F c = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0x88);
      const F d = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0xdd);
      t[j] = _mm512_shuffle_f32x4(a, c, 0x88);
      t[j + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
      t[j + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
      t[j + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
    for (std::size_t i = 0; i < kWidth; ++i) r[i] = t[i];
  }
};

}  // namespace
}  // namespace dovetail::kernels
