#pragma once

#include "kernels/types/weight_type.h"

namespace dovetail::kernels {
namespace {

// 256 codes of two bits in 64 bytes: of 128 elements 32 bytes, whose lowest pairs are the first 32.
inline void bit_pairs(const std::uint8_t (&q)[64], std::uint8_t* out) {
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint8_t pairs = q[half * 32 + i];
      out[half * 128 + i] = pairs & 3;
      out[half * 128 + i + 32] = (pairs >> 2) & 3;
      out[half * 128 + i + 64] = (pairs >> 4) & 3;
      out[half * 128 + i + 96] = static_cast<std::uint8_t>(pairs >> 6);
    }
  }
}

}  // namespace
}  // namespace dovetail::kernels
