#pragma once

#include "kernels/types/weight_type.h"

namespace dovetail::kernels {
namespace {

struct Q8_0 : BlockType {
  static constexpr std::string_view kName = "Q8_0";
  static constexpr std::uint32_t kGguf = 8;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[32];  // int8
  };
  static constexpr std::size_t kElements = 32, kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 8;
  static constexpr std::int8_t kLowest = -128;
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) out[i] = b.q[i] ^ 0x80U;
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(Q8_0::kBytes == 34);

}  // namespace
}  // namespace dovetail::kernels
