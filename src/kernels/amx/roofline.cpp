#include "kernels/amx/roofline.h"

#include <cstring>

#include "kernels/amx/tile.h"

// As avx2/roofline.cpp, which says why. What a tile holds is unknown to compilers.
namespace dovetail::kernels::amx {
namespace {

constexpr std::size_t kTile = kTileRows * kTileRowBytes;
constexpr int kSums = 4;

double byte_loop(std::uint64_t rounds) {
  TileShapes shapes;
  for (std::size_t tile = 0; tile < kSums + 4; ++tile) shapes.set(tile, kTileRows, kTileRowBytes);
  shapes.apply();
  alignas(64) std::int8_t bytes[kTile];
  std::memset(bytes, 3, sizeof bytes);
  tile_load<4>(bytes, kTileRowBytes);
  tile_load<5>(bytes, kTileRowBytes);
  tile_load<6>(bytes, kTileRowBytes);
  tile_load<7>(bytes, kTileRowBytes);
  for (; rounds > 0; --rounds) {
    tile_multiply<0, 4, 6>();
    tile_multiply<1, 4, 7>();
    tile_multiply<2, 5, 6>();
    tile_multiply<3, 5, 7>();
  }
  alignas(64) std::int32_t sums[kSums][kTile / 4];
  tile_store<0>(sums[0], kTileRowBytes);
  tile_store<1>(sums[1], kTileRowBytes);
  tile_store<2>(sums[2], kTileRowBytes);
  tile_store<3>(sums[3], kTileRowBytes);
  double all = 0.0;
  for (const auto& tile : sums) {
    for (const std::int32_t sum : tile) all += sum;
  }
  return all;
}

}  // namespace

RooflineLoop byte_roofline() { return {kSums * kTileRows * kTile, byte_loop}; }

}  // namespace dovetail::kernels::amx
