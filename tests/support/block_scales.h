#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/data_type.h"

namespace dovetail::test {

// Gives a block of random bits scales that are finite. `half_of(size)` is asked for the bits of
// each half: weights are of about one where it is 1 / size.
template <class HalfOf>
void set_block_scales(kernels::DataType type, std::byte* block, HalfOf&& half_of) {
  using kernels::DataType;
  const auto put = [&](std::size_t at, float size) {
    const std::uint16_t bits = half_of(size);
    block[at] = static_cast<std::byte>(bits & 255);
    block[at + 1] = static_cast<std::byte>(bits >> 8);
  };
  const auto put_float = [&](std::size_t at, float size) {
    const std::uint16_t bits = half_of(size);
    const float value = std::ldexp(1.0F + static_cast<float>(bits & 1023) / 1024.0F,
                                   static_cast<int>(bits >> 10 & 31) - 15);
    const float scale = (bits & 0x8000) != 0 ? -value : value;
    std::memcpy(block + at, &scale, sizeof scale);
  };
  switch (type) {
    case DataType::kF32:
    case DataType::kBF16:
      return;
    case DataType::kF16:
      return put(0, 1.0F);
    case DataType::kQ4_0:
      return put(0, 5.0F);
    case DataType::kQ4_1:
      put(0, 9.0F);
      return put(2, 1.0F);
    case DataType::kQ5_0:
      return put(0, 9.0F);
    case DataType::kQ5_1:
      put(0, 18.0F);
      return put(2, 1.0F);
    case DataType::kQ8_0:
      return put(0, 70.0F);
    case DataType::kQ2_K:
      put(80, 16.0F);
      return put(82, 9.0F);
    case DataType::kQ3_K:
      return put(108, 42.0F);
    case DataType::kQ4_K:
      put(0, 300.0F);
      return put(2, 40.0F);
    case DataType::kQ5_K:
      put(0, 600.0F);
      return put(2, 40.0F);
    case DataType::kQ6_K:
      return put(208, 1500.0F);
    case DataType::kIQ1_S:
      return put(0, 7.0F);
    case DataType::kIQ1_M: {  // a nibble each in the high ones of four pairs of bytes
      const std::uint16_t bits = half_of(7.0F);
      for (std::size_t i = 0; i < 4; ++i) {
        std::byte& at = block[49 + 2 * i];
        at = (at & std::byte{15}) | static_cast<std::byte>((bits >> 4 * i & 15) << 4);
      }
      return;
    }
    case DataType::kIQ2_XXS:
    case DataType::kIQ2_XS:
    case DataType::kIQ2_S:
      return put(0, 65.0F);
    case DataType::kIQ3_XXS:
    case DataType::kIQ3_S:
      return put(0, 160.0F);
    case DataType::kIQ4_NL:
      return put(0, 66.0F);
    case DataType::kIQ4_XS:
      return put(0, 1200.0F);
    case DataType::kTQ1_0:
      return put(52, 1.0F);
    case DataType::kTQ2_0:
      return put(64, 1.0F);
    case DataType::kMXFP4:  // an exponent of 8 bits, of 127 for 1
      block[0] = static_cast<std::byte>((half_of(3.0F) >> 10 & 31) + 127 - 15);
      return;
    case DataType::kNVFP4:  // E4M3 from 1/16 on
      for (std::size_t i = 0; i < 4; ++i)
        block[i] = static_cast<std::byte>(0x18 + (half_of(1) & 31));
      return;
    case DataType::kINT4_32:
    case DataType::kINT4_128:
      put_float(0, 5.0F);
      block[4] &= std::byte{15};
      return;
    case DataType::kINT8:
      return put_float(0, 70.0F);
    case DataType::kFP8_E4M3:
      return put_float(0, 100.0F);
  }
}

}  // namespace dovetail::test
