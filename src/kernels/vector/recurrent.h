#pragma once

#include <cstddef>

#include "kernels/kernels.h"

// Included after an instruction set's vec.h, which defines Vec. Layers whose state has one size.
namespace dovetail::kernels {
namespace {

// A vector of columns among V of them; where that is the only one it may have fewer.
template <std::size_t V>
inline Vec::F load_columns(const float* p, std::size_t count) {
  if constexpr (V == 1) {
    if (count < Vec::kWidth) return Vec::load_n(p, count);
  }
  return Vec::load(p);
}

template <std::size_t V>
inline void store_columns(float* p, Vec::F v, std::size_t count) {
  if constexpr (V == 1) {
    if (count < Vec::kWidth) return Vec::store_n(p, v, count);
  }
  Vec::store(p, v);
}

// V vectors of columns from c on; if V is 1, the first `count` of them. The state is read twice and
// written once: the decayed one is computed again rather than stored.
template <std::size_t V>
inline void delta_rule_columns(const DeltaRuleArgs& a, std::size_t c, std::size_t count) {
  constexpr std::size_t w = Vec::kWidth;
  const auto load = [=](const float* p) { return load_columns<V>(p, count); };
  const auto store = [=](float* p, Vec::F v) { store_columns<V>(p, v, count); };
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

// The columns from c on, as many at a time as V vectors have, then half of that, and so on.
template <std::size_t V>
inline void delta_rule_from(const DeltaRuleArgs& a, std::size_t c) {
  constexpr std::size_t kColumns = V * Vec::kWidth;
  for (; c + kColumns <= a.value_dim; c += kColumns) delta_rule_columns<V>(a, c, kColumns);
  if (c == a.value_dim) return;
  if constexpr (V > 1)
    delta_rule_from<V / 2>(a, c);
  else
    delta_rule_columns<1>(a, c, a.value_dim - c);
}

inline void delta_rule(const DeltaRuleArgs& a) {
  delta_rule_from<(Vec::kPairSums < 8 ? Vec::kPairSums : 8)>(a, 0);
}

// V vectors of columns from c on; if V is 1, the first `count` of them.
template <std::size_t V>
inline void state_space_columns(const StateSpaceArgs& a, std::size_t c, std::size_t count) {
  constexpr std::size_t w = Vec::kWidth;
  const Vec::F decay = Vec::set1(a.decay);
  const Vec::F step = Vec::set1(a.step);
  Vec::F written[V], sums[V];
  for (std::size_t v = 0; v < V; ++v) {
    written[v] = Vec::mul(load_columns<V>(a.input + c + v * w, count), step);
    sums[v] = Vec::zero();
  }
  for (std::size_t i = 0; i < a.state_dim; ++i) {
    float* row = a.state + i * a.head_dim + c;
    const Vec::F write = Vec::set1(a.write[i]);
    const Vec::F read = Vec::set1(a.read[i]);
    for (std::size_t v = 0; v < V; ++v) {
      const Vec::F before = load_columns<V>(row + v * w, count);
      const Vec::F s = Vec::fma(write, written[v], Vec::mul(before, decay));
      store_columns<V>(row + v * w, s, count);
      sums[v] = Vec::fma(s, read, sums[v]);
    }
  }
  const Vec::F skip = Vec::set1(a.skip);
  for (std::size_t v = 0; v < V; ++v) {
    const Vec::F input = load_columns<V>(a.input + c + v * w, count);
    store_columns<V>(a.output + c + v * w, Vec::fma(input, skip, sums[v]), count);
  }
}

// As delta_rule_from().
template <std::size_t V>
inline void state_space_from(const StateSpaceArgs& a, std::size_t c) {
  constexpr std::size_t kColumns = V * Vec::kWidth;
  for (; c + kColumns <= a.head_dim; c += kColumns) state_space_columns<V>(a, c, kColumns);
  if (c == a.head_dim) return;
  if constexpr (V > 1)
    state_space_from<V / 2>(a, c);
  else
    state_space_columns<1>(a, c, a.head_dim - c);
}

inline void state_space(const StateSpaceArgs& a) {
  state_space_from<(Vec::kPairSums < 8 ? Vec::kPairSums : 8)>(a, 0);
}

inline void short_conv(const ShortConvArgs& a) {
  constexpr std::size_t w = Vec::kWidth;
  for (std::size_t c = 0; c < a.channels; c += w) {
    const std::size_t count = a.channels - c < w ? a.channels - c : w;
    const auto load = [count, c](const float* p) {
      return count == w ? Vec::load(p + c) : Vec::load_n(p + c, count);
    };
    Vec::F sum = Vec::zero();
    for (std::size_t j = 0; j < a.width; ++j) {
      const float* row = a.rows[j];
      const Vec::F x = row == nullptr ? Vec::zero() : load(row);
      sum = Vec::fma(x, load(a.weights + j * a.channels), sum);
    }
    if (a.bias != nullptr) sum = Vec::add(sum, load(a.bias));
    Vec::store_n(a.output + c, sum, count);
  }
}

}  // namespace
}  // namespace dovetail::kernels
