#include "model/blocks/attention.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "model/blocks/projection.h"

namespace dovetail::model {
namespace {

using load::AttentionGate;

// Rows of a tile from which on its attention is not split by segments: long contexts of few rows
// are, since those have too few query tiles for all lanes.
constexpr std::uint32_t kSplitRows = 32;

Linear attention_input(const load::AttentionConfig& config, const ModelWeights& weights,
                       const std::string& layer, const kernels::Kernels& kernels) {
  const auto matrix = [&](const char* name) { return &weights.matrix(layer + name); };
  const Matrix* query = matrix("attn_q.weight");
  if (config.shares >= 0) return {kernels, {query}};
  const Matrix* key = matrix("attn_k.weight");
  if (config.values_of_keys) return {kernels, {query, key}};
  const Matrix* value = matrix("attn_v.weight");
  if (config.gate_rows() > 0) return {kernels, {query, key, value, matrix("attn_gate.weight")}};
  return {kernels, {query, key, value}};
}

}  // namespace

Range AttentionSplits::segments(std::uint32_t position, std::uint32_t rows) const {
  constexpr auto kSegment = static_cast<std::uint32_t>(kernels::kAttentionSegment);
  const std::uint32_t window = config_.window;
  const std::uint32_t first = window != 0 && position + 1 > window ? position + 1 - window : 0;
  return {first / kSegment, (position + rows - 1) / kSegment + 1};
}

void AttentionSplits::choose(const Pass& pass) {
  tiles_.assign(pass.tiles().size(), {});
  if (lanes_ == 1 || !config_.causal) return;
  std::size_t floats = 0;
  for (std::size_t t = 0; t < tiles_.size(); ++t) {
    const RowTile& tile = pass.tiles()[t];
    const std::uint32_t rows = tile.rows.size();
    if (rows >= kSplitRows || tile.queries.size() * config_.kv_heads >= lanes_ * kBlocksPerLane)
      continue;
    std::uint32_t most = 0;
    for (const QueryTile& query : pass.queries().subspan(tile.queries.begin, tile.queries.size()))
      most = std::max(most, segments(query.position, query.rows).end);
    if (most == 1) continue;
    tiles_[t] = {floats, most};
    floats +=
        std::size_t{rows} * config_.heads * most * kernels::attention_part_floats(config_.head_dim);
  }
  grow(parts_, floats);
}

float* AttentionSplits::parts(const Pass& pass, std::uint32_t tile, std::uint32_t row,
                              std::uint32_t kv_head, std::uint32_t segment) {
  const Tile& split = tiles_[tile];
  const std::size_t group = config_.heads / config_.kv_heads;
  const std::size_t in_tile = row - pass.tiles()[tile].rows.begin;
  const std::size_t index = (in_tile * config_.kv_heads + kv_head) * split.segments + segment;
  return parts_.data() + split.begin +
         index * group * kernels::attention_part_floats(config_.head_dim);
}

std::size_t AttentionSplits::row_stride(std::uint32_t tile) const {
  return tiles_[tile].segments * config_.heads * kernels::attention_part_floats(config_.head_dim);
}

std::uint32_t AttentionSplits::items(const Pass& pass, std::uint32_t tile,
                                     const Range& queries) const {
  if (!split(tile)) return queries.size() * config_.kv_heads;
  std::uint32_t items = 0;
  for (const QueryTile& query : pass.queries().subspan(queries.begin, queries.size()))
    items += segments(query.position, query.rows).size() * config_.kv_heads;
  return items;
}

Attention::Attention(const load::AttentionConfig& config, const ModelWeights& weights,
                     const std::string& layer, std::uint32_t cache_layer, RowSet set,
                     const RopeTable* rope, AttentionSplits& splits, Workspace& workspace)
    : work_(workspace),
      config_(config),
      cache_layer_(cache_layer),
      set_(set),
      rope_(rope),
      splits_(splits),
      query_size_(config.query_size()),
      kv_size_(std::size_t{config.kv_heads} * config.head_dim),
      projected_size_(config.query_rows()),
      gate_size_(config.gate == AttentionGate::kHeads ? config.heads : query_size_),
      query_key_value_(attention_input(config, weights, layer, workspace.kernels)),
      output_(workspace.kernels, {&weights.matrix(layer + "attn_output.weight")}) {
  assert(config.gate == AttentionGate::kNone || !(config.values_of_keys || shares()));
  if (config.bias) {
    query_bias_ = weights.vector(layer + "attn_q.bias");
    if (!shares()) key_bias_ = weights.vector(layer + "attn_k.bias");
    if (!shares() && !config.values_of_keys) value_bias_ = weights.vector(layer + "attn_v.bias");
  }
  if (config.output_bias) output_bias_ = weights.vector(layer + "attn_output.bias");
  if (config.sinks) sinks_ = weights.vector(layer + "attn_sinks.weight");
  if (config.query_key_norm != load::QueryKeyNorm::kNone) {
    query_norm_ = Norm(config.norm, weights, layer + "attn_q_norm", workspace.kernels);
    if (!shares()) key_norm_ = Norm(config.norm, weights, layer + "attn_k_norm", workspace.kernels);
  }
  if (!shares()) value_norm_ = Norm(config.value_norm, config.head_dim, workspace.kernels);
  workspace.query.need(projected_size_);
  if (config.gate != AttentionGate::kNone) workspace.gate.need(gate_size_);
  workspace.attended.need(query_size_);
  if (!shares()) workspace.key.need(kv_size_);
  if (!shares()) workspace.value.need(kv_size_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(query_key_value_);
  workspace.prepares(output_);
}

void Attention::add_steps(Program& program) {
  const auto all = [this](std::uint32_t tile) {
    return work_.count(projected(), work_.tile(tile));
  };
  const auto wanted = [this](std::uint32_t tile) { return work_.count(set_, work_.tile(tile)); };
  program.add({.name = "query-key-value",
               .matrix = true,
               .run = [this](std::uint32_t tile, std::uint32_t blocks,
                             const cores::Part& part) { project(tile, part.block, blocks); }},
              [this, all](std::uint32_t tile) {
                return work_.share_product(work_.tile(tile), query_key_value_, all(tile));
              });
  // Another layer's keys and values: a tile has waited there for those that it reads.
  program.add({.name = "place",
               .keys = shares() ? KeysAccess::kNone : KeysAccess::kWrite,
               .run =
                   [this, all](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
                     place(work_.tile(tile), part_of(all(tile), part.block, blocks));
                   }},
              [this, all](std::uint32_t tile) {
                const std::size_t rows = all(tile);
                return work_.share(work_.tile(tile), rows, rows * 4 * (query_size_ + kv_size_));
              });
  program.add({.name = "attend",
               .keys = shares() ? KeysAccess::kNone : KeysAccess::kRead,
               .run = [this](std::uint32_t tile, std::uint32_t blocks,
                             const cores::Part& part) { attend(tile, part.block, blocks); }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const Range& mine = queries(tile);
                std::size_t reads = 0;
                for (const QueryTile& query : work_.pass.queries().subspan(mine.begin, mine.size()))
                  reads += std::size_t{query.rows} * (query.position + query.rows);
                return work_.share(tile, splits_.items(work_.pass, index, mine),
                                   2 * reads * query_size_);
              });
  program.add(
      {.name = "attended",
       .run =
           [this, wanted](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
             take_attended(tile, part_of(wanted(tile), part.block, blocks));
           }},
      [this, wanted](std::uint32_t tile) {
        const std::size_t rows = wanted(tile);
        return work_.share(work_.tile(tile), rows, rows * 2 * query_size_);
      });
  add_projection(program, "output", output_, set_, work_);
}

void Attention::project(std::uint32_t index, std::uint32_t block, std::uint32_t blocks) {
  const RowTile& tile = work_.tile(index);
  const std::size_t rows = work_.count(projected(), tile);
  const std::byte* prepared = work_.prepared(tile);
  const Linear::Output query = {work_.query.of(tile), projected_size_};
  if (shares()) return query_key_value_.multiply(block, blocks, rows, prepared, {query});
  const Linear::Output key = {work_.key.of(tile), kv_size_};
  if (config_.values_of_keys)
    return query_key_value_.multiply(block, blocks, rows, prepared, {query, key});
  const Linear::Output value = {work_.value.of(tile), kv_size_};
  if (config_.gate_rows() > 0)
    return query_key_value_.multiply(block, blocks, rows, prepared,
                                     {query, key, value, {work_.gate.of(tile), gate_size_}});
  query_key_value_.multiply(block, blocks, rows, prepared, {query, key, value});
}

// Biases, norms and rotation; keys and values into the cache.
void Attention::place(const RowTile& tile, const Range& rows) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t dim = config_.head_dim;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const PassRow& row = work_.pass.rows()[work_.row(projected(), tile, i)];
    const std::uint32_t position = row.position;
    float* query = work_.query.row(tile, i, projected_size_);
    if (config_.bias) kernels.add(query, query_bias_.data(), projected_size_);
    if (config_.gate == AttentionGate::kWithQueries)
      part_gates(query, work_.gate.row(tile, i, gate_size_));
    if (config_.query_key_norm == load::QueryKeyNorm::kRow) query_norm_.apply(query, query);
    for (std::size_t head = 0; head < config_.heads; ++head) {
      turn(query + head * dim, query_norm_, position);
      if (config_.temperature != 0.0F)
        kernels.scale(query + head * dim,
                      query_temperature(config_.temperature, config_.temperature_context, position),
                      dim);
    }
    if (!shares()) store(tile, i, row);
  }
}

