#pragma once

#include "kernels/avx2/vec8.h"
#include "kernels/vector/twice.h"

// Sixteen floats in two registers of AVX2.
namespace dovetail::kernels {
namespace {

struct Vec : Twice<Vec8> {
  static constexpr std::size_t kTileM = 3, kTileN = 2, kTileSingle = 7;
  static constexpr std::size_t kPairs = 4, kPairSums = 4;
  static constexpr std::size_t kMakeE4M3From = 4;
};

}  // namespace
}  // namespace dovetail::kernels
