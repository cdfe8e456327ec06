#include "model/blocks/latent_rows.h"

#include <algorithm>

#include "model/cpu/scratch.h"
#include "model/share.h"

namespace dovetail::model {
namespace {

// Fewer heads than this are not worth walking a context for.
constexpr std::uint32_t kFewestHeads = 4;

}  // namespace

void LatentRows::add(const QueryTile& queries, bool absorbed, Tile& tile) {
  if (absorbed) {
    tile.absorbed.push_back(queries);
    tile.absorbed_rows += queries.rows;
    return;
  }
  QueryTile* last = tile.prompts.empty() ? nullptr : &tile.prompts.back();
  if (last != nullptr && last->segment == queries.segment &&
      last->row + last->rows == queries.row) {
    last->rows += queries.rows;
  } else {
    tile.prompts.push_back(queries);
  }
}

void LatentRows::sort(std::span<const QueryTile> queries, Tile& tile) const {
  tile.prompts.clear();
  tile.absorbed.clear();
  tile.absorbed_rows = 0;
  for (const QueryTile& query : queries) {
    QueryTile all = query, some = query;
    if (config_.index_heads > 0)
      all.rows =
          std::min(query.rows, config_.index_top - std::min(config_.index_top, query.position));
    if (all.rows > 0) add(all, query.generated, tile);
    some.row += all.rows;
    some.position += all.rows;
    some.rows -= all.rows;
    if (some.rows > 0) add(some, true, tile);
  }
}

LatentRows::Cut LatentRows::choose(const Tile& tile) const {
  Cut cut;
  cut.heads = config_.heads;
  const std::size_t wanted = lanes_ == 1 ? 1 : lanes_ * kBlocksPerLane;
  std::size_t items = 0, parts = 0;
  std::uint32_t longest = 0;
  for (const QueryTile& query : tile.absorbed) {
    items += chooses(query) ? query.rows : 1;
    parts += chooses(query) ? query.rows : segments_until(query);
    if (!chooses(query)) longest = std::max(longest, segments_until(query));
  }
  if (items == 0 || items >= wanted) return cut;
  if (longest > 1) {
    cut.segments = longest;
    items = parts;
  }
  while (cut.heads > kFewestHeads && items * (config_.heads / cut.heads) < wanted)
    cut.heads = (cut.heads + 1) / 2;
  return cut;
}

void LatentRows::lay_out(const Pass& pass) {
  const std::size_t tiles = pass.tiles().size();
  if (all_.size() < tiles) all_.resize(tiles), wanted_.resize(tiles), cuts_.resize(tiles);
  std::uint32_t rows = 0;
  std::size_t floats = 0;
  for (std::size_t t = 0; t < tiles; ++t) {
    const RowTile& tile = pass.tiles()[t];
    const auto queries = [&](const Range& range) {
      return pass.queries().subspan(range.begin, range.size());
    };
    sort(queries(tile.queries), all_[t]);
    sort(queries(tile.wanted_queries), wanted_[t]);
    all_[t].first = wanted_[t].first = rows;
    rows += all_[t].absorbed_rows;
    cuts_[t] = choose(all_[t]);
    cuts_[t].parts = floats;
    floats += all_[t].absorbed_rows * parts_size(static_cast<std::uint32_t>(t));
  }
  grow(queries_, rows * query_size());
  grow(latents_, rows * latents_size());
  grow(parts_, floats);
}

}  // namespace dovetail::model
