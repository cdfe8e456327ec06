#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_config.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/rope.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Which tiles of a pass share the segments of their contexts among lanes, and where the parts lie
// that these leave. The same for all layers that are alike.
class AttentionSplits {
 public:
  AttentionSplits(const load::AttentionConfig& config, std::size_t lanes)
      : config_(config), lanes_(lanes) {}

  // For the pass that is laid out. The bits are the same whatever is chosen.
  void choose(const Pass& pass);

  bool split(std::uint32_t tile) const { return tiles_[tile].segments > 0; }

  // Segments of the context that consecutive rows see.
  Range segments(std::uint32_t position, std::uint32_t rows) const;

  // How many items lanes share of a tile's attention: query tiles x key/value heads x segments.
  std::uint32_t items(const Pass& pass, std::uint32_t tile, const Range& queries) const;

  // Where the parts of a row are stored, one for each head of the group; what lies between rows.
  float* parts(const Pass& pass, std::uint32_t tile, std::uint32_t row, std::uint32_t kv_head,
               std::uint32_t segment);
  std::size_t row_stride(std::uint32_t tile) const;

 private:
  // What a split tile leaves is stored from `begin` of parts_ on, [row of the tile][key/value
  // head][segment][head of the group].
  struct Tile {
    std::size_t begin = 0;
    std::uint32_t segments = 0;  // 0: the tile is not split
  };

  load::AttentionConfig config_;
  std::size_t lanes_;
  std::vector<Tile> tiles_;
  std::vector<float> parts_;
};

// Attention over the cache: takes prepared rows, leaves `projected`. The weights must outlive it.
class Attention {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."), the `cache_layer`-th that has
  // attention, or the other layer's whose keys and values it has. `set`: the rows that it computes
  // beyond their keys and values. `rope` is null where nothing turns. `splits` are those of all
  // layers alike.
  Attention(const load::AttentionConfig& config, const ModelWeights& weights,
            const std::string& layer, std::uint32_t cache_layer, RowSet set, const RopeTable* rope,
            AttentionSplits& splits, Workspace& workspace);

  // Prepares the rows that come in: all of a tile, or of the set where it makes no keys and values.
  const Linear& input() const { return query_key_value_; }
  // Is still to be added to what it leaves; empty: none.
  std::span<const float> output_bias() const { return output_bias_; }

  void add_steps(Program& program);

 private:
  bool shares() const { return config_.shares >= 0; }
  void project(std::uint32_t tile, std::uint32_t block, std::uint32_t blocks);
  void place(const RowTile& tile, const Range& rows);
  void turn(float* head, const Norm& norm, std::uint32_t position) const;
  void store(const RowTile& tile, std::uint32_t index, const PassRow& row);
  std::size_t table_index(std::size_t block) const;
  void attend(std::uint32_t tile, std::uint32_t block, std::uint32_t blocks);
  void attend(const RowTile& tile, std::uint32_t kv_head, const QueryTile& queries,
              kernels::AttentionArgs args);
  void part_gates(float* query, float* gate) const;
  void take_attended(std::uint32_t tile, const Range& rows);
  // The rows whose queries are projected: all of a tile, or, without keys and values, those of the
  // set. And where a row of the tile is among them.
  RowSet projected() const { return shares() ? set_ : RowSet::kAll; }
  std::size_t index_of(const RowTile& tile, std::uint32_t row) const;
  const Range& queries(const RowTile& tile) const {
    return set_ == RowSet::kAll ? tile.queries : tile.wanted_queries;
  }

  Workspace& work_;
  load::AttentionConfig config_;
  std::uint32_t cache_layer_;
  RowSet set_;
  const RopeTable* rope_;
  AttentionSplits& splits_;
  std::size_t query_size_, kv_size_;  // of all heads of a token
  std::size_t projected_size_;        // of what attn_q gives for a token: gates, too
  std::size_t gate_size_;             // of a token's gates, where there are any
  Linear query_key_value_, output_;
  std::span<const float> query_bias_, key_bias_, value_bias_, output_bias_, sinks_;
  Norm query_norm_, key_norm_, value_norm_;
};

}  // namespace dovetail::model
