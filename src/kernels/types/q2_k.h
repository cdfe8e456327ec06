#pragma once

#include "kernels/types/bit_pairs.h"

namespace dovetail::kernels {
namespace {

struct Q2_K : SuperBlockType {
  static constexpr std::string_view kName = "Q2_K";
  static constexpr std::uint32_t kGguf = 10;
  struct Block {
    std::uint8_t scales[16];  // in low nibbles; minimums in high ones
    std::uint8_t q[64];
    std::uint8_t d[2], dmin[2];
  };
  static constexpr std::size_t kGroup = 16, kBytes = sizeof(Block);
  static constexpr int kBits = 2;
  static constexpr bool kMinimums = true;
  static constexpr int kLeastScale = 0, kMostScale = 15;
  static void codes(const Block& b, std::uint8_t* out) { bit_pairs(b.q, out); }
  static void scales(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 16; ++g) out[g] = static_cast<std::int8_t>(b.scales[g] & 15);
  }
  static void minimums(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 16; ++g) out[g] = static_cast<std::int8_t>(b.scales[g] >> 4);
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
  static std::uint16_t minimum_bits(const Block& b) { return little_endian(b.dmin); }
};

static_assert(Q2_K::kBytes == 84);

}  // namespace
}  // namespace dovetail::kernels
