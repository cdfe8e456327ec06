#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "load/model_config.h"
#include "model/blocks/workspace.h"
#include "model/cpu/pass.h"

namespace dovetail::model {

inline constexpr auto kLatentSegment = static_cast<std::uint32_t>(kernels::kAttentionSegment);

// Segments of the context that the last of the rows sees.
constexpr std::uint32_t segments_until(const QueryTile& queries) {
  return (queries.position + queries.rows - 1) / kLatentSegment + 1;
}

// Which rows of a pass's tiles attend to keys and values that are made of the latents, and which to
// the latents themselves, and the memory that the latter go through. The same for all layers that
// are alike.
class LatentRows {
 public:
  // Of a tile. The memory of its absorbed rows begins at `first` of all such rows of the pass,
  // whichever of them a layer computes.
  struct Tile {
    std::vector<QueryTile> prompts;  // each as long as rows follow each other
    // Those that are generated, and those that choose among positions, whatever they are, in the
    // order of the rows. All of a query tile choose, or none.
    std::vector<QueryTile> absorbed;
    std::uint32_t absorbed_rows = 0;
    std::uint32_t first = 0;
  };

  LatentRows(const load::LatentConfig& config, std::size_t lanes)
      : config_(config), lanes_(lanes) {}

  // For the pass that is laid out.
  void lay_out(const Pass& pass);

  const Tile& tile(RowSet set, std::uint32_t index) const {
    return (set == RowSet::kAll ? all_ : wanted_)[index];
  }

  // Whether rows see more positions than they may attend to.
  bool chooses(const QueryTile& queries) const {
    return config_.index_heads > 0 && queries.position >= config_.index_top;
  }

  // How lanes share the attention of a tile's absorbed rows: by query tiles, or rows that choose,
  // so many heads at a time and, if it is split, segments of the context of those that do not. The
  // bits are the same whatever it is.
  struct Cut {
    std::uint32_t heads = 1;
    std::uint32_t segments = 0;  // of the longest context; 0: not split
    std::size_t parts = 0;       // floats before the tile's
  };
  const Cut& cut(std::uint32_t tile) const { return cuts_[tile]; }

  // Of the `row`-th absorbed row of the pass: queries for latents, [heads][cached_dim]; the sums
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
  void sort(std::span<const QueryTile> queries, Tile& tile) const;
  static void add(const QueryTile& queries, bool absorbed, Tile& tile);
  Cut choose(const Tile& tile) const;

  load::LatentConfig config_;
  std::size_t lanes_;
  std::vector<Tile> all_, wanted_;
  std::vector<Cut> cuts_;
  std::vector<float> queries_, latents_, parts_;
};

}  // namespace dovetail::model
