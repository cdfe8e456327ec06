// The formula of LatentAttention in which queries go to the latents, over all of them and over
// those that an indexer picks.

#include <algorithm>
#include <vector>

#include "base/aligned_buffer.h"
#include "model/blocks/latent_attention.h"

namespace dovetail::model {
namespace {

// What a thread keeps between the parts of its tasks.
struct AbsorbedScratch {
  std::vector<float> row, products;
  AlignedBuffer prepared, list;
  std::vector<const std::byte*> tiles;
};

AbsorbedScratch& absorbed_scratch() {
  thread_local AbsorbedScratch mine;
  return mine;
}

}  // namespace

// Turns what turns of a head's queries, and makes those of absorbed rows queries for latents.
void LatentAttention::absorb(std::uint32_t index, std::uint32_t head) {
  const RowTile& tile = work_.tile(index);
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const std::size_t keys = config_.key_dim;
  const auto query = [&](std::uint32_t row) {
    return work_.query.row(tile, row - tile.rows.begin, query_size_) + head * config_.head_dim();
  };
  for (const auto* tiles : {&rows.prompts, &rows.absorbed}) {
    for (const QueryTile& of : *tiles) {
      for (std::uint32_t i = 0; i < of.rows; ++i) {
        const std::uint32_t position = of.position + i;
        float* mine = query(of.row + i);
        turn_elements(position, mine + keys);
        if (config_.temperature == 0.0F) continue;
        work_.kernels.scale(
            mine, query_temperature(config_.temperature, config_.temperature_context, position),
            config_.head_dim());
      }
    }
  }
  if (rows.absorbed_rows == 0) return;
  AlignedBuffer& prepared = absorbed_scratch().prepared;
  const kernels::DataType type = turned_keys_.matrix().type;
  const std::size_t bytes = turned_keys_.row_bytes();
  prepared.reserve(rows.absorbed_rows * bytes);
  std::size_t next = 0;
  for (const QueryTile& of : rows.absorbed) {
    for (std::uint32_t i = 0; i < of.rows; ++i, ++next) {
      const float* from = query(of.row + i);
      work_.kernels.prepare(type, from, keys, prepared.data() + next * bytes);
      std::copy_n(
          from + keys, config_.rope_dim,
          rows_.query(rows.first + next) + head * config_.cached_dim() + config_.latent_dim);
    }
  }
  turned_keys_.multiply(head, rows.absorbed_rows, prepared.data(),
                        rows_.query(rows.first) + head * config_.cached_dim(), rows_.query_size());
}

// Some heads of rows that attend to all that they see, of which the first is the `absorbed`-th
// absorbed row of its tile.
void LatentAttention::attend_latents(std::uint32_t index, const QueryTile& queries,
                                     std::size_t absorbed, std::uint32_t head,
                                     std::size_t segment) {
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const LatentRows::Cut& cut = rows_.cut(index);
  const Segment& sequence = work_.pass.segments()[queries.segment];
  const std::size_t end = queries.position + queries.rows;
  const std::size_t blocks = (end + kernels::kBlockSize - 1) / kernels::kBlockSize;
  std::vector<const std::byte*>& tiles = absorbed_scratch().tiles;
  tiles.resize(blocks);
  for (std::size_t i = 0; i < blocks; ++i) tiles[i] = tile_at(sequence, cache_layer_, i);
  kernels::AttentionArgs args;
  args.cache_type = work_.cache->shape().type();
  args.value_blocks = tiles.data();
  args.latent = true;
  args.query = rows_.query(rows.first + absorbed) + head * config_.cached_dim();
  args.query_stride = rows_.query_size();
  args.rows = queries.rows;
  args.heads = std::min(cut.heads, config_.heads - head);
  args.head_dim = config_.cached_dim();
  args.value_dim = config_.latent_dim;
  args.first_position = queries.position;
  args.scale = config_.scale;
  args.segment = segment;
  if (segment == kernels::AttentionArgs::kAllSegments) {
    args.output = rows_.latents(rows.first + absorbed) + head * config_.latent_dim;
    args.output_stride = rows_.latents_size();
  } else {
    const std::size_t floats = kernels::attention_part_floats(config_.latent_dim);
    args.output = rows_.parts(index, absorbed) + (segment * config_.heads + head) * floats;
    args.output_stride = rows_.parts_size(index);
  }
  work_.kernels.attention(args);
}

Indexer::Entries LatentAttention::index_entries() {
  const auto load = [this](const Segment& segment, std::uint32_t first, std::uint32_t end,
                           float* keys) {
    constexpr std::uint32_t kBlock = kernels::kBlockSize;
    const std::size_t dim = config_.index_dim;
    for (std::uint32_t at = first; at < end;) {
      const std::uint32_t next = std::min(end, (at / kBlock + 1) * kBlock);
      work_.kernels.load_values(work_.cache->shape().type(),
                                tile_at(segment, cache_layer_ + 1, at / kBlock), dim, at % kBlock,
                                at % kBlock + (next - at), keys + (at - first) * dim);
      at = next;
    }
  };
  return {[this](const PassRow& row) { return entries_seen(work_.pass, row, 1); }, load,
          [this](std::uint32_t position, float* query) { turn_index(position, query); }};
}

void LatentAttention::turn_elements(std::uint32_t position, float* elements) const {
  if (rope_ == nullptr) return;
  work_.kernels.rope(elements, rope_->cos(position).data(), rope_->sin(position).data(),
                     rope_->dims(), rope_->interleaved());
}

// The first elements, in pairs (i, i + half) whatever those of the heads are.
void LatentAttention::turn_index(std::uint32_t position, float* row) const {
  if (rope_ == nullptr) return;
  work_.kernels.rope(row, rope_->cos(position).data(), rope_->sin(position).data(), rope_->dims(),
                     config_.index_neighbours);
}

// The latents of the positions that are picked for a row, in one list of tiles of floats; how many
// they are.
std::size_t LatentAttention::gather(std::uint32_t row) const {
  constexpr std::size_t kBlock = kernels::kBlockSize;
  constexpr kernels::CacheType kFloats = kernels::CacheType::kF32;
  const kernels::Kernels& kernels = work_.kernels;
  const Segment& segment = work_.pass.segments()[work_.pass.rows()[row].segment];
  const std::span<const std::uint32_t> picks = indexer_->picks(row);
  const std::size_t dim = config_.cached_dim();
  const std::size_t bytes = kernels::cache_tile_bytes(kFloats, dim);
  const std::size_t tiles = (picks.size() + kBlock - 1) / kBlock;
  AbsorbedScratch& mine = absorbed_scratch();
  mine.list.reserve(tiles * bytes);
  mine.tiles.resize(tiles);
  for (std::size_t i = 0; i < tiles; ++i) mine.tiles[i] = mine.list.data() + i * bytes;
  grow(mine.row, dim);
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const std::size_t at = picks[i] % kBlock;
    kernels.load_values(work_.cache->shape().type(),
                        tile_at(segment, cache_layer_, picks[i] / kBlock), dim, at, at + 1,
                        mine.row.data());
    kernels.store_value(kFloats, mine.row.data(), dim, i % kBlock,
                        mine.list.data() + i / kBlock * bytes);
  }
  return picks.size();
}

