#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/blocks.h"

// Quantised weights as signed bytes with whole-numbered scales: the form in which products of
// blocks are exact. Internal linkage on purpose: see README.md, "One definition per instruction
// set".
namespace dovetail::kernels {
namespace {

using load::DataType;

// kElements of one block share the float scale d; each kGroup of them share a whole scale (where
// kScales) and a whole minimum times dmin (where kMins):
//   w = d * scale * q - dmin * minimum.
// scales() writes 16 whole numbers: the scales, and with kMins the minimums as the last eight.
template <DataType T>
struct Unpack;

template <>
struct Unpack<DataType::kQ8_0> {
  using Block = BlockQ8_0;
  static constexpr std::size_t kElements = 32, kGroup = 32;
  static constexpr bool kScales = false, kMins = false;
  static void quants(const Block& b, std::int8_t* q) { std::memcpy(q, b.q, 32); }
};

template <>
struct Unpack<DataType::kQ4_0> {
  using Block = BlockQ4_0;
  static constexpr std::size_t kElements = 32, kGroup = 32;
  static constexpr bool kScales = false, kMins = false;
  static void quants(const Block& b, std::int8_t* q) {
    for (std::size_t i = 0; i < 16; ++i) {
      q[i] = static_cast<std::int8_t>((b.q[i] & 15) - 8);
      q[i + 16] = static_cast<std::int8_t>((b.q[i] >> 4) - 8);
    }
  }
};

// Eight 6-bit scales and minimums in 12 bytes: the first four of each in the low bits of bytes 0-3
// and 4-7; the others' low nibbles in bytes 8-11, their tops in the two high bits of bytes 0-7.
// Four at a time, whatever the byte order: no bit crosses from one byte into another.
inline void unpack_k_scales(const std::uint8_t* packed, std::int8_t* whole) {
  std::uint32_t in[3];
  std::memcpy(in, packed, sizeof in);
  const std::uint32_t out[4] = {
      in[0] & 0x3f3f3f3fU, (in[2] & 0x0f0f0f0fU) | ((in[0] & 0xc0c0c0c0U) >> 2U),
      in[1] & 0x3f3f3f3fU, ((in[2] & 0xf0f0f0f0U) >> 4U) | ((in[1] & 0xc0c0c0c0U) >> 2U)};
  std::memcpy(whole, out, sizeof out);
}

template <>
struct Unpack<DataType::kQ4_K> {
  using Block = BlockQ4_K;
  static constexpr std::size_t kElements = 256, kGroup = 32;
  static constexpr bool kScales = true, kMins = true;
  static void quants(const Block& b, std::int8_t* q) {
    for (std::size_t c = 0; c < 4; ++c) {
      for (std::size_t i = 0; i < 32; ++i) {
        q[c * 64 + i] = static_cast<std::int8_t>(b.q[c * 32 + i] & 15);
        q[c * 64 + 32 + i] = static_cast<std::int8_t>(b.q[c * 32 + i] >> 4);
      }
    }
  }
  static void scales(const Block& b, std::int8_t* whole) { unpack_k_scales(b.scales, whole); }
};

template <>
struct Unpack<DataType::kQ5_K> {
  using Block = BlockQ5_K;
  static constexpr std::size_t kElements = 256, kGroup = 32;
  static constexpr bool kScales = true, kMins = true;
  static void quants(const Block& b, std::int8_t* q) {
    for (std::size_t c = 0; c < 4; ++c) {
      for (std::size_t i = 0; i < 32; ++i) {
        const int high = b.high[i] >> (2 * c);
        q[c * 64 + i] = static_cast<std::int8_t>((b.q[c * 32 + i] & 15) | ((high & 1) << 4));
        q[c * 64 + 32 + i] = static_cast<std::int8_t>((b.q[c * 32 + i] >> 4) | ((high & 2) << 3));
      }
    }
  }
  static void scales(const Block& b, std::int8_t* whole) { unpack_k_scales(b.scales, whole); }
};

template <>
struct Unpack<DataType::kQ6_K> {
  using Block = BlockQ6_K;
  static constexpr std::size_t kElements = 256, kGroup = 16;
  static constexpr bool kScales = true, kMins = false;
  static void quants(const Block& b, std::int8_t* q) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::uint8_t* low = b.low + half * 64;
      const std::uint8_t* high = b.high + half * 32;
      std::int8_t* out = q + half * 128;
      for (std::size_t i = 0; i < 32; ++i) {
        out[i] = static_cast<std::int8_t>(((low[i] & 15) | ((high[i] & 3) << 4)) - 32);
        out[i + 32] = static_cast<std::int8_t>(((low[i + 32] & 15) | ((high[i] & 12) << 2)) - 32);
        out[i + 64] = static_cast<std::int8_t>(((low[i] >> 4) | (high[i] & 48)) - 32);
        out[i + 96] = static_cast<std::int8_t>(((low[i + 32] >> 4) | ((high[i] & 192) >> 2)) - 32);
      }
    }
  }
  static void scales(const Block& b, std::int8_t* whole) { std::memcpy(whole, b.scales, 16); }
};

// A row of activations for quantised weights: k signed bytes; one float scale per block of the
// weight's type; one sum of bytes per group of it.
struct QuantRow {
  const std::int8_t* q;
  const float* scale;
  const std::int32_t* sum;
};

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

template <DataType T>
inline std::size_t quant_activation_bytes(std::size_t k) {
  return round_up(k, 64) + round_up(4 * (k / Unpack<T>::kElements), 64) +
         round_up(4 * (k / Unpack<T>::kGroup), 64);
}

template <DataType T>
inline QuantRow quant_row(const std::byte* row, std::size_t k) {
  const std::byte* scale = row + round_up(k, 64);
  const std::byte* sum = scale + round_up(4 * (k / Unpack<T>::kElements), 64);
  return {reinterpret_cast<const std::int8_t*>(row), reinterpret_cast<const float*>(scale),
          reinterpret_cast<const std::int32_t*>(sum)};
}

}  // namespace
}  // namespace dovetail::kernels
