#pragma once

#include <immintrin.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/amx/strip.h"
#include "kernels/amx/tile.h"
#include "kernels/packed.h"
#include "kernels/vector/operands.h"
#include "kernels/vector/panels_ahead.h"

// Products of block types with rows enough: tiles of AMX sum a step's whole numbers, which have no
// order; then come the float multiply-adds of vector/products.h, in the same order, with rows of
// weights as lanes. So an output element has the same bits.
//
// The inner dimension goes piece by piece. A piece of a panel is made a strip that the first-level
// cache holds while all rows of activations pass it; outputs hold the sums in between.
namespace dovetail::kernels {
namespace {

// Bytes of a strip, about; rows of activations whose pieces the second-level cache holds.
inline constexpr std::size_t kStripBytes = 16 * 1024;
inline constexpr std::size_t kPassRows = 512;

// A piece of some rows of activations against a strip.
struct TilePass {
  const std::byte* activations;
  std::size_t activation_stride;  // bytes
  const float* sides;             // per block, TileForm::kSideFloats
  const std::uint8_t* strip;
  const float* floats;  // per step, TileForm::kScaleFloats
  std::size_t blocks;
  float* output;  // of the first row and column
  std::size_t output_stride;
  __mmask16 columns;
  std::size_t unwritten;    // rows that another pass has
  bool continues;           // what an earlier piece left in the outputs
  PanelsAhead::Part ahead;  // in the panel that comes next
};

// The whole numbers of a step, per part.
template <class F>
struct WholeSums {
  alignas(64) std::int32_t of[F::kParts][kTileRows][kPanelRows];
};

// Sums a step in tiles. Those of even steps and of odd ones are others, so that they may overlap.
template <class F, int kOdd>
[[gnu::always_inline]] inline void multiply_step(const TilePass& p, std::size_t step,
                                                 PanelsAhead::Part& ahead) {
  constexpr int kSum = 2 * kOdd, kRows = 4 + kOdd, kColumns = 6;
  const std::byte* activations = p.activations + step * F::kStep;
  const std::uint8_t* strip = p.strip + step * F::kStepBytes;
  tile_zero<kSum>();
  if constexpr (F::kParts == 2) tile_zero<kSum + 1>();
  for (std::size_t t = 0; t < F::kTiles; ++t) {
    ahead.step();
    tile_load<kRows>(activations + t * F::kDepth, p.activation_stride);
    constexpr int kFirst = F::kParts == 2 ? kColumns : kColumns + kOdd;
    tile_load<kFirst>(strip, kQuadBytes);
    tile_multiply<kSum, kRows, kFirst>();
    if constexpr (F::kParts == 2) {
      tile_load<kColumns + 1>(strip + F::kPartBytes, kQuadBytes);
      tile_multiply<kSum + 1, kRows, kColumns + 1>();
    }
    strip += F::kParts * F::kPartBytes;
  }
}

template <class F, int kOdd>
[[gnu::always_inline]] inline void store_step(WholeSums<F>& sums) {
  tile_store<2 * kOdd>(sums.of[0], kQuadBytes);
  if constexpr (F::kParts == 2) tile_store<2 * kOdd + 1>(sums.of[1], kQuadBytes);
}

// Adds a step's products to the rows' floats.
template <class F, std::size_t R>
[[gnu::always_inline]] inline void add_step(const TilePass& p, std::size_t step,
                                            const WholeSums<F>& whole, __m512 (&sums)[R]) {
  const float* floats = p.floats + step * F::kScaleFloats;
  const float* side = p.sides + step / F::kSteps * F::kSideFloats;
  const __m512 d = _mm512_load_ps(floats);
  __m512 minimum{};
  __m512i minimums[F::kSums > 1 ? F::kSums / 2 : 1];
  if constexpr (F::kSums > 0) minimum = _mm512_load_ps(floats + kPanelRows);
  if constexpr (F::kSums > 1) {
    for (std::size_t g = 0; g < F::kSums / 2; ++g) {
      minimums[g] = _mm512_load_si512(floats + kPanelRows * (2 + g));
    }
  }
  unrolled(std::make_index_sequence<R>(), [&]<std::size_t kRow>(Index<kRow>) {
    __m512i products = _mm512_load_si512(whole.of[0][kRow]);
    if constexpr (F::kParts == 2) {
      const __m512i high = _mm512_load_si512(whole.of[1][kRow]);
      products = _mm512_add_epi32(products, _mm512_slli_epi32(high, 7));
    }
    const __m512 scale = _mm512_set1_ps(side[kRow]);
    sums[kRow] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), _mm512_mul_ps(d, scale), sums[kRow]);
    if constexpr (F::kSums > 0) {
      __m512 offset = _mm512_set1_ps(side[kTileRows + kRow]);
      if constexpr (F::kSums > 1) {
        __m512i whole_offset = _mm512_setzero_si512();
        unrolled(std::make_index_sequence<F::kSums / 2>(), [&]<std::size_t kPair>(Index<kPair>) {
          std::int32_t pair;
          std::memcpy(&pair, side + kTileRows * (1 + kPair) + kRow, sizeof pair);
          whole_offset = Ints::add_pairs(whole_offset, minimums[kPair], Ints::set1(pair));
        });
        offset = _mm512_cvtepi32_ps(whole_offset);
      }
      sums[kRow] = _mm512_fnmadd_ps(offset, _mm512_mul_ps(minimum, scale), sums[kRow]);
    }
  });
}

