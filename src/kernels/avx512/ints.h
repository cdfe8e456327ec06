#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/types/weight_type.h"

// The sixteen rows of a panel in the registers of AVX-512 with VNNI, for vector/products.h.
// README.md tells the interface.
namespace dovetail::kernels {
namespace {

struct Ints {
  using I = __m512i;
  using F = __m512;
  using Sum = __m512i;
  using Scale = __m512i;
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kTile = 8, kExpandFrom = 40;
  static constexpr std::size_t kPanels = 3, kPanelsTile = 4;
  static constexpr int kMostUnsigned = 255;

  template <class, std::size_t>
  static constexpr std::size_t vectors() {
    return 1;
  }
  template <bool kSigned, int kMost>
  static constexpr std::size_t quads_of_sum() {
    static_assert(!kSigned);
    return 64;
  }

  static I set1(std::int32_t x) { return _mm512_set1_epi32(x); }
  static F set1(float x) { return _mm512_set1_ps(x); }
  static I load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, I v) { _mm512_storeu_si512(p, v); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I mul(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F no_float() { return _mm512_setzero_ps(); }
  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static void store_n(float* p, F v, std::size_t n) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << n) - 1U), v);
  }

  static I magnitude(I v) { return _mm512_and_si512(v, set1(0x7fffffff)); }
  static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  static std::int32_t highest(I v) { return _mm512_reduce_max_epi32(v); }
  static std::int32_t total(I v) { return _mm512_reduce_add_epi32(v); }
  static I nearest(const float* x, float factor) {
    return _mm512_cvtps_epi32(mul(_mm512_loadu_ps(x), set1(factor)));
  }
  static void store_bytes(std::int8_t* p, I v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }

  template <int kShift, int kMask>
  static I bits(I v) {
    if constexpr (kShift > 0) v = _mm512_slli_epi16(v, kShift);
    if constexpr (kShift < 0) v = _mm512_srli_epi16(v, -kShift);
    return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(kMask)));
  }
  static I merge(I a, I b) { return _mm512_or_si512(a, b); }
  static I flip_sign(I v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
  template <class Table>
  static I table(const Table& table) {
    return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table.bytes)));
  }
  static I look_up(I table, I code) { return _mm512_shuffle_epi8(table, code); }

  static I four(const std::int8_t* x) {
    std::int32_t bits;
    std::memcpy(&bits, x, sizeof bits);
    return set1(bits);
  }
  static I two(const std::int16_t* x) {
    std::int32_t bits;
    std::memcpy(&bits, x, sizeof bits);
    return set1(bits);
  }
  static Sum no_sum() { return _mm512_setzero_si512(); }
  template <bool kSigned>
  static Sum dot(Sum sum, I weights, I x) {
    return _mm512_dpbusd_epi32(sum, weights, x);
  }
  template <bool kScaled>
  static I add_sum(I products, Sum sum, Scale scale) {
    return add(products, kScaled ? mul(sum, scale) : sum);
  }
  static I widen_pairs(const std::uint8_t* p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Scale even(I pairs) { return _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16); }
  static Scale odd(I pairs) { return _mm512_srai_epi32(pairs, 16); }
  static I add_pairs(I sum, I pairs, I x) { return _mm512_dpwssd_epi32(sum, pairs, x); }

  static I bytes(const std::uint8_t* p, std::size_t lane) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + lane)));
  }

  template <ScaleForm kForm>
  static F scales(const std::uint8_t* p, std::size_t lane) {
    if constexpr (kForm == ScaleForm::kHalf) {
      return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 2 * lane)));
    } else if constexpr (kForm == ScaleForm::kFloat) {
      return _mm512_loadu_ps(p + 4 * lane);
    } else if constexpr (kForm == ScaleForm::kE4M3) {
      // The half with these bits is the value over 2^8.
      const __m128i e = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + lane));
      return mul(_mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(e), 7)), set1(256.0F));
    } else {
      const I e = bytes(p, lane);
      // Without a bit of its exponent a float is not normal: 2^-127.
      const I exponent = _mm512_slli_epi32(e, 23);
      return _mm512_castsi512_ps(
          _mm512_mask_mov_epi32(exponent, _mm512_cmpeq_epi32_mask(e, set1(0)), set1(0x00400000)));
    }
  }
};

}  // namespace
}  // namespace dovetail::kernels