void Attention::turn(float* head, const Norm& norm, std::uint32_t position) const {
  const load::QueryKeyNorm normed = config_.query_key_norm;
  if (normed == load::QueryKeyNorm::kHead) norm.apply(head, head);
  if (rope_ != nullptr) {
    work_.kernels.rope(head, rope_->cos(position).data(), rope_->sin(position).data(),
                       rope_->dims(), rope_->interleaved());
  }
  if (normed == load::QueryKeyNorm::kTurnedHead) norm.apply(head, head);
}

// The keys and values of a row.
void Attention::store(const RowTile& tile, std::uint32_t index, const PassRow& row) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t dim = config_.head_dim;
  const Cache& cache = *work_.cache;
  const kernels::CacheType type = cache.shape().type();
  float* key = work_.key.row(tile, index, kv_size_);
  float* value = work_.value.row(tile, index, kv_size_);
  if (config_.bias) kernels.add(key, key_bias_.data(), kv_size_);
  if (config_.values_of_keys) {
    std::copy_n(key, kv_size_, value);
  } else if (config_.bias) {
    kernels.add(value, value_bias_.data(), kv_size_);
  }
  if (config_.query_key_norm == load::QueryKeyNorm::kRow) key_norm_.apply(key, key);
  const std::uint32_t position = row.position;
  const Segment& segment = work_.pass.segments()[row.segment];
  const std::uint32_t block = segment.block_table[table_index(position / kernels::kBlockSize)];
  const std::size_t slot = position % kernels::kBlockSize;
  for (std::uint32_t head = 0; head < config_.kv_heads; ++head) {
    turn(key + head * dim, key_norm_, position);
    if (value_norm_) value_norm_.apply(value + head * dim, value + head * dim);
    kernels.store_key(type, key + head * dim, dim, slot, cache.keys(cache_layer_, head, block));
    kernels.store_value(type, value + head * dim, dim, slot,
                        cache.values(cache_layer_, head, block));
  }
}

