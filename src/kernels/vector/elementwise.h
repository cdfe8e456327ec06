#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/vector/functions.h"

// Included after an instruction set's vec.h, which defines Vec. Plain loops here are the same per
// element however the compiler vectorises them: they hold no reduction, and contraction is off.
namespace dovetail::kernels {
namespace {

// A sum over the vectors of n floats: step(i, count, sum) adds what the `count` floats from i on
// give, nothing in the lanes beyond.
template <class Step>
inline float sum_of(std::size_t n, const Step& step) {
  constexpr std::size_t w = Vec::kWidth;
  Vec::F sums[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
  std::size_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) {
    for (std::size_t j = 0; j < 4; ++j) sums[j] = step(i + j * w, w, sums[j]);
  }
  for (std::size_t j = 0; i < n; ++j, i += w) sums[j] = step(i, n - i < w ? n - i : w, sums[j]);
  return Vec::sum(Vec::add(Vec::add(sums[0], sums[1]), Vec::add(sums[2], sums[3])));
}

inline Vec::F load_some(const float* p, std::size_t count) {
  return count == Vec::kWidth ? Vec::load(p) : Vec::load_n(p, count);
}

inline float sum_of_squares(const float* x, std::size_t n) {
  return sum_of(n, [x](std::size_t i, std::size_t count, Vec::F sum) {
    const Vec::F v = load_some(x + i, count);
    return Vec::fma(v, v, sum);
  });
}

inline void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon,
                     float* out) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const float factor = 1.0F / __builtin_sqrtf(mean + epsilon);
  if (weight == nullptr) {
    for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * factor;
  } else {
    for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
  }
}

inline void l2_norm(const float* x, std::size_t n, float epsilon, float* out) {
  const float factor = 1.0F / __builtin_sqrtf(sum_of_squares(x, n) + epsilon);
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

inline void layer_norm(const float* x, const float* weight, const float* bias, std::size_t n,
                       float epsilon, float* out) {
  const auto count_of_all = static_cast<float>(n);
  const float mean = sum_of(n, [x](std::size_t i, std::size_t count,
                                   Vec::F sum) { return Vec::add(sum, load_some(x + i, count)); }) /
                     count_of_all;
  const Vec::F means = Vec::set1(mean);
  const float variance = sum_of(n,
                                [x, means](std::size_t i, std::size_t count, Vec::F sum) {
                                  Vec::F v = Vec::sub(load_some(x + i, count), means);
                                  if (count < Vec::kWidth) v = Vec::keep(v, 0, count, Vec::zero());
                                  return Vec::fma(v, v, sum);
                                }) /
                         count_of_all;
  const float factor = 1.0F / __builtin_sqrtf(variance + epsilon);
  for (std::size_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * factor;
  if (weight != nullptr) {
    for (std::size_t i = 0; i < n; ++i) out[i] *= weight[i];
  }
  if (bias != nullptr) {
    for (std::size_t i = 0; i < n; ++i) out[i] += bias[i];
  }
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

inline void multiply(float* x, const float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= y[i];
}

inline void scale(float* x, float factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace
}  // namespace dovetail::kernels
