#pragma once

#include "kernels/types/iq_codes.h"

namespace dovetail::kernels {
namespace {

// A code has the digit of the grid in its low three bits, and the sign above.
inline void iq3_codes(std::uint64_t first, std::uint64_t second, unsigned signs,
                      std::uint8_t* out) {
  store_codes(spread_triples(first, second) | spread_bits(signs) << 3, out);
}

struct IQ3_XXS : SuperBlockType {
  static constexpr std::string_view kName = "IQ3_XXS";
  static constexpr std::uint32_t kGguf = 18;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[64];        // points of four elements
    std::uint8_t signs[8][4];  // and scales
  };
  static constexpr std::size_t kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kTable = true;
  static constexpr std::int8_t kValues[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                              -4, -12, -20, -28, -36, -44, -52, -62};
  static constexpr float kScaleFactor = 0.25F;
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) {
      iq3_codes(kIq3XxsGrid.points[b.q[2 * i]], kIq3XxsGrid.points[b.q[2 * i + 1]],
                seven_signs(b.signs[i / 4], i % 4), out + 8 * i);
    }
  }
  static void scales(const Block& b, std::int8_t* out) {
    for (std::size_t g = 0; g < 8; ++g) out[g] = scale_above_signs(b.signs[g]);
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

struct IQ3_S : SuperBlockType {
  static constexpr std::string_view kName = "IQ3_S";
  static constexpr std::uint32_t kGguf = 21;
  struct Block {
    std::uint8_t d[2];
    std::uint8_t q[64];    // points of four elements
    std::uint8_t high[8];  // their ninth bits
    std::uint8_t signs[32];
    std::uint8_t scales[4];
  };
  static constexpr std::size_t kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kTable = true;
  static constexpr std::int8_t kValues[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                              -1, -3, -5, -7, -9, -11, -13, -15};
  static std::uint16_t point(const Block& b, std::size_t i) {
    return kIq3SGrid.points[b.q[i] | ((b.high[i / 8] >> i % 8) & 1) << 8];
  }
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) {
      iq3_codes(point(b, 2 * i), point(b, 2 * i + 1), b.signs[i], out + 8 * i);
    }
  }
  static void scales(const Block& b, std::int8_t* out) { odd_scales(b.scales, 8, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(IQ3_XXS::kBytes == 98);
static_assert(IQ3_S::kBytes == 110);

}  // namespace
}  // namespace dovetail::kernels
