#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cache_type.h"

// Included after an instruction set's vec.h, which defines Vec. How tiles of the cache are written
// and read; cache_type.h tells their layout. A position's bytes are a function of that position's
// own floats.
namespace dovetail::kernels {
namespace {

// Of a head that most models have, and of one that some have: states of fewer dimensions stay in
// the caches.
inline constexpr std::size_t kMaxHeadDim = 256, kMaxWideHeadDim = 512;
inline constexpr std::size_t kMaxScales = kMostLatentDims / scaled_dims(CacheType::kQ8_0);
static_assert(kBlockSize == Vec::kWidth, "a dimension of a block's keys is one vector");

// Rounds to nearest, ties to even.
inline std::uint16_t float_to_bfloat(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(nan ? (bits >> 16U) | 0x40U : rounded);
}

constexpr std::size_t whole_vectors(std::size_t n) {
  return (n + Vec::kWidth - 1) / Vec::kWidth * Vec::kWidth;
}

// A position's elements, as they are stored; zeros up to whole vectors.
struct CacheRow {
  alignas(64) std::byte elements[kMostLatentDims * sizeof(float)];
  alignas(64) std::byte scales[whole_vectors(kMaxScales) * 2];  // F16
};

// The largest number that an element of a scaled type may be.
constexpr float largest_code(CacheType type) { return type == CacheType::kQ8_0 ? 127.0F : 448.0F; }

// E4M3 of a number within +-448: to nearest, ties to even.
inline std::uint8_t encode_e4m3(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24U & 0x80U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude < 0x3c800000U) {  // 2^-6: multiples of 2^-9
    const float whole = (__builtin_bit_cast(float, magnitude) * 512.0F + 0x1p23F) - 0x1p23F;
    return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(whole));
  }
  const std::uint32_t rounded = magnitude + 0x7ffffU + (magnitude >> 20U & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20U) - (120U << 3U)));
}

// Codes of which the largest is 127 or 448 (or its negative), and the number that makes it so, in
// F16, as the scale. Codes are multiples of the scale as it was rounded. A group with an infinity
// or a NaN is all NaN.
template <CacheType T>
inline void encode_scaled(const float* x, std::size_t n, CacheRow& row) {
  constexpr std::size_t w = Vec::kWidth;
  constexpr std::size_t kGroup = scaled_dims(T);
  constexpr float kLargest = largest_code(T);
  alignas(64) float steps[whole_vectors(kMaxScales)] = {};
  for (std::size_t g = 0; g * kGroup < n; ++g) {
    // Magnitudes are compared as whole numbers, which have no order of their own to keep.
    std::uint32_t top = 0;
    for (std::size_t i = g * kGroup; i < n && i < (g + 1) * kGroup; ++i) {
      const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x[i]) & 0x7fffffffU;
      top = bits > top ? bits : top;
    }
    const bool finite = top < 0x7f800000U;
    steps[g] = finite ? __builtin_bit_cast(float, top) / kLargest : __builtin_nanf("");
  }
  for (std::size_t g = 0; g * kGroup < n; g += w) {
    Vec::store_f16_n(row.scales + 2 * g, Vec::load(steps + g), w);
    Vec::store(steps + g, Vec::load_f16_n(row.scales + 2 * g, w));
  }
  for (std::size_t i = 0; i < n; i += w) {
    const float step = steps[i / kGroup];
    const bool some = step > 0.0F && step < __builtin_inff();
    alignas(64) float quotients[w] = {};
    if (some) {
      const Vec::F v = Vec::div(Vec::load_n(x + i, n - i < w ? n - i : w), Vec::set1(step));
      const Vec::F bounded = Vec::max(Vec::set1(-kLargest), Vec::min(Vec::set1(kLargest), v));
      Vec::store(quotients, T == CacheType::kQ8_0 ? Vec::round(bounded) : bounded);
    }
    for (std::size_t j = 0; j < w; ++j) {
      if constexpr (T == CacheType::kQ8_0) {
        const auto q = static_cast<std::int8_t>(static_cast<std::int32_t>(quotients[j]));
        row.elements[i + j] = static_cast<std::byte>(q);
      } else {
        row.elements[i + j] = static_cast<std::byte>(encode_e4m3(quotients[j]));
      }
    }
  }
}

template <CacheType T>
inline void encode_row(const float* x, std::size_t n, CacheRow& row) {
  constexpr std::size_t kBytes = info(T).element_bytes;
  std::memset(row.elements + n * kBytes, 0, (whole_vectors(n) - n) * kBytes);
  if constexpr (T == CacheType::kF32) {
    std::memcpy(row.elements, x, n * sizeof(float));
  } else if constexpr (T == CacheType::kF16) {
    constexpr std::size_t w = Vec::kWidth;
    for (std::size_t i = 0; i < n; i += w) {
      const std::size_t count = n - i < w ? n - i : w;
      Vec::store_f16_n(row.elements + 2 * i, Vec::load_n(x + i, count), count);
    }
  } else if constexpr (T == CacheType::kBF16) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint16_t rounded = float_to_bfloat(x[i]);
      std::memcpy(row.elements + 2 * i, &rounded, 2);
    }
  } else {
    static_assert(scaled_dims(T) > 0);
    encode_scaled<T>(x, n, row);
  }
}

