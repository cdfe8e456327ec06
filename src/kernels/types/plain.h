#pragma once

#include "kernels/types/weight_type.h"

namespace dovetail::kernels {
namespace {

struct F32 : PlainType {
  static constexpr std::string_view kName = "F32";
  static constexpr std::uint32_t kGguf = 0;
  static constexpr std::size_t kBytes = 4;
};

struct F16 : PlainType {
  static constexpr std::string_view kName = "F16";
  static constexpr std::uint32_t kGguf = 1;
  static constexpr std::size_t kBytes = 2;
};

struct BF16 : PlainType {
  static constexpr std::string_view kName = "BF16";
  static constexpr std::uint32_t kGguf = 30;
  static constexpr std::size_t kBytes = 2;
};

// OCP's E4M3 with a scale for 128 elements, w = scale * value, below 2^120. The NaN of E4M3 is 480
// here: a block that holds one has NaN for its scale.
struct FP8_E4M3 : PlainType {
  static constexpr std::string_view kName = "FP8_E4M3";
  static constexpr std::uint32_t kGguf = kNoGguf;
  struct Block {
    std::uint8_t scale[4];  // float
    std::uint8_t q[128];
  };
  static constexpr std::size_t kElements = 128, kBytes = sizeof(Block);
};

static_assert(FP8_E4M3::kBytes == 132);

}  // namespace
}  // namespace dovetail::kernels
