#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/amx/tile.h"
#include "kernels/avx512/ints.h"
#include "kernels/vector/operands.h"

// A panel of weights as the tiles that AMX multiplies with.
namespace dovetail::kernels {
namespace {

// What a type's weights are within a block, but for the float scale: value * group scale, or
// value - zero.
template <class T>
struct WholeWeight {
  static constexpr int kLow = lowest_value<T>() - (T::kZeros ? 127 : 0);
  static constexpr int kHigh = highest_value<T>();
  static constexpr int kScaleLow = T::kScales ? T::kLeastScale : 1;
  static constexpr int kScaleHigh = T::kScales ? T::kMostScale : 1;
  static constexpr int least(int a, int b) { return a < b ? a : b; }
  static constexpr int kLeast =
      least(least(kLow * kScaleLow, kLow* kScaleHigh), least(kHigh* kScaleLow, kHigh* kScaleHigh));
  static constexpr int kMost = -least(least(-kLow * kScaleLow, -kLow* kScaleHigh),
                                      least(-kHigh* kScaleLow, -kHigh* kScaleHigh));
  static constexpr bool kFits = kLeast >= -128 && kMost <= 127;
  // With the other sign, and a float scale to match.
  static constexpr bool kNegated = !kFits && kMost <= 128 && kLeast >= -127;
  // Those that no byte holds are 128 * high + low, with 0 <= low < 128.
  static constexpr std::size_t kParts = kFits || kNegated ? 1 : 2;
  static_assert(kLeast >= -128 * 128 && kMost < 128 * 128);
};

// How products go through tiles, as far as it depends on the type of weights.
template <std::size_t kBlockElements, std::size_t kStepElements, std::size_t kPartCount,
          std::size_t kSumCount>
struct TileForm {
  // Elements that share a scale of activations; that share a float scale of weights.
  static constexpr std::size_t kBlock = kBlockElements, kStep = kStepElements;
  static constexpr std::size_t kSteps = kBlock / kStep;
  // Bytes that a weight's whole number is cut into.
  static constexpr std::size_t kParts = kPartCount;
  // Sums of activations in a block that are multiplied with minimums.
  static constexpr std::size_t kSums = kSumCount;
  static_assert(kSums <= 1 || kSums % 2 == 0);
  static_assert(kSums == 0 || kSteps == 1);

  // Elements that a tile takes of k; tiles of a step.
  static constexpr std::size_t kDepth = kStep < kTileRowBytes ? kStep : kTileRowBytes;
  static constexpr std::size_t kTiles = kStep / kDepth;
  static constexpr std::size_t kPartBytes = kDepth * kPanelRows;
  static constexpr std::size_t kStepBytes = kTiles * kParts * kPartBytes;
  // Floats, and whole numbers in their place, of a step: the rows' scales, their minimums where
  // kSums, then, where kSums > 1, per pair of groups the rows' two minimums of 16 bits.
  static constexpr std::size_t kScaleFloats =
      kPanelRows * (1 + (kSums > 0 ? 1 : 0) + (kSums > 1 ? kSums / 2 : 0));
  // What it takes of the activations, per row: the scale, then the sum as a float, or pairs of 16
  // bits.
  static constexpr std::size_t kSideFloats = kTileRows * (1 + (kSums > 1 ? kSums / 2 : kSums));
};

template <class T>
using FormOf =
    TileForm<T::kElements, T::kFloatScales ? T::kGroup : T::kElements, WholeWeight<T>::kParts,
             !T::kMinimums ? 0
             : T::kScales  ? Packed<T>::kGroups
                           : 1>;

// A row's scale of 16 bits, twice in each lane, from those of an even and an odd group.
template <bool kOdd>
[[gnu::always_inline]] inline __m512i twice(__m512i pairs) {
  if constexpr (kOdd)
    return _mm512_mask_mov_epi16(pairs, 0x55555555U, _mm512_srli_epi32(pairs, 16));
  return _mm512_mask_mov_epi16(pairs, 0xaaaaaaaaU, _mm512_slli_epi32(pairs, 16));
}

// Signed bytes times `scale`, into the parts of a tile's row.
template <class T>
[[gnu::always_inline]] inline void store_scaled(__m512i values, __m512i scale, std::uint8_t* out) {
  using W = WholeWeight<T>;
  const __m512i low = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(values, 8), 8), scale);
  const __m512i high = _mm512_mullo_epi16(_mm512_srai_epi16(values, 8), scale);
  constexpr std::uint64_t kOddBytes = 0xaaaaaaaaaaaaaaaaU;
  if constexpr (W::kParts == 1) {
    Ints::store(out, _mm512_mask_mov_epi8(low, kOddBytes, _mm512_slli_epi16(high, 8)));
  } else {
    const __m512i both = _mm512_mask_mov_epi8(low, kOddBytes, _mm512_slli_epi16(high, 8));
    Ints::store(out, _mm512_and_si512(both, _mm512_set1_epi8(127)));
    Ints::store(
        out + FormOf<T>::kPartBytes,
        _mm512_mask_mov_epi8(_mm512_srai_epi16(low, 7), kOddBytes, _mm512_slli_epi16(high, 1)));
  }
}

