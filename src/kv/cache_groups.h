#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dovetail::kv {

// What the layers of one group keep of a sequence: its keys and values at all positions, or at
// those of a window. Groups share the blocks of one pool; a block holds `block_size` positions of
// one group's layers.
struct CacheGroup {
  std::uint32_t window = 0;  // positions that a position sees, itself included; 0: all before it

  bool operator==(const CacheGroup&) const = default;
};

// The first block that the group needs when the next position to be computed is `next`.
constexpr std::uint32_t first_needed(CacheGroup group, std::uint32_t next,
                                     std::uint32_t block_size) {
  return group.window == 0 || next < group.window ? 0 : (next - group.window + 1) / block_size;
}

// Blocks that a sequence of so many positions holds at most, in all groups, where two steps of at
// most `reach` tokens each are on their way.
constexpr std::uint64_t blocks_alone(std::span<const CacheGroup> groups, std::uint32_t block_size,
                                     std::uint32_t reach, std::uint32_t positions) {
  const auto blocks_of = [&](std::uint64_t count) { return (count + block_size - 1) / block_size; };
  std::uint64_t blocks = 0;
  for (const CacheGroup group : groups) {
    const std::uint64_t seen = std::uint64_t{group.window} + 2 * std::uint64_t{reach};
    const std::uint64_t all = blocks_of(positions);
    blocks += group.window == 0 ? all : std::min(all, blocks_of(seen) + 2);
  }
  return blocks;
}

// Where a prefix hit ends, in blocks: at the last edge, at most `most`, at which all groups have
// what a sequence needs that goes on there. `has(group, block)`: the block's content can be found;
// `has_state(edge)`: so can the layers' states after the blocks before the edge (models without
// states have them everywhere).
template <class Has, class HasState>
std::uint32_t longest_hit(std::span<const CacheGroup> groups, std::uint32_t block_size,
                          std::uint32_t most, Has&& has, HasState&& has_state) {
  std::uint32_t edge = most;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].window > 0) continue;
    for (std::uint32_t i = 0; i < edge; ++i) {
      if (!has(g, i)) edge = i;
    }
  }
  while (edge > 0) {
    if (!has_state(edge)) {
      --edge;
      continue;
    }
    // Every edge between a missing block and this one needs that block, too.
    std::uint32_t next = edge;
    for (std::size_t g = 0; g < groups.size() && next == edge; ++g) {
      if (groups[g].window == 0) continue;
      const std::uint32_t first = first_needed(groups[g], edge * block_size, block_size);
      for (std::uint32_t i = edge; i > first && next == edge; --i) {
        if (!has(g, i - 1)) next = i - 1;
      }
    }
    if (next == edge) return edge;
    edge = next;
  }
  return 0;
}

}  // namespace dovetail::kv
