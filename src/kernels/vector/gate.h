#pragma once

#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/vector/functions.h"

// Included after an instruction set's vec.h, which defines Vec.
namespace dovetail::kernels {
namespace {

// x / (1 + e^-y). Of a negative x with a large y it is small, with few digits lost: the same
// function by way of 1 + tanh() would cancel there.
inline Vec::F over_one_and_exp(Vec::F x, Vec::F y) {
  return Vec::div(x, Vec::add(Vec::set1(1.0F), vec_exp(Vec::sub(Vec::zero(), y))));
}

inline Vec::F vec_silu(Vec::F x) { return over_one_and_exp(x, x); }

// (1 + tanh(y)) / 2 = 1 / (1 + e^(-2 y)).
inline Vec::F vec_gelu_tanh(Vec::F x) {
  constexpr float kTwice = 0x1.988454p+0F;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715F;
  const Vec::F square = Vec::mul(x, x);
  const Vec::F factor = Vec::fma(square, Vec::set1(kCubic * kTwice), Vec::set1(kTwice));
  return over_one_and_exp(x, Vec::mul(x, factor));
}

inline Vec::F vec_gelu(Vec::F x) {
  constexpr float kRootOfHalf = 0x1.6a09e6p-1F;
  const Vec::F one_and_erf =
      Vec::add(Vec::set1(1.0F), vec_erf(Vec::mul(x, Vec::set1(kRootOfHalf))));
  return Vec::mul(Vec::mul(x, Vec::set1(0.5F)), one_and_erf);
}

// max and min give their second operand where one is NaN: so it stays.
inline Vec::F vec_relu2(Vec::F x) {
  const Vec::F v = Vec::max(Vec::zero(), x);
  return Vec::mul(v, v);
}

inline constexpr float kSwigluLimit = 7.0F;

inline Vec::F vec_clamped_silu(Vec::F x) {
  const Vec::F g = Vec::min(Vec::set1(kSwigluLimit), x);
  return over_one_and_exp(g, Vec::mul(g, Vec::set1(1.702F)));
}

inline Vec::F one_and_clamped(Vec::F x) {
  const Vec::F u = Vec::max(Vec::set1(-kSwigluLimit), Vec::min(Vec::set1(kSwigluLimit), x));
  return Vec::add(u, Vec::set1(1.0F));
}

inline Vec::F as_it_is(Vec::F x) { return x; }

template <Vec::F (*activate)(Vec::F), Vec::F (*factor)(Vec::F) = as_it_is>
inline void gate_each(const float* gate, const float* up, std::size_t n, float* out) {
  constexpr std::size_t w = Vec::kWidth;
  if (up == nullptr) {
    for (std::size_t i = 0; i < n; i += w) {
      const std::size_t count = n - i < w ? n - i : w;
      Vec::store_n(out + i, activate(Vec::load_n(gate + i, count)), count);
    }
    return;
  }
  for (std::size_t i = 0; i < n; i += w) {
    const std::size_t count = n - i < w ? n - i : w;
    const Vec::F g = Vec::load_n(gate + i, count);
    const Vec::F u = Vec::load_n(up + i, count);
    Vec::store_n(out + i, Vec::mul(activate(g), factor(u)), count);
  }
}

inline void gate(Activation activation, const float* gate, const float* up, std::size_t n,
                 float* out) {
  switch (activation) {
    case Activation::kSilu:
      return gate_each<vec_silu>(gate, up, n, out);
    case Activation::kGeluTanh:
      return gate_each<vec_gelu_tanh>(gate, up, n, out);
    case Activation::kGelu:
      return gate_each<vec_gelu>(gate, up, n, out);
    case Activation::kRelu2:
      return gate_each<vec_relu2>(gate, up, n, out);
    case Activation::kClampedSwiglu:
      return gate_each<vec_clamped_silu, one_and_clamped>(gate, up, n, out);
  }
}

// e^x - 1 - x for x up to zero: Taylor's terms up to x^11 as far as -1, where the difference would
// cancel, and the next one is under 2^-28.
inline Vec::F exp_above_line(Vec::F x) {
  Vec::F p = Vec::set1(1.0F / 39916800);
  p = Vec::fma(p, x, Vec::set1(1.0F / 3628800));
  p = Vec::fma(p, x, Vec::set1(1.0F / 362880));
  p = Vec::fma(p, x, Vec::set1(1.0F / 40320));
  p = Vec::fma(p, x, Vec::set1(1.0F / 5040));
  p = Vec::fma(p, x, Vec::set1(1.0F / 720));
  p = Vec::fma(p, x, Vec::set1(1.0F / 120));
  p = Vec::fma(p, x, Vec::set1(1.0F / 24));
  p = Vec::fma(p, x, Vec::set1(1.0F / 6));
  p = Vec::fma(p, x, Vec::set1(0.5F));
  const Vec::F near = Vec::mul(p, Vec::mul(x, x));
  const Vec::F far = Vec::sub(vec_exp(x), Vec::add(x, Vec::set1(1.0F)));
  return Vec::less(Vec::set1(-1.0F), x, near, far);
}

inline void xielu(const Xielu& curve, const float* x, std::size_t n, float* out) {
  const Vec::F positive = Vec::set1(curve.positive), negative = Vec::set1(curve.negative);
  const Vec::F linear = Vec::set1(curve.linear), edge = Vec::set1(curve.edge);
  constexpr std::size_t w = Vec::kWidth;
  for (std::size_t i = 0; i < n; i += w) {
    const std::size_t count = n - i < w ? n - i : w;
    const Vec::F v = Vec::load_n(x + i, count);
    const Vec::F above = Vec::mul(Vec::fma(positive, v, linear), v);
    // min gives its second operand where one is NaN: so it stays.
    const Vec::F m = Vec::min(edge, v);
    const Vec::F bent = Vec::add(exp_above_line(m), Vec::sub(m, v));
    const Vec::F below = Vec::fma(bent, negative, Vec::mul(linear, v));
    Vec::store_n(out + i, Vec::less(Vec::zero(), v, above, below), count);
  }
}

}  // namespace
}  // namespace dovetail::kernels