// R rows of activations. While tiles sum a step, those of the step before are stored, and vectors
// add the one before that: a step's way takes several times as long as there is work for each.
template <class F, std::size_t R>
inline void pass_tile(const TilePass& p) {
  PanelsAhead::Part ahead = p.ahead;
  __m512 sums[R];
  unrolled(std::make_index_sequence<R>(), [&]<std::size_t kRow>(Index<kRow>) {
    sums[kRow] = p.continues ? _mm512_maskz_loadu_ps(p.columns, p.output + kRow * p.output_stride)
                             : _mm512_setzero_ps();
  });
  WholeSums<F> even, odd;
  const std::size_t steps = p.blocks * F::kSteps;
  multiply_step<F, 0>(p, 0, ahead);
  std::size_t next = 1;  // to be multiplied; the one before it is in its tiles
  if (steps > 1) {
    multiply_step<F, 1>(p, 1, ahead);
    store_step<F, 0>(even);
    for (next = 2; next + 1 < steps; next += 2) {
      multiply_step<F, 0>(p, next, ahead);
      store_step<F, 1>(odd);
      add_step<F>(p, next - 2, even, sums);
      multiply_step<F, 1>(p, next + 1, ahead);
      store_step<F, 0>(even);
      add_step<F>(p, next - 1, odd, sums);
    }
    if (next < steps) multiply_step<F, 0>(p, next, ahead);
    store_step<F, 1>(odd);
    add_step<F>(p, next - 2, even, sums);
    add_step<F>(p, next - 1, odd, sums);
  }
  if (steps % 2 != 0) {
    store_step<F, 0>(even);
    add_step<F>(p, steps - 1, even, sums);
  }
  unrolled(std::make_index_sequence<R>(), [&]<std::size_t kRow>(Index<kRow>) {
    if (kRow >= p.unwritten) {
      _mm512_mask_storeu_ps(p.output + kRow * p.output_stride, p.columns, sums[kRow]);
    }
  });
}

// What `rows` rows of activations, from the one at `activations` on, bring to `blocks` blocks from
// `block` on, beside their bytes.
template <class T>
inline void make_sides(const std::byte* activations, std::size_t stride, std::size_t k,
                       std::size_t rows, std::size_t block, std::size_t blocks, float* sides) {
  using F = FormOf<T>;
  const QuantRow<T> first(const_cast<std::byte*>(activations), k);
  const auto some = static_cast<__mmask16>((1U << rows) - 1U);
  const __m512i at =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         Ints::set1(static_cast<std::int32_t>(stride)));
  const auto words = [&](const void* of_first) {
    return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), some, at, of_first, 1);
  };
  for (std::size_t b = block; b < block + blocks; ++b, sides += F::kSideFloats) {
    Ints::store(sides, words(first.scale + b));
    if constexpr (F::kSums == 1) {
      static_assert(Operand<T>::kSumFactor == 1);
      _mm512_store_ps(sides + kTileRows, _mm512_cvtepi32_ps(words(first.sum + b)));
    }
    if constexpr (F::kSums > 1) {
      for (std::size_t g = 0; g < F::kSums; g += 2) {
        Ints::store(sides + kTileRows * (1 + g / 2), words(first.sum + b * F::kSums + g));
      }
    }
  }
}

// Rows of the tiles that `rows` rows, twelve at least, are cut into. The last tile overlaps with
// the one before it where that is not even.
inline std::size_t rows_of_tile(std::size_t rows) {
  assert(rows >= 12);
  const auto work = [&](std::size_t of_tile) {
    return (rows + of_tile - 1) / of_tile * (of_tile + 4);
  };
  return rows < 16 || work(12) < work(16) ? 12 : 16;
}

