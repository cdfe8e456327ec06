#pragma once

#include <cstddef>
#include <cstring>
#include <new>

#include "kernels/kernels.h"
#include "kernels/types/plain.h"

// Included after an instruction set's vec.h, which defines Vec.
namespace dovetail::kernels {
namespace {

// How a row of weights meets a row of activations: kStep elements at a time, one accumulator. A
// step goes part by part of the vector, so that a tile fills the registers of a narrow instruction
// set as it does those of a wide one. The tail of a row is zero-filled, so that it goes the same
// way.
struct WeightF32 {
  using Part = Vec::Part;
  using Operand = Part::F;
  static constexpr std::size_t kStep = Vec::kWidth, kWeightBytes = 4, kActivationBytes = 4;
  // Elements that share a scale, which is stored before them; 0: there is none.
  static constexpr std::size_t kBlock = 0;
  static Operand weight(const std::byte* p) { return Part::load(p); }
  static Operand weight_n(const std::byte* p, std::size_t n) { return Part::load_n(p, n); }
  static Operand activation(const std::byte* p) { return weight(p); }
  static Operand activation_n(const std::byte* p, std::size_t n) { return weight_n(p, n); }
  static Operand hold(Operand x) { return Part::hold(x); }
  static Part::F multiply_add(Operand a, Operand b, Part::F c) { return Part::fma(a, b, c); }
};

struct WeightF16 : WeightF32 {
  static constexpr std::size_t kWeightBytes = 2;
  // Tiles over the same weights for which floats are made once.
  static constexpr std::size_t kExpandFrom = 16;
  static Operand weight(const std::byte* p) { return Part::load_f16(p); }
  static Operand weight_n(const std::byte* p, std::size_t n) { return Part::load_f16_n(p, n); }
  static Operand activation(const std::byte* p) { return WeightF32::weight(p); }
  static Operand activation_n(const std::byte* p, std::size_t n) {
    return WeightF32::weight_n(p, n);
  }
};

struct WeightBF16 : WeightF16 {
  static Operand weight(const std::byte* p) { return Part::load_bf16(p); }
  static Operand weight_n(const std::byte* p, std::size_t n) { return Part::load_bf16_n(p, n); }
};

struct WeightE4M3 : WeightF32 {
  static constexpr std::size_t kWeightBytes = 1, kBlock = FP8_E4M3::kElements;
  static constexpr std::size_t kExpandFrom = Vec::kMakeE4M3From;
  static Operand weight(const std::byte* p) { return Part::load_e4m3(p); }  // over 2^8
};

template <class W>
constexpr std::size_t float_row_bytes(std::size_t k) {
  if constexpr (W::kBlock > 0) return k / W::kBlock * (sizeof(float) + W::kBlock * W::kWeightBytes);
  return k * W::kWeightBytes;
}

// The rows of weights that the memory is asked for while others are multiplied, little by little:
// the CPU's own prefetchers stop at the ends of pages, and who waits for the memory first and
// multiplies afterwards takes the sum of both times. Each of `passes` tiles over the same weights,
// of which this is number `pass`, asks for its part of each row.
struct Ahead {
  std::size_t distance = 0;  // bytes from a row to the one that is asked for; 0: none is
  std::size_t pass = 0, passes = 1;
};

// What a tile of more than one row of activations asks for: of each of its rows the line of `next`,
// which moves on with every step. The same line often, where passes are many: that costs less than
// to count.
struct Requests {
  const std::byte* next = nullptr;
  std::size_t step = 0;  // bytes; 0: nothing
  template <std::size_t N>
  void ask(std::size_t row_bytes) {
    if (step == 0) return;
#pragma GCC unroll 8
    for (std::size_t j = 0; j < N; ++j) __builtin_prefetch(next + j * row_bytes, 0, 2);
    next += step;
  }
};

// What a tile of one row of activations asks for, which waits for nothing but the memory: the rows
// behind its own, line by line as they lie.
template <std::size_t kBytes>
struct RequestsInOrder {
  const std::byte* next;
  template <std::size_t N>
  void ask(std::size_t) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kBytes; i += 64) __builtin_prefetch(next + i, 0, 2);
    next += kBytes;
  }
};

// `row`: the tile's first; from its byte `begin` on.
template <class W, std::size_t M, std::size_t N>
inline auto float_requests(const Ahead& ahead, const std::byte* row, std::size_t row_bytes,
                           std::size_t begin) {
  constexpr std::size_t kStep = W::kStep * W::kWeightBytes;
  if constexpr (M == 1) {
    return RequestsInOrder<N * kStep>{row + N * (row_bytes + begin)};
  } else {
    if (ahead.distance == 0) return Requests{};
    return Requests{row + ahead.distance + (ahead.pass * row_bytes + begin) / ahead.passes,
                    kStep / ahead.passes};
  }
}

