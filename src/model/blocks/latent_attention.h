#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"
#include "load/model_config.h"
#include "model/blocks/head_matrix.h"
#include "model/blocks/indexer.h"
#include "model/blocks/latent_rows.h"
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/rope.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Multi-head latent attention over the cache: takes prepared rows, leaves `projected`. A prompt's
// tokens attend to keys and values that are made of the latents again, head by head; a generated
// token's queries are turned into queries for the latents themselves, and what they find into
// values. In exact arithmetic the two are the same. Which one a token gets depends on what it is
// alone (Segment::generated), so that neither the cut into steps nor a preemption changes its bits.
// Where an indexer picks positions, tokens that see more of them than it picks have the second
// formula, generated or not: over a list of the positions picked, ascending.
// The weights must outlive it.
class LatentAttention {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."), the `cache_layer`-th that the
  // cache has; the next one has the indexer's keys, if there is one. `set`: the rows that it
  // computes beyond these. `rows` are those of all layers alike, `picked` of all whose indexers
  // pick alike.
  LatentAttention(const load::LatentConfig& config, const ModelWeights& weights,
                  const std::string& layer, std::uint32_t cache_layer, RowSet set,
                  const RopeTable* rope, LatentRows& rows, PickedEntries& picked,
                  Workspace& workspace);
  LatentAttention(const LatentAttention&) = delete;  // steps and matrices refer to it
  LatentAttention& operator=(const LatentAttention&) = delete;

  // Prepares the rows that come in: all of a tile.
  const Linear& input() const { return input_; }
  std::span<const float> output_bias() const { return {}; }

  void add_steps(Program& program);

 private:
  void multiply_input(const RowTile& tile, std::uint32_t block, std::uint32_t blocks);
  void place(const RowTile& tile, const Range& rows);
  void absorb(std::uint32_t tile, std::uint32_t head);
  std::uint32_t walks(const LatentRows::Cut& cut, const QueryTile& of) const;
  std::uint32_t items(std::uint32_t tile) const;
  std::size_t work(std::uint32_t tile) const;
  void attend(std::uint32_t tile, std::uint32_t block, std::uint32_t blocks);
  void attend_prompt(const RowTile& tile, const QueryTile& run, std::uint32_t head);
  void expand(const Segment& segment, std::uint32_t head, std::size_t first, std::size_t end);
  void attend_latents(std::uint32_t tile, const QueryTile& queries, std::size_t absorbed,
                      std::uint32_t head, std::size_t segment);
  void attend_picked(std::uint32_t tile, std::uint32_t row, std::size_t absorbed,
                     std::uint32_t head);
  std::size_t gather(std::uint32_t row) const;
  void take_values(std::uint32_t tile, std::uint32_t head);
  Indexer::Entries index_entries();
  void turn_elements(std::uint32_t position, float* elements) const;
  void turn_index(std::uint32_t position, float* row) const;
  const std::byte* tile_at(const Segment& segment, std::uint32_t layer, std::size_t block) const;
  std::byte* tile_of(const PassRow& row, std::uint32_t layer) const;

  Workspace& work_;
  load::LatentConfig config_;
  std::uint32_t cache_layer_;
  RowSet set_;
  const RopeTable* rope_;  // null: nothing turns
  LatentRows& rows_;
  std::size_t query_size_, attended_size_, index_size_;  // of all heads of a token
  Linear input_, output_;
  std::optional<Linear> query_;  // behind a query of low rank
  Norm query_norm_, latent_norm_, index_norm_;
  AlignedBuffer turned_memory_;
  Matrix turned_matrix_;
  HeadMatrix keys_, turned_keys_, values_;  // from latents; to latents; from latents
  std::optional<Indexer> indexer_;
};

}  // namespace dovetail::model
