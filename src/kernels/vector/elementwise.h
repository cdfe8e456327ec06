#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/vector/functions.h"

// Included after an instruction set's vec.h, which defines Vec. Plain loops here are the same per
// element however the compiler vectorises them: they hold no reduction, and contraction is off.
namespace dovetail::kernels {
namespace {

inline void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon,
                     float* out) {
  constexpr std::size_t w = Vec::kWidth;
  Vec::F sums[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  std::size_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    for (std::size_t j = 0; j < 4; ++j) {
      const Vec::F v = Vec::load(x + i + j * w);
      sums[j] = Vec::fma(v, v, sums[j]);
    }
  }
  for (std::size_t j = 0; i < n; ++j, i += w) {
    const Vec::F v = Vec::load_n(x + i, n - i < w ? n - i : w);
    sums[j] = Vec::fma(v, v, sums[j]);
  }
  const float sum = Vec::sum(Vec::add(Vec::add(sums[0], sums[1]), Vec::add(sums[2], sums[3])));
  const float scale = 1.0F / __builtin_sqrtf(sum / static_cast<float>(n) + epsilon);
  for (i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

inline void rope(float* head, const float* cos, const float* sin, std::size_t head_dim,
                 bool interleaved) {
  const std::size_t half = head_dim / 2;
  const std::size_t step = interleaved ? 2 : 1;
  const std::size_t partner = interleaved ? 1 : half;
  for (std::size_t i = 0; i < half; ++i) {
    float& a = head[i * step];
    float& b = head[i * step + partner];
    const float x = a;
    const float y = b;
    a = x * cos[i] - y * sin[i];
    b = x * sin[i] + y * cos[i];
  }
}

inline void silu_mul(const float* gate, const float* up, std::size_t n, float* out) {
  constexpr std::size_t w = Vec::kWidth;
  for (std::size_t i = 0; i < n; i += w) {
    const std::size_t count = n - i < w ? n - i : w;
    const Vec::F g = Vec::load_n(gate + i, count);
    const Vec::F u = Vec::load_n(up + i, count);
    const Vec::F e = vec_exp(Vec::sub(Vec::zero(), g));
    const Vec::F s = Vec::div(g, Vec::add(Vec::set1(1.0F), e));
    Vec::store_n(out + i, Vec::mul(s, u), count);
  }
}

template <Vec::F (*function)(Vec::F)>
inline void apply_each(const float* x, std::size_t n, float* out) {
  constexpr std::size_t w = Vec::kWidth;
  for (std::size_t i = 0; i < n; i += w) {
    const std::size_t count = n - i < w ? n - i : w;
    Vec::store_n(out + i, function(Vec::load_n(x + i, count)), count);
  }
}

inline void apply(Function function, const float* x, std::size_t n, float* out) {
  switch (function) {
    case Function::kExp:
      return apply_each<vec_exp>(x, n, out);
    case Function::kSigmoid:
      return apply_each<vec_sigmoid>(x, n, out);
    case Function::kTanh:
      return apply_each<vec_tanh>(x, n, out);
    case Function::kErf:
      return apply_each<vec_erf>(x, n, out);
    case Function::kSoftplus:
      return apply_each<vec_softplus>(x, n, out);
  }
}

inline void add(float* x, const float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += y[i];
}

inline void add_scaled(float* x, const float* y, float factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += y[i] * factor;
}

}  // namespace
}  // namespace dovetail::kernels
