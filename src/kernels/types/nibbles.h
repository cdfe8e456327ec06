#pragma once

#include "kernels/types/spread_bits.h"

namespace dovetail::kernels {
namespace {

// 32 codes of four bits in 16 bytes: the low nibbles are elements 0-15, the high ones 16-31.
inline void nibbles(const std::uint8_t* q, std::uint8_t* out) {
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = q[i] & 15;
    out[i + 16] = static_cast<std::uint8_t>(q[i] >> 4);
  }
}

// kCount codes of four bits, of which a byte holds two after another, the first in the low bits.
template <std::size_t kCount>
inline void nibble_pairs(const std::uint8_t* q, std::uint8_t* out) {
  for (std::size_t i = 0; i < kCount / 2; ++i) {
    out[2 * i] = q[i] & 15;
    out[2 * i + 1] = static_cast<std::uint8_t>(q[i] >> 4);
  }
}

// As many of five bits: the fifth ones are a bit for each element.
inline void nibbles_and_bits(const std::uint8_t* q, const std::uint8_t (&high)[4],
                             std::uint8_t* out) {
  constexpr std::uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
  const std::uint64_t first = load_codes(q);
  const std::uint64_t second = load_codes(q + 8);
  store_codes((first & kLow) | spread_bits(high[0]) << 4, out);
  store_codes((second & kLow) | spread_bits(high[1]) << 4, out + 8);
  store_codes((first >> 4 & kLow) | spread_bits(high[2]) << 4, out + 16);
  store_codes((second >> 4 & kLow) | spread_bits(high[3]) << 4, out + 24);
}

}  // namespace
}  // namespace dovetail::kernels
