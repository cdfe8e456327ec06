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

}  // namespace
}  // namespace dovetail::kernels