template <CacheType T>
inline void store_scales(const CacheRow& row, std::size_t n, std::size_t position,
                         std::byte* tile) {
  if constexpr (constexpr std::size_t kGroup = scaled_dims(T); kGroup > 0) {
    std::byte* scales = tile + kBlockSize * whole_vectors(n);
    for (std::size_t g = 0; g * kGroup < n; ++g)
      std::memcpy(scales + (g * kBlockSize + position) * 2, row.scales + 2 * g, 2);
  }
}

template <CacheType T>
inline void store_key_of(const float* key, std::size_t n, std::size_t position, std::byte* tile) {
  constexpr std::size_t kBytes = info(T).element_bytes;
  CacheRow row;
  encode_row<T>(key, n, row);
  for (std::size_t d = 0; d < n; ++d)
    std::memcpy(tile + (d * kBlockSize + position) * kBytes, row.elements + d * kBytes, kBytes);
  store_scales<T>(row, n, position, tile);
}

template <CacheType T>
inline void store_value_of(const float* value, std::size_t n, std::size_t position,
                           std::byte* tile) {
  constexpr std::size_t kBytes = info(T).element_bytes;
  const std::size_t bytes = whole_vectors(n) * kBytes;
  CacheRow row;
  encode_row<T>(value, n, row);
  std::memcpy(tile + position * bytes, row.elements, bytes);
  store_scales<T>(row, n, position, tile);
}

inline void store_key(CacheType type, const float* key, std::size_t head_dim, std::size_t position,
                      std::byte* tile) {
  switch (type) {
#define DOVETAIL_LISTED(name, text, bytes) \
  case CacheType::k##name:                 \
    return store_key_of<CacheType::k##name>(key, head_dim, position, tile);
    DOVETAIL_CACHE_TYPES(DOVETAIL_LISTED)
#undef DOVETAIL_LISTED
  }
}

inline void store_value(CacheType type, const float* value, std::size_t head_dim,
                        std::size_t position, std::byte* tile) {
  switch (type) {
#define DOVETAIL_LISTED(name, text, bytes) \
  case CacheType::k##name:                 \
    return store_value_of<CacheType::k##name>(value, head_dim, position, tile);
    DOVETAIL_CACHE_TYPES(DOVETAIL_LISTED)
#undef DOVETAIL_LISTED
  }
}

// What the elements of all positions are multiplied with, for the dimensions from d on.
template <CacheType T>
inline Vec::F load_steps(const std::byte* tile, std::size_t head_dim, std::size_t d) {
  const Vec::F scales = Vec::load_f16(tile + kBlockSize * whole_vectors(head_dim) +
                                      d / scaled_dims(T) * kBlockSize * 2);
  // Elements come as 256ths; powers of two round nothing.
  return T == CacheType::kFP8 ? Vec::mul(scales, Vec::set1(256.0F)) : scales;
}

// Sixteen elements as floats; those of types with scales lack them.
template <CacheType T>
inline Vec::F load_elements(const std::byte* p) {
  if constexpr (T == CacheType::kF32)
    return Vec::load(p);
  else if constexpr (T == CacheType::kF16)
    return Vec::load_f16(p);
  else if constexpr (T == CacheType::kBF16)
    return Vec::load_bf16(p);
  else if constexpr (T == CacheType::kQ8_0)
    return Vec::load_i8(p);
  else
    return Vec::load_e4m3(p);
}

template <CacheType T>
inline void load_values_of(const std::byte* tile, std::size_t n, std::size_t first, std::size_t end,
                           float* out) {
  constexpr std::size_t w = Vec::kWidth;
  constexpr std::size_t kBytes = info(T).element_bytes;
  for (std::size_t d = 0; d < n; d += w) {
    alignas(64) float steps[kBlockSize] = {};
    if constexpr (scaled_dims(T) > 0) Vec::store(steps, load_steps<T>(tile, n, d));
    const std::size_t count = n - d < w ? n - d : w;
    for (std::size_t p = first; p < end; ++p) {
      Vec::F v = load_elements<T>(tile + (p * whole_vectors(n) + d) * kBytes);
      if constexpr (scaled_dims(T) > 0) v = Vec::mul(v, Vec::set1(steps[p]));
      Vec::store_n(out + (p - first) * n + d, v, count);
    }
  }
}

inline void load_values(CacheType type, const std::byte* tile, std::size_t head_dim,
                        std::size_t first, std::size_t end, float* out) {
  switch (type) {
#define DOVETAIL_LISTED(name, text, bytes) \
  case CacheType::k##name:                 \
    return load_values_of<CacheType::k##name>(tile, head_dim, first, end, out);
    DOVETAIL_CACHE_TYPES(DOVETAIL_LISTED)
#undef DOVETAIL_LISTED
  }
}

}  // namespace
}  // namespace dovetail::kernels
