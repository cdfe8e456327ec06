#pragma once

#include "kernels/types/nibbles.h"

namespace dovetail::kernels {
namespace {

struct MXFP4 : BlockType {  // of the OCP MX specification: E2M1 with E8M0 scales
  static constexpr std::string_view kName = "MXFP4";
  static constexpr std::uint32_t kGguf = 39;
  struct Block {
    std::uint8_t exponent;
    std::uint8_t q[16];
  };
  static constexpr std::size_t kElements = 32, kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kTable = true;
  // Doubled, to be whole.
  static constexpr std::int8_t kValues[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                              0, -1, -2, -3, -4, -6, -8, -12};
  static constexpr ScaleForm kScaleForm = ScaleForm::kE8M0;
  static constexpr float kScaleFactor = 0.5F;
  static void codes(const Block& b, std::uint8_t* out) { nibbles(b.q, out); }
  static std::uint16_t scale_bits(const Block& b) { return b.exponent; }
};

static_assert(MXFP4::kBytes == 17);

struct NVFP4 : MXFP4 {  // E2M1 with an E4M3 scale for 16 elements
  static constexpr std::string_view kName = "NVFP4";
  static constexpr std::uint32_t kGguf = 40;
  struct Block {
    std::uint8_t scales[4];
    std::uint8_t q[32];  // per group: the low nibbles are elements 0-7, the high ones 8-15
  };
  static constexpr std::size_t kElements = 64, kGroup = 16, kBytes = sizeof(Block);
  static constexpr bool kFloatScales = true;
  static constexpr ScaleForm kScaleForm = ScaleForm::kE4M3;
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t g = 0; g < 4; ++g, out += kGroup) {
      for (std::size_t i = 0; i < 8; ++i) {
        out[i] = b.q[8 * g + i] & 15;
        out[i + 8] = static_cast<std::uint8_t>(b.q[8 * g + i] >> 4);
      }
    }
  }
  // The sign is not looked at; a NaN stands for zero.
  static std::uint32_t scale_bits(const Block& b, std::size_t group) {
    const std::uint8_t bits = b.scales[group];
    return bits == 0x7f ? 0U : bits & 0x7fU;
  }
};

static_assert(NVFP4::kBytes == 36);

}  // namespace
}  // namespace dovetail::kernels
