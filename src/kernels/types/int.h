#pragma once

#include "kernels/types/nibbles.h"

// What safetensors of quantised whole numbers become (AWQ, GPTQ, compressed-tensors): their scales,
// F16, BF16 or F32, all fit a float.
namespace dovetail::kernels {
namespace {

// w = scale * (q - zero) with q in 0 to 15.
template <std::size_t kCount>
struct Int4 : BlockType {
  static constexpr std::uint32_t kGguf = kNoGguf;
  struct Block {
    std::uint8_t scale[4];
    std::uint8_t zero_point;
    std::uint8_t q[kCount / 2];
  };
  static constexpr std::size_t kElements = kCount, kGroup = kCount, kBytes = sizeof(Block);
  static constexpr int kBits = 4;
  static constexpr bool kZeros = true;
  static constexpr ScaleForm kScaleForm = ScaleForm::kFloat;
  static void codes(const Block& b, std::uint8_t* out) { nibble_pairs<kCount>(b.q, out); }
  static std::uint32_t scale_bits(const Block& b) { return little_endian(b.scale); }
  static std::uint8_t zero(const Block& b) { return b.zero_point; }
};

struct INT4_32 : Int4<32> {
  static constexpr std::string_view kName = "INT4_32";
};

struct INT4_128 : Int4<128> {
  static constexpr std::string_view kName = "INT4_128";
};

static_assert(INT4_32::kBytes == 21);
static_assert(INT4_128::kBytes == 69);

struct INT8 : BlockType {
  static constexpr std::string_view kName = "INT8";
  static constexpr std::uint32_t kGguf = kNoGguf;
  struct Block {
    std::uint8_t scale[4];
    std::uint8_t q[32];  // int8
  };
  static constexpr std::size_t kElements = 32, kGroup = 32, kBytes = sizeof(Block);
  static constexpr int kBits = 8;
  static constexpr std::int8_t kLowest = -128;
  static constexpr ScaleForm kScaleForm = ScaleForm::kFloat;
  static void codes(const Block& b, std::uint8_t* out) {
    for (std::size_t i = 0; i < 32; ++i) out[i] = b.q[i] ^ 0x80U;
  }
  static std::uint32_t scale_bits(const Block& b) { return little_endian(b.scale); }
};

static_assert(INT8::kBytes == 36);

}  // namespace
}  // namespace dovetail::kernels