// Part I of a step of M x N accumulators: `n` elements, or all if kTail is false. `scales`: of the
// N rows of weights, where W has blocks.
template <class W, std::size_t I, bool kTail, std::size_t M, std::size_t N>
inline void float_part(const std::byte* activations, std::size_t activation_stride,
                       const std::byte* weights, std::size_t weight_stride, std::size_t n,
                       [[maybe_unused]] const Vec::Part::F* scales, Vec::Part::F (&sums)[M][N]) {
  constexpr std::size_t kWhole = W::kStep / Vec::kParts;
  constexpr std::size_t kFirst = I * kWhole;
  activations += kFirst * W::kActivationBytes;
  weights += kFirst * W::kWeightBytes;
  const std::size_t rest = n < kFirst ? 0 : n - kFirst;
  const std::size_t count = rest < kWhole ? rest : kWhole;
  typename W::Operand x[M];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
    const std::byte* at = activations + i * activation_stride;
    if constexpr (kTail)
      x[i] = W::activation_n(at, count);
    else
      x[i] = W::hold(W::activation(at));
  }
// Unrolled, or the sums would be kept in memory even where there is no tail.
#pragma GCC unroll 8
  for (std::size_t j = 0; j < N; ++j) {
    const std::byte* at = weights + j * weight_stride;
    typename W::Operand w;
    if constexpr (kTail)
      w = W::weight_n(at, count);
    else
      w = W::weight(at);
    if constexpr (W::kBlock > 0) w = Vec::Part::mul(w, scales[j]);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < M; ++i) {
      sums[i][j] = W::multiply_add(x[i], w, sums[i][j]);
    }
  }
}

template <class W, bool kTail, std::size_t M, std::size_t N>
inline void float_step(const std::byte* activations, std::size_t activation_stride,
                       const std::byte* weights, std::size_t weight_stride, std::size_t n,
                       const Vec::Part::F* scales, Vec::Part::F (&sums)[Vec::kParts][M][N]) {
  float_part<W, 0, kTail>(activations, activation_stride, weights, weight_stride, n, scales,
                          sums[0]);
  if constexpr (Vec::kParts == 2)
    float_part<W, 1, kTail>(activations, activation_stride, weights, weight_stride, n, scales,
                            sums[1]);
}

// Takes the block of the N rows of weights from `weights` on into the accumulators.
template <class W, std::size_t M, std::size_t N, class R>
inline void float_block(const std::byte* activations, std::size_t activation_stride,
                        const std::byte* weights, std::size_t weight_stride, R& requests,
                        Vec::Part::F (&sums)[Vec::kParts][M][N]) {
  Vec::Part::F scales[N];
  for (std::size_t j = 0; j < N; ++j) {
    float scale;
    std::memcpy(&scale, weights + j * weight_stride, sizeof scale);
    scales[j] = Vec::Part::set1(scale * 256.0F);
  }
  weights += sizeof(float);
  for (std::size_t e = 0; e < W::kBlock; e += W::kStep) {
    requests.template ask<N>(weight_stride);
    float_step<W, false>(activations + e * W::kActivationBytes, activation_stride,
                         weights + e * W::kWeightBytes, weight_stride, W::kStep, scales, sums);
  }
}

template <std::size_t I, std::size_t M, std::size_t N>
inline void float_open(Vec::F (&sums)[M][N], Vec::Part::F (&own)[M][N]) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < N; ++j) own[i][j] = Vec::part<I>(sums[i][j]);
  }
}

template <std::size_t I, std::size_t M, std::size_t N>
inline void float_close(Vec::F (&sums)[M][N], const Vec::Part::F (&own)[M][N]) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < N; ++j) Vec::part<I>(sums[i][j]) = own[i][j];
  }
}

// Elements of k that several tiles take after another.
inline constexpr std::size_t kPiece = 1024;

// Takes elements [begin, end) of k into the M x N accumulators from (m, n) on.
template <class W, std::size_t M, std::size_t N>
inline void float_walk(const MatmulArgs& a, std::size_t m, std::size_t n, std::size_t begin,
                       std::size_t end, const Ahead& ahead, Vec::F (&sums)[M][N]) {
  const std::size_t weight_stride = float_row_bytes<W>(a.k);
  const std::byte* weights = a.weights + n * weight_stride;
  auto requests = float_requests<W, M, N>(ahead, weights, weight_stride, float_row_bytes<W>(begin));
  const std::byte* activations = a.activations + m * a.activation_stride;
  typename Vec::Part::F own[Vec::kParts][M][N];
  float_open<0>(sums, own[0]);
  if constexpr (Vec::kParts == 2) float_open<1>(sums, own[1]);
  std::size_t k = begin;
  if constexpr (W::kBlock > 0) {
    static_assert(kPiece % W::kBlock == 0);
    for (; k < end; k += W::kBlock) {
      float_block<W>(activations + k * W::kActivationBytes, a.activation_stride,
                     weights + float_row_bytes<W>(k), weight_stride, requests, own);
    }
  } else {
    for (; k + W::kStep <= end; k += W::kStep) {
      requests.template ask<N>(weight_stride);
      float_step<W, false>(activations + k * W::kActivationBytes, a.activation_stride,
                           weights + k * W::kWeightBytes, weight_stride, W::kStep, nullptr, own);
    }
    if (k < end) {
      float_step<W, true>(activations + k * W::kActivationBytes, a.activation_stride,
                          weights + k * W::kWeightBytes, weight_stride, end - k, nullptr, own);
    }
  }
  float_close<0>(sums, own[0]);
  if constexpr (Vec::kParts == 2) float_close<1>(sums, own[1]);
}

