#pragma once

#include "kernels/types/iq_codes.h"

namespace dovetail::kernels {
namespace {

// Eight elements share a point of the grid, of -1, 0 and 1, and an eighth that is added to or
// subtracted from each. A code has the digit in its low two bits, and above whether it is
// subtracted; values are eighths. No digit is 3.
struct Iq1Type : SuperBlockType {
  static constexpr int kBits = 3;
  static constexpr bool kTable = true;
  static constexpr std::int8_t kValues[8] = {-7, 1, 9, 9, -9, -1, 7, 7};
  static constexpr float kScaleFactor = 0.125F;
  static void store(int point, bool subtracted, std::uint8_t* out) {
    store_codes(spread_pairs(kIq1Grid.points[point]) | (subtracted ? 0x0404040404040404 : 0), out);
  }
  static std::int8_t odd_scale(int bits) { return static_cast<std::int8_t>((bits & 7) * 2 + 1); }
};

struct IQ1_S : Iq1Type {
  static constexpr std::string_view kName = "IQ1_S";
  static constexpr std::uint32_t kGguf = 19;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[32];  // points of eight elements
    // Of each group: the points' bits 8 to 10, the scale's three bits, whether to subtract.
    std::uint8_t high[8][2];
  };
  static constexpr std::size_t kGroup = 32, kBytes = sizeof(Block);
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) {
      const int high = little_endian(b.high[i / 4]);
      store(b.q[i] | ((high >> i % 4 * 3) & 7) << 8, high >> 15 != 0, out + 8 * i);
    }
  }
  static void scales(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 8; ++g) out[g] = odd_scale(b.high[g][1] >> 4);
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

struct IQ1_M : Iq1Type {
  static constexpr std::string_view kName = "IQ1_M";
  static constexpr std::uint32_t kGguf = 29;
  struct Block {
    std::uint8_t q[32];         // points of eight elements
    std::uint8_t high[16];      // a nibble for each: its bits 8 to 10, whether to subtract
    std::uint8_t scales[4][2];  // four of three bits in each, and a nibble of the block's
  };
  static constexpr std::size_t kGroup = 16, kBytes = sizeof(Block);
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) {
      const int high = b.high[i / 2] >> i % 2 * 4;
      store(b.q[i] | (high & 7) << 8, (high & 8) != 0, out + 8 * i);
    }
  }
  static void scales(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 16; ++g) {
      out[g] = odd_scale(little_endian(b.scales[g / 4]) >> g % 4 * 3);
    }
  }
  static std::uint16_t scale_bits(const Block& b) {
    const auto nibble = [&b](std::size_t i) { return b.scales[i][1] >> 4 << 4 * i; };
    return static_cast<std::uint16_t>(nibble(0) | nibble(1) | nibble(2) | nibble(3));
  }
};

static_assert(IQ1_S::kBytes == 50);
static_assert(IQ1_M::kBytes == 56);

}  // namespace
}  // namespace dovetail::kernels
