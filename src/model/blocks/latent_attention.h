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
#include "model/blocks/norm.h"
#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/cpu/rope.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Which rows of a pass's tiles are of prompts and which are generated, and the memory that the
// latter go through. The same for all layers that are alike.
class LatentRows {
 public:
  // Of a tile. The memory of its generated rows begins at `first` of all such rows of the pass,
  // whichever of them a layer computes.
  struct Tile {
    std::vector<QueryTile> prompts;    // each as long as rows follow each other
    std::vector<QueryTile> generated;  // in the order of the rows
    std::uint32_t generated_rows = 0;
    std::uint32_t first = 0;
  };

  LatentRows(const load::LatentConfig& config, std::size_t lanes)
      : config_(config), lanes_(lanes) {}

  // For the pass that is laid out.
  void lay_out(const Pass& pass);

  const Tile& tile(RowSet set, std::uint32_t index) const {
    return (set == RowSet::kAll ? all_ : wanted_)[index];
  }

  // How lanes share the attention of a tile's generated rows: by query tiles, so many heads at a
  // time and, if it is split, segments of the context. The bits are the same whatever it is.
  struct Cut {
    std::uint32_t heads = 1;
    std::uint32_t segments = 0;  // of the longest context; 0: not split
    std::size_t parts = 0;       // floats before the tile's
  };
  const Cut& cut(std::uint32_t tile) const { return cuts_[tile]; }

  // Of the `row`-th generated row of the pass: queries for latents, [heads][cached_dim]; the sums
  // of latents, [heads][latent_dim]; of a tile that is split parts of these,
  // [segment][heads][attention_part_floats(latent_dim)].
  float* query(std::size_t row) { return queries_.data() + row * query_size(); }
  float* latents(std::size_t row) { return latents_.data() + row * latents_size(); }
  float* parts(std::uint32_t tile, std::size_t row_of_tile) {
    return parts_.data() + cuts_[tile].parts + row_of_tile * parts_size(tile);
  }
  std::size_t query_size() const { return std::size_t{config_.heads} * config_.cached_dim(); }
  std::size_t latents_size() const { return std::size_t{config_.heads} * config_.latent_dim; }
  std::size_t parts_size(std::uint32_t tile) const {
    return std::size_t{cuts_[tile].segments} * config_.heads *
           kernels::attention_part_floats(config_.latent_dim);
  }

 private:
  static void sort(std::span<const QueryTile> queries, Tile& tile);
  Cut choose(const Tile& tile) const;

  load::LatentConfig config_;
  std::size_t lanes_;
  std::vector<Tile> all_, wanted_;
  std::vector<Cut> cuts_;
  std::vector<float> queries_, latents_, parts_;
};

// Rows of a matrix for each head.
struct HeadMatrix {
  const Matrix* matrix = nullptr;
  std::size_t stride = 0;  // rows from a head's first to the next one's
  std::size_t first = 0;   // of the first head
  std::size_t rows = 0;
};

// Multi-head latent attention over the cache: takes prepared rows, leaves `projected`. A prompt's
// tokens attend to keys and values that are made of the latents again, head by head; a generated
// token's queries are turned into queries for the latents themselves, and what they find into
// values. In exact arithmetic the two are the same. Which one a token gets depends on what it is
// alone (Segment::generated), so that neither the cut into steps nor a preemption changes its bits.
// The weights must outlive it.
class LatentAttention {
 public:
  // Of the layer whose tensors' names begin with `layer` ("blk.3."), the `cache_layer`-th that the
  // cache has. `set`: the rows that it computes beyond their latents. `rows` are those of all
  // layers alike.
  LatentAttention(const load::LatentConfig& config, const ModelWeights& weights,
                  const std::string& layer, std::uint32_t cache_layer, RowSet set,
                  const RopeTable& rope, LatentRows& rows, Workspace& workspace);
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
  std::uint32_t items(std::uint32_t tile) const;
  std::size_t work(std::uint32_t tile) const;
  void attend(std::uint32_t tile, std::uint32_t block, std::uint32_t blocks);
  void attend_prompt(const RowTile& tile, const QueryTile& run, std::uint32_t head);
  void expand(const Segment& segment, std::uint32_t head, std::size_t first, std::size_t end);
  void attend_latents(std::uint32_t tile, const QueryTile& queries, std::uint32_t head,
                      std::size_t segment);
  void take_values(std::uint32_t tile, std::uint32_t head);
  void multiply(const HeadMatrix& of, std::uint32_t head, std::size_t rows,
                const std::byte* prepared, float* output, std::size_t stride) const;
  const std::byte* tile_at(const Segment& segment, std::size_t block) const;

  Workspace& work_;
  load::LatentConfig config_;
  std::uint32_t cache_layer_;
  RowSet set_;
  const RopeTable& rope_;
  LatentRows& rows_;
  std::size_t query_size_, attended_size_;  // of all heads of a token
  Linear input_, output_;
  std::optional<Linear> query_;  // behind a query of low rank
  Norm query_norm_, latent_norm_;
  AlignedBuffer turned_memory_;
  Matrix turned_matrix_;
  HeadMatrix keys_, turned_keys_, values_;  // from latents; to latents; from latents
};

}  // namespace dovetail::model
