#pragma once

#include "kernels/types/k_scales.h"

namespace dovetail::kernels {
namespace {

struct Q4_K : SuperBlockType {
  static constexpr std::string_view kName = "Q4_K";
  static constexpr std::uint32_t kGguf = 12;
  struct Block {
    std::uint8_t d[2], dmin[2];
    std::uint8_t scales[12];
    std::uint8_t q[128];  // per 64 elements 32 bytes, low nibbles first
  };
  static constexpr std::size_t kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kMinimums = true;
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t c = 0; c < 4; ++c) {
      for (std::size_t i = 0; i < 32; ++i) {
        out[c * 64 + i] = b.q[c * 32 + i] & 15;
        out[c * 64 + 32 + i] = static_cast<std::uint8_t>(b.q[c * 32 + i] >> 4);
      }
    }
  }
  static void scales(const Block& b, std::int8_t* out) { k_scales(b.scales, out); }
  static void minimums(const Block& b, std::int8_t* out) { k_minimums(b.scales, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
  static std::uint16_t minimum_bits(const Block& b) { return little_endian(b.dmin); }
};

static_assert(Q4_K::kBytes == 144);

}  // namespace
}  // namespace dovetail::kernels
