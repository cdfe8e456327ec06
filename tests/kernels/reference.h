#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "support/block_scales.h"

// What the tests compare with, and random weights.
namespace dovetail::kernels::reference {

using Bytes = std::vector<std::byte>;

inline unsigned byte_at(const std::byte* p, std::size_t i) {
  return std::to_integer<unsigned>(p[i]);
}

inline double half_at(const std::byte* p) {
  const unsigned bits = byte_at(p, 0) | byte_at(p, 1) << 8;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  if (exponent == 31) {
    if (fraction != 0) return NAN;
    return (bits & 0x8000) != 0 ? -INFINITY : INFINITY;
  }
  const double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

inline void put_half(std::byte* p, unsigned bits) {
  p[0] = static_cast<std::byte>(bits & 255);
  p[1] = static_cast<std::byte>(bits >> 8);
}

// E4M3: a sign, an exponent of four bits with a bias of 7, three bits of a fraction; no infinities.
inline double e4m3(unsigned code) {
  const unsigned exponent = code >> 3 & 15;
  const unsigned fraction = code & 7;
  if (exponent == 15 && fraction == 7) return NAN;
  const double value = exponent == 0 ? std::ldexp(fraction, -9)
                                     : std::ldexp(8 + fraction, static_cast<int>(exponent) - 10);
  return (code & 128) != 0 ? -value : value;
}

// Dimension d of a position's key, or value, in a tile of the cache.
enum class Tile { kKeys, kValues };
inline double cached(CacheType type, Tile which, const std::byte* tile, std::size_t head_dim,
                     std::size_t position, std::size_t d) {
  const std::size_t padded = (head_dim + 15) / 16 * 16;
  const std::size_t index = which == Tile::kKeys ? d * 16 + position : position * padded + d;
  float value = 0;
  switch (type) {
    case CacheType::kF32:
      std::memcpy(&value, tile + 4 * index, 4);
      return value;
    case CacheType::kF16:
      return half_at(tile + 2 * index);
    case CacheType::kBF16:
      std::memcpy(reinterpret_cast<std::byte*>(&value) + 2, tile + 2 * index, 2);
      return value;
    case CacheType::kQ8_0:
      return static_cast<std::int8_t>(tile[index]) *
             half_at(tile + 16 * padded + (d / 32 * 16 + position) * 2);
    case CacheType::kFP8:
      return e4m3(std::to_integer<unsigned>(tile[index])) *
             half_at(tile + 16 * padded + (d / 64 * 16 + position) * 2);
  }
  return NAN;
}

// A row of k weights, as portable code reads it: see golden_test.cpp, which compares with what the
// gguf package reads.
inline std::vector<float> row_of(DataType type, const std::byte* row, std::size_t k) {
  std::vector<float> out(k);
  find_kernels("portable")->dequantize_row(type, row, k, out.data());
  return out;
}

inline std::vector<float> random_floats(std::size_t n, std::mt19937& random, float deviation = 1) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// `rows` rows of k weights, every bit of the quants and whole scales random, the float scales
// reasonable: products come out near one.
inline Bytes random_weights(DataType type, std::size_t rows, std::size_t k, std::mt19937& random) {
  Bytes bytes(rows * row_bytes(type, k));
  std::uniform_int_distribution<unsigned> any_byte(0, 255);
  std::uniform_int_distribution<unsigned> any_fraction(0, 1023);
  for (std::byte& b : bytes) b = static_cast<std::byte>(any_byte(random));
  // Of either sign, 0.4 to 1.6 / size.
  const auto random_half = [&](float size) {
    const auto exponent = static_cast<unsigned>(std::ilogb(0.8F / size) + 15);
    return static_cast<std::uint16_t>(exponent << 10 | any_fraction(random) |
                                      (any_byte(random) & 1) << 15);
  };
  std::normal_distribution<float> normal;
  const std::size_t block_bytes = info(type).bytes_per_block;
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    std::byte* block = bytes.data() + at;
    const float value = normal(random);
    if (type == DataType::kF32) std::memcpy(block, &value, 4);
    if (type == DataType::kBF16) {
      std::memcpy(block, reinterpret_cast<const std::byte*>(&value) + 2, 2);
    }
    test::set_block_scales(type, block, random_half);
  }
  return bytes;
}

}  // namespace dovetail::kernels::reference
