#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "model/cpu/cache.h"
#include "model/cpu/pass.h"

namespace dovetail::model {

// The states of one layer, in the slots of sequences and in the places where they are saved.
struct LayerStates {
  const Cache& cache;
  std::uint32_t layer = 0;  // among those with states

  float* of(std::uint32_t slot) const { return cache.state(layer, slot); }
  float* of(const StateSave& save) const { return cache.saved_state(layer, save.saved); }
};

// Rows of a tile that are of one sequence, counted from the tile's first.
struct Run {
  std::uint32_t slot = 0;
  std::uint32_t begin = 0, end = 0;
  std::uint32_t position = 0;        // of the first
  std::span<const StateSave> saves;  // behind rows of it

  bool starts() const { return position == 0; }
  // Rows of it before a save.
  std::uint32_t until(const StateSave& save) const { return save.positions - position; }
};

// Calls function(run) for each sequence that the tile has rows of, in their order.
template <class Function>
void for_each_run(const Pass& pass, const RowTile& tile, const Function& function) {
  for (std::uint32_t row = tile.rows.begin; row < tile.rows.end;) {
    const PassRow& first = pass.rows()[row];
    std::uint32_t end = row + 1;
    while (end < tile.rows.end && pass.rows()[end].segment == first.segment) ++end;
    const Segment& segment = pass.segments()[first.segment];
    const auto after = [&](std::uint32_t position) {
      return std::lower_bound(segment.saves.begin(), segment.saves.end(), position + 1,
                              [](const StateSave& save, std::uint32_t positions) {
                                return save.positions < positions;
                              });
    };
    function(Run{segment.slot,
                 row - tile.rows.begin,
                 end - tile.rows.begin,
                 first.position,
                 {after(first.position), after(first.position + (end - row))}});
    row = end;
  }
}

// Calls function(run, head) for a block's share of the sequences of a tile and of their heads,
// which blocks take in turns.
template <class Function>
void for_each_head(const Pass& pass, const RowTile& tile, std::uint32_t heads, std::uint32_t block,
                   std::uint32_t blocks, const Function& function) {
  std::uint32_t item = 0;
  for_each_run(pass, tile, [&](const Run& run) {
    for (std::uint32_t head = 0; head < heads; ++head, ++item) {
      if (item % blocks == block) function(run, head);
    }
  });
}

}  // namespace dovetail::model