// attn_q gives a head's queries and then its gates: moves the queries together, and the gates away.
void Attention::part_gates(float* query, float* gate) const {
  const std::size_t dim = config_.head_dim;
  for (std::size_t head = 0; head < config_.heads; ++head) {
    std::copy_n(query + (2 * head + 1) * dim, dim, gate + head * dim);
    std::copy_n(query + 2 * head * dim, dim, query + head * dim);
  }
}

// Of a block of positions in the segments' tables.
std::size_t Attention::table_index(std::size_t block) const {
  const CacheShape& shape = work_.cache->shape();
  return block * shape.groups() + shape.layers()[cache_layer_].group;
}

std::size_t Attention::index_of(const RowTile& tile, std::uint32_t row) const {
  if (projected() == RowSet::kAll) return row - tile.rows.begin;
  const std::span<const std::uint32_t> wanted =
      work_.pass.wanted().subspan(tile.wanted.begin, tile.wanted.size());
  return static_cast<std::size_t>(std::lower_bound(wanted.begin(), wanted.end(), row) -
                                  wanted.begin());
}

// The longer contexts are neighbours, so blocks take items in turns.
void Attention::attend(std::uint32_t index, std::uint32_t block, std::uint32_t blocks) {
  const RowTile& tile = work_.tile(index);
  const Range& mine = queries(tile);
  const bool split = splits_.split(index);
  const std::size_t group = config_.heads / config_.kv_heads;
  std::uint32_t first = 0;  // item of the query tile
  for (const QueryTile& query : work_.pass.queries().subspan(mine.begin, mine.size())) {
    const Range segments = split ? splits_.segments(query.position, query.rows) : Range{0, 1};
    const std::uint32_t items = segments.size() * config_.kv_heads;
    // The first one from `first` on that is this block's.
    const std::uint32_t next = (block + blocks - first % blocks) % blocks;
    for (std::uint32_t item = next; item < items; item += blocks) {
      const std::uint32_t kv_head = item % config_.kv_heads;
      kernels::AttentionArgs args;
      if (split) {
        args.segment = segments.begin + item / config_.kv_heads;
        args.output = splits_.parts(work_.pass, index, query.row, kv_head,
                                    static_cast<std::uint32_t>(args.segment));
        args.output_stride = splits_.row_stride(index);
      } else {
        args.output = work_.attended.row(tile, query.row - tile.rows.begin, query_size_) +
                      kv_head * group * config_.head_dim;
        args.output_stride = query_size_;
      }
      attend(tile, kv_head, query, args);
    }
    first += items;
  }
}

