#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/portable/half.h"
#include "kernels/types/weight_type.h"

// Four rows of a panel in the compilers' own vector extension, for vector/products.h. README.md
// tells the interface.
namespace dovetail::kernels {
namespace {

struct Ints {
  using I = std::int32_t __attribute__((vector_size(16)));
  using U = std::uint32_t __attribute__((vector_size(16)));
  using F = float __attribute__((vector_size(16)));
  using Sum = I;
  using Scale = I;
  static constexpr std::size_t kLanes = 4;
  static constexpr std::size_t kTile = 2, kExpandFrom = 8;
  static constexpr std::size_t kPanels = 1, kPanelsTile = kTile;
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

  static I set1(std::int32_t x) { return I{x, x, x, x}; }
  static F set1(float x) { return F{x, x, x, x}; }
  static I load(const void* p) {
    I v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(void* p, I v) { std::memcpy(p, &v, sizeof v); }
  static I add(I a, I b) { return a + b; }
  static I sub(I a, I b) { return a - b; }
  static I mul(I a, I b) { return a * b; }
  static F mul(F a, F b) { return a * b; }
  static F fma(F a, F b, F c) {
    F out;
    for (std::size_t i = 0; i < kLanes; ++i) out[i] = fused(a[i], b[i], c[i]);
    return out;
  }
  static F fnma(F a, F b, F c) { return fma(-a, b, c); }
  static F no_float() { return F{}; }
  static F to_float(I v) { return __builtin_convertvector(v, F); }
  static void store_n(float* p, F v, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) p[i] = v[i];
  }

  static I magnitude(I v) { return v & set1(0x7fffffff); }
  static I max(I a, I b) { return a > b ? a : b; }
  static std::int32_t highest(I v) {
    std::int32_t top = v[0];
    for (std::size_t i = 1; i < kLanes; ++i) top = v[i] > top ? v[i] : top;
    return top;
  }
  static std::int32_t total(I v) { return v[0] + v[1] + v[2] + v[3]; }
  static I nearest(const float* x, float factor) {
    F v;
    std::memcpy(&v, x, sizeof v);
    // Adding 1.5 * 2^23 rounds to nearest even and leaves the whole number in the low bits.
    const F rounded = v * set1(factor) + set1(0x1.8p23F);
    return reinterpret_cast<I>(rounded) - set1(0x4b400000);
  }
  static void store_bytes(std::int8_t* p, I v) {
    for (std::size_t i = 0; i < kLanes; ++i) p[i] = static_cast<std::int8_t>(v[i]);
  }

  template <int kShift, int kMask>
  static I bits(I v) {
    // Whole lanes are shifted: the mask takes what comes from the next byte.
    U bits = reinterpret_cast<U>(v);
    if constexpr (kShift > 0) bits <<= kShift;
    if constexpr (kShift < 0) bits >>= -kShift;
    return reinterpret_cast<I>(bits & (0x01010101U * static_cast<std::uint32_t>(kMask)));
  }
  static I merge(I a, I b) { return a | b; }
  static I flip_sign(I v) { return v ^ set1(static_cast<std::int32_t>(0x80808080U)); }
  template <class Table>
  static const std::uint8_t* table(const Table& table) {
    return table.bytes;
  }
  static I look_up(const std::uint8_t* table, I code) {
    std::uint8_t bytes[sizeof code];
    std::memcpy(bytes, &code, sizeof code);
    for (std::uint8_t& byte : bytes) byte = table[byte];
    return load(bytes);
  }

  static I four(const std::int8_t* x) { return load_pattern(x); }
  static I two(const std::int16_t* x) { return load_pattern(x); }
  static I load_pattern(const void* x) {
    std::int32_t bits;
    std::memcpy(&bits, x, sizeof bits);
    return set1(bits);
  }
  static Sum no_sum() { return I{}; }
  template <bool kSigned>
  static Sum dot(Sum sum, I weights, I x) {
    std::uint8_t w[sizeof weights];
    std::int8_t four[4];
    std::memcpy(w, &weights, sizeof w);
    std::memcpy(four, &x, sizeof four);
    for (std::size_t i = 0; i < kLanes; ++i) {
      for (std::size_t j = 0; j < 4; ++j) sum[i] += w[4 * i + j] * four[j];
    }
    return sum;
  }
  template <bool kScaled>
  static I add_sum(I products, Sum sum, Scale scale) {
    return products + (kScaled ? sum * scale : sum);
  }
  static I widen_pairs(const std::uint8_t* p) {
    std::int16_t pairs[2 * kLanes];
    for (std::size_t i = 0; i < 2 * kLanes; ++i)
      pairs[i] = static_cast<std::int16_t>((p[i] ^ 0x80) - 0x80);
    return load(pairs);
  }
  static Scale even(I pairs) { return reinterpret_cast<I>(reinterpret_cast<U>(pairs) << 16) >> 16; }
  static Scale odd(I pairs) { return pairs >> 16; }
  static I add_pairs(I sum, I pairs, I x) {
    return sum + even(pairs) * even(x) + odd(pairs) * odd(x);
  }

  static I bytes(const std::uint8_t* p, std::size_t lane) {
    return I{p[lane], p[lane + 1], p[lane + 2], p[lane + 3]};
  }

  template <ScaleForm kForm>
  static F scales(const std::uint8_t* p, std::size_t lane) {
    F out;
    for (std::size_t i = 0; i < kLanes; ++i) {
      if constexpr (kForm == ScaleForm::kHalf) {
        out[i] = read_half(p + 2 * (lane + i));
      } else if constexpr (kForm == ScaleForm::kFloat) {
        float scale;
        std::memcpy(&scale, p + 4 * (lane + i), sizeof scale);
        out[i] = scale;
      } else if constexpr (kForm == ScaleForm::kE4M3) {
        out[i] = e4m3_over_256(p[lane + i]) * 256.0F;
      } else {
        const std::uint32_t e = p[lane + i];
        out[i] = std::bit_cast<float>(e == 0 ? 0x00400000U : e << 23U);
      }
    }
    return out;
  }
};

}  // namespace
}  // namespace dovetail::kernels
