#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/packed.h"
#include "kernels/vector/operands.h"
#include "kernels/vector/panels_ahead.h"
#include "kernels/vector/quantize.h"

// Included after an instruction set's ints.h, which defines Ints.
//
// Products of block types: a panel's rows are the lanes, so that one instruction multiplies four
// elements of one row of activations with those of several rows of weights. The whole numbers of a
// block are summed exactly, in whatever order suits; then one float multiply-add per block, in the
// order of the blocks, leaves an output element the same bits on every instruction set, directly or
// through an expanded panel.
namespace dovetail::kernels {
namespace {

// The vectors of a tile's weights: side by side in a panel, or each a panel of its own.
struct Steps {
  std::size_t codes, pairs, scales, lanes;  // from one vector to the next; all but lanes in bytes
};

template <std::size_t V>
[[gnu::always_inline]] inline Steps steps_of(const Panel& panel) {
  static_assert(V * Ints::kLanes <= kPanelRows || Ints::kLanes == kPanelRows);
  if constexpr (V * Ints::kLanes <= kPanelRows) {
    return {4 * Ints::kLanes, 2 * Ints::kLanes, 0, Ints::kLanes};
  } else {
    return {panel.next_codes, panel.next_scales, panel.next_scales, 0};
  }
}

// The prepared rows of a tile. Of more than a few, one pointer and their stride say where they are:
// a pointer to the bytes, scales and sums of each would be more than there are registers.
template <class T, std::size_t M>
class TileRows {
 public:
  using Sum = typename QuantRow<T>::Sum;

  // Those that lie `stride` bytes apart from `first` on, of k elements.
  TileRows(const std::byte* first, std::size_t stride, std::size_t k) : stride_(stride) {
    for (std::size_t i = 0; i < kPointers; ++i)
      rows_[i] = QuantRow<T>(const_cast<std::byte*>(first) + i * stride, k);
  }

  // To be called in every block: compilers make a pointer to each row of what they can see, and
  // keep all of them from block to block.
  [[gnu::always_inline]] void pin() {
    if constexpr (kPointers < M) {
      asm("" : "+r"(rows_[0].q));
      asm("" : "+r"(rows_[0].scale));
      asm("" : "+r"(rows_[0].sum));
    }
  }

  const std::int8_t* q(std::size_t row) const { return part(&QuantRow<T>::q, row); }
  float scale(std::size_t row, std::size_t block) const {
    return part(&QuantRow<T>::scale, row)[block];
  }
  const Sum* sum(std::size_t row, std::size_t group) const {
    return part(&QuantRow<T>::sum, row) + group;
  }

 private:
  static constexpr std::size_t kPointers = M > 4 ? 1 : M;

  template <class P>
  [[gnu::always_inline]] const P* part(P* QuantRow<T>::*of, std::size_t row) const {
    if constexpr (kPointers == M) return rows_[row].*of;
    return reinterpret_cast<const P*>(reinterpret_cast<const std::byte*>(rows_[0].*of) +
                                      row * stride_);
  }

