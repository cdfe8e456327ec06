#pragma once

#include "kernels/types/iq_grids.h"
#include "kernels/types/spread_bits.h"

namespace dovetail::kernels {
namespace {

// Eight digits of two bits, a byte each.
inline std::uint64_t spread_pairs(std::uint64_t point) {
  point = (point | point << 24) & 0x000000ff000000ff;
  point = (point | point << 12) & 0x000f000f000f000f;
  return (point | point << 6) & 0x0303030303030303;
}

// Two points of four digits of three bits, a byte each.
inline std::uint64_t spread_triples(std::uint64_t first, std::uint64_t second) {
  std::uint64_t points = first | second << 32;
  points = (points | points << 10) & 0x003f003f003f003f;
  return (points | points << 5) & 0x0707070707070707;
}

// Seven signs, and an eighth that makes the number of negative ones even.
inline unsigned even_signs(unsigned signs) {
  signs &= 127;
  unsigned parity = signs ^ signs >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return signs | (parity & 1) << 7;
}

// Whole scales are odd: 2 * bits + 1. Four bits each here, low nibbles first.
inline void odd_scales(const std::uint8_t* packed, std::size_t count, std::int8_t* out) {
  for (std::size_t g = 0; g < count; ++g) {
    out[g] = static_cast<std::int8_t>(((packed[g / 2] >> g % 2 * 4) & 15) * 2 + 1);
  }
}

// Of a group of 32 elements: four times seven signs, and the scale's four bits.
inline unsigned seven_signs(const std::uint8_t (&b)[4], std::size_t eight) {
  const int all = b[0] | b[1] << 8 | b[2] << 16 | (b[3] & 15) << 24;
  return even_signs(static_cast<unsigned>(all >> 7 * eight));
}

inline std::int8_t scale_above_signs(const std::uint8_t (&b)[4]) {
  return static_cast<std::int8_t>((b[3] >> 4) * 2 + 1);
}

}  // namespace
}  // namespace dovetail::kernels