template <std::size_t M, std::size_t N>
inline void float_clear(Vec::F (&sums)[M][N]) {
  for (std::size_t i = 0; i < M; ++i) {
    for (std::size_t j = 0; j < N; ++j) sums[i][j] = Vec::zero();
  }
}

template <std::size_t M, std::size_t N>
inline void float_finish(const MatmulArgs& a, std::size_t m, std::size_t n,
                         const Vec::F (&sums)[M][N]) {
  if constexpr (M > 1 && M * N <= 8) {
    // All in one tree. Not copied: compilers copy vectors of two parts by way of the memory.
    const auto& all = reinterpret_cast<const Vec::F(&)[M * N]>(sums);
    float results[M * N];
    Vec::sums(all, results);
    for (std::size_t i = 0; i < M * N; ++i)
      a.output[(m + i / N) * a.output_stride + n + i % N] = results[i];
    return;
  }
  for (std::size_t i = 0; i < M; ++i) {
    float* output = a.output + (m + i) * a.output_stride + n;
    if constexpr (N == 1)
      *output = Vec::sum(sums[i][0]);
    else
      Vec::sums(sums[i], output);
  }
}

// M x N outputs from (m, n) on. Each has its own accumulator, which walks k in one order.
template <class W, std::size_t M, std::size_t N>
inline void float_tile(const MatmulArgs& a, std::size_t m, std::size_t n, const Ahead& ahead) {
  Vec::F sums[M][N];
  float_clear(sums);
  float_walk<W>(a, m, n, 0, a.k, ahead, sums);
  float_finish(a, m, n, sums);
}

// Several tiles side by side, kPiece elements of k after another: a small tile reads the
// activations so often that the first-level cache must hold them.
inline constexpr std::size_t kMostTiles = Vec::kParts > 1 ? 16 : 4;

template <class W, std::size_t M, std::size_t N>
inline void float_tiles(const MatmulArgs& a, std::size_t m, std::size_t n, std::size_t count,
                        const Ahead& ahead) {
  Vec::F sums[kMostTiles][M][N];
  for (std::size_t t = 0; t < count; ++t) float_clear(sums[t]);
  for (std::size_t k = 0; k < a.k; k += kPiece) {
    const std::size_t end = a.k - k < kPiece ? a.k : k + kPiece;
    for (std::size_t t = 0; t < count; ++t) {
      float_walk<W>(a, m, n + t * N, k, end, ahead, sums[t]);
    }
  }
  for (std::size_t t = 0; t < count; ++t) float_finish(a, m, n + t * N, sums[t]);
}

template <class W, std::size_t M, std::size_t N>
inline void float_columns(const MatmulArgs& a, std::size_t m, std::size_t begin, std::size_t end,
                          const Ahead& ahead) {
  std::size_t n = begin;
  if constexpr (M > 1) {
    if (a.k > kPiece) {
      while (n + N <= end) {
        const std::size_t left = (end - n) / N;
        const std::size_t count = left < kMostTiles ? left : kMostTiles;
        float_tiles<W, M, N>(a, m, n, count, ahead);
        n += count * N;
      }
    }
  }
  for (; n + N <= end; n += N) float_tile<W, M, N>(a, m, n, ahead);
  for (; n < end; ++n) float_tile<W, M, 1>(a, m, n, ahead);
}

template <class W, std::size_t M>
inline void float_rest(const MatmulArgs& a, std::size_t m, std::size_t begin, std::size_t end,
                       const Ahead& ahead) {
  if constexpr (M > 1) {
    if (a.m - m == M) return float_columns<W, M, Vec::kTileN>(a, m, begin, end, ahead);
    float_rest<W, M - 1>(a, m, begin, end, ahead);
  } else {
    float_columns<W, 1, Vec::kTileSingle>(a, m, begin, end, ahead);
  }
}

