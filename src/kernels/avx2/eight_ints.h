#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/types/weight_type.h"

// Eight rows of a panel in the registers of AVX2: what products of bytes have in common, with VNNI
// and without.
namespace dovetail::kernels {
namespace {

struct EightInts {
  using I = __m256i;
  using F = __m256;
  static constexpr std::size_t kLanes = 8;
  // Rows of activations in a tile, and from how many on panels are expanded.
  static constexpr std::size_t kTile = 4, kExpandFrom = 16;
  // Panels in a tile where rows are many, and the rows of such a one.
  static constexpr std::size_t kPanels = 1, kPanelsTile = kTile;

  static I set1(std::int32_t x) { return _mm256_set1_epi32(x); }
  static F set1(float x) { return _mm256_set1_ps(x); }
  static I load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I mul(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static F no_float() { return _mm256_setzero_ps(); }
  static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  static void store_n(float* p, F v, std::size_t n) {
    if (n == kLanes) return _mm256_storeu_ps(p, v);
    const I lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(set1(static_cast<std::int32_t>(n)), lanes), v);
  }

  // Floats' bits without the sign, whose order is that of the magnitudes.
  static I magnitude(I v) { return _mm256_and_si256(v, set1(0x7fffffff)); }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  // The highest of the lanes, and their sum.
  static std::int32_t highest(I v) {
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
  }
  static std::int32_t total(I v) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
  }
  // Floats times the factor as whole numbers, to nearest even. They must fit.
  static I nearest(const float* x, float factor) {
    return _mm256_cvtps_epi32(mul(_mm256_loadu_ps(x), set1(factor)));
  }
  // The lanes, which must fit, as bytes.
  static void store_bytes(std::int8_t* p, I v) {
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }

  // The bits kMask of the bytes after a shift by kShift, to the left if positive.
  template <int kShift, int kMask>
  static I bits(I v) {
    if constexpr (kShift > 0) v = _mm256_slli_epi16(v, kShift);
    if constexpr (kShift < 0) v = _mm256_srli_epi16(v, -kShift);
    return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(kMask)));
  }
  static I merge(I a, I b) { return _mm256_or_si256(a, b); }
  static I flip_sign(I v) { return _mm256_xor_si256(v, _mm256_set1_epi8(-128)); }
  template <class Table>
  static I table(const Table& table) {
    return _mm256_broadcastsi128_si256(
        _mm_load_si128(reinterpret_cast<const __m128i*>(table.bytes)));
  }
  static I look_up(I table, I code) { return _mm256_shuffle_epi8(table, code); }

  // Four bytes of activations, or two sums, in every lane.
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
  // Pairs of signed bytes as pairs of 16 bits.
  static I widen_pairs(const std::uint8_t* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // The bytes of rows [lane, lane + kLanes) of a panel, without a sign.
  static I bytes(const std::uint8_t* p, std::size_t lane) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + lane)));
  }

  // Their scales.
  template <ScaleForm kForm>
  static F scales(const std::uint8_t* p, std::size_t lane) {
    if constexpr (kForm == ScaleForm::kHalf) {
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 2 * lane)));
    } else if constexpr (kForm == ScaleForm::kFloat) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(p + 4 * lane));
    } else if constexpr (kForm == ScaleForm::kE4M3) {
      // The half with these bits is the value over 2^8.
      const __m128i e = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + lane));
      return mul(_mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(e), 7)), set1(256.0F));
    } else {
      const I e = bytes(p, lane);
      // Without a bit of its exponent a float is not normal: 2^-127.
      const I least = _mm256_and_si256(_mm256_cmpeq_epi32(e, set1(0)), set1(0x00400000));
      return _mm256_castsi256_ps(_mm256_or_si256(_mm256_slli_epi32(e, 23), least));
    }
  }
};

}  // namespace
}  // namespace dovetail::kernels
