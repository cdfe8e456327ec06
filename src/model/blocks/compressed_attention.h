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
#include "model/blocks/entry_slices.h"
#include "model/blocks/head_matrix.h"
#include "model/blocks/indexer.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/rope.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// DeepSeek-V4's attention (load::CompressedConfig) over the cache: takes prepared rows, leaves
// `projected`. A row attends to a list: the rows of its window by position, then the entries that
// it sees by number; the list, and so its bits, follow from the sequence and the position alone.
// The weights must outlive it.
class CompressedAttention {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."). It has `cache_layer` of the
  // cache for the window and, if it compresses, the next one for entries, and `state_layer` of the
  // layers with states. `set`: the rows that it computes beyond what the cache and states keep.
  // `picked` is that of all layers whose indexers pick alike.
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
  void add_output_steps(Program& program);

  void multiply_input(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void place(const RowTile& tile, const Range& rows);
  void finish_entry(std::uint32_t number, float* entry) const;
  void store_entry(const PassRow& row, float* entry);
  Indexer::Entries index_entries();
  void load_index_keys(const Segment& segment, std::uint32_t first, std::uint32_t end,
                       float* keys) const;
  const float* load_entry(const Segment& segment, std::uint32_t entry, std::size_t begin,
                          std::size_t end) const;
  std::uint32_t head_groups(const RowTile& tile) const;
  void attend(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void attend(const RowTile& tile, std::uint32_t row, const Range& heads);
  std::size_t gather(const RowTile& tile, std::uint32_t row);
  void multiply_groups(const RowTile& tile, const Range& groups);

  std::uint32_t seen(const PassRow& row) const;  // entries
  const std::byte* tile_at(const Segment& segment, std::uint32_t layer, std::size_t block) const;
  std::size_t entry_block(std::uint32_t entry) const;

  Workspace& work_;
  load::CompressedConfig config_;
  std::uint32_t cache_layer_;
  RowSet set_;
  const RopeTable& rope_;
  std::size_t query_size_, index_size_;         // of all heads of a token
  std::uint32_t entries_ = 1;                   // of a block
  std::size_t entry_rows_ = 0, entry_row_ = 0;  // rows of it, and elements of a row
  Linear input_, query_, output_;
  HeadMatrix groups_;
  Norm query_norm_, key_norm_, entry_norm_, index_norm_;
  std::span<const float> sinks_;
  std::optional<Compressor> compressor_;
  std::optional<EntrySlices> slices_;  // of entries that lie so
  std::optional<Indexer> indexer_;
};

}  // namespace dovetail::model
