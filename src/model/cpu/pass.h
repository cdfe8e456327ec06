#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/backend.h"
#include "model/share.h"

namespace dovetail::model {

// A token of a pass.
struct PassRow {
  std::int32_t token = 0;
  std::uint32_t segment = 0;
  std::uint32_t position = 0;
};

// Rows of one segment that follow each other and whose attention is computed together, for one
// key/value head at a time; all of a prompt, or all generated.
struct QueryTile {
  std::uint32_t segment = 0;
  std::uint32_t row = 0;       // its first
  std::uint32_t position = 0;  // of that
  std::uint32_t rows = 0;
  bool generated = false;
};

// What a pass gives for a row: the `index`-th row of logits, or of hidden rows; or nothing, where
// the row is kept (Pass::lay_out()).
struct RowOutput {
  enum class Kind : std::uint8_t { kLogits, kHidden, kNothing };
  Kind kind = Kind::kLogits;
  std::uint32_t index = 0;
};

// Rows that go through the layers together, as a chain of tasks of their own. No block of the cache
// is written by two tiles.
struct RowTile {
  Range rows;
  Range queries;         // of Pass::queries: those of all its rows,
  Range wanted_queries;  // and those of the rows that have outputs
  Range wanted;          // of Pass::wanted
  // The first tile with rows of a sequence that this one has rows of; at most its own index. All
  // tiles between the two have such rows as well.
  std::uint32_t first_shared = 0;
};

// How many rows are worth reading the weights once more for.
struct TileRows {
  static constexpr std::uint32_t kAll = 0xffffffff;

  std::uint32_t of_tile = 192;  // where there are several of a kind; kAll: there are not
  std::uint32_t of_both = 192;  // of a pass, so that prefill chunks and decode rows share no tile
};

// How the rows of a forward pass are laid out: what tasks it takes, but not what they do. Memory is
// used again from pass to pass.
class Pass {
 public:
  // Tiles that a pass has at most.
  static constexpr std::uint32_t kMostTiles = 8;

  // `lanes` work on it. Requires at least one token, and decode rows behind all others. `keep`: all
  // rows go through all layers, those that have no output, too.
  void lay_out(std::span<const Segment> segments, std::uint32_t lanes, const TileRows& worth = {},
               bool keep = false);

  std::span<const Segment> segments() const { return segments_; }
  std::span<const PassRow> rows() const { return rows_; }
  std::span<const RowTile> tiles() const { return tiles_; }
  std::span<const QueryTile> queries() const { return queries_; }
  // Rows that have outputs, in their order, and these; how many there are of each kind.
  std::span<const std::uint32_t> wanted() const { return wanted_; }
  std::span<const RowOutput> outputs() const { return outputs_; }
  std::uint32_t logit_rows() const { return logit_rows_; }
  std::uint32_t hidden_rows() const { return hidden_rows_; }
  // The first position that no row has.
  std::uint32_t positions() const { return positions_; }

 private:
  std::uint32_t border_near(std::uint32_t row) const;
  std::uint32_t first_sharing(std::uint32_t row) const;
  Range cut(Range rows);
  void add_tiles(Range rows, std::uint32_t tiles);

  std::span<const Segment> segments_;
  std::vector<PassRow> rows_;
  std::vector<RowTile> tiles_;
  std::vector<QueryTile> queries_;
  std::vector<std::uint32_t> wanted_;
  std::vector<RowOutput> outputs_;
  std::uint32_t logit_rows_ = 0, hidden_rows_ = 0;
  std::uint32_t positions_ = 0;
};

}  // namespace dovetail::model
