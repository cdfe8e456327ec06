#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "kernels/packed.h"

// Included after an instruction set's ints.h, which defines Ints.
//
// A panel's codes as what instructions multiply with activations, four elements of each row to a
// register's lane.
namespace dovetail::kernels {
namespace {

template <std::size_t kNumber>
struct Index {
  static constexpr std::size_t value = kNumber;
};

template <class Function, std::size_t... kNumbers>
[[gnu::always_inline]] inline void unrolled(std::index_sequence<kNumbers...>, Function&& function) {
  (function(Index<kNumbers>{}), ...);
}

// What an instruction multiplies with activations: bytes without a sign, a type's values from the
// lowest on, where they are as small as Ints takes them, else with a sign.
template <class T>
struct Operand {
  static constexpr int kSpan = highest_value<T>() - lowest_value<T>();
  static constexpr bool kSigned = kSpan > Ints::kMostUnsigned;
  // What is missing from the values: the products are too large by it times the activations' sum.
  static constexpr int kOffset = kSigned ? 0 : -lowest_value<T>();
  static_assert(!T::kMinimums || kOffset == 0);
  static constexpr int kMost = kSigned ? 128 : kSpan;
  static constexpr int kSumFactor = T::kScales || kOffset == 0 ? 1 : -kOffset;
};

// The operands of a unit, from the panel's codes.
template <class T>
struct Direct {
  static constexpr std::size_t kUnitBytes = Packed<T>::kUnitBytes;
  using I = Ints::I;

  template <std::size_t kQuad>
  [[gnu::always_inline]] static I operand(const std::uint8_t* unit) {
    using P = Packed<T>;
    constexpr int kPerWord = 8 / P::kBaseBits;
    constexpr int kAt = static_cast<int>(kQuad);
    I code = Ints::load(unit + kAt / kPerWord * kQuadBytes);
    if constexpr (P::kBaseBits < 8) {
      code = Ints::template bits<-(kAt % kPerWord * P::kBaseBits), (1 << P::kBaseBits) - 1>(code);
    }
    if constexpr (P::kTopBits > 0) {
      constexpr int kTops = 8 / P::kTopBits;
      const I top = Ints::load(unit + P::kTopOffset + kAt / kTops * kQuadBytes);
      code = Ints::merge(code, Ints::template bits<P::kBaseBits - kAt % kTops * P::kTopBits,
                                                   ((1 << P::kTopBits) - 1) << P::kBaseBits>(top));
    }
    if constexpr (T::kTable) {
      return Ints::look_up(Ints::table(kTable), code);
    } else if constexpr (Operand<T>::kSigned) {
      static_assert(T::kLowest == -128);
      return Ints::flip_sign(code);
    } else {
      return code;
    }
  }

  struct Table {
    alignas(16) std::uint8_t bytes[16];
  };
  static constexpr Table kTable = [] {
    Table table{};
    if constexpr (T::kTable) {
      for (int i = 0; i < 1 << T::kBits; ++i) {
        table.bytes[i] = static_cast<std::uint8_t>(T::kValues[i] + Operand<T>::kOffset);
      }
    }
    return table;
  }();
};

// The same operands, a byte each.
template <class T>
struct Expanded {
  static constexpr std::size_t kUnitBytes = kUnitQuads * kQuadBytes;
  template <std::size_t kQuad>
  [[gnu::always_inline]] static Ints::I operand(const std::uint8_t* unit) {
    return Ints::load(unit + kQuad * kQuadBytes);
  }
};

template <class T>
inline void expand(const std::uint8_t* codes, std::size_t k, std::uint8_t* out) {
  for (std::size_t u = 0; u < k; u += kUnit) {
    for (std::size_t lane = 0; lane < kPanelRows; lane += Ints::kLanes) {
      unrolled(std::make_index_sequence<kUnitQuads>(), [&]<std::size_t kQuad>(Index<kQuad>) {
        Ints::store(out + kQuad * kQuadBytes + 4 * lane,
                    Direct<T>::template operand<kQuad>(codes + 4 * lane));
      });
    }
    codes += Direct<T>::kUnitBytes;
    out += kUnitQuads * kQuadBytes;
  }
}

// Sixteen rows of weights: the codes, as Source reads them, and the scales; and how many bytes
// behind them those of the next sixteen rows are.
struct Panel {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::size_t next_codes = 0, next_scales = 0;
};

struct AlignedBytes {
  explicit AlignedBytes(std::size_t size)
      : data(static_cast<std::byte*>(::operator new(size, std::align_val_t(64)))) {}
  ~AlignedBytes() { ::operator delete(data, std::align_val_t(64)); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data;
};

}  // namespace
}  // namespace dovetail::kernels
