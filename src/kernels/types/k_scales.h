#pragma once

#include "kernels/types/weight_type.h"

namespace dovetail::kernels {
namespace {

// Eight 6-bit scales and minimums in 12 bytes, of Q4_K and Q5_K: the first four of each in the low
// bits of bytes 0-3 and 4-7; the others' low nibbles in bytes 8-11, their tops in the two high bits
// of bytes 0-7. Four at a time, whatever the byte order: no bit crosses from one byte into another.
inline void k_scales(const std::uint8_t (&packed)[12], std::int8_t* out) {
  std::uint32_t in[3];
  std::memcpy(in, packed, sizeof in);
  const std::uint32_t scales[2] = {in[0] & 0x3f3f3f3fU,
                                   (in[2] & 0x0f0f0f0fU) | ((in[0] & 0xc0c0c0c0U) >> 2U)};
  std::memcpy(out, scales, sizeof scales);
}

inline void k_minimums(const std::uint8_t (&packed)[12], std::int8_t* out) {
  std::uint32_t in[3];
  std::memcpy(in, packed, sizeof in);
  const std::uint32_t minimums[2] = {in[1] & 0x3f3f3f3fU,
                                     ((in[2] & 0xf0f0f0f0U) >> 4U) | ((in[1] & 0xc0c0c0c0U) >> 2U)};
  std::memcpy(out, minimums, sizeof minimums);
}

}  // namespace
}  // namespace dovetail::kernels
