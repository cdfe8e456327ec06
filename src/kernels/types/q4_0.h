#pragma once

#include "kernels/types/nibbles.h"

namespace dovetail::kernels {
namespace {

struct Q4_0 : BlockType {
  static constexpr std::string_view kName = "Q4_0";
  static constexpr std::uint32_t kGguf = 2;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[16];
  };
  static constexpr std::size_t kElements = 32, kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr std::int8_t kLowest = -8;
  static void codes(const Block& b, std::uint8_t* out) { nibbles(b.q, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(Q4_0::kBytes == 18);

}  // namespace
}  // namespace dovetail::kernels
