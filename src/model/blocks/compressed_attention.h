#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_config.h"
#include "model/blocks/compressor.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/rope.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Which entries the rows of a pass see in layers that are alike, where an indexer picks them.
class PickedEntries {
 public:
  PickedEntries(const load::CompressedConfig& config, std::size_t lanes)
      : config_(config), lanes_(lanes) {}

  // For the pass that is laid out.
  void lay_out(const Pass& pass);

  // Whether lanes share the scores of a row's entries: where a tile has few rows. They are then in
  // scores(), else a row's picks are made at once.
  bool shares(const RowTile& tile) const { return tile.rows.size() < lanes_ * kBlocksPerLane; }
  // Of a row of the pass in such a tile: a float for each entry that it sees.
  float* scores(std::uint32_t row) { return scores_.data() + first_score_[row]; }
  // Of any row: index_top numbers of entries.
  std::uint32_t* picks(std::uint32_t row) {
    return picks_.data() + std::size_t{row} * config_.index_top;
  }

 private:
  load::CompressedConfig config_;
  std::size_t lanes_;
  std::vector<std::size_t> first_score_;
  std::vector<float> scores_;
  std::vector<std::uint32_t> picks_;
};

// Entries that the row of a position sees: those that end with it or before.
constexpr std::uint32_t entries_seen(std::uint32_t position, std::uint32_t ratio) {
  return ratio == 0 ? 0 : (position + 1) / ratio;
}

// Writes the numbers of the `count` entries with the largest scores, the lower one among equals, in
// ascending order. Scores that are no numbers are the smallest.
void pick_entries(std::span<float> scores, std::size_t count, std::uint32_t* picks);

// DeepSeek-V4's attention (load::CompressedConfig) over the cache: takes prepared rows, leaves
// `projected`. A row attends to a list: the rows of its window by position, then the entries that
// it sees by number; the list, and so its bits, follow from the sequence and the position alone.
// The weights must outlive it.
class CompressedAttention {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."). It has `cache_layer` of the
  // cache for the window and, if it compresses, the next one for entries, and `state_layer` of the
  // layers with states. `set`: the rows that it computes beyond what the cache and states keep.
  // `picked` is that of all layers alike.
  CompressedAttention(const load::CompressedConfig& config, const ModelWeights& weights,
                      const std::string& layer, std::uint32_t cache_layer,
                      std::uint32_t state_layer, RowSet set, const RopeTable& rope,
                      PickedEntries& picked, Workspace& workspace);
  CompressedAttention(const CompressedAttention&) = delete;  // steps refer to it
  CompressedAttention& operator=(const CompressedAttention&) = delete;

  // Prepares the rows that come in: all of a tile.
  const Linear& input() const { return input_; }
  std::span<const float> output_bias() const { return {}; }

  void add_steps(Program& program);

 private:
  void add_index_steps(Program& program);
  void add_output_steps(Program& program);

  void multiply_input(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void place(const RowTile& tile, const Range& rows);
  void store_entry(const PassRow& row, float* entry);
  void score(const RowTile& tile, const Range& items, std::uint32_t parts);
  void score(const RowTile& tile, std::uint32_t row, std::uint32_t first, std::uint32_t end,
             float* out);
  void pick(const RowTile& tile, const Range& rows);
  std::uint32_t head_groups(const RowTile& tile) const;
  void attend(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void attend(const RowTile& tile, std::uint32_t row, const Range& heads);
  std::size_t gather(std::uint32_t row);
  void multiply_groups(const RowTile& tile, const Range& groups);

  std::uint32_t seen(const PassRow& row) const;  // entries
  const std::byte* tile_at(const Segment& segment, std::uint32_t layer, std::size_t block) const;
  std::size_t entry_block(std::uint32_t entry) const;
  // Where an entry begins in the rows of its block's tile.
  std::size_t entry_offset(std::uint32_t entry) const {
    return entry % entries_ * (kernels::kBlockSize / entries_) * entry_row_;
  }

  Workspace& work_;
  load::CompressedConfig config_;
  std::uint32_t cache_layer_;
  RowSet set_;
  const RopeTable& rope_;
  PickedEntries& picked_;
  std::size_t query_size_, index_size_;  // of all heads of a token
  std::uint32_t entries_ = 1;            // of a block
  std::uint32_t entry_row_ = 0;          // elements of a row of it
  Linear input_, query_, output_;
  const Matrix& groups_;
  Norm query_norm_, key_norm_, entry_norm_, index_norm_;
  std::span<const float> sinks_;
  std::optional<Compressor> compressor_;
};

}  // namespace dovetail::model