// `args` has the output, and the segment.
void Attention::attend(const RowTile& tile, std::uint32_t kv_head, const QueryTile& queries,
                       kernels::AttentionArgs args) {
  const Segment& segment = work_.pass.segments()[queries.segment];
  // The first position that no row sees.
  const std::size_t end = config_.causal ? queries.position + queries.rows
                                         : segment.first_position + segment.tokens.size();
  const std::size_t blocks = (end + kernels::kBlockSize - 1) / kernels::kBlockSize;
  // One pair of pointer lists per thread, kept between calls.
  thread_local std::vector<const std::byte*> keys;
  thread_local std::vector<const std::byte*> values;
  keys.resize(blocks);
  values.resize(blocks);
  // What the first query does not see, none does; its block may be gone.
  const std::size_t behind = config_.window == 0 || queries.position < config_.window
                                 ? 0
                                 : (queries.position + 1 - config_.window) / kernels::kBlockSize;
  for (std::size_t i = 0; i < blocks; ++i) {
    const bool seen = i >= behind || !config_.causal;
    const std::uint32_t block = seen ? segment.block_table[table_index(i)] : 0;
    keys[i] = seen ? work_.cache->keys(cache_layer_, kv_head, block) : nullptr;
    values[i] = seen ? work_.cache->values(cache_layer_, kv_head, block) : nullptr;
  }
  const std::size_t group = config_.heads / config_.kv_heads;
  args.cache_type = work_.cache->shape().type();
  args.key_blocks = keys.data();
  args.value_blocks = values.data();
  args.query = work_.query.row(tile, index_of(tile, queries.row), projected_size_) +
               kv_head * group * config_.head_dim;
  args.query_stride = projected_size_;
  args.rows = queries.rows;
  args.heads = group;
  args.head_dim = config_.head_dim;
  args.first_position = queries.position;
  args.window = config_.window;
  args.scale = config_.scale;
  args.causal = config_.causal;
  args.end = end;
  args.softcap = config_.softcap;
  if (!sinks_.empty()) args.sinks = sinks_.data() + kv_head * group;
  work_.kernels.attention(args);
}

// Merges what came by segments, and prepares rows for the output product.
void Attention::take_attended(std::uint32_t index, const Range& rows) {
  const RowTile& tile = work_.tile(index);
  const std::size_t floats = kernels::attention_part_floats(config_.head_dim);
  const std::uint32_t group = config_.heads / config_.kv_heads;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = work_.row(set_, tile, i);
    float* attended = work_.attended.row(tile, row - tile.rows.begin, query_size_);
    if (splits_.split(index)) {
      Range segments = splits_.segments(work_.pass.rows()[row].position, 1);
      if (mutated(Mutant::kOneSegmentTooFew) && segments.size() > 1) ++segments.begin;
      for (std::uint32_t head = 0; head < config_.heads; ++head) {
        const float* parts = splits_.parts(work_.pass, index, row, head / group, segments.begin);
        work_.kernels.merge_attention(
            parts + head % group * floats, segments.size(), group * floats, config_.head_dim,
            sinks_.empty() ? nullptr : sinks_.data() + head, attended + head * config_.head_dim);
      }
    }
    if (config_.gate != AttentionGate::kNone) {
      float* gate = work_.gate.row(tile, row - tile.rows.begin, gate_size_);
      work_.kernels.apply(kernels::Function::kSigmoid, gate, gate_size_, gate);
      if (gate_size_ == query_size_) {
        work_.kernels.multiply(attended, gate, query_size_);
      } else {
        for (std::size_t head = 0; head < config_.heads; ++head)
          work_.kernels.scale(attended + head * config_.head_dim, gate[head], config_.head_dim);
      }
    }
    output_.prepare(attended, i, work_.count(set_, tile), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
