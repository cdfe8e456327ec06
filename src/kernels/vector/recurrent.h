#pragma once

#include <cstddef>

#include "kernels/kernels.h"

// Included after an instruction set's vec.h, which defines Vec. Layers whose state has one size.
namespace dovetail::kernels {
namespace {

// V vectors of columns from c on; if V is 1, the first `count` of them. The state is read twice and
// written once: the decayed one is computed again rather than stored.
template <std::size_t V>
inline void delta_rule_columns(const DeltaRuleArgs& a, std::size_t c, std::size_t count) {
  constexpr std::size_t w = Vec::kWidth;
  const auto load = [count](const float* p) {
    return V == 1 && count < w ? Vec::load_n(p, count) : Vec::load(p);
  };
  const auto store = [count](float* p, Vec::F v) {
    V == 1 && count < w ? Vec::store_n(p, v, count) : Vec::store(p, v);
  };
  const Vec::F decay = Vec::set1(a.decay);
  Vec::F sums[V];
  for (std::size_t v = 0; v < V; ++v) sums[v] = Vec::zero();
  for (std::size_t i = 0; i < a.key_dim; ++i) {
    const float* row = a.state + i * a.value_dim + c;
    const Vec::F key = Vec::set1(a.key[i]);
    for (std::size_t v = 0; v < V; ++v)
      sums[v] = Vec::fma(Vec::mul(load(row + v * w), decay), key, sums[v]);
  }
  const Vec::F beta = Vec::set1(a.beta);
  Vec::F change[V];
  for (std::size_t v = 0; v < V; ++v) {
    change[v] = Vec::mul(Vec::sub(load(a.value + c + v * w), sums[v]), beta);
    sums[v] = Vec::zero();
  }
  for (std::size_t i = 0; i < a.key_dim; ++i) {
    float* row = a.state + i * a.value_dim + c;
    const Vec::F key = Vec::set1(a.key[i]);
    const Vec::F query = Vec::set1(a.query[i]);
    for (std::size_t v = 0; v < V; ++v) {
      const Vec::F s = Vec::fma(key, change[v], Vec::mul(load(row + v * w), decay));
      store(row + v * w, s);
      sums[v] = Vec::fma(s, query, sums[v]);
    }
  }
  for (std::size_t v = 0; v < V; ++v) store(a.output + c + v * w, sums[v]);
}

inline void delta_rule(const DeltaRuleArgs& a) {
  constexpr std::size_t w = Vec::kWidth;
  constexpr std::size_t kColumns = Vec::kPairSums < 8 ? Vec::kPairSums : 8;
  std::size_t c = 0;
  for (; c + kColumns * w <= a.value_dim; c += kColumns * w)
    delta_rule_columns<kColumns>(a, c, kColumns * w);
  for (; c < a.value_dim; c += w)
    delta_rule_columns<1>(a, c, a.value_dim - c < w ? a.value_dim - c : w);
}

inline void short_conv(const ShortConvArgs& a) {
  constexpr std::size_t w = Vec::kWidth;
  for (std::size_t c = 0; c < a.channels; c += w) {
    const std::size_t count = a.channels - c < w ? a.channels - c : w;
    Vec::F sum = Vec::zero();
    for (std::size_t j = 0; j < a.width; ++j) {
      const float* row = a.rows[j];
      const Vec::F x = row == nullptr ? Vec::zero() : Vec::load_n(row + c, count);
      sum = Vec::fma(x, Vec::load_n(a.weights + j * a.channels + c, count), sum);
    }
    if (a.bias != nullptr) sum = Vec::add(sum, Vec::load_n(a.bias + c, count));
    Vec::store_n(a.output + c, sum, count);
  }
}

}  // namespace
}  // namespace dovetail::kernels
