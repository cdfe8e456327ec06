#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// One register of AVX2 with FMA and F16C: eight floats, half a vector. README.md tells the
// interface.
namespace dovetail::kernels {
namespace {

struct Vec8 {
  using F = __m256;
  static constexpr std::size_t kWidth = 8;

  static __m256i mask(std::size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F set1(float x) { return _mm256_set1_ps(x); }
  static F zero() { return _mm256_setzero_ps(); }
  static F load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static F load_n(const void* p, std::size_t n) {
    return _mm256_maskload_ps(static_cast<const float*>(p), mask(n));
  }
  // The value in a register: compilers would load what several products share for each anew, and
  // loads become what they wait for.
  static F hold(F v) {
    asm("" : "+x"(v));
    return v;
  }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static void store_n(float* p, F v, std::size_t n) { _mm256_maskstore_ps(p, mask(n), v); }
  static __m128i load_16(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static __m128i load_16_n(const std::byte* p, std::size_t n) {
    alignas(16) std::byte bytes[16] = {};
    std::memcpy(bytes, p, 2 * n);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  }
  static F load_f16(const std::byte* p) { return _mm256_cvtph_ps(load_16(p)); }
  static F load_f16_n(const std::byte* p, std::size_t n) {
    return _mm256_cvtph_ps(load_16_n(p, n));
  }
  static F widen(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  }
  static F load_bf16(const std::byte* p) { return widen(load_16(p)); }
  static F load_bf16_n(const std::byte* p, std::size_t n) { return widen(load_16_n(p, n)); }
  // Eight of OCP's E4M3, over 2^8: the halves that have the same bits of exponent and fraction.
  static F load_e4m3(const std::byte* p) {
    // The sign comes twice, the second time as the exponent's highest bit.
    const __m128i bits = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return _mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(bits, 7), _mm_set1_epi16(-0x4080)));
  }
  // Signed bytes.
  static F load_i8(const std::byte* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static void store_f16_n(std::byte* p, F v, std::size_t n) {
    alignas(16) std::byte bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes),
                    _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    std::memcpy(p, bytes, 2 * n);
  }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F abs(F v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), v); }
  static F copy_sign(F v, F sign) {
    const F bit = _mm256_set1_ps(-0.0F);
    return _mm256_or_ps(_mm256_andnot_ps(bit, v), _mm256_and_ps(bit, sign));
  }
  static F less(F a, F b, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static float sum(F v) {
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  // As sum() of each, with all of them in the same instructions.
  template <std::size_t N>
  static void sums(const F (&v)[N], float* out) {
    static_assert(N <= 8);
    F halves[4];  // of two vectors: one of each
    for (std::size_t i = 0; i < 4; ++i) {
      const F a = v[2 * i < N ? 2 * i : N - 1];
      const F b = v[2 * i + 1 < N ? 2 * i + 1 : N - 1];
      halves[i] = add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    F pairs[2];  // of four vectors: of 0 and 2 in the lower half, of 1 and 3 in the upper
    for (std::size_t i = 0; i < 2; ++i) {
      const __m256d a = _mm256_castps_pd(halves[2 * i]);
      const __m256d b = _mm256_castps_pd(halves[2 * i + 1]);
      pairs[i] = add(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                     _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    const F all = add(_mm256_shuffle_ps(pairs[0], pairs[1], 0x88),
                      _mm256_shuffle_ps(pairs[0], pairs[1], 0xdd));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const F sorted = _mm256_permutevar8x32_ps(all, order);
    if constexpr (N == 8)
      store(out, sorted);
    else
      store_n(out, sorted, N);
  }
  static float max_of(F v) {
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }
  static F keep(F v, std::size_t begin, std::size_t end, F other) {
    const __m256i inside = _mm256_andnot_si256(mask(begin), mask(end));
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(inside));
  }
  static F round(F v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // v * 2^n for whole n in [-200, 200], in two steps so that the ends are reached by rounding.
  static F scale_by_power(F v, F n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    const auto power = [&](__m256i e) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, bias), 23));
    };
    return _mm256_mul_ps(_mm256_mul_ps(v, power(half)), power(_mm256_sub_epi32(whole, half)));
  }
};

}  // namespace
}  // namespace dovetail::kernels
