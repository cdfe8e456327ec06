#pragma once

#include <cstddef>
#include <cstdint>

#include "load/data_type.h"

// The block layouts of quantised GGUF tensors. Every member is a byte array, so that a block may
// lie at any address; 16-bit floats are read with memcpy or an unaligned load.
namespace dovetail::kernels {

// Elements of a block, and of a super-block of the K types.
inline constexpr std::size_t kBlock = 32;
inline constexpr std::size_t kSuper = 256;

struct BlockQ8_0 {  // w = d * q
  std::uint8_t d[2];
  std::uint8_t q[32];  // int8
};

struct BlockQ4_0 {  // w = d * (q - 8); the low nibbles are elements 0-15, the high ones 16-31
  std::uint8_t d[2];
  std::uint8_t q[16];
};

// Eight groups of 32, each with a 6-bit scale s and a 6-bit minimum m: w = d * s * q - dmin * m.
// q: per 64 elements 32 bytes, low nibbles first.
struct BlockQ4_K {
  std::uint8_t d[2], dmin[2];
  std::uint8_t scales[12];
  std::uint8_t q[128];
};

struct BlockQ5_K {  // as Q4_K; group g finds its fifth bits in bit g of `high`
  std::uint8_t d[2], dmin[2];
  std::uint8_t scales[12];
  std::uint8_t high[32];
  std::uint8_t q[128];
};

// Sixteen groups of 16 with an int8 scale s: w = d * s * (q - 32). Per half of 128 elements: 64
// bytes of low nibbles, 32 bytes of two-bit tops.
struct BlockQ6_K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::uint8_t scales[16];  // int8
  std::uint8_t d[2];
};

static_assert(sizeof(BlockQ8_0) == load::info(load::DataType::kQ8_0).bytes_per_block);
static_assert(sizeof(BlockQ4_0) == load::info(load::DataType::kQ4_0).bytes_per_block);
static_assert(sizeof(BlockQ4_K) == load::info(load::DataType::kQ4_K).bytes_per_block);
static_assert(sizeof(BlockQ5_K) == load::info(load::DataType::kQ5_K).bytes_per_block);
static_assert(sizeof(BlockQ6_K) == load::info(load::DataType::kQ6_K).bytes_per_block);

}  // namespace dovetail::kernels