// Rows of weights, `bytes` each, that the second-level cache holds beside the next ones while all
// activations pass them. A call waits for its first block, and reads all activations once more
// with each: as many bytes as those have.
inline std::size_t float_block_rows(const MatmulArgs& a, std::size_t bytes) {
  constexpr std::size_t kLeast = 64 * 1024, kMost = 256 * 1024;
  std::size_t block = a.m * a.activation_stride;
  block = block < kLeast ? kLeast : block > kMost ? kMost : block;
  const std::size_t unit = a.m > 1 ? Vec::kTileN : Vec::kTileSingle;
  const std::size_t rows = block / (bytes > 0 ? bytes : 1) / unit * unit;
  return rows > 0 ? rows : unit;
}

template <class W>
inline void float_matmul(const MatmulArgs& a) {
  // More tiles over the same weights gain nothing: what they wait for the memory is little.
  constexpr std::size_t kMostAsking = 16;
  const std::size_t row = float_row_bytes<W>(a.k);
  const std::size_t block = float_block_rows(a, row);
  for (std::size_t n = a.n_begin; n < a.n_end; n += block) {
    const std::size_t end = a.n_end - n < block ? a.n_end : n + block;
    Ahead ahead;
    ahead.passes = (a.m + Vec::kTileM - 1) / Vec::kTileM;
    if (end < a.n_end && a.m > 1 && ahead.passes <= kMostAsking) ahead.distance = block * row;
    std::size_t m = 0;
    for (; m + Vec::kTileM <= a.m; m += Vec::kTileM, ++ahead.pass) {
      float_columns<W, Vec::kTileM, Vec::kTileN>(a, m, n, end, ahead);
    }
    if (m < a.m) float_rest<W, Vec::kTileM - 1>(a, m, n, end, ahead);
  }
}

// Memory for floats, 64-byte aligned.
struct FloatScratch {
  explicit FloatScratch(std::size_t count)
      : data(static_cast<float*>(::operator new(count * sizeof(float), std::align_val_t(64)))) {}
  ~FloatScratch() { ::operator delete(data, std::align_val_t(64)); }
  FloatScratch(const FloatScratch&) = delete;
  FloatScratch& operator=(const FloatScratch&) = delete;
  float* data;
};

// The weights of one row as the floats that are multiplied.
template <class W>
inline void float_expand(const std::byte* row, std::size_t k, float* out) {
  using Part = Vec::Part;
  if constexpr (W::kBlock > 0) {
    for (std::size_t b = 0; b < k; b += W::kBlock, row += float_row_bytes<W>(W::kBlock)) {
      float scale;
      std::memcpy(&scale, row, sizeof scale);
      const auto scales = Part::set1(scale * 256.0F);
      for (std::size_t e = 0; e < W::kBlock; e += Part::kWidth, out += Part::kWidth) {
        Part::store(out, Part::mul(W::weight(row + sizeof(float) + e * W::kWeightBytes), scales));
      }
    }
  } else {
    for (; k >= Part::kWidth; k -= Part::kWidth, out += Part::kWidth) {
      Part::store(out, W::weight(row));
      row += Part::kWidth * W::kWeightBytes;
    }
    if (k > 0) Part::store_n(out, W::weight_n(row, k), k);
  }
}

// Rows enough pay for floats made once, of a block of weight rows that the second-level cache
// holds. The same bits: in either case a weight is rounded to a float, and k is walked in one
// order.
template <class W>
inline void float_matmul_expanded(const MatmulArgs& a) {
  constexpr std::size_t kFloats = 64 * 1024;
  if (a.m < W::kExpandFrom * Vec::kTileM) return float_matmul<W>(a);
  std::size_t block = kFloats / (a.k > 0 ? a.k : 1) / Vec::kTileN * Vec::kTileN;
  if (block == 0) block = Vec::kTileN;
  const FloatScratch scratch(block * a.k);
  for (std::size_t n = a.n_begin; n < a.n_end; n += block) {
    MatmulArgs part = a;
    part.type = DataType::kF32;
    part.weights = reinterpret_cast<const std::byte*>(scratch.data);
    part.output = a.output + n;
    part.n_begin = 0;
    part.n_end = a.n_end - n < block ? a.n_end - n : block;
    for (std::size_t row = 0; row < part.n_end; ++row) {
      float_expand<W>(a.weights + (n + row) * float_row_bytes<W>(a.k), a.k,
                      scratch.data + row * a.k);
    }
    float_matmul<WeightF32>(part);
  }
}

// Activations of float weights, but for BF16 pairs: the floats themselves.
inline std::size_t float_activation_bytes(std::size_t k) { return (k * 4 + 63) / 64 * 64; }

inline void float_prepare(const float* x, std::size_t k, std::byte* out) {
  std::memcpy(out, x, k * sizeof(float));
}

}  // namespace
}  // namespace dovetail::kernels
