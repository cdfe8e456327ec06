#pragma once

#include "kernels/types/bit_pairs.h"

namespace dovetail::kernels {
namespace {

struct Q3_K : SuperBlockType {
  static constexpr std::string_view kName = "Q3_K";
  static constexpr std::uint32_t kGguf = 11;
  struct Block {
    std::uint8_t high[32];  // the third bits of elements 32 * i to 32 * i + 31 are bits i
    std::uint8_t q[64];
    std::uint8_t scales[12];  // 6 bits each: low nibbles in 8 bytes, two-bit tops in 4
    std::uint8_t d[2];
  };
  static constexpr std::size_t kGroup = 16, kBytes = sizeof(Block);
  static constexpr int kBits = 3;
  static constexpr std::int8_t kLowest = -4;
  static constexpr int kLeastScale = -32, kMostScale = 31;
  static void codes(const Block& b, std::uint8_t* out) {
    bit_pairs(b.q, out);
    for (std::size_t c = 0; c < 8; ++c) {
      for (std::size_t i = 0; i < 32; ++i) {
        std::uint8_t& code = out[c * 32 + i];
        code = static_cast<std::uint8_t>(code | ((b.high[i] >> c) & 1) << 2);
      }
    }
  }
  static void scales(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 16; ++g) {
      const int low = (b.scales[g % 8] >> g / 8 * 4) & 15;
      const int high = (b.scales[8 + g % 4] >> g / 4 * 2) & 3;
      out[g] = static_cast<std::int8_t>((low | high << 4) - 32);
    }
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(Q3_K::kBytes == 110);

}  // namespace
}  // namespace dovetail::kernels
