#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Eight whole numbers of AVX2, for vector/quant_matmul.h.
namespace dovetail::kernels {
namespace {

struct Ints {
  using I = __m256i;
  // Rows of activations in a tile.
  static constexpr std::size_t kTile = 4;
  // Q8_0 stays signed: the products of two unsigned bytes up to 255 would not fit 16 bits.
  static constexpr std::int32_t kByteOffset = 0;

  static I set1(std::int32_t x) { return _mm256_set1_epi32(x); }
  static I load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void store(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  static I widen(const std::int8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I mul(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static I add_bytes(I v, std::int32_t x) {
    return _mm256_add_epi8(v, _mm256_set1_epi8(static_cast<char>(x)));
  }
  static __m256 to_float(I v) { return _mm256_cvtepi32_ps(v); }
  static __m256 as_float(I v) { return _mm256_castsi256_ps(v); }
  static I as_int(__m256 v) { return _mm256_castps_si256(v); }
  static float half(const std::uint8_t* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return _cvtsh_ss(bits);
  }
  // sum + four products per lane of `weights` with x[0..3]. Unsigned weights are at most 63, signed
  // ones go as sign and magnitude, so that no pair of products leaves 16 bits.
  template <bool kSigned>
  static I dot(I sum, I weights, const std::int8_t* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof four);
    const I activations = set1(four);
    const I pairs = kSigned ? _mm256_maddubs_epi16(_mm256_abs_epi8(weights),
                                                   _mm256_sign_epi8(activations, weights))
                            : _mm256_maddubs_epi16(weights, activations);
    return add(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

}  // namespace
}  // namespace dovetail::kernels
