#pragma once

#include <cstddef>

namespace dovetail::kernels {
namespace {

// A vector of two halves of another kind, for an instruction set whose registers are narrower than
// sixteen floats. README.md tells the interface. Whatever runs over all lanes takes lane i and lane
// i + kWidth / 2 first, and then goes as in a half: so two registers of eight floats, four of four
// and one of sixteen follow the same tree.
template <class Half>
struct Twice {
  struct F {
    typename Half::F low, high;
  };
  // What is loaded and multiplied at a time where the order of lanes among each other is free.
  using Part = Half;
  static constexpr std::size_t kParts = 2;
  template <std::size_t I>
  static typename Half::F& part(F& v) {
    if constexpr (I == 0)
      return v.low;
    else
      return v.high;
  }

  static constexpr std::size_t kHalf = Half::kWidth;
  static constexpr std::size_t kWidth = 2 * kHalf;

  // Of the first n lanes (or the lanes up to n), those of either half.
  static constexpr std::size_t in_low(std::size_t n) { return n < kHalf ? n : kHalf; }
  static constexpr std::size_t in_high(std::size_t n) { return n < kHalf ? 0 : n - kHalf; }
  static const std::byte* high_of(const void* p) {
    return static_cast<const std::byte*>(p) + kHalf * sizeof(float);
  }

  static F set1(float x) { return {Half::set1(x), Half::set1(x)}; }
  static F zero() { return {Half::zero(), Half::zero()}; }
  static F load(const void* p) { return {Half::load(p), Half::load(high_of(p))}; }
  static F load_n(const void* p, std::size_t n) {
    return {Half::load_n(p, in_low(n)), Half::load_n(high_of(p), in_high(n))};
  }
  static F hold(F v) { return v; }
  static void store(float* p, F v) {
    Half::store(p, v.low);
    Half::store(p + kHalf, v.high);
  }
  static void store_n(float* p, F v, std::size_t n) {
    Half::store_n(p, v.low, in_low(n));
    Half::store_n(p + kHalf, v.high, in_high(n));
  }
  static F load_f16(const std::byte* p) {
    return {Half::load_f16(p), Half::load_f16(p + 2 * kHalf)};
  }
  static F load_e4m3(const std::byte* p) {
    return {Half::load_e4m3(p), Half::load_e4m3(p + kHalf)};
  }
  static F load_f16_n(const std::byte* p, std::size_t n) {
    return {Half::load_f16_n(p, in_low(n)), Half::load_f16_n(p + 2 * kHalf, in_high(n))};
  }
  static F load_bf16(const std::byte* p) {
    return {Half::load_bf16(p), Half::load_bf16(p + 2 * kHalf)};
  }
  static F load_bf16_n(const std::byte* p, std::size_t n) {
    return {Half::load_bf16_n(p, in_low(n)), Half::load_bf16_n(p + 2 * kHalf, in_high(n))};
  }
  static F load_i8(const std::byte* p) { return {Half::load_i8(p), Half::load_i8(p + kHalf)}; }
  static void store_f16_n(std::byte* p, F v, std::size_t n) {
    Half::store_f16_n(p, v.low, in_low(n));
    Half::store_f16_n(p + 2 * kHalf, v.high, in_high(n));
  }
  static F add(F a, F b) { return {Half::add(a.low, b.low), Half::add(a.high, b.high)}; }
  static F sub(F a, F b) { return {Half::sub(a.low, b.low), Half::sub(a.high, b.high)}; }
  static F mul(F a, F b) { return {Half::mul(a.low, b.low), Half::mul(a.high, b.high)}; }
  static F div(F a, F b) { return {Half::div(a.low, b.low), Half::div(a.high, b.high)}; }
  static F fma(F a, F b, F c) {
    return {Half::fma(a.low, b.low, c.low), Half::fma(a.high, b.high, c.high)};
  }
  static F max(F a, F b) { return {Half::max(a.low, b.low), Half::max(a.high, b.high)}; }
  static F min(F a, F b) { return {Half::min(a.low, b.low), Half::min(a.high, b.high)}; }
  static F abs(F v) { return {Half::abs(v.low), Half::abs(v.high)}; }
  static F copy_sign(F v, F sign) {
    return {Half::copy_sign(v.low, sign.low), Half::copy_sign(v.high, sign.high)};
  }
  static F less(F a, F b, F x, F y) {
    return {Half::less(a.low, b.low, x.low, y.low), Half::less(a.high, b.high, x.high, y.high)};
  }
  static float sum(F v) { return Half::sum(Half::add(v.low, v.high)); }
  template <std::size_t N>
  static void sums(const F (&v)[N], float* out) {
    typename Half::F halves[N];
    for (std::size_t i = 0; i < N; ++i) halves[i] = Half::add(v[i].low, v[i].high);
    Half::sums(halves, out);
  }
  static float max_of(F v) { return Half::max_of(Half::max(v.low, v.high)); }
  static F keep(F v, std::size_t begin, std::size_t end, F other) {
    return {Half::keep(v.low, in_low(begin), in_low(end), other.low),
            Half::keep(v.high, in_high(begin), in_high(end), other.high)};
  }
  static F round(F v) { return {Half::round(v.low), Half::round(v.high)}; }
  static F scale_by_power(F v, F n) {
    return {Half::scale_by_power(v.low, n.low), Half::scale_by_power(v.high, n.high)};
  }
};

}  // namespace
}  // namespace dovetail::kernels