// The floats of a step, in TileForm's order.
template <class T>
[[gnu::always_inline]] inline void store_scales(const std::uint8_t* scales, std::size_t step,
                                                float* out) {
  using P = Packed<T>;
  using F = FormOf<T>;
  Ints::F d = Ints::template scales<T::kScaleForm>(scales + step * P::kFloatScaleBytes, 0);
  constexpr float kFactor = WholeWeight<T>::kNegated ? -T::kScaleFactor : T::kScaleFactor;
  if constexpr (kFactor != 1.0F) d = Ints::mul(d, Ints::set1(kFactor));
  Ints::store(out, _mm512_castps_si512(d));
  if constexpr (F::kSums > 0) {
    Ints::F m = Ints::template scales<ScaleForm::kHalf>(scales + P::kMinimumOffset, 0);
    if constexpr (T::kMinimumFactor != 1.0F) m = Ints::mul(m, Ints::set1(T::kMinimumFactor));
    Ints::store(out + kPanelRows, _mm512_castps_si512(m));
  }
  if constexpr (F::kSums > 1) {
    for (std::size_t g = 0; g < F::kSums; g += 2) {
      Ints::store(out + kPanelRows * (2 + g / 2),
                  Ints::widen_pairs(scales + P::kGroupMinimumOffset + g * kPanelRows));
    }
  }
}

// The whole numbers of `k` elements of a panel, step after step, and the floats of the steps.
template <class T>
inline void make_strip(const Panel& panel, std::size_t k, std::uint8_t* out, float* floats) {
  using P = Packed<T>;
  using F = FormOf<T>;
  const std::uint8_t* codes = panel.codes;
  const std::uint8_t* scales = panel.scales;
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(Operand<T>::kOffset));
  std::size_t quads = 0;  // of this panel so far
  for (std::size_t b = 0; b < k; b += T::kElements, scales += P::kScaleBytes) {
    for (std::size_t step = 0; step < F::kSteps; ++step, floats += F::kScaleFloats) {
      store_scales<T>(scales, step, floats);
    }
    __m512i less = offset;
    if constexpr (T::kZeros) {
      const __m512i zeros =
          _mm512_mullo_epi32(Ints::bytes(scales + P::kZeroOffset, 0), Ints::set1(0x01010101));
      less = _mm512_add_epi8(less, zeros);
    }
    for (std::size_t unit = 0; unit < T::kElements / kUnit; ++unit, codes += P::kUnitBytes) {
      __m512i first{}, second{};  // scales of the unit's halves
      if constexpr (T::kScales) {
        constexpr std::size_t kUnitGroups = kUnit / T::kGroup;
        const std::size_t group = unit * kUnitGroups;
        const __m512i pairs =
            Ints::widen_pairs(scales + P::kGroupOffset + group / 2 * 2 * kPanelRows);
        const __m512i even = twice<false>(pairs);
        const __m512i odd = twice<true>(pairs);
        first = group % 2 == 0 ? even : odd;
        second = kUnitGroups == 2 ? odd : first;
        if constexpr (WholeWeight<T>::kNegated) {
          first = _mm512_sub_epi16(_mm512_setzero_si512(), first);
          second = _mm512_sub_epi16(_mm512_setzero_si512(), second);
        }
      }
      unrolled(std::make_index_sequence<kUnitQuads>(), [&]<std::size_t kQuad>(Index<kQuad>) {
        const std::size_t quad = quads + kQuad;
        const __m512i values = _mm512_sub_epi8(Direct<T>::template operand<kQuad>(codes), less);
        constexpr std::size_t kTileQuads = F::kDepth / 4;
        std::uint8_t* at =
            out + quad / kTileQuads * F::kParts * F::kPartBytes + quad % kTileQuads * kQuadBytes;
        if constexpr (T::kScales) {
          store_scaled<T>(values, kQuad < 4 ? first : second, at);
        } else {
          Ints::store(at, values);
        }
      });
      quads += kUnitQuads;
    }
  }
}

}  // namespace
}  // namespace dovetail::kernels
