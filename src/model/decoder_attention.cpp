// The Decoder's attention: which tiles are split by segments of the context, and the calls.
#include <algorithm>
#include <cmath>
#include <vector>

#include "model/decoder.h"
#include "model/mutation.h"
#include "model/scratch.h"

namespace dovetail::model {
namespace {

// Rows of a tile from which on its attention is not split by segments: long contexts of few rows
// are, since those have too few query tiles for all lanes.
constexpr std::uint32_t kSplitRows = 32;

}  // namespace

// Segments of the context that consecutive rows see.
Range Decoder::segments_of(std::uint32_t position, std::uint32_t rows) const {
  constexpr auto kSegment = static_cast<std::uint32_t>(kernels::kAttentionSegment);
  const std::uint32_t window = config_.sliding_window;
  const std::uint32_t first = window != 0 && position + 1 > window ? position + 1 - window : 0;
  return {first / kSegment, (position + rows - 1) / kSegment + 1};
}

// Chooses the tiles whose attention is computed by segments. The bits are the same either way.
void Decoder::split_attention() {
  splits_.assign(pass_.tiles().size(), {});
  if (lanes_ == 1) return;
  std::size_t floats = 0;
  for (std::size_t t = 0; t < splits_.size(); ++t) {
    const RowTile& tile = pass_.tiles()[t];
    const std::uint32_t rows = tile.rows.size();
    if (rows >= kSplitRows || tile.queries.size() * config_.kv_heads >= lanes_ * kBlocksPerLane)
      continue;
    std::uint32_t segments = 0;
    for (const QueryTile& query : pass_.queries().subspan(tile.queries.begin, tile.queries.size()))
      segments = std::max(segments, segments_of(query.position, query.rows).end);
    if (segments == 1) continue;
    splits_[t] = {floats, segments};
    floats += std::size_t{rows} * config_.heads * segments *
              kernels::attention_part_floats(config_.head_dim);
  }
  grow(parts_, floats);
}

// Where the parts of a row are stored, one for each head of the group.
float* Decoder::parts_of(std::uint32_t tile, std::uint32_t row, std::uint32_t kv_head,
                         std::uint32_t segment) {
  const Split& split = splits_[tile];
  const std::size_t group = config_.heads / config_.kv_heads;
  const std::size_t in_tile = row - pass_.tiles()[tile].rows.begin;
  const std::size_t index = (in_tile * config_.kv_heads + kv_head) * split.segments + segment;
  return parts_.data() + split.begin +
         index * group * kernels::attention_part_floats(config_.head_dim);
}

// What lanes share of a tile's attention.
std::uint32_t Decoder::attention_items(std::uint32_t tile, const Range& queries) const {
  if (splits_[tile].segments == 0) return queries.size() * config_.kv_heads;
  std::uint32_t items = 0;
  for (const QueryTile& query : pass_.queries().subspan(queries.begin, queries.size()))
    items += segments_of(query.position, query.rows).size() * config_.kv_heads;
  return items;
}

// The longer contexts are neighbours, so blocks take items in turns.
void Decoder::attend(std::uint32_t layer, std::uint32_t index, std::uint32_t block,
                     std::uint32_t blocks) {
  const RowTile& tile = pass_.tiles()[index];
  const Range& queries = layer + 1 == config_.layers ? tile.wanted_queries : tile.queries;
  const bool split = splits_[index].segments > 0;
  const std::size_t group = config_.heads / config_.kv_heads;
  std::uint32_t first = 0;  // item of the query tile
  for (const QueryTile& query : pass_.queries().subspan(queries.begin, queries.size())) {
    const Range segments = split ? segments_of(query.position, query.rows) : Range{0, 1};
    const std::uint32_t items = segments.size() * config_.kv_heads;
    // The first one from `first` on that is this block's.
    const std::uint32_t next = (block + blocks - first % blocks) % blocks;
    for (std::uint32_t item = next; item < items; item += blocks) {
      const std::uint32_t kv_head = item % config_.kv_heads;
      kernels::AttentionArgs args;
      if (split) {
        args.segment = segments.begin + item / config_.kv_heads;
        args.output = parts_of(index, query.row, kv_head, static_cast<std::uint32_t>(args.segment));
        args.output_stride = splits_[index].segments * config_.heads *
                             kernels::attention_part_floats(config_.head_dim);
      } else {
        args.output =
            attended_.data() + query.row * query_size_ + kv_head * group * config_.head_dim;
        args.output_stride = query_size_;
      }
      attend(layer, kv_head, query, args);
    }
    first += items;
  }
}

// `args` has the output, and the segment.
void Decoder::attend(std::uint32_t layer, std::uint32_t kv_head, const QueryTile& queries,
                     kernels::AttentionArgs args) {
  const Segment& segment = pass_.segments()[queries.segment];
  const std::size_t blocks =
      (queries.position + queries.rows + kernels::kBlockSize - 1) / kernels::kBlockSize;
  // One pair of pointer lists per thread, kept between calls.
  thread_local std::vector<const std::byte*> keys;
  thread_local std::vector<const std::byte*> values;
  keys.resize(blocks);
  values.resize(blocks);
  for (std::size_t i = 0; i < blocks; ++i) {
    keys[i] = cache_->keys(layer, kv_head, segment.block_table[i]);
    values[i] = cache_->values(layer, kv_head, segment.block_table[i]);
  }
  const std::size_t group = config_.heads / config_.kv_heads;
  const std::size_t offset = queries.row * query_size_ + kv_head * group * config_.head_dim;
  args.cache_type = cache_->shape().type;
  args.key_blocks = keys.data();
  args.value_blocks = values.data();
  args.query = query_.data() + offset;
  args.query_stride = query_size_;
  args.rows = queries.rows;
  args.heads = group;
  args.head_dim = config_.head_dim;
  args.first_position = queries.position;
  args.window = config_.sliding_window;
  args.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  kernels_.attention(args);
}

void Decoder::take_attended(std::uint32_t layer, std::uint32_t index, const Range& rows) {
  const RowTile& tile = pass_.tiles()[index];
  const std::size_t floats = kernels::attention_part_floats(config_.head_dim);
  const std::uint32_t group = config_.heads / config_.kv_heads;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = row_at(layer, tile, i);
    float* attended = attended_.data() + row * query_size_;
    if (splits_[index].segments > 0) {
      Range segments = segments_of(pass_.rows()[row].position, 1);
      if (mutated(Mutant::kOneSegmentTooFew) && segments.size() > 1) ++segments.begin;
      for (std::uint32_t head = 0; head < config_.heads; ++head) {
        const float* parts = parts_of(index, row, head / group, segments.begin);
        kernels_.merge_attention(parts + head % group * floats, segments.size(), group * floats,
                                 config_.head_dim, nullptr, attended + head * config_.head_dim);
      }
    }
    products_[layer].output.prepare(attended, i, rows_of(layer, tile), prepared(tile));
  }
}

}  // namespace dovetail::model
