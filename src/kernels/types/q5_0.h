#pragma once

#include "kernels/types/nibbles.h"

namespace dovetail::kernels {
namespace {

struct Q5_0 : BlockType {
  static constexpr std::string_view kName = "Q5_0";
  static constexpr std::uint32_t kGguf = 6;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t high[4];
    std::uint8_t q[16];
  };
  static constexpr std::size_t kElements = 32, kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 5;
  static constexpr std::int8_t kLowest = -16;
  static void codes(const Block& b, std::uint8_t* out) { nibbles_and_bits(b.q, b.high, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(Q5_0::kBytes == 22);

}  // namespace
}  // namespace dovetail::kernels
