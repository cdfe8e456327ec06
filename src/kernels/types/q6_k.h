#pragma once

#include "kernels/types/weight_type.h"

namespace dovetail::kernels {
namespace {

struct Q6_K : SuperBlockType {
  static constexpr std::string_view kName = "Q6_K";
  static constexpr std::uint32_t kGguf = 14;
  struct Block {  // per half of 128 elements: 64 bytes of low nibbles, 32 bytes of two-bit tops
    std::uint8_t low[128];
    std::uint8_t high[64];
    std::uint8_t scales[16];  // int8
    std::uint8_t d[2];
  };
  static constexpr std::size_t kGroup = 16, kBytes = sizeof(Block);
  static constexpr int kBits = 6;
  static constexpr std::int8_t kLowest = -32;
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t half = 0; half < 2; ++half, out += 128) {
      const std::uint8_t* low = b.low + half * 64;
      const std::uint8_t* high = b.high + half * 32;
      for (std::size_t i = 0; i < 32; ++i) {
        out[i] = static_cast<std::uint8_t>((low[i] & 15) | ((high[i] & 3) << 4));
        out[i + 32] = static_cast<std::uint8_t>((low[i + 32] & 15) | ((high[i] & 12) << 2));
        out[i + 64] = static_cast<std::uint8_t>((low[i] >> 4) | (high[i] & 48));
        out[i + 96] = static_cast<std::uint8_t>((low[i + 32] >> 4) | ((high[i] & 192) >> 2));
      }
    }
  }
  static void scales(const Block& b, std::int8_t* out) { std::memcpy(out, b.scales, 16); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(Q6_K::kBytes == 210);

}  // namespace
}  // namespace dovetail::kernels
