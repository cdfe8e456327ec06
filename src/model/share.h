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

// In how many blocks `items` items of `work` multiplications in all are worth being cut for so many
// lanes, where they are `of` of what can run at the time: several for each lane, so that a slow
// one does not hold up the others.
inline std::uint32_t share(std::size_t items, std::size_t work, std::size_t lanes,
                           const Share& of = {}) {
  constexpr std::size_t kWorthSharing = std::size_t{1} << 17;
  constexpr std::size_t kBlocksPerLane = 2;
  if (lanes == 1 || items <= 1 || work < kWorthSharing) return 1;
  const std::size_t blocks = (kBlocksPerLane * lanes * of.part + of.whole / 2) / of.whole;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(blocks, 1, items));
}

// Whether `blocks` blocks, of `work` multiplications in all, end sooner if the lanes of a group do
// each of them together than if each lane does its own: where they are so few, or so unlike each
// other, that lanes would be left without one. There are so many lanes in so many groups.
inline bool worth_joining(std::size_t blocks, bool alike, std::size_t work, std::size_t lanes,
                          std::size_t groups) {
  constexpr std::size_t kWorthJoining = std::size_t{1} << 15;  // of a block
  if (lanes == groups || work < kWorthJoining * blocks) return false;
  if (!alike) return blocks < 2 * lanes;
  // What starting together and meeting costs is an eighth (a fourteenth was measured).
  const auto turns = [blocks](std::size_t at_a_time) {
    return (blocks + at_a_time - 1) / at_a_time;
  };
  return 9 * groups * turns(groups) < 8 * lanes * turns(lanes);
}

}  // namespace dovetail::model
