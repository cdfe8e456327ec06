#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Sixteen whole numbers of AVX-512 with VNNI, for vector/quant_matmul.h.
namespace dovetail::kernels {
namespace {

struct Ints {
  using I = __m512i;
  // Rows of activations in a tile.
  static constexpr std::size_t kTile = 8;
  // Makes the signed bytes of Q8_0 unsigned.
  static constexpr std::int32_t kByteOffset = 128;

  static I set1(std::int32_t x) { return _mm512_set1_epi32(x); }
  static I load(const void* p) { return _mm512_loadu_si512(p); }
  static void store(void* p, I v) { _mm512_storeu_si512(p, v); }
  static I widen(const std::int8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I mul(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I add_bytes(I v, std::int32_t x) {
    return _mm512_add_epi8(v, _mm512_set1_epi8(static_cast<char>(x)));
  }
  static __m512 to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static __m512 as_float(I v) { return _mm512_castsi512_ps(v); }
  static I as_int(__m512 v) { return _mm512_castps_si512(v); }
  static float half(const std::uint8_t* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
  }
  // sum + four products per lane of `weights`, unsigned by now, with x[0..3].
  template <bool kSigned>
  static I dot(I sum, I weights, const std::int8_t* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof four);
    return _mm512_dpbusd_epi32(sum, weights, set1(four));
  }
};

}  // namespace
}  // namespace dovetail::kernels
