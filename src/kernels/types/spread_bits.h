#pragma once

#include <bit>

#include "kernels/types/weight_type.h"

namespace dovetail::kernels {
namespace {

// Codes of eight elements are made in one number, a byte each, the first the lowest.
inline void store_codes(std::uint64_t codes, std::uint8_t* out) {
  if constexpr (std::endian::native == std::endian::big) codes = __builtin_bswap64(codes);
  std::memcpy(out, &codes, sizeof codes);
}

inline std::uint64_t load_codes(const std::uint8_t* codes) {
  std::uint64_t out;
  std::memcpy(&out, codes, sizeof out);
  if constexpr (std::endian::native == std::endian::big) out = __builtin_bswap64(out);
  return out;
}

// Eight bits, each the lowest of a byte.
inline std::uint64_t spread_bits(std::uint64_t bits) {
  bits = bits * 0x0101010101010101 & 0x8040201008040201;  // bit i stays in byte i
  return (bits + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101;
}

}  // namespace
}  // namespace dovetail::kernels