// Some heads of a row of the pass that chooses, the `absorbed`-th absorbed row of its tile.
void LatentAttention::attend_picked(std::uint32_t index, std::uint32_t row, std::size_t absorbed,
                                    std::uint32_t head) {
  const std::size_t place = rows_.tile(set_, index).first + absorbed;
  kernels::AttentionArgs args;
  args.first_position = gather(row) - 1;
  args.cache_type = kernels::CacheType::kF32;
  args.value_blocks = absorbed_scratch().tiles.data();
  args.latent = true;
  args.query = rows_.query(place) + head * config_.cached_dim();
  args.query_stride = rows_.query_size();
  args.output = rows_.latents(place) + head * config_.latent_dim;
  args.output_stride = rows_.latents_size();
  args.rows = 1;
  args.heads = std::min(rows_.cut(index).heads, config_.heads - head);
  args.head_dim = config_.cached_dim();
  args.value_dim = config_.latent_dim;
  args.scale = config_.scale;
  work_.kernels.attention(args);
}

// What a head's absorbed rows found, merged where it came by segments, into values.
void LatentAttention::take_values(std::uint32_t index, std::uint32_t head) {
  const RowTile& tile = work_.tile(index);
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  if (rows.absorbed_rows == 0) return;
  const LatentRows::Cut& cut = rows_.cut(index);
  const std::size_t latent = config_.latent_dim;
  const std::size_t floats = kernels::attention_part_floats(latent);
  const kernels::DataType type = values_.matrix().type;
  const std::size_t bytes = values_.row_bytes();
  AbsorbedScratch& mine = absorbed_scratch();
  mine.prepared.reserve(rows.absorbed_rows * bytes);
  grow(mine.products, std::size_t{rows.absorbed_rows} * config_.value_dim);
  std::size_t next = 0;
  for (const QueryTile& of : rows.absorbed) {
    for (std::uint32_t i = 0; i < of.rows; ++i, ++next) {
      float* found = rows_.latents(rows.first + next) + head * latent;
      if (cut.segments > 0 && !rows_.chooses(of)) {
        work_.kernels.merge_attention(rows_.parts(index, next) + head * floats,
                                      (of.position + i) / kLatentSegment + 1,
                                      config_.heads * floats, latent, nullptr, found);
      }
      work_.kernels.prepare(type, found, latent, mine.prepared.data() + next * bytes);
    }
  }
  values_.multiply(head, rows.absorbed_rows, mine.prepared.data(), mine.products.data(),
                   config_.value_dim);
  next = 0;
  for (const QueryTile& of : rows.absorbed) {
    for (std::uint32_t i = 0; i < of.rows; ++i, ++next) {
      std::copy_n(mine.products.data() + next * config_.value_dim, config_.value_dim,
                  work_.attended.row(tile, of.row + i - tile.rows.begin, attended_size_) +
                      head * config_.value_dim);
    }
  }
}

}  // namespace dovetail::model
