#include "model/blocks/compressed_attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/aligned_buffer.h"
#include "model/blocks/projection.h"
#include "model/mutation.h"

namespace dovetail::model {
namespace {

constexpr std::size_t kEntryBlock = kernels::kBlockSize;

// Fewer heads than this are not worth gathering a list for.
constexpr std::uint32_t kFewestListHeads = 4;

// What a thread keeps between the parts of its tasks.
struct ListScratch {
  std::vector<float> rows, entry, sin;
  AlignedBuffer prepared, list;
  std::vector<const std::byte*> tiles;
};

ListScratch& list_scratch() {
  thread_local ListScratch mine;
  return mine;
}

Linear compressed_input(const load::CompressedConfig& config, const ModelWeights& weights,
                        const std::string& layer, const kernels::Kernels& kernels) {
  const auto matrix = [&](const char* name) { return &weights.matrix(layer + name); };
  const Matrix* query = matrix("attn_q_a.weight");
  const Matrix* key = matrix("attn_kv.weight");
  if (config.ratio == 0) return {kernels, {query, key}};
  const Matrix* rows = matrix("compress_kv.weight");
  const Matrix* gates = matrix("compress_gate.weight");
  if (config.index_heads == 0) return {kernels, {query, key, rows, gates}};
  return {kernels,
          {query, key, rows, gates, matrix("indexer.compress_kv.weight"),
           matrix("indexer.compress_gate.weight"), matrix("indexer.proj.weight")}};
}

Linear compressed_query(const load::CompressedConfig& config, const ModelWeights& weights,
                        const std::string& layer, const kernels::Kernels& kernels) {
  const Matrix* query = &weights.matrix(layer + "attn_q_b.weight");
  if (config.index_heads == 0) return {kernels, {query}};
  return {kernels, {query, &weights.matrix(layer + "indexer.attn_q_b.weight")}};
}

}  // namespace

CompressedAttention::CompressedAttention(const load::CompressedConfig& config,
                                         const ModelWeights& weights, const std::string& layer,
                                         std::uint32_t cache_layer, std::uint32_t state_layer,
                                         RowSet set, const RopeTable& rope, PickedEntries& picked,
                                         Workspace& workspace)
    : work_(workspace),
      config_(config),
      cache_layer_(cache_layer),
      set_(set),
      rope_(rope),
      query_size_(std::size_t{config.heads} * config.head_dim),
      index_size_(std::size_t{config.index_heads} * config.index_dim),
      input_(compressed_input(config, weights, layer, workspace.kernels)),
      query_(compressed_query(config, weights, layer, workspace.kernels)),
      output_(workspace.kernels, {&weights.matrix(layer + "attn_output.weight")}),
      groups_(weights.matrix(layer + "attn_output_a.weight"), config.groups,
              {config.group_rank, config.group_rank},
              weights.packs.has(weights.matrix(layer + "attn_output_a.weight").type),
              workspace.kernels),
      query_norm_(config.norm, weights, layer + "attn_q_a_norm", workspace.kernels),
      key_norm_(config.norm, weights, layer + "attn_kv_norm", workspace.kernels),
      sinks_(weights.vector(layer + "attn_sinks.weight")) {
  workspace.gate.need(std::max<std::size_t>(config.query_rank, groups_.matrix().rows));
  workspace.key.need(config.head_dim);
  workspace.query.need(query_size_);
  workspace.attended.need(query_size_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(query_);
  workspace.prepares(output_);
  if (config.ratio == 0) return;
  const EntryLayout layout(config);
  entries_ = layout.entries;
  entry_rows_ = layout.rows;
  entry_row_ = layout.row_dim;
  if (layout.slice > 0) {
    const auto finish = [this](std::uint32_t entry, float* values) { finish_entry(entry, values); };
    slices_.emplace(config, cache_layer + 1, state_layer, finish, workspace);
  }
  entry_norm_ = Norm(config.norm, weights, layer + "compress_norm", workspace.kernels);
  compressor_.emplace(config, weights, layer, state_layer, workspace.kernels);
  workspace.value.need(compressor_->row_size());
  workspace.up.need(compressor_->channels());
  if (config.index_heads == 0) return;
  index_norm_ = Norm(config.norm, weights, layer + "indexer.compress_norm", workspace.kernels);
  indexer_.emplace(config.index_heads, config.index_dim, config.index_top, set, index_entries(),
                   picked, workspace);
}

void CompressedAttention::add_steps(Program& program) {
  const auto all = [this](std::uint32_t tile) { return work_.tile(tile).rows.size(); };
  program.add({.name = "query-latent",
               .matrix = true,
               .run =
                   [this](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
                     multiply_input(work_.tile(tile), part.block, blocks);
                   }},
              [this, all](std::uint32_t tile) {
                return work_.share_product(work_.tile(tile), input_, all(tile));
              });
  if (compressor_) {
    program.add({.name = "compress",
                 .keys = KeysAccess::kChain,
                 .run =
                     [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                       const RowTile& tile = work_.tile(index);
                       const Range channels = part_of(compressor_->channels(), part.block, blocks);
                       for_each_run(work_.pass, tile, [&](const Run& run) {
                         compressor_->apply(*work_.cache, run, channels, work_.value.of(tile),
                                            work_.up.of(tile));
                       });
                     }},
                [this, all](std::uint32_t tile) {
                  // A token is in as many entries as overlap.
                  const std::size_t work = std::size_t{all(tile)} * compressor_->channels() * 24;
                  return work_.share(work_.tile(tile), compressor_->channels() / 64 + 1, work);
                });
  }
  if (slices_) slices_->add_steps(program);
  program.add({.name = "place",
               .keys = KeysAccess::kWrite,
               .run =
                   [this, all](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
                     place(work_.tile(tile), part_of(all(tile), part.block, blocks));
                   }},
              [this, all](std::uint32_t tile) {
                const std::size_t rows = all(tile);
                const std::size_t each = config_.query_rank + 2 * config_.head_dim;
                return work_.share(work_.tile(tile), rows, rows * 4 * each);
              });
  program.add({.name = "query",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     const Linear::Output query = {work_.query.of(tile), query_size_};
                     const std::uint32_t rows = tile.rows.size();
                     const std::byte* prepared = work_.prepared(tile);
                     if (index_size_ == 0)
                       return query_.multiply(part.block, blocks, rows, prepared, {query});
                     query_.multiply(part.block, blocks, rows, prepared,
                                     {query, {work_.shared.of(tile), index_size_}});
                   }},
              [this, all](std::uint32_t tile) {
                return work_.share_product(work_.tile(tile), query_, all(tile));
              });
  if (indexer_) indexer_->add_steps(program);
  program.add(
      {.name = "attend",
       .keys = KeysAccess::kRead,
       .run = [this](std::uint32_t tile, std::uint32_t blocks,
                     const cores::Part& part) { attend(work_.tile(tile), part.block, blocks); }},
      [this](std::uint32_t index) {
        const RowTile& tile = work_.tile(index);
        const std::size_t rows = work_.count(set_, tile);
        std::size_t seen_entries = 0;
        for (std::uint32_t i = 0; i < rows; ++i)
          seen_entries += seen(work_.pass.rows()[work_.row(set_, tile, i)]);
        if (config_.index_heads > 0)
          seen_entries = std::min(seen_entries, rows * config_.index_top);
        const std::size_t each = rows * config_.window + seen_entries;
        return work_.share(tile, rows * head_groups(tile), 2 * each * query_size_);
      });
  add_output_steps(program);
}

void CompressedAttention::add_output_steps(Program& program) {
  program.add({.name = "output-groups",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     multiply_groups(work_.tile(index),
                                     part_of(config_.groups, part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                return work_.share(
                    tile, config_.groups,
                    work_.count(set_, tile) * groups_.matrix().rows * groups_.matrix().columns);
              });
  program.add({.name = "grouped",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     const std::uint32_t count = work_.count(set_, tile);
                     const Range rows = part_of(count, part.block, blocks);
                     for (std::uint32_t i = rows.begin; i < rows.end; ++i)
                       output_.prepare(work_.gate.row(tile, i, groups_.matrix().rows), i, count,
                                       work_.prepared(tile));
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = work_.count(set_, tile);
                return work_.share(tile, rows, rows * 2 * groups_.matrix().rows);
              });
  add_projection(program, "output", output_, set_, work_);
}

void CompressedAttention::multiply_input(const RowTile& tile, std::uint32_t block,
                                         std::uint32_t blocks) {
  const std::size_t rows = tile.rows.size();
  const std::byte* prepared = work_.prepared(tile);
  const Linear::Output query = {work_.gate.of(tile), config_.query_rank};
  const Linear::Output key = {work_.key.of(tile), config_.head_dim};
  if (!compressor_) return input_.multiply(block, blocks, rows, prepared, {query, key});
  const std::size_t width = compressor_->row_size();
  float* given = work_.value.of(tile);
  float* gates = given + compressor_->gates();
  if (config_.index_heads == 0)
    return input_.multiply(block, blocks, rows, prepared,
                           {query, key, {given, width}, {gates, width}});
  const std::size_t own = std::size_t{config_.halves()} * config_.head_dim;
  input_.multiply(block, blocks, rows, prepared,
                  {query,
                   key,
                   {given, width},
                   {gates, width},
                   {given + own, width},
                   {gates + own, width},
                   {work_.shared_gate.of(tile), config_.index_heads}});
}

// Rows of the window and entries into the cache; queries are made ready for their second product.
void CompressedAttention::place(const RowTile& tile, const Range& rows) {
  const Cache& cache = *work_.cache;
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t dim = config_.head_dim;
  const CacheShape& shape = cache.shape();
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const PassRow& row = work_.pass.rows()[tile.rows.begin + i];
    float* key = work_.key.row(tile, i, dim);
    key_norm_.apply(key, key);
    kernels.rope(key + dim - config_.rope_dim, rope_.cos(row.position).data(),
                 rope_.sin(row.position).data(), rope_.dims(), rope_.interleaved());
    const Segment& segment = work_.pass.segments()[row.segment];
    const std::size_t place =
        row.position / kEntryBlock * shape.groups() + shape.layers()[cache_layer_].group;
    kernels.store_value(shape.type(), key, dim, row.position % kEntryBlock,
                        cache.values(cache_layer_, 0, segment.block_table[place]));
    if (compressor_ && !slices_ && (row.position + 1) % config_.ratio == 0)
      store_entry(row, work_.up.row(tile, i, compressor_->channels()));
    float* query = work_.gate.row(tile, i, config_.query_rank);
    query_norm_.apply(query, query);
    query_.prepare(query, i, tile.rows.size(), work_.prepared(tile));
  }
}

// What an entry's sums become. It turns by the position of its first token of its own.
void CompressedAttention::finish_entry(std::uint32_t number, float* entry) const {
  const kernels::Kernels& kernels = work_.kernels;
  const std::uint32_t position = number * config_.ratio;
  const auto turn = [&](float* end) {
    kernels.rope(end - config_.rope_dim, rope_.cos(position).data(), rope_.sin(position).data(),
                 rope_.dims(), rope_.interleaved());
  };
  entry_norm_.apply(entry, entry);
  turn(entry + config_.head_dim);
  if (config_.index_heads > 0) {
    float* key = entry + config_.head_dim;
    index_norm_.apply(key, key);
    turn(key + config_.index_dim);
  }
}

// The entry that ends with a row.
void CompressedAttention::store_entry(const PassRow& row, float* entry) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::uint32_t number = row.position / config_.ratio;
  finish_entry(number, entry);
  const CacheShape& shape = work_.cache->shape();
  const Segment& segment = work_.pass.segments()[row.segment];
  const std::uint32_t layer = cache_layer_ + 1;
  const std::size_t place = entry_block(number) * shape.groups() + shape.layers()[layer].group;
  std::byte* tile = work_.cache->values(layer, 0, segment.block_table[place]);
  std::vector<float>& whole = list_scratch().entry;
  whole.assign(entry_rows_ * entry_row_, 0.0F);
  std::copy_n(entry, config_.entry_dim(), whole.data());
  for (std::size_t i = 0; i < entry_rows_; ++i)
    kernels.store_value(shape.type(), whole.data() + i * entry_row_, entry_row_,
                        number % entries_ * entry_rows_ + i, tile);
}

std::uint32_t CompressedAttention::seen(const PassRow& row) const {
  return entries_seen(work_.pass, row, config_.ratio);
}

const std::byte* CompressedAttention::tile_at(const Segment& segment, std::uint32_t layer,
                                              std::size_t block) const {
  const CacheShape& shape = work_.cache->shape();
  const std::size_t place = block * shape.groups() + shape.layers()[layer].group;
  return work_.cache->values(layer, 0, segment.block_table[place]);
}

std::size_t CompressedAttention::entry_block(std::uint32_t entry) const {
  return ((std::size_t{entry} + 1) * config_.ratio - 1) / kEntryBlock;
}

Indexer::Entries CompressedAttention::index_entries() {
  const auto turn = [this](std::uint32_t position, float* query) {
    work_.kernels.rope(query + config_.index_dim - config_.rope_dim, rope_.cos(position).data(),
                       rope_.sin(position).data(), rope_.dims(), rope_.interleaved());
  };
  return {[this](const PassRow& row) { return seen(row); },
          [this](const Segment& segment, std::uint32_t first, std::uint32_t end, float* keys) {
            load_index_keys(segment, first, end, keys);
          },
          turn};
}

void CompressedAttention::load_index_keys(const Segment& segment, std::uint32_t first,
                                          std::uint32_t end, float* keys) const {
  for (std::uint32_t entry = first; entry < end; ++entry, keys += config_.index_dim) {
    const float* key = load_entry(segment, entry, config_.head_dim, config_.entry_dim());
    std::copy_n(key, config_.index_dim, keys);
  }
}

// Elements [begin, end) of an entry; they stay until the thread loads others.
const float* CompressedAttention::load_entry(const Segment& segment, std::uint32_t entry,
                                             std::size_t begin, std::size_t end) const {
  const std::size_t first = begin / entry_row_;
  const std::size_t last = (end + entry_row_ - 1) / entry_row_;
  const std::size_t row = entry % entries_ * entry_rows_;
  std::vector<float>& rows = list_scratch().rows;
  grow(rows, (last - first) * entry_row_);
  work_.kernels.load_values(work_.cache->shape().type(),
                            tile_at(segment, cache_layer_ + 1, entry_block(entry)), entry_row_,
                            row + first, row + last, rows.data());
  return rows.data() + (begin - first * entry_row_);
}

// How many groups of heads a row's attention is cut into, so that lanes share the rows of a small
// tile.
std::uint32_t CompressedAttention::head_groups(const RowTile& tile) const {
  const std::size_t rows = work_.count(set_, tile);
  const std::size_t wanted = work_.lanes == 1 ? 1 : work_.lanes * kBlocksPerLane;
  if (rows == 0 || rows >= wanted) return 1;
  const std::size_t most = std::max(1U, config_.heads / kFewestListHeads);
  return static_cast<std::uint32_t>(std::min((wanted + rows - 1) / rows, most));
}

// Neighbouring rows may see very different numbers, so blocks take items in turns.
void CompressedAttention::attend(const RowTile& tile, std::uint32_t block, std::uint32_t blocks) {
  const std::uint32_t groups = head_groups(tile);
  std::uint32_t item = 0;
  for (std::uint32_t i = 0; i < work_.count(set_, tile); ++i) {
    for (std::uint32_t group = 0; group < groups; ++group, ++item) {
      if (item % blocks == block)
        attend(tile, work_.row(set_, tile, i), part_of(config_.heads, group, groups));
    }
  }
}

// What a row sees, in one list of tiles of floats; how many that is.
std::size_t CompressedAttention::gather(const RowTile& tile, std::uint32_t number) {
  const kernels::Kernels& kernels = work_.kernels;
  const PassRow& row = work_.pass.rows()[number];
  const Segment& segment = work_.pass.segments()[row.segment];
  const kernels::CacheType type = work_.cache->shape().type();
  constexpr kernels::CacheType kFloats = kernels::CacheType::kF32;
  const std::size_t dim = config_.head_dim;
  const std::uint32_t window =
      config_.window - (mutated(Mutant::kWindowShort) && config_.window > 1 ? 1 : 0);
  const std::uint32_t first = row.position + 1 > window ? row.position + 1 - window : 0;
  const std::uint32_t entries = seen(row);
  const bool picks = indexer_ && indexer_->chooses(row);
  const std::uint32_t taken = picks ? config_.index_top : entries;
  const std::size_t count = row.position + 1 - first + taken;
  ListScratch& mine = list_scratch();
  const std::size_t bytes = kernels::cache_tile_bytes(kFloats, dim);
  const std::size_t tiles = (count + kEntryBlock - 1) / kEntryBlock;
  mine.list.reserve(tiles * bytes);
  mine.tiles.resize(tiles);
  for (std::size_t i = 0; i < tiles; ++i) mine.tiles[i] = mine.list.data() + i * bytes;
  grow(mine.rows, kEntryBlock * dim);
  std::size_t next = 0;
  const auto add = [&](const float* key) {
    kernels.store_value(kFloats, key, dim, next % kEntryBlock,
                        mine.list.data() + next / kEntryBlock * bytes);
    ++next;
  };
  for (std::size_t position = first; position <= row.position;) {
    const std::size_t block = position / kEntryBlock * kEntryBlock;
    const std::size_t end = std::min<std::size_t>(row.position + 1, block + kEntryBlock);
    kernels.load_values(type, tile_at(segment, cache_layer_, position / kEntryBlock), dim,
                        position - block, end - block, mine.rows.data());
    for (const float* key = mine.rows.data(); position < end; ++position, key += dim) add(key);
  }
  if (slices_) {
    for (std::uint32_t entry = 0; entry + 1 < entries; ++entry) {
      slices_->load(segment, entry, mine.rows.data());
      add(mine.rows.data());
    }
    if (entries > 0) add(slices_->newest(tile, number, entries));
    return count;
  }
  for (std::uint32_t i = 0; i < taken; ++i)
    add(load_entry(segment, picks ? indexer_->picks(number)[i] : i, 0, dim));
  return count;
}

void CompressedAttention::attend(const RowTile& tile, std::uint32_t row, const Range& heads) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::uint32_t position = work_.pass.rows()[row].position;
  const std::uint32_t index = row - tile.rows.begin;
  const std::size_t dim = config_.head_dim;
  const std::size_t still = dim - config_.rope_dim;
  const std::size_t count = gather(tile, row);
  ListScratch& mine = list_scratch();
  const std::span<const float> cos = rope_.cos(position);
  const std::span<const float> sin = rope_.sin(position);
  float* queries = work_.query.row(tile, index, query_size_);
  float* found = work_.attended.row(tile, index, query_size_);
  for (std::uint32_t head = heads.begin; head < heads.end; ++head) {
    float* query = queries + head * dim;
    kernels.rms_norm(query, nullptr, dim, config_.norm.epsilon, query);
    kernels.rope(query + still, cos.data(), sin.data(), rope_.dims(), rope_.interleaved());
  }
  kernels::AttentionArgs args;
  args.cache_type = kernels::CacheType::kF32;
  args.value_blocks = mine.tiles.data();
  args.latent = true;
  args.query = queries + heads.begin * dim;
  args.query_stride = query_size_;
  args.output = found + heads.begin * dim;
  args.output_stride = query_size_;
  args.rows = 1;
  args.heads = heads.size();
  args.head_dim = args.value_dim = dim;
  args.first_position = count - 1;
  args.scale = config_.scale;
  args.sinks = sinks_.data() + heads.begin;
  kernels.attention(args);
  // Values have turned with their keys: outputs turn back.
  mine.sin.assign(sin.begin(), sin.end());
  for (float& value : mine.sin) value = -value;
  for (std::uint32_t head = heads.begin; head < heads.end; ++head)
    kernels.rope(found + head * dim + still, cos.data(), mine.sin.data(), rope_.dims(),
                 rope_.interleaved());
}

// Products of low rank, each of the outputs of a group of heads.
void CompressedAttention::multiply_groups(const RowTile& tile, const Range& groups) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::uint32_t rows = work_.count(set_, tile);
  if (rows == 0) return;
  const Matrix& matrix = groups_.matrix();
  const std::size_t bytes = groups_.row_bytes();
  AlignedBuffer& prepared = list_scratch().prepared;
  prepared.reserve(rows * bytes);
  for (std::uint32_t group = groups.begin; group < groups.end; ++group) {
    for (std::uint32_t i = 0; i < rows; ++i) {
      const std::uint32_t row = work_.row(set_, tile, i) - tile.rows.begin;
      kernels.prepare(matrix.type,
                      work_.attended.row(tile, row, query_size_) + group * matrix.columns,
                      matrix.columns, prepared.data() + i * bytes);
    }
    groups_.multiply(group, rows, prepared.data(),
                     work_.gate.of(tile) + std::size_t{group} * config_.group_rank, matrix.rows);
  }
}

}  // namespace dovetail::model
