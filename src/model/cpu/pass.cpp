#include "model/cpu/pass.h"

#include <algorithm>
#include <cassert>

#include "kernels/kernels.h"
#include "model/mutation.h"

namespace dovetail::model {
namespace {

// Query rows per attention task: enough that keys and values are read for several at a time.
constexpr std::uint32_t kQueryTile = 16;

std::uint32_t tiles_for(std::uint32_t rows, std::uint32_t lanes, const TileRows& worth) {
  if (lanes == 1) return 1;
  return std::clamp(rows / worth.of_tile, 1U, Pass::kMostTiles);
}

}  // namespace

void Pass::lay_out(std::span<const Segment> segments, std::uint32_t lanes, const TileRows& worth,
                   bool keep) {
  assert(worth.of_tile > kernels::kBlockSize);
  segments_ = segments;
  rows_.clear();
  tiles_.clear();
  queries_.clear();
  wanted_.clear();
  outputs_.clear();
  logit_rows_ = hidden_rows_ = 0;
  positions_ = 0;
  std::uint32_t decodes = 0;  // rows
  for (std::uint32_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    const auto count = static_cast<std::uint32_t>(segment.tokens.size());
    assert(segment.decode || decodes == 0);
    if (segment.decode) decodes += count;
    assert(segment.logit_rows <= count && segment.hidden_rows.end <= count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool hidden = i >= segment.hidden_rows.begin && i < segment.hidden_rows.end;
      const bool logits = i + segment.logit_rows >= count;
      using Kind = RowOutput::Kind;
      if (hidden || logits || keep) wanted_.push_back(static_cast<std::uint32_t>(rows_.size()));
      if (hidden) {
        outputs_.push_back({Kind::kHidden, hidden_rows_++});
      } else if (logits) {
        outputs_.push_back({Kind::kLogits, logit_rows_++});
      } else if (keep) {
        outputs_.push_back({Kind::kNothing, 0});
      }
      rows_.push_back({segment.tokens[i], s, segment.first_position + i});
    }
    positions_ = std::max(positions_, segment.first_position + count);
    assert(segment.block_table.size() * kernels::kBlockSize >= segment.first_position + count);
  }
  assert(!rows_.empty());

  // Decode rows have tiles of their own, which wait for no prompt and fill the lanes where those of
  // the prompts wait for each other.
  const auto rows = static_cast<std::uint32_t>(rows_.size());
  const std::uint32_t prefill = rows - decodes;
  if (lanes == 1 || rows < worth.of_both || std::min(prefill, decodes) == 0)
    return add_tiles({0, rows}, tiles_for(rows, lanes, worth));
  const std::uint32_t of_decodes = std::min(tiles_for(decodes, lanes, worth), kMostTiles - 1);
  add_tiles({0, prefill}, std::min(tiles_for(prefill, lanes, worth), kMostTiles - of_decodes));
  add_tiles({prefill, rows}, of_decodes);
}

// Cuts rows into so many tiles.
void Pass::add_tiles(Range rows, std::uint32_t tiles) {
  for (std::uint32_t t = 0, begin = rows.begin; t < tiles; ++t) {
    RowTile tile;
    tile.rows = {begin, border_near(rows.begin + rows.size() * (t + 1) / tiles)};
    tile.first_shared = first_sharing(begin);
    begin = tile.rows.end;
    tile.queries = cut(tile.rows);
    const std::uint32_t wanted = tiles_.empty() ? 0 : tiles_.back().wanted.end;
    tile.wanted = {wanted, wanted};
    while (tile.wanted.end < wanted_.size() && wanted_[tile.wanted.end] < tile.rows.end)
      ++tile.wanted.end;
    tile.wanted_queries = {tile.queries.end, tile.queries.end};
    for (std::uint32_t i = tile.wanted.begin; i < tile.wanted.end;) {
      std::uint32_t end = i + 1;
      while (end < tile.wanted.end && wanted_[end] == wanted_[end - 1] + 1) ++end;
      tile.wanted_queries.end = cut({wanted_[i], wanted_[end - 1] + 1}).end;
      i = mutated(Mutant::kFirstRowOnly) ? tile.wanted.end : end;
    }
    tiles_.push_back(tile);
  }
}

// The next row from `row` on with which a tile may begin. Attention reads blocks of the cache as a
// whole, so no other tile may write to one meanwhile.
std::uint32_t Pass::border_near(std::uint32_t row) const {
  while (row < rows_.size() && rows_[row].segment == rows_[row - 1].segment &&
         rows_[row].position % kernels::kBlockSize != 0) {
    ++row;
  }
  return row;
}

// The first tile with rows of the sequence that a new tile's first row is of: all later rows are of
// the same one or of sequences that begin here.
std::uint32_t Pass::first_sharing(std::uint32_t row) const {
  const auto tiles = static_cast<std::uint32_t>(tiles_.size());
  const std::uint32_t segment = rows_[row].segment;
  if (row == 0 || rows_[row - 1].segment != segment) return tiles;
  const RowTile& before = tiles_.back();
  return rows_[before.rows.begin].segment == segment ? before.first_shared : tiles - 1;
}

// Query tiles of rows that follow each other.
Range Pass::cut(Range rows) {
  Range made = {static_cast<std::uint32_t>(queries_.size()), 0};
  for (std::uint32_t row = rows.begin; row < rows.end;) {
    const PassRow& first = rows_[row];
    const Segment& segment = segments_[first.segment];
    const auto generated = [&](const PassRow& of) {
      return mutated(Mutant::kFormulaOfTheStep) ? segment.decode : of.position >= segment.generated;
    };
    std::uint32_t end = row + 1;
    while (end < rows.end && end < row + kQueryTile && rows_[end].segment == first.segment &&
           generated(rows_[end]) == generated(first)) {
      ++end;
    }
    const std::uint32_t position =
        mutated(Mutant::kTileIsASequence) ? segment.first_position : first.position;
    queries_.push_back({first.segment, row, position, end - row, generated(first)});
    row = end;
  }
  made.end = static_cast<std::uint32_t>(queries_.size());
  return made;
}

}  // namespace dovetail::model
