#pragma once

#include "kernels/types/iq_codes.h"

namespace dovetail::kernels {
namespace {

// A code has the digit of the grid in its low two bits, and the sign above. No digit is 3.
struct Iq2Type : SuperBlockType {
  static constexpr int kBits = 3;
  static constexpr bool kTable = true;
  static constexpr std::int8_t kValues[8] = {8, 25, 43, 43, -8, -25, -43, -43};
  static constexpr float kScaleFactor = 0.125F;
  static void store(std::uint16_t point, unsigned signs, std::uint8_t* out) {
    store_codes(spread_pairs(point) | spread_bits(signs) << 2, out);
  }
};

struct IQ2_XXS : Iq2Type {
  static constexpr std::string_view kName = "IQ2_XXS";
  static constexpr std::uint32_t kGguf = 16;
  struct Group {
    std::uint8_t q[4];      // points of eight elements
    std::uint8_t signs[4];  // and the scale
  };
  struct Block {
    std::uint8_t d[2];
    Group groups[8];
  };
  static constexpr std::size_t kGroup = 32, kBytes = sizeof(Block);
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) {
      const Group& group = b.groups[i / 4];
      store(kIq2XxsGrid.points[group.q[i % 4]], seven_signs(group.signs, i % 4), out + 8 * i);
    }
  }
  static void scales(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 8; ++g) out[g] = scale_above_signs(b.groups[g].signs);
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

struct IQ2_XS : Iq2Type {
  static constexpr std::string_view kName = "IQ2_XS";
  static constexpr std::uint32_t kGguf = 17;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[32][2];  // points of eight elements in nine bits, seven signs above
    std::uint8_t scales[8];
  };
  static constexpr std::size_t kGroup = 16, kBytes = sizeof(Block);
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) {
      const unsigned q = little_endian(b.q[i]);
      store(kIq2XsGrid.points[q & 511], even_signs(q >> 9), out + 8 * i);
    }
  }
  static void scales(const Block& b, std::int8_t* out) { odd_scales(b.scales, 16, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

struct IQ2_S : Iq2Type {
  static constexpr std::string_view kName = "IQ2_S";
  static constexpr std::uint32_t kGguf = 22;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[32];  // points of eight elements
    std::uint8_t signs[32];
    std::uint8_t high[8];  // the points' bits 8 and 9
    std::uint8_t scales[8];
  };
  static constexpr std::size_t kGroup = 16, kBytes = sizeof(Block);
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) {
      const int high = (b.high[i / 4] >> i % 4 * 2) & 3;
      store(kIq2SGrid.points[b.q[i] | high << 8], b.signs[i], out + 8 * i);
    }
  }
  static void scales(const Block& b, std::int8_t* out) { odd_scales(b.scales, 16, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(IQ2_XXS::kBytes == 66);
static_assert(IQ2_XS::kBytes == 74);
static_assert(IQ2_S::kBytes == 82);

}  // namespace
}  // namespace dovetail::kernels
