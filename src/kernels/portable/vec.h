#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/portable/half.h"
#include "kernels/vector/twice.h"

// The vector of the portable path: sixteen floats, four at a time in the compilers' own vector
// extension, which every 64-bit target has registers for. README.md tells the interface.
namespace dovetail::kernels {
namespace {

struct Vec4 {
  using F = float __attribute__((vector_size(16)));
  using I = std::int32_t __attribute__((vector_size(16)));
  using U = std::uint32_t __attribute__((vector_size(16)));
  static constexpr std::size_t kWidth = 4;

  static F set1(float x) { return F{x, x, x, x}; }
  static F zero() { return F{}; }
  static F load(const void* p) {
    F v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static F load_n(const void* p, std::size_t n) {
    float lanes[kWidth] = {};
    std::memcpy(lanes, p, n * sizeof(float));
    return load(lanes);
  }
  static void store(float* p, F v) { std::memcpy(p, &v, sizeof v); }
  static void store_n(float* p, F v, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) p[i] = v[i];
  }
  static F load_f16(const std::byte* p) { return load_f16_n(p, kWidth); }
  static F load_f16_n(const std::byte* p, std::size_t n) {
    F v{};
    for (std::size_t i = 0; i < n; ++i) v[i] = read_half(p + 2 * i);
    return v;
  }
  static F load_bf16(const std::byte* p) { return load_bf16_n(p, kWidth); }
  static F load_bf16_n(const std::byte* p, std::size_t n) {
    F v{};
    for (std::size_t i = 0; i < n; ++i) v[i] = bfloat_to_float(read_u16(p + 2 * i));
    return v;
  }
  static F load_e4m3(const std::byte* p) {
    F v{};
    for (std::size_t i = 0; i < kWidth; ++i) {
      v[i] = e4m3_over_256(std::to_integer<std::uint32_t>(p[i]));
    }
    return v;
  }
  // Signed bytes.
  static F load_i8(const std::byte* p) {
    F v;
    for (std::size_t i = 0; i < kWidth; ++i)
      v[i] = static_cast<float>(static_cast<std::int8_t>(p[i]));
    return v;
  }
  static void store_f16_n(std::byte* p, F v, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint16_t half = float_to_half(v[i]);
      std::memcpy(p + 2 * i, &half, sizeof half);
    }
  }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F div(F a, F b) { return a / b; }
  static F fma(F a, F b, F c) {
    F v;
    for (std::size_t i = 0; i < kWidth; ++i) v[i] = fused(a[i], b[i], c[i]);
    return v;
  }
  // The larger and the smaller; b where one is not a number, or where both are zeros.
  static F max(F a, F b) { return a > b ? a : b; }
  static F min(F a, F b) { return a < b ? a : b; }
  static F abs(F v) { return std::bit_cast<F>(std::bit_cast<U>(v) & 0x7fffffffU); }
  static F copy_sign(F v, F sign) {
    return std::bit_cast<F>((std::bit_cast<U>(v) & 0x7fffffffU) |
                            (std::bit_cast<U>(sign) & 0x80000000U));
  }
  // a < b ? x : y
  static F less(F a, F b, F x, F y) { return a < b ? x : y; }
  static float sum(F v) { return (v[0] + v[2]) + (v[1] + v[3]); }
  template <std::size_t N>
  static void sums(const F (&v)[N], float* out) {
    for (std::size_t i = 0; i < N; ++i) out[i] = sum(v[i]);
  }
  static float max_of(F v) {
    const float a = v[0] > v[2] ? v[0] : v[2];
    const float b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
  }
  // Lanes [begin, end) of v, the rest from `other`.
  static F keep(F v, std::size_t begin, std::size_t end, F other) {
    for (std::size_t i = 0; i < kWidth; ++i) v[i] = i >= begin && i < end ? v[i] : other[i];
    return v;
  }
  // v * 2^n for whole n in [-200, 200], in two steps of which the first is exact for |v| from 1/2
  // to 2. NaN if v is.
  static F scale_by_power(F v, F n) {
    // The sum has the whole number in its low bits.
    const I whole = std::bit_cast<I>(n + 0x1.8p23F) - 0x4b400000;
    const I half = whole >> 1;
    const auto power = [](I e) { return std::bit_cast<F>(std::bit_cast<U>(e + 127) << 23); };
    return v * power(half) * power(whole - half);
  }
  // Nearest whole number for |v| < 2^22, ties to even: the sum has no room for a fraction. Zero
  // keeps the sign.
  static F round(F v) { return copy_sign((v + 0x1.8p23F) - 0x1.8p23F, v); }
};

struct Vec : Twice<Twice<Vec4>> {
  // Rows of activations and of weights in a register tile; query-head pairs in one of attention,
  // and its accumulators.
  static constexpr std::size_t kTileM = 2, kTileN = 2, kTileSingle = 4;
  static constexpr std::size_t kPairs = 2, kPairSums = 2;
  // Tiles of activations from which FP8 weights are made floats once, not by each tile.
  static constexpr std::size_t kMakeE4M3From = 2;
};

}  // namespace
}  // namespace dovetail::kernels
