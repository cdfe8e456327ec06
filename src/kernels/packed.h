#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/types/all.h"

// How block types lie in memory for products: panels of sixteen rows, rows innermost, in the width
// of the type's codes, a byte for a group's scale. The layout is the same for every instruction
// set. Internal linkage on purpose: see README.md, "One definition per instruction set".
namespace dovetail::kernels {
namespace {

// Elements of each row whose codes lie together: eight quads, four elements of each row after
// another, as one instruction multiplies them.
inline constexpr std::size_t kUnit = 32;
inline constexpr std::size_t kUnitQuads = 8;
inline constexpr std::size_t kQuadBytes = 4 * kPanelRows;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// A panel is its codes, unit after unit, then the scales, block after block.
//
// A unit's codes are planes of kBaseBits and of kTopBits bits: 64-byte words, one byte per row and
// element of a quad, that hold 8 / width quads each, the first in the low bits.
//
// A block's scales are those of the rows as stored, in the form kScaleForm (where kFloatScales,
// group after group), then the minimums as halves (where kMinimums), then the zero points as bytes
// (where kZeros), then (where kScales) per pair of groups the rows' two scales, then likewise the
// minimums.
template <class T>
struct Packed {
  static constexpr int kTopBits = T::kBits == 3 || T::kBits == 5 ? 1 : T::kBits == 6 ? 2 : 0;
  static constexpr int kBaseBits = T::kBits - kTopBits;
  static_assert(kBaseBits == 2 || kBaseBits == 4 || kBaseBits == 8);
  static constexpr std::size_t kUnitBytes = kQuadBytes * T::kBits;
  static constexpr std::size_t kTopOffset = kQuadBytes * kBaseBits;

  static constexpr std::size_t kGroups = T::kElements / T::kGroup;
  static_assert(T::kScales || T::kFloatScales ? kGroups % 2 == 0 : kGroups == 1);
  static constexpr bool kGroupMinimums = T::kScales && T::kMinimums;
  static constexpr std::size_t kFloatScaleCount = T::kFloatScales ? kGroups : 1;
  static constexpr std::size_t kFloatScaleBytes = kPanelRows * scale_bytes(T::kScaleForm);
  static constexpr std::size_t kMinimumOffset = kFloatScaleBytes * kFloatScaleCount;
  static constexpr std::size_t kZeroOffset = kMinimumOffset + (T::kMinimums ? 2 * kPanelRows : 0);
  static constexpr std::size_t kGroupOffset = kZeroOffset + (T::kZeros ? kPanelRows : 0);
  static constexpr std::size_t kGroupMinimumOffset =
      kGroupOffset + (T::kScales ? kGroups * kPanelRows : 0);
  static constexpr std::size_t kScaleBytes =
      kGroupMinimumOffset + (kGroupMinimums ? kGroups * kPanelRows : 0);

