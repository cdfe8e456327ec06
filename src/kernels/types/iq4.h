#pragma once

#include "kernels/types/nibbles.h"

namespace dovetail::kernels {
namespace {

struct Iq4Values {  // denser around zero
  static constexpr std::int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};
};

struct IQ4_NL : BlockType, Iq4Values {
  static constexpr std::string_view kName = "IQ4_NL";
  static constexpr std::uint32_t kGguf = 20;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[16];
  };
  static constexpr std::size_t kElements = 32, kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kTable = true;
  static void codes(const Block& b, std::uint8_t* out) { nibbles(b.q, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

struct IQ4_XS : SuperBlockType, Iq4Values {
  static constexpr std::string_view kName = "IQ4_XS";
  static constexpr std::uint32_t kGguf = 23;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t scales_high[2];  // two bits for each group
    std::uint8_t scales_low[4];   // four
    std::uint8_t q[8][16];
  };
  static constexpr std::size_t kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kTable = true;
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t g = 0; g < 8; ++g) nibbles(b.q[g], out + g * 32);
  }
  static void scales(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 8; ++g) {
      const int low = (b.scales_low[g / 2] >> g % 2 * 4) & 15;
      const int high = (b.scales_high[g / 4] >> g % 4 * 2) & 3;
      out[g] = static_cast<std::int8_t>((low | high << 4) - 32);
    }
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(IQ4_NL::kBytes == 18);
static_assert(IQ4_XS::kBytes == 136);

}  // namespace
}  // namespace dovetail::kernels
