#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/kernels.h"

// What the tests compare with: quantised blocks read a second time, bit by bit as the GGUF
// specification tells it, and sums in double. Shares no code with src/kernels.
namespace dovetail::kernels::reference {

using load::DataType;
using Bytes = std::vector<std::byte>;

inline unsigned byte_at(const std::byte* p, std::size_t i) {
  return std::to_integer<unsigned>(p[i]);
}

inline double half_at(const std::byte* p) {
  const unsigned bits = byte_at(p, 0) | byte_at(p, 1) << 8;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  const double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

inline void put_half(std::byte* p, unsigned bits) {
  p[0] = static_cast<std::byte>(bits & 255);
  p[1] = static_cast<std::byte>(bits >> 8);
}

// Element i of a row.
inline double weight(DataType type, const std::byte* row, std::size_t i) {
  const load::DataTypeInfo format = load::info(type);
  const std::byte* b = row + i / format.elements_per_block * format.bytes_per_block;
  const std::size_t e = i % format.elements_per_block;
  const auto k_scale = [](const std::byte* scales, std::size_t g, bool minimum) -> double {
    const std::size_t shift = minimum ? 4 : 0;
    if (g < 4) return byte_at(scales, g + shift) & 63;
    return (byte_at(scales, g + 4) >> shift & 15) | (byte_at(scales, g - 4 + shift) >> 6) << 4;
  };
  switch (type) {
    case DataType::kF32: {
      float value;
      std::memcpy(&value, b, 4);
      return value;
    }
    case DataType::kF16:
      return half_at(b);
    case DataType::kBF16: {
      const std::uint32_t bits = (byte_at(b, 0) | byte_at(b, 1) << 8) << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    case DataType::kQ8_0:
      return half_at(b) * static_cast<std::int8_t>(byte_at(b, 2 + e));
    case DataType::kQ4_0: {
      const unsigned pair = byte_at(b, 2 + e % 16);
      return half_at(b) * (static_cast<int>(e < 16 ? pair & 15 : pair >> 4) - 8);
    }
    case DataType::kQ4_K: {
      const unsigned pair = byte_at(b, 16 + e / 64 * 32 + e % 32);
      const unsigned q = e % 64 < 32 ? pair & 15 : pair >> 4;
      return half_at(b) * k_scale(b + 4, e / 32, false) * q -
             half_at(b + 2) * k_scale(b + 4, e / 32, true);
    }
    case DataType::kQ5_K: {
      const unsigned pair = byte_at(b, 48 + e / 64 * 32 + e % 32);
      const unsigned high = byte_at(b, 16 + e % 32) >> (e / 32) & 1;
      const unsigned q = (e % 64 < 32 ? pair & 15 : pair >> 4) + 16 * high;
      return half_at(b) * k_scale(b + 4, e / 32, false) * q -
             half_at(b + 2) * k_scale(b + 4, e / 32, true);
    }
    case DataType::kQ6_K: {
      const std::size_t in_half = e % 128;
      const unsigned low = byte_at(b, e / 128 * 64 + in_half % 64);
      const unsigned high = byte_at(b, 128 + e / 128 * 32 + in_half % 32);
      const unsigned q = (in_half < 64 ? low & 15 : low >> 4) | (high >> (in_half / 32 * 2) & 3)
                                                                    << 4;
      return half_at(b + 208) * static_cast<std::int8_t>(byte_at(b, 192 + e / 16)) *
             (static_cast<int>(q) - 32);
    }
  }
  return 0;
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
  Bytes bytes(rows * load::row_bytes(type, k));
  std::uniform_int_distribution<unsigned> any_byte(0, 255);
  std::uniform_int_distribution<unsigned> any_fraction(0, 1023);
  for (std::byte& b : bytes) b = static_cast<std::byte>(any_byte(random));
  const load::DataTypeInfo format = load::info(type);
  const auto small_half = [&](std::byte* at, unsigned exponent) {
    put_half(at, exponent << 10 | any_fraction(random) | (any_byte(random) & 1) << 15);
  };
  for (std::size_t at = 0; at < bytes.size(); at += format.bytes_per_block) {
    std::byte* block = bytes.data() + at;
    switch (type) {
      case DataType::kF32: {
        const float value = std::normal_distribution<float>()(random);
        std::memcpy(block, &value, 4);
        break;
      }
      case DataType::kBF16: {
        const float value = std::normal_distribution<float>()(random);
        std::memcpy(block, reinterpret_cast<const std::byte*>(&value) + 2, 2);
        break;
      }
      case DataType::kF16:
        small_half(block, 13 + any_byte(random) % 3);
        break;
      case DataType::kQ8_0:
        small_half(block, 8);
        break;
      case DataType::kQ4_0:
        small_half(block, 12);
        break;
      case DataType::kQ4_K:
      case DataType::kQ5_K:
        small_half(block, 5);
        small_half(block + 2, 7);
        break;
      case DataType::kQ6_K:
        small_half(block + 208, 3);
        break;
    }
  }
  return bytes;
}

}  // namespace dovetail::kernels::reference