  static std::size_t code_bytes(std::size_t k) { return k / kUnit * kUnitBytes; }
  static std::size_t panel_bytes(std::size_t k) {
    return code_bytes(k) + round_up(k / T::kElements * kScaleBytes, 64);
  }
};

// Writes the words of one plane of a unit: bits [from, from + kWidth) of its quads' codes.
template <int kWidth, int kFrom>
inline void pack_plane(const std::uint8_t (&quads)[kUnitQuads][kQuadBytes], std::uint8_t* out) {
  constexpr int kPerWord = 8 / kWidth;
  constexpr int kMask = (1 << kWidth) - 1;
  for (int word = 0; word < kWidth; ++word) {
    for (std::size_t i = 0; i < kQuadBytes; ++i) {
      int bits = 0;
      for (int t = 0; t < kPerWord; ++t) {
        bits |= ((quads[word * kPerWord + t][i] >> kFrom) & kMask) << (kWidth * t);
      }
      out[static_cast<std::size_t>(word) * kQuadBytes + i] = static_cast<std::uint8_t>(bits);
    }
  }
}

// A block's float scale, of a group where groups have their own, as stored.
template <class T>
inline std::uint32_t float_scale_bits(const typename T::Block& block,
                                      [[maybe_unused]] std::size_t group) {
  if constexpr (T::kFloatScales) {
    return T::scale_bits(block, group);
  } else {
    return T::scale_bits(block);
  }
}

// The pairs of groups of a row's whole scales into the rows' places.
inline void pack_pairs(const std::int8_t* whole, std::size_t groups, std::size_t row,
                       std::uint8_t* out) {
  for (std::size_t g = 0; g < groups; g += 2) {
    std::memcpy(out + g * kPanelRows + 2 * row, whole + g, 2);
  }
}

// Packs `count` rows, at most sixteen, of k elements that lie `stride` bytes apart. Missing rows
// are zeros.
template <class T>
inline void pack_panel(const std::byte* weights, std::size_t stride, std::size_t count,
                       std::size_t k, std::byte* out) {
  using P = Packed<T>;
  using Block = typename T::Block;
  std::uint8_t rows[kPanelRows][T::kElements];
  std::memset(rows, 0, sizeof rows);
  auto* codes = reinterpret_cast<std::uint8_t*>(out);
  auto* scales = codes + P::code_bytes(k);
  std::memset(scales, 0, P::panel_bytes(k) - P::code_bytes(k));
  for (std::size_t b = 0; b < k / T::kElements; ++b, scales += P::kScaleBytes) {
    for (std::size_t r = 0; r < count; ++r) {
      Block block;
      std::memcpy(&block, weights + r * stride + b * sizeof(Block), sizeof block);
      T::codes(block, rows[r]);
      for (std::size_t s = 0; s < P::kFloatScaleCount; ++s) {
        constexpr std::size_t kWidth = scale_bytes(T::kScaleForm);
        const std::uint32_t scale = float_scale_bits<T>(block, s);
        std::memcpy(scales + s * P::kFloatScaleBytes + r * kWidth, &scale, kWidth);
      }
      if constexpr (T::kZeros) scales[P::kZeroOffset + r] = T::zero(block);
      if constexpr (T::kMinimums) {
        const std::uint16_t minimum = T::minimum_bits(block);
        std::memcpy(scales + P::kMinimumOffset + 2 * r, &minimum, 2);
      }
      if constexpr (T::kScales) {
        std::int8_t whole[P::kGroups];
        T::scales(block, whole);
        pack_pairs(whole, P::kGroups, r, scales + P::kGroupOffset);
        if constexpr (P::kGroupMinimums) {
          T::minimums(block, whole);
          pack_pairs(whole, P::kGroups, r, scales + P::kGroupMinimumOffset);
        }
      }
    }
    for (std::size_t u = 0; u < T::kElements; u += kUnit, codes += P::kUnitBytes) {
      std::uint8_t quads[kUnitQuads][kQuadBytes];
      for (std::size_t r = 0; r < kPanelRows; ++r) {
        for (std::size_t q = 0; q < kUnitQuads; ++q) {
          std::memcpy(quads[q] + 4 * r, rows[r] + u + 4 * q, 4);
        }
      }
      pack_plane<P::kBaseBits, 0>(quads, codes);
      if constexpr (P::kTopBits > 0) {
        pack_plane<P::kTopBits, P::kBaseBits>(quads, codes + P::kTopOffset);
      }
    }
  }
}

// A row of activations for block types: k signed bytes; a float scale per block of the weight's
// type; sums of bytes, per group as 16 bits where kScales and as 32 bits where kFloatScales, else
// per block as 32 bits.
template <class T>
struct QuantRow {
  using Sum = std::conditional_t<T::kScales, std::int16_t, std::int32_t>;
  static constexpr std::size_t kSumElements =
      T::kScales || T::kFloatScales ? T::kGroup : T::kElements;

  static std::size_t bytes(std::size_t k) {
    return round_up(k, 64) + round_up(4 * (k / T::kElements), 64) +
           round_up(sizeof(Sum) * (k / kSumElements), 64);
  }
  QuantRow() = default;
  QuantRow(std::byte* row, std::size_t k)
      : q(reinterpret_cast<std::int8_t*>(row)),
        scale(reinterpret_cast<float*>(row + round_up(k, 64))),
        sum(reinterpret_cast<Sum*>(row + round_up(k, 64) + round_up(4 * (k / T::kElements), 64))) {}

  std::int8_t* q;
  float* scale;
  Sum* sum;
};

}  // namespace
}  // namespace dovetail::kernels
