#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dovetail::model {

// A half-open range of indices.
struct Range {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t size() const { return end - begin; }
};

// What block `block` of `blocks` has of `count` items.
inline Range part_of(std::size_t count, std::uint32_t block, std::uint32_t blocks) {
  // Tasks of small steps have one, and divisions take longer than all else here.
  if (blocks == 1) return {0, static_cast<std::uint32_t>(count)};
  return {static_cast<std::uint32_t>(count * block / blocks),
          static_cast<std::uint32_t>(count * (block + 1) / blocks)};
}

// So much of what lanes have to do.
struct Share {
  std::size_t part = 1, whole = 1;
};

// Blocks for each lane that work is cut into, if it is.
inline constexpr std::size_t kBlocksPerLane = 2;

// Multiplications from which on lanes share them.
inline constexpr std::size_t kWorthSharing = std::size_t{1} << 17;

// In how many blocks `items` items of `work` multiplications in all are worth being cut for so many
// lanes, where they are `of` of what can run at the time: several for each lane, so that a slow
// one does not hold up the others.
inline std::uint32_t share(std::size_t items, std::size_t work, std::size_t lanes,
                           const Share& of = {}) {
  if (lanes == 1 || items <= 1 || work < kWorthSharing) return 1;
  const std::size_t blocks = (kBlocksPerLane * lanes * of.part + of.whole / 2) / of.whole;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(blocks, 1, items));
}

}  // namespace dovetail::model
