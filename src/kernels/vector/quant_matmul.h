#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>

#include "kernels/kernels.h"
#include "kernels/unpack.h"
#include "kernels/vector/quantize.h"

// Included after an instruction set's vec.h, which defines Vec, and ints.h, which defines Ints.
//
// Weights of kWidth rows are unpacked once into a panel with the rows innermost, four elements of
// each after another, so that one instruction multiplies four elements of one row of activations
// with those of kWidth rows of weights. The whole numbers of a block are summed exactly; the floats
// of an output element are then summed block after block, in that order alone.
namespace dovetail::kernels {
namespace {

// What is added to weights so that they are unsigned bytes. The products then are too large by that
// times the activations' sum, from which the sums of integers start.
constexpr std::int32_t weight_offset(DataType type) {
  switch (type) {
    case DataType::kQ8_0:
      return Ints::kByteOffset;
    case DataType::kQ4_0:
      return 8;
    case DataType::kQ6_K:
      return 32;
    default:
      return 0;
  }
}

// Activations for types with an offset carry their sums times its negative; those for types with
// minimums, which are unsigned anyway, the sums themselves.
constexpr std::int32_t sum_factor(DataType type) {
  return type == DataType::kQ4_K || type == DataType::kQ5_K ? 1 : -weight_offset(type);
}

inline void vector_quant_prepare(DataType weights, const float* x, std::size_t k, std::byte* out) {
  quant_prepare(weights, x, k, out, sum_factor(weights));
}

constexpr std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

struct AlignedBytes {
  explicit AlignedBytes(std::size_t size)
      : data(static_cast<std::byte*>(::operator new(size, std::align_val_t(64)))) {}
  ~AlignedBytes() { ::operator delete(data, std::align_val_t(64)); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data;
};

template <DataType T>
struct Panel {
  using U = Unpack<T>;
  static constexpr std::size_t kRows = Vec::kWidth;
  // Elements unpacked at a time.
  static constexpr std::size_t kChunk = 256;

  static constexpr std::size_t kBlockRow = kRows * sizeof(float);
  static constexpr std::size_t kBlockBytes =
      kBlockRow * (1 + (U::kMins ? 1 : 0) + (U::kScales ? 16 : 0));

  explicit Panel(std::size_t k)
      : blocks(k / U::kElements),
        memory(round_up(k, kChunk) * kRows + blocks * kBlockBytes),
        quants(reinterpret_cast<std::uint8_t*>(memory.data)),
        d(reinterpret_cast<float*>(memory.data + round_up(k, kChunk) * kRows)),
        dmin(d + blocks * kRows),
        scales(reinterpret_cast<std::int32_t*>(dmin + (U::kMins ? blocks * kRows : 0))) {}

  // Fills the panel from `count` rows of weights, at least one; the lanes of missing ones repeat
  // the last. `ahead` rows follow: those that the next panel takes are asked for meanwhile.
  void read(const std::byte* weights, std::size_t stride, std::size_t count, std::size_t ahead) {
    constexpr std::size_t kBlocks = kChunk / U::kElements;
    constexpr std::size_t kLine = 64;
    alignas(64) std::uint8_t rows[kRows][kChunk];
    alignas(64) std::int8_t whole[kRows][16];
    for (std::size_t b = 0; b < blocks; b += kBlocks) {
      const std::size_t n = smaller(kBlocks, blocks - b);
      for (std::size_t r = 0; r < kRows; ++r) {
        const std::byte* at =
            weights + smaller(r, count - 1) * stride + b * sizeof(typename U::Block);
        if (r < ahead) {
          for (std::size_t i = 0; i < n * sizeof(typename U::Block); i += kLine) {
            __builtin_prefetch(at + kRows * stride + i, 0, 2);
          }
        }
        const auto* source = reinterpret_cast<const typename U::Block*>(at);
        for (std::size_t i = 0; i < n; ++i) {
          U::quants(source[i], reinterpret_cast<std::int8_t*>(rows[r] + i * U::kElements));
          d[(b + i) * kRows + r] = Ints::half(source[i].d);
        }
        if constexpr (U::kMins) dmin[b * kRows + r] = Ints::half(source->dmin);
        if constexpr (U::kScales) U::scales(*source, whole[r]);
      }
      interleave(rows, b * U::kElements, n * U::kElements);
      if constexpr (U::kScales) interleave_scales(whole, scales + b * 16 * kRows);
    }
  }

  static void interleave_scales(const std::int8_t (&whole)[kRows][16], std::int32_t* out) {
    for (std::size_t g = 0; g < 16; g += kRows) {
      Vec::F lanes[kRows];
      for (std::size_t r = 0; r < kRows; ++r) {
        lanes[r] = Ints::as_float(Ints::widen(whole[r] + g));
      }
      Vec::transpose(lanes);
      for (std::size_t i = 0; i < kRows; ++i) {
        Ints::store(out + (g + i) * kRows, Ints::as_int(lanes[i]));
      }
    }
  }

  void interleave(const std::uint8_t (&rows)[kRows][kChunk], std::size_t from, std::size_t count) {
    for (std::size_t e = 0; e < count; e += 4 * kRows) {
      Vec::F quads[kRows];
      for (std::size_t r = 0; r < kRows; ++r) {
        quads[r] = Ints::as_float(Ints::add_bytes(Ints::load(rows[r] + e), weight_offset(T)));
      }
      Vec::transpose(quads);
      for (std::size_t i = 0; i < kRows; ++i) {
        Ints::store(quants + (from + e) * kRows + i * 4 * kRows, Ints::as_int(quads[i]));
      }
    }
  }

