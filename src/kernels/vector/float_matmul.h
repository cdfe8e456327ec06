#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/kernels.h"

// Included after an instruction set's vec.h, which defines Vec.
namespace dovetail::kernels {
namespace {

// How a row of weights meets a row of activations: kStep elements at a time, one accumulator. The
// tail of a row is zero-filled, so that it goes the same way.
struct WeightF32 {
  using Operand = Vec::F;
  static constexpr std::size_t kStep = Vec::kWidth, kWeightBytes = 4, kActivationBytes = 4;
  static Operand weight(const std::byte* p) { return Vec::load(p); }
  static Operand weight_n(const std::byte* p, std::size_t n) { return Vec::load_n(p, n); }
  static Operand activation(const std::byte* p) { return weight(p); }
  static Operand activation_n(const std::byte* p, std::size_t n) { return weight_n(p, n); }
  static Vec::F multiply_add(Operand a, Operand b, Vec::F c) { return Vec::fma(a, b, c); }
};

struct WeightF16 : WeightF32 {
  static constexpr std::size_t kWeightBytes = 2;
  static Operand weight(const std::byte* p) { return Vec::load_f16(p); }
  static Operand weight_n(const std::byte* p, std::size_t n) { return Vec::load_f16_n(p, n); }
  static Operand activation(const std::byte* p) { return WeightF32::weight(p); }
  static Operand activation_n(const std::byte* p, std::size_t n) {
    return WeightF32::weight_n(p, n);
  }
};

struct WeightBF16 : WeightF16 {
  static Operand weight(const std::byte* p) { return Vec::load_bf16(p); }
  static Operand weight_n(const std::byte* p, std::size_t n) { return Vec::load_bf16_n(p, n); }
};

// M x N outputs from (m, n) on. Each has its own accumulator, which walks k in one order.
template <class W, std::size_t M, std::size_t N>
inline void float_tile(const MatmulArgs& a, std::size_t m, std::size_t n) {
  const std::size_t weight_stride = a.k * W::kWeightBytes;
  const std::byte* weights = a.weights + n * weight_stride;
  const std::byte* activations = a.activations + m * a.activation_stride;
  Vec::F sums[M][N];
  for (std::size_t i = 0; i < M; ++i) {
    for (std::size_t j = 0; j < N; ++j) sums[i][j] = Vec::zero();
  }
  std::size_t k = 0;
  for (; k + W::kStep <= a.k; k += W::kStep) {
    typename W::Operand x[M];
    for (std::size_t i = 0; i < M; ++i) {
      x[i] = W::activation(activations + i * a.activation_stride + k * W::kActivationBytes);
    }
    for (std::size_t j = 0; j < N; ++j) {
      const auto w = W::weight(weights + j * weight_stride + k * W::kWeightBytes);
      for (std::size_t i = 0; i < M; ++i) sums[i][j] = W::multiply_add(x[i], w, sums[i][j]);
    }
  }
  if (k < a.k) {
// Unrolled, or the sums would be kept in memory even where there is no tail.
#pragma GCC unroll 8
    for (std::size_t j = 0; j < N; ++j) {
      const auto w = W::weight_n(weights + j * weight_stride + k * W::kWeightBytes, a.k - k);
      for (std::size_t i = 0; i < M; ++i) {
        const auto x = W::activation_n(
            activations + i * a.activation_stride + k * W::kActivationBytes, a.k - k);
        sums[i][j] = W::multiply_add(x, w, sums[i][j]);
      }
    }
  }
  for (std::size_t i = 0; i < M; ++i) {
    float* output = a.output + (m + i) * a.output_stride + n;
    if constexpr (N == 1)
      *output = Vec::sum(sums[i][0]);
    else
      Vec::sums(sums[i], output);
  }
}

template <class W, std::size_t M, std::size_t N>
inline void float_columns(const MatmulArgs& a, std::size_t m, std::size_t begin, std::size_t end) {
  std::size_t n = begin;
  for (; n + N <= end; n += N) float_tile<W, M, N>(a, m, n);
  for (; n < end; ++n) float_tile<W, M, 1>(a, m, n);
}

template <class W, std::size_t M>
inline void float_rest(const MatmulArgs& a, std::size_t m, std::size_t begin, std::size_t end) {
  if constexpr (M > 1) {
    if (a.m - m == M) return float_columns<W, M, Vec::kTileN>(a, m, begin, end);
    float_rest<W, M - 1>(a, m, begin, end);
  } else {
    float_columns<W, 1, Vec::kTileSingle>(a, m, begin, end);
  }
}

// A block of weight rows that the second-level cache holds while all activations pass it.
template <class W>
inline void float_matmul(const MatmulArgs& a) {
  constexpr std::size_t kBlockBytes = 256 * 1024;
  const std::size_t row = a.k * W::kWeightBytes;
  std::size_t block = kBlockBytes / (row > 0 ? row : 1) / Vec::kTileN * Vec::kTileN;
  if (block == 0) block = Vec::kTileN;
  for (std::size_t n = a.n_begin; n < a.n_end; n += block) {
    const std::size_t end = a.n_end - n < block ? a.n_end : n + block;
    std::size_t m = 0;
    for (; m + Vec::kTileM <= a.m; m += Vec::kTileM) {
      float_columns<W, Vec::kTileM, Vec::kTileN>(a, m, n, end);
    }
    if (m < a.m) float_rest<W, Vec::kTileM - 1>(a, m, n, end);
  }
}

// Activations of F32, F16 and widened BF16 weights: the floats themselves.
inline std::size_t float_activation_bytes(std::size_t k) { return (k * 4 + 63) / 64 * 64; }

inline void float_prepare(const float* x, std::size_t k, std::byte* out) {
  std::memcpy(out, x, k * sizeof(float));
}

}  // namespace
}  // namespace dovetail::kernels