  QuantRow<T> rows_[kPointers];
  std::size_t stride_;
};

// Adds the products of kCount quads from kFirst on to the sums, times the scales where there are
// any.
template <class T, class Source, std::size_t kFirst, std::size_t kCount, std::size_t V,
          std::size_t M>
[[gnu::always_inline]] inline void add_quads(const std::uint8_t* unit, const Steps& steps,
                                             const TileRows<T, M>& x, std::size_t at,
                                             const Ints::Scale (&scale)[V],
                                             Ints::I (&products)[V][M]) {
  using O = Operand<T>;
  constexpr std::size_t kFlush = Ints::template quads_of_sum<O::kSigned, O::kMost>();
  Ints::Sum sums[V][M];
  for (std::size_t v = 0; v < V; ++v) {
    for (std::size_t i = 0; i < M; ++i) sums[v][i] = Ints::no_sum();
  }
  unrolled(std::make_index_sequence<kCount>(), [&]<std::size_t kNumber>(Index<kNumber>) {
    constexpr std::size_t kQuad = kFirst + kNumber;
    Ints::I weights[V];
    for (std::size_t v = 0; v < V; ++v) {
      weights[v] = Source::template operand<kQuad>(unit + steps.codes * v);
    }
    for (std::size_t i = 0; i < M; ++i) {
      const Ints::I four = Ints::four(x.q(i) + at + 4 * kNumber);
      for (std::size_t v = 0; v < V; ++v) {
        sums[v][i] = Ints::template dot<O::kSigned>(sums[v][i], weights[v], four);
      }
    }
    if constexpr ((kNumber + 1) % kFlush == 0 || kNumber + 1 == kCount) {
      for (std::size_t v = 0; v < V; ++v) {
        for (std::size_t i = 0; i < M; ++i) {
          products[v][i] = Ints::template add_sum<T::kScales>(products[v][i], sums[v][i], scale[v]);
          sums[v][i] = Ints::no_sum();
        }
      }
    }
  });
}

// The products of the block's whole numbers.
template <class T, class Source, std::size_t V, std::size_t M>
[[gnu::always_inline]] inline void block_products(const std::uint8_t* codes,
                                                  const std::uint8_t* scales, const Steps& steps,
                                                  const TileRows<T, M>& x, std::size_t at,
                                                  Ints::I (&products)[V][M]) {
  using P = Packed<T>;
  if constexpr (!T::kScales) {
    constexpr Ints::Scale kNone[V] = {};
    for (std::size_t e = 0; e < T::kElements; e += kUnit, codes += Source::kUnitBytes) {
      add_quads<T, Source, 0, kUnitQuads>(codes, steps, x, at + e, kNone, products);
    }
  } else {
    static_assert(T::kGroup == 16 || T::kGroup == 32);
    for (std::size_t g = 0; g < P::kGroups; g += 2) {
      Ints::Scale even[V], odd[V];
      for (std::size_t v = 0; v < V; ++v) {
        const Ints::I pairs =
            Ints::widen_pairs(scales + P::kGroupOffset + g * kPanelRows + steps.pairs * v);
        even[v] = Ints::even(pairs);
        odd[v] = Ints::odd(pairs);
      }
      const std::size_t e = at + g * T::kGroup;
      if constexpr (T::kGroup == 16) {
        add_quads<T, Source, 0, 4>(codes, steps, x, e, even, products);
        add_quads<T, Source, 4, 4>(codes, steps, x, e + 16, odd, products);
        codes += Source::kUnitBytes;
      } else {
        add_quads<T, Source, 0, 8>(codes, steps, x, e, even, products);
        add_quads<T, Source, 0, 8>(codes + Source::kUnitBytes, steps, x, e + 32, odd, products);
        codes += 2 * Source::kUnitBytes;
      }
    }
  }
}

// Per row of weights, the sums of the activations' groups times the groups' minimums or scales.
template <class T, std::size_t V, std::size_t M>
[[gnu::always_inline]] inline void group_sums(const std::uint8_t* scales, const Steps& steps,
                                              const TileRows<T, M>& x, std::size_t block,
                                              Ints::I (&sums)[V][M]) {
  using P = Packed<T>;
  constexpr std::size_t kFrom = T::kMinimums ? P::kGroupMinimumOffset : P::kGroupOffset;
  for (std::size_t v = 0; v < V; ++v) {
    for (std::size_t i = 0; i < M; ++i) sums[v][i] = Ints::set1(0);
  }
  for (std::size_t g = 0; g < P::kGroups; g += 2) {
    for (std::size_t v = 0; v < V; ++v) {
      const Ints::I pairs = Ints::widen_pairs(scales + kFrom + g * kPanelRows + steps.pairs * v);
      for (std::size_t i = 0; i < M; ++i) {
        sums[v][i] =
            Ints::add_pairs(sums[v][i], pairs, Ints::two(x.sum(i, block * P::kGroups + g)));
      }
    }
  }
}

// The products of a block whose groups have float scales, added to the rows' sums group by group.
template <class T, class Source, std::size_t V, std::size_t M>
[[gnu::always_inline]] inline void add_float_groups(const std::uint8_t* codes,
                                                    const std::uint8_t* scales, std::size_t lane,
                                                    const Steps& steps, const TileRows<T, M>& x,
                                                    std::size_t block, Ints::F (&sums)[V][M]) {
  using P = Packed<T>;
  static_assert(T::kGroup == 16);
  const auto add_group = [&]<std::size_t kFirst>(Index<kFirst>, std::size_t g) {
    constexpr Ints::Scale kNone[V] = {};
    Ints::I products[V][M];
    for (std::size_t v = 0; v < V; ++v) {
      for (std::size_t i = 0; i < M; ++i) {
        products[v][i] =
            Ints::set1(Operand<T>::kOffset != 0 ? *x.sum(i, block * P::kGroups + g) : 0);
      }
    }
    add_quads<T, Source, kFirst, 4>(codes, steps, x, block * T::kElements + g * T::kGroup, kNone,
                                    products);
    for (std::size_t v = 0; v < V; ++v) {
      Ints::F d = Ints::template scales<T::kScaleForm>(
          scales + g * P::kFloatScaleBytes + v * steps.scales, lane + v * steps.lanes);
      if constexpr (T::kScaleFactor != 1.0F) d = Ints::mul(d, Ints::set1(T::kScaleFactor));
      for (std::size_t i = 0; i < M; ++i) {
        sums[v][i] = Ints::fma(Ints::to_float(products[v][i]),
                               Ints::mul(d, Ints::set1(x.scale(i, block))), sums[v][i]);
      }
    }
  };
  for (std::size_t g = 0; g < P::kGroups; g += 2, codes += Source::kUnitBytes) {
    add_group(Index<0>{}, g);
    add_group(Index<4>{}, g + 1);
  }
}

// The float minimums of rows of a block.
template <class T>
[[gnu::always_inline]] inline Ints::F minimum(const std::uint8_t* scales, std::size_t lane) {
  const Ints::F stored =
      Ints::template scales<ScaleForm::kHalf>(scales + Packed<T>::kMinimumOffset, lane);
  return T::kMinimumFactor == 1.0F ? stored : Ints::mul(stored, Ints::set1(T::kMinimumFactor));
}

// M rows of activations times V vectors of the panel's rows, from row `lane` of the panel on, or
// of the rows of V panels.
template <class T, class Source, std::size_t V, std::size_t M>
inline void product_tile(const MatmulArgs& a, const Panel& panel, std::size_t m, std::size_t n,
                         std::size_t lane, std::size_t count, const PanelsAhead& panels_ahead,
                         std::size_t pass) {
  using P = Packed<T>;
  using O = Operand<T>;
  TileRows<T, M> x(a.activations + m * a.activation_stride, a.activation_stride, a.k);
  Ints::F sums[V][M];
  for (std::size_t i = 0; i < M; ++i) {
    for (std::size_t v = 0; v < V; ++v) sums[v][i] = Ints::no_float();
  }
  constexpr std::size_t kRows = V * Ints::kLanes;
  constexpr std::size_t kTiles = (kPanelRows + kRows - 1) / kRows;
  PanelsAhead::Part ahead = panels_ahead.part<kTiles>(pass, lane / kRows);
  const Steps steps = steps_of<V>(panel);
  const std::uint8_t* codes = panel.codes + 4 * lane;
  const std::uint8_t* scales = panel.scales;
  constexpr std::size_t kBlockCodes = T::kElements / kUnit * Source::kUnitBytes;
  for (std::size_t b = 0; b < a.k / T::kElements;
       ++b, codes += kBlockCodes, scales += P::kScaleBytes) {
    ahead.step();
    x.pin();
    if constexpr (T::kFloatScales) {
      add_float_groups<T, Source>(codes, scales, lane, steps, x, b, sums);
      continue;
    }
    Ints::I products[V][M];
    for (std::size_t v = 0; v < V; ++v) {
      for (std::size_t i = 0; i < M; ++i) {
        products[v][i] = Ints::set1(!T::kScales && O::kOffset != 0 ? *x.sum(i, b) : 0);
      }
    }
    block_products<T, Source>(codes, scales + 2 * lane, steps, x, b * T::kElements, products);
    if constexpr (T::kZeros) {
      for (std::size_t v = 0; v < V; ++v) {
        const Ints::I zero =
            Ints::bytes(scales + P::kZeroOffset + v * steps.scales, lane + v * steps.lanes);
        for (std::size_t i = 0; i < M; ++i) {
          products[v][i] = Ints::sub(products[v][i], Ints::mul(zero, Ints::set1(*x.sum(i, b))));
        }
      }
    }
    Ints::F d[V];
    for (std::size_t v = 0; v < V; ++v) {
      d[v] =
          Ints::template scales<T::kScaleForm>(scales + v * steps.scales, lane + v * steps.lanes);
      if constexpr (T::kScaleFactor != 1.0F) d[v] = Ints::mul(d[v], Ints::set1(T::kScaleFactor));
    }
    // The activations' sums, times the whole minimums, or scales, of their groups.
    Ints::I offsets[V][M];
    if constexpr (T::kScales && (T::kMinimums || O::kOffset != 0)) {
      group_sums<T>(scales + 2 * lane, steps, x, b, offsets);
    }
    for (std::size_t v = 0; v < V; ++v) {
      for (std::size_t i = 0; i < M; ++i) {
        if constexpr (T::kScales && O::kOffset != 0) {
          products[v][i] =
              Ints::sub(products[v][i], Ints::mul(offsets[v][i], Ints::set1(O::kOffset)));
        }
        const Ints::F scale = Ints::set1(x.scale(i, b));
        sums[v][i] = Ints::fma(Ints::to_float(products[v][i]), Ints::mul(d[v], scale), sums[v][i]);
        if constexpr (T::kMinimums) {
          if constexpr (!T::kScales) offsets[v][i] = Ints::set1(*x.sum(i, b));
          const Ints::F of_row =
              Ints::mul(minimum<T>(scales + v * steps.scales, lane + v * steps.lanes), scale);
          sums[v][i] = Ints::fnma(Ints::to_float(offsets[v][i]), of_row, sums[v][i]);
        }
      }
    }
  }
  for (std::size_t v = 0; v < V; ++v) {
    const std::size_t first = lane + v * Ints::kLanes;
    if (first >= count) break;
    const std::size_t lanes = count - first < Ints::kLanes ? count - first : Ints::kLanes;
    for (std::size_t i = 0; i < M; ++i) {
      Ints::store_n(a.output + (m + i) * a.output_stride + n + first, sums[v][i], lanes);
    }
  }
}

// Rows [m, m + M) against N whole panels.
template <class T, class Source, std::size_t N, std::size_t M>
inline void product_rows(const MatmulArgs& a, const Panel& panel, std::size_t m, std::size_t n,
                         std::size_t count, const PanelsAhead& ahead, std::size_t pass) {
  constexpr std::size_t kVectors = N > 1 ? N : Ints::template vectors<T, M>();
  for (std::size_t lane = 0; lane < kPanelRows; lane += kVectors * Ints::kLanes)
    product_tile<T, Source, kVectors, M>(a, panel, m, n, lane, count, ahead, pass);
}

// The rows from m on, M of them or fewer, in one tile: weights that come from memory are then
// waited for once.
template <class T, class Source, std::size_t N, std::size_t M>
inline void product_rest(const MatmulArgs& a, const Panel& panel, std::size_t m, std::size_t n,
                         std::size_t count, const PanelsAhead& ahead, std::size_t pass) {
  if (a.m - m == M) return product_rows<T, Source, N, M>(a, panel, m, n, count, ahead, pass);
  if constexpr (M > 1) product_rest<T, Source, N, M - 1>(a, panel, m, n, count, ahead, pass);
}

// The rows in passes of M, and one of what is left. The `next_bytes` bytes at `next` are asked for.
template <class T, class Source, std::size_t N, std::size_t M>
inline void product_passes(const MatmulArgs& a, const Panel& panel, std::size_t n,
                           std::size_t count, const std::uint8_t* next, std::size_t next_bytes) {
  const PanelsAhead ahead(next, next_bytes, (a.m + M - 1) / M, a.k / T::kElements);
  std::size_t m = 0, pass = 0;
  for (; m + M <= a.m; m += M, ++pass)
    product_rows<T, Source, N, M>(a, panel, m, n, count, ahead, pass);
  product_rest<T, Source, N, M - 1>(a, panel, m, n, count, ahead, pass);
}

// N panels, whose first row is row n of the weights, against all rows.
template <class T, std::size_t N, std::size_t M>
inline void multiply_panels(const MatmulArgs& a, std::size_t n, bool expands, std::byte* scratch) {
  using P = Packed<T>;
  const std::size_t stride = a.k / T::kElements * T::kBytes;
  const std::size_t count = a.n_end - n < N * kPanelRows ? a.n_end - n : N * kPanelRows;
  const std::byte* at = a.weights + n / kPanelRows * P::panel_bytes(a.k);
  const std::size_t expanded_bytes = expands ? a.k * kPanelRows : 0;
  const std::uint8_t* next = nullptr;
  std::size_t next_bytes = 0;
  if (a.packed) {
    const std::size_t behind = n + count;
    const std::size_t rows = std::min(a.n_end - behind, N * kPanelRows);
    next = reinterpret_cast<const std::uint8_t*>(at) + N * P::panel_bytes(a.k);
    next_bytes = (rows + kPanelRows - 1) / kPanelRows * P::panel_bytes(a.k);
  } else {
    std::byte* to = scratch + N * expanded_bytes;
    at = to;
    for (std::size_t first = 0; first < count; first += kPanelRows, to += P::panel_bytes(a.k)) {
      const std::size_t rows = count - first < kPanelRows ? count - first : kPanelRows;
      pack_panel<T>(a.weights + (n + first) * stride, stride, rows, a.k, to);
    }
  }
  Panel panel;
  panel.codes = reinterpret_cast<const std::uint8_t*>(at);
  panel.scales = panel.codes + P::code_bytes(a.k);
  panel.next_codes = panel.next_scales = P::panel_bytes(a.k);
  if (!expands) return product_passes<T, Direct<T>, N, M>(a, panel, n, count, next, next_bytes);
  auto* expanded = reinterpret_cast<std::uint8_t*>(scratch);
  for (std::size_t i = 0; i < N; ++i)
    expand<T>(panel.codes + i * panel.next_codes, a.k, expanded + i * expanded_bytes);
  panel.codes = expanded;
  panel.next_codes = expanded_bytes;
  product_passes<T, Expanded<T>, N, M>(a, panel, n, count, next, next_bytes);
}

// Rows from which tiles go over several panels. Scales of groups take the registers of such a tile
// as long as it unpacks codes, too; and few rows of whole bytes wait for the memory, which gives
// one panel after the other faster than several at a time.
template <class T>
constexpr std::size_t share_from() {
  if (T::kScales) return Ints::kExpandFrom;
  return T::kBits < 8 ? Ints::kPanelsTile : 3 * Ints::kPanelsTile;
}

template <class T>
inline void multiply_blocks(const MatmulArgs& a) {
  using P = Packed<T>;
  assert(a.k % T::kElements == 0);
  assert(!a.packed || a.n_begin % kPanelRows == 0);
  // Rows enough pay for operands of a byte each, made once.
  constexpr bool kExpands = T::kBits < 8 || Operand<T>::kSigned;
  const bool expands = kExpands && a.m >= Ints::kExpandFrom;
  // And for tiles over several panels, which share the activations; not where the float scales of
  // groups take the registers.
  constexpr std::size_t kPanels = T::kFloatScales ? 1 : Ints::kPanels;
  const bool shares = kPanels > 1 && a.m >= share_from<T>();
  const std::size_t each = (expands ? a.k * kPanelRows : 0) + (a.packed ? 0 : P::panel_bytes(a.k));
  const AlignedBytes scratch((shares ? kPanels : 1) * each + 64);
  std::size_t n = a.n_begin;
  if constexpr (kPanels > 1) {
    for (; shares && n + kPanels * kPanelRows <= a.n_end; n += kPanels * kPanelRows)
      multiply_panels<T, kPanels, Ints::kPanelsTile>(a, n, expands, scratch.data);
  }
  for (; n < a.n_end; n += kPanelRows)
    multiply_panels<T, 1, Ints::kTile>(a, n, expands, scratch.data);
}

// The functions of Kernels for block types.
inline std::size_t block_activation_bytes(DataType type, std::size_t k) {
  return with_type(type, [&](auto t) -> std::size_t {
    using T = decltype(t);
    if constexpr (T::kPlain) {
      return 0;
    } else {
      return QuantRow<T>::bytes(k);
    }
  });
}

inline void block_prepare(DataType type, const float* x, std::size_t k, std::byte* out) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if constexpr (!T::kPlain) quantize_row<T>(x, k, Operand<T>::kSumFactor, out);
  });
}

inline void block_matmul(const MatmulArgs& args) {
  with_type(args.type, [&](auto t) {
    using T = decltype(t);
    if constexpr (!T::kPlain) multiply_blocks<T>(args);
  });
}

inline std::size_t block_panel_bytes(DataType type, std::size_t k) {
  return with_type(type, [&](auto t) -> std::size_t {
    using T = decltype(t);
    if constexpr (T::kPlain) {
      return 0;
    } else {
      return Packed<T>::panel_bytes(k);
    }
  });
}

inline void block_pack(DataType type, const std::byte* rows, std::size_t count, std::size_t k,
                       std::byte* out) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    if constexpr (!T::kPlain) {
      const std::size_t stride = k / T::kElements * T::kBytes;
      for (std::size_t n = 0; n < count; n += kPanelRows) {
        const std::size_t some = count - n < kPanelRows ? count - n : kPanelRows;
        pack_panel<T>(rows + n * stride, stride, some, k, out);
        out += Packed<T>::panel_bytes(k);
      }
    }
  });
}

}  // namespace
}  // namespace dovetail::kernels