// Rows [begin, end) of the activations; `scratch` has room for a strip's floats, codes, sides and a
// packed piece of a panel, in this order.
template <class T, std::size_t R>
inline void multiply_tile_rows(const MatmulArgs& a, std::size_t begin, std::size_t end,
                               std::size_t piece, std::byte* scratch) {
  using P = Packed<T>;
  using F = FormOf<T>;
  const std::size_t tiles = (end - begin + R - 1) / R;
  const std::size_t weight_stride = a.k / T::kElements * T::kBytes;
  TileShapes shapes;
  for (const std::size_t sums : {0U, 1U, 2U, 3U}) shapes.set(sums, R, kQuadBytes);
  for (const std::size_t rows : {4U, 5U}) shapes.set(rows, R, F::kDepth);
  for (const std::size_t columns : {6U, 7U}) shapes.set(columns, F::kDepth / 4, kQuadBytes);
  shapes.apply();
  auto* floats = reinterpret_cast<float*>(scratch);
  auto* strip = reinterpret_cast<std::uint8_t*>(floats + piece / F::kStep * F::kScaleFloats);
  auto* sides = reinterpret_cast<float*>(strip + piece / F::kStep * F::kStepBytes);
  auto* packed = reinterpret_cast<std::byte*>(sides + piece / F::kBlock * F::kSideFloats * tiles);
  const auto first_row = [&](std::size_t tile) {
    return begin + tile * R + R <= end ? begin + tile * R : end - R;
  };
  for (std::size_t at = 0; at < a.k; at += piece) {
    const std::size_t some = a.k - at < piece ? a.k - at : piece;
    const std::size_t blocks = some / F::kBlock;
    for (std::size_t t = 0; t < tiles; ++t) {
      make_sides<T>(a.activations + first_row(t) * a.activation_stride, a.activation_stride, a.k, R,
                    at / F::kBlock, blocks, sides + t * blocks * F::kSideFloats);
    }
    for (std::size_t n = a.n_begin; n < a.n_end; n += kPanelRows) {
      const std::size_t count = a.n_end - n < kPanelRows ? a.n_end - n : kPanelRows;
      Panel panel;
      if (a.packed) {
        panel.codes =
            reinterpret_cast<const std::uint8_t*>(a.weights) + n / kPanelRows * P::panel_bytes(a.k);
        panel.scales = panel.codes + P::code_bytes(a.k) + at / T::kElements * P::kScaleBytes;
        panel.codes += P::code_bytes(at);
      } else {
        pack_panel<T>(a.weights + n * weight_stride + at / T::kElements * T::kBytes, weight_stride,
                      count, some, packed);
        panel.codes = reinterpret_cast<const std::uint8_t*>(packed);
        panel.scales = panel.codes + P::code_bytes(some);
      }
      make_strip<T>(panel, some, strip, floats);
      const bool follows = a.packed && n + kPanelRows < a.n_end;
      for (std::size_t t = 0; t < tiles; ++t) {
        PanelsAhead::Part ahead;
        if (follows) {
          ahead = PanelsAhead(panel.codes + P::panel_bytes(a.k), P::code_bytes(some), tiles,
                              blocks * F::kSteps * F::kTiles)
                      .part<1>(t, 0);
          const std::size_t scale_bytes = some / T::kElements * P::kScaleBytes;
          PanelsAhead(panel.scales + P::panel_bytes(a.k), scale_bytes, tiles, 1)
              .part<1>(t, 0)
              .step();
        }
        const std::size_t row = first_row(t);
        pass_tile<F, R>({.activations = a.activations + row * a.activation_stride + at,
                         .activation_stride = a.activation_stride,
                         .sides = sides + t * blocks * F::kSideFloats,
                         .strip = strip,
                         .floats = floats,
                         .blocks = blocks,
                         .output = a.output + row * a.output_stride + n,
                         .output_stride = a.output_stride,
                         .columns = static_cast<__mmask16>((1U << count) - 1U),
                         .unwritten = begin + t * R - row,
                         .continues = at > 0,
                         .ahead = ahead});
      }
    }
  }
}

template <class T>
inline void multiply_by_tiles(const MatmulArgs& a) {
  using F = FormOf<T>;
  assert(a.k % T::kElements == 0);
  assert(!a.packed || a.n_begin % kPanelRows == 0);
  constexpr std::size_t kElementBytes = F::kParts * kPanelRows;
  constexpr std::size_t kPiece = kStripBytes / kElementBytes / T::kElements * T::kElements;
  static_assert(kPiece > 0);
  const std::size_t piece = a.k < kPiece ? a.k : kPiece;
  // Passes of about the same size.
  const std::size_t passes = (a.m + kPassRows - 1) / kPassRows;
  const std::size_t most = (a.m + passes - 1) / passes;
  const std::size_t tiles = most / 12 + 1;
  const AlignedBytes scratch(piece / F::kStep * (F::kScaleFloats * sizeof(float) + F::kStepBytes) +
                             piece / F::kBlock * F::kSideFloats * sizeof(float) * tiles +
                             Packed<T>::panel_bytes(piece));
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const std::size_t begin = a.m * pass / passes;
    const std::size_t end = a.m * (pass + 1) / passes;
    if (rows_of_tile(end - begin) == 16) {
      multiply_tile_rows<T, 16>(a, begin, end, piece, scratch.data);
    } else {
      multiply_tile_rows<T, 12>(a, begin, end, piece, scratch.data);
    }
  }
}

}  // namespace
}  // namespace dovetail::kernels
