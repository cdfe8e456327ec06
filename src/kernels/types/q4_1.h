#pragma once

#include "kernels/types/nibbles.h"

namespace dovetail::kernels {
namespace {

struct Q4_1 : BlockType {
  static constexpr std::string_view kName = "Q4_1";
  static constexpr std::uint32_t kGguf = 3;
  struct Block {
    std::uint8_t d[2], m[2];  // w = d * q + m
    std::uint8_t q[16];
  };
  static constexpr std::size_t kElements = 32, kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kMinimums = true;
  static constexpr float kMinimumFactor = -1.0F;
  static void codes(const Block& b, std::uint8_t* out) { nibbles(b.q, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
  static std::uint16_t minimum_bits(const Block& b) { return little_endian(b.m); }
};

static_assert(Q4_1::kBytes == 20);

}  // namespace
}  // namespace dovetail::kernels