  std::size_t blocks;
  AlignedBytes memory;
  std::uint8_t* quants;  // [k / 4][row][4]
  float *d, *dmin;       // [block][row]
  std::int32_t* scales;  // [block][16][row]
};

// M rows of activations times the panel's rows.
template <DataType T, std::size_t M>
inline void quant_tile(const MatmulArgs& a, const Panel<T>& panel, std::size_t m, std::size_t n,
                       std::size_t count) {
  using U = Unpack<T>;
  constexpr std::size_t w = Vec::kWidth;
  constexpr std::size_t kGroups = U::kElements / U::kGroup;
  QuantRow x[M];
  Vec::F sums[M];
  for (std::size_t i = 0; i < M; ++i) {
    x[i] = quant_row<T>(a.activations + (m + i) * a.activation_stride, a.k);
    sums[i] = Vec::zero();
  }
  const std::uint8_t* quants = panel.quants;
  for (std::size_t b = 0; b < panel.blocks; ++b) {
    Ints::I products[M];
    Ints::I offsets[M];
    for (std::size_t i = 0; i < M; ++i) products[i] = offsets[i] = Ints::set1(0);
    const std::int32_t* scales = panel.scales + b * 16 * w;
    for (std::size_t g = 0; g < kGroups; ++g) {
      Ints::I group[M];
      for (std::size_t i = 0; i < M; ++i) {
        group[i] = weight_offset(T) == 0 ? Ints::set1(0) : Ints::set1(x[i].sum[b * kGroups + g]);
      }
      const std::size_t first = b * U::kElements + g * U::kGroup;
      for (std::size_t e = first; e < first + U::kGroup; e += 4, quants += 4 * w) {
        const Ints::I weights = Ints::load(quants);
        for (std::size_t i = 0; i < M; ++i) {
          group[i] = Ints::dot<T == DataType::kQ8_0>(group[i], weights, x[i].q + e);
        }
      }
      for (std::size_t i = 0; i < M; ++i) {
        if constexpr (U::kScales) {
          const Ints::I scale = Ints::load(scales + g * w);
          products[i] = Ints::add(products[i], Ints::mul(group[i], scale));
        } else {
          products[i] = group[i];
        }
        if constexpr (U::kMins) {
          const Ints::I min = Ints::load(scales + (8 + g) * w);
          offsets[i] = Ints::add(offsets[i], Ints::mul(min, Ints::set1(x[i].sum[b * kGroups + g])));
        }
      }
    }
    const Vec::F d = Vec::load(panel.d + b * w);
    for (std::size_t i = 0; i < M; ++i) {
      const Vec::F scale = Vec::set1(x[i].scale[b]);
      sums[i] = Vec::fma(Ints::to_float(products[i]), Vec::mul(d, scale), sums[i]);
      if constexpr (U::kMins) {
        const Vec::F dmin = Vec::mul(Vec::load(panel.dmin + b * w), scale);
        sums[i] = Vec::sub(sums[i], Vec::mul(Ints::to_float(offsets[i]), dmin));
      }
    }
  }
  for (std::size_t i = 0; i < M; ++i) {
    Vec::store_n(a.output + (m + i) * a.output_stride + n, sums[i], count);
  }
}

template <DataType T, std::size_t M>
inline void quant_rest(const MatmulArgs& a, const Panel<T>& panel, std::size_t m, std::size_t n,
                       std::size_t count) {
  if constexpr (M > 0) {
    if (a.m - m == M) return quant_tile<T, M>(a, panel, m, n, count);
    quant_rest<T, M - 1>(a, panel, m, n, count);
  }
}

template <DataType T>
inline void quant_multiply(const MatmulArgs& a) {
  assert(a.k % Unpack<T>::kElements == 0);
  constexpr std::size_t kTile = Unpack<T>::kMins ? Ints::kTile / 2 : Ints::kTile;
  const std::size_t stride = a.k / Unpack<T>::kElements * sizeof(typename Unpack<T>::Block);
  Panel<T> panel(a.k);
  for (std::size_t n = a.n_begin; n < a.n_end; n += Vec::kWidth) {
    const std::size_t count = smaller(Vec::kWidth, a.n_end - n);
    panel.read(a.weights + n * stride, stride, count, a.n_end - n - count);
    std::size_t m = 0;
    for (; m + kTile <= a.m; m += kTile) quant_tile<T, kTile>(a, panel, m, n, count);
    quant_rest<T, kTile - 1>(a, panel, m, n, count);
  }
}

inline void vector_quant_matmul(const MatmulArgs& args) {
  switch (args.type) {
    case DataType::kQ8_0:
      return quant_multiply<DataType::kQ8_0>(args);
    case DataType::kQ4_0:
      return quant_multiply<DataType::kQ4_0>(args);
    case DataType::kQ4_K:
      return quant_multiply<DataType::kQ4_K>(args);
    case DataType::kQ5_K:
      return quant_multiply<DataType::kQ5_K>(args);
    case DataType::kQ6_K:
      return quant_multiply<DataType::kQ6_K>(args);
    default:
      return;
  }
}

}  // namespace
}  // namespace dovetail::kernels
