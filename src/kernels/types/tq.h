#pragma once

#include "kernels/types/bit_pairs.h"

namespace dovetail::kernels {
namespace {

// Values are -1, 0 and 1, with one scale for the whole block.
struct TernaryType : SuperBlockType {
  static constexpr std::size_t kGroup = kElements;
  static constexpr bool kScales = false;
  static constexpr int kBits = 2;
  static constexpr std::int8_t kLowest = -1;
};

struct TQ1_0 : TernaryType {
  static constexpr std::string_view kName = "TQ1_0";
  static constexpr std::uint32_t kGguf = 34;
  // A byte's digits to base 3, the highest first, are those of byte / 256. Of n bytes the first
  // digits are n elements, the second the next n, and so on: five of 32 bytes and of 16, four of 4.
  struct Block {
    std::uint8_t q[32], q16[16], q4[4];
    std::uint8_t d[2];
  };
  static constexpr std::size_t kBytes = sizeof(Block);
  template <std::size_t kCount>
  static std::uint8_t* digits(const std::uint8_t (&q)[kCount], std::size_t count,
                              std::uint8_t* out) {
    std::uint8_t rest[kCount];
    std::memcpy(rest, q, kCount);
    for (std::size_t digit = 0; digit < count; ++digit) {
      for (std::size_t i = 0; i < kCount; ++i) {
        const unsigned thrice = rest[i] * 3U;
        *out++ = static_cast<std::uint8_t>(thrice >> 8);
        rest[i] = static_cast<std::uint8_t>(thrice);
      }
    }
    return out;
  }
  static void codes(const Block& b, std::uint8_t* out) {
    out = digits(b.q, 5, out);
    out = digits(b.q16, 5, out);
    digits(b.q4, 4, out);
  }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

struct TQ2_0 : TernaryType {
  static constexpr std::string_view kName = "TQ2_0";
  static constexpr std::uint32_t kGguf = 35;
  struct Block {
    std::uint8_t q[64];
    std::uint8_t d[2];
  };
  static constexpr std::size_t kBytes = sizeof(Block);
  static void codes(const Block& b, std::uint8_t* out) { bit_pairs(b.q, out); }
  static std::uint16_t scale_bits(const Block& b) { return little_endian(b.d); }
};

static_assert(TQ1_0::kBytes == 54);
static_assert(TQ2_0::kBytes == 66);

}  // namespace
}  // namespace dovetail::kernels
