#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"

namespace dovetail::model {

// Entries that the row of a position sees: those of `ratio` positions each that end with it or
// before. 0: there are none.
constexpr std::uint32_t entries_seen(std::uint32_t position, std::uint32_t ratio) {
  return ratio == 0 ? 0 : (position + 1) / ratio;
}

// The same of a row of a pass.
std::uint32_t entries_seen(const Pass& pass, const PassRow& row, std::uint32_t ratio);

// Writes the numbers of the `count` entries with the largest scores, the lower one among equals, in
// ascending order. Scores that are no numbers are the smallest.
void pick_entries(std::span<const float> scores, std::size_t count, std::uint32_t* picks);

// Which entries the rows of a pass see in layers whose indexers pick as many of as many.
class PickedEntries {
 public:
  // `ratio`: positions of an entry; `top`: entries that are picked, 0: there is no indexer.
  PickedEntries(std::uint32_t ratio, std::uint32_t top, std::size_t lanes)
      : ratio_(ratio), top_(top), lanes_(lanes) {}

  bool is_of(std::uint32_t ratio, std::uint32_t top) const {
    return ratio_ == ratio && top_ == top;
  }

  // For the pass that is laid out.
  void lay_out(const Pass& pass);

  // Whether lanes share the scores of a row's entries: where a tile has few rows. They are then in
  // scores(), else a row's picks are made at once.
  bool shares(const RowTile& tile) const { return tile.rows.size() < lanes_ * kBlocksPerLane; }
  // Of a row of the pass in such a tile: a float for each entry that it sees.
  float* scores(std::uint32_t row) { return scores_.data() + first_score_[row]; }
  // Of any row: `top` numbers of entries.
  std::uint32_t* picks(std::uint32_t row) { return picks_.data() + std::size_t{row} * top_; }

 private:
  std::uint32_t ratio_, top_;
  std::size_t lanes_;
  std::vector<std::size_t> first_score_;
  std::vector<float> scores_;
  std::vector<std::uint32_t> picks_;
};

// Picks entries for the rows that see more of them than they may attend to: those with the largest
// sums over the indexer's heads h of weight_h * max(query_h . key, 0). The models rotate queries
// and keys by a Hadamard matrix before they round both to 8 bits or fewer; that changes no product,
// and is left out with the rounding.
class Indexer {
 public:
  // What an entry is.
  struct Entries {
    // How many a row sees.
    std::function<std::uint32_t(const PassRow& row)> seen;
    // Writes the keys of a sequence's entries [first, end), one behind another.
    std::function<void(const Segment& segment, std::uint32_t first, std::uint32_t end, float* keys)>
        load;
    // Turns a head's query by its position.
    std::function<void(std::uint32_t position, float* query)> turn;
  };

  // `heads` of `dim` elements: their queries are in `shared`, not turned yet, and their weights in
  // `shared_gate`, both by row of the tile. `set`: the rows that it picks for.
  Indexer(std::uint32_t heads, std::uint32_t dim, std::uint32_t top, RowSet set, Entries entries,
          PickedEntries& picked, Workspace& workspace);

  // They take what is in the cache of the layer, and leave picks.
  void add_steps(Program& program);

  // Whether the row sees more entries than it may attend to; those that it does then, ascending.
  bool chooses(const PassRow& row) const { return entries_.seen(row) > top_; }
  std::span<const std::uint32_t> picks(std::uint32_t row) const {
    return {picked_.picks(row), top_};
  }

 private:
  std::uint32_t longest(const RowTile& tile) const;
  void score(const RowTile& tile, const Range& items, std::uint32_t parts);
  void turn_queries(const RowTile& tile, std::uint32_t row, std::size_t number);
  void load_keys(const PassRow& row, std::uint32_t first, std::uint32_t end);
  void score(const RowTile& tile, std::uint32_t row, std::size_t number, std::size_t count,
             float* out);
  void pick(const RowTile& tile, const Range& rows);
  void score_and_pick(const RowTile& tile, const Range& rows);

  Workspace& work_;
  std::uint32_t heads_, dim_, top_;
  RowSet set_;
  Entries entries_;
  PickedEntries& picked_;
};

}  // namespace dovetail::model
