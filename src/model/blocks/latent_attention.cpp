#include "model/blocks/latent_attention.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "model/blocks/projection.h"

namespace dovetail::model {
namespace {

// What a thread keeps between the parts of its tasks.
struct Scratch {
  std::vector<float> latents, row, products, parts;
  AlignedBuffer prepared, keys, values;
  std::vector<const std::byte*> key_blocks, value_blocks;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

// The matrices of all heads with rows for columns; floats where their type has no elements of its
// own.
Matrix turn(const Matrix& from, std::size_t heads, const HeadRows& of,
            const kernels::Kernels& kernels, AlignedBuffer& memory) {
  Matrix out;
  out.factor = from.factor;
  out.rows = heads * from.columns;
  out.columns = of.rows;
  out.type = kernels::is_plain(from.type) ? from.type : kernels::DataType::kF32;
  const std::size_t element = kernels::row_bytes(out.type, 1);
  const std::size_t row_bytes = kernels::row_bytes(from.type, from.columns);
  memory.reserve(out.rows * out.columns * element);
  std::vector<float> floats(from.columns);
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t row = 0; row < of.rows; ++row) {
      const std::byte* stored = from.data + (of.first + head * of.stride + row) * row_bytes;
      if (out.type != from.type) {
        kernels.dequantize_row(from.type, stored, from.columns, floats.data());
        stored = reinterpret_cast<const std::byte*>(floats.data());
      }
      std::byte* to = memory.data() + (head * from.columns * of.rows + row) * element;
      for (std::size_t column = 0; column < from.columns; ++column)
        std::memcpy(to + column * of.rows * element, stored + column * element, element);
    }
  }
  out.data = memory.data();
  return out;
}

Linear input_of(const load::LatentConfig& config, const ModelWeights& weights,
                const std::string& layer, const kernels::Kernels& kernels) {
  const char* name = config.query_rank == 0 ? "attn_q.weight" : "attn_q_a.weight";
  const Matrix* query = &weights.matrix(layer + name);
  const Matrix* latent = &weights.matrix(layer + "attn_kv_a_mqa.weight");
  if (config.index_heads == 0) return {kernels, {query, latent}};
  return {kernels,
          {query, latent, &weights.matrix(layer + "indexer.attn_k.weight"),
           &weights.matrix(layer + "indexer.proj.weight")}};
}

Linear latent_query(const load::LatentConfig& config, const ModelWeights& weights,
                    const std::string& layer, const kernels::Kernels& kernels) {
  const Matrix* query = &weights.matrix(layer + "attn_q_b.weight");
  if (config.index_heads == 0) return {kernels, {query}};
  return {kernels, {query, &weights.matrix(layer + "indexer.attn_q_b.weight")}};
}

}  // namespace

LatentAttention::LatentAttention(const load::LatentConfig& config, const ModelWeights& weights,
                                 const std::string& layer, std::uint32_t cache_layer, RowSet set,
                                 const RopeTable* rope, LatentRows& rows, PickedEntries& picked,
                                 Workspace& workspace)
    : work_(workspace),
      config_(config),
      cache_layer_(cache_layer),
      set_(set),
      rope_(rope),
      rows_(rows),
      query_size_(std::size_t{config.heads} * config.head_dim()),
      attended_size_(std::size_t{config.heads} * config.value_dim),
      index_size_(std::size_t{config.index_heads} * config.index_dim),
      input_(input_of(config, weights, layer, workspace.kernels)),
      output_(workspace.kernels, {&weights.matrix(layer + "attn_output.weight")}),
      latent_norm_(config.norm, weights, layer + "attn_kv_a_norm", workspace.kernels) {
  const std::size_t keys = config.key_dim;
  const std::size_t values = config.value_dim;
  const std::size_t latent = config.latent_dim;
  if (config.query_rank > 0) {
    query_.emplace(latent_query(config, weights, layer, workspace.kernels));
    query_norm_ = Norm(config.norm, weights, layer + "attn_q_a_norm", workspace.kernels);
    workspace.gate.need(config.query_rank);
    workspace.prepares(*query_);
  }
  const auto heads_of = [&](const Matrix& matrix, const HeadRows& of) {
    return HeadMatrix(matrix, config.heads, of, weights.packs.has(matrix.type), workspace.kernels);
  };
  if (config.split) {
    const Matrix& stored = weights.matrix(layer + "attn_k_b.weight");
    turned_matrix_ =
        turn(stored, config.heads, {latent, latent}, workspace.kernels, turned_memory_);
    turned_keys_ = heads_of(stored, {latent, latent});
    values_ = heads_of(weights.matrix(layer + "attn_v_b.weight"), {values, values});
    keys_ = heads_of(turned_matrix_, {keys, keys});
  } else {
    const Matrix& both = weights.matrix(layer + "attn_kv_b.weight");
    const HeadRows of_keys = {keys, keys + values};
    turned_matrix_ = turn(both, config.heads, of_keys, workspace.kernels, turned_memory_);
    turned_keys_ = heads_of(turned_matrix_, {latent, latent});
    keys_ = heads_of(both, of_keys);
    values_ = heads_of(both, {values, keys + values, keys});
  }
  workspace.query.need(query_size_);
  workspace.key.need(config.cached_dim());
  workspace.attended.need(attended_size_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(output_);
  if (config.index_heads == 0) return;
  index_norm_ = Norm(config.index_norm, weights, layer + "indexer.k_norm", workspace.kernels);
  workspace.value.need(config.index_dim);
  indexer_.emplace(config.index_heads, config.index_dim, config.index_top, set, index_entries(),
                   picked, workspace);
}

void LatentAttention::add_steps(Program& program) {
  const auto all = [this](std::uint32_t tile) { return work_.tile(tile).rows.size(); };
  const auto by_heads = [this](auto does) {
    return [this, does](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
      const Range heads = part_of(config_.heads, part.block, blocks);
      for (std::uint32_t head = heads.begin; head < heads.end; ++head) does(tile, head);
    };
  };
  program.add({.name = "query-latent",
               .matrix = true,
               .run =
                   [this](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
                     multiply_input(work_.tile(tile), part.block, blocks);
                   }},
              [this, all](std::uint32_t tile) {
                return work_.share_product(work_.tile(tile), input_, all(tile));
              });
  program.add({.name = "place",
               .keys = KeysAccess::kWrite,
               .run =
                   [this, all](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
                     place(work_.tile(tile), part_of(all(tile), part.block, blocks));
                   }},
              [this, all](std::uint32_t tile) {
                const std::size_t rows = all(tile);
                const std::size_t each = config_.query_rank + config_.cached_dim();
                return work_.share(work_.tile(tile), rows, rows * 4 * each);
              });
  if (query_) {
    program.add({.name = "query",
                 .matrix = true,
                 .run =
                     [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                       const RowTile& tile = work_.tile(index);
                       const Linear::Output query = {work_.query.of(tile), query_size_};
                       const std::uint32_t rows = tile.rows.size();
                       const std::byte* prepared = work_.prepared(tile);
                       if (!indexer_)
                         return query_->multiply(part.block, blocks, rows, prepared, {query});
                       query_->multiply(part.block, blocks, rows, prepared,
                                        {query, {work_.shared.of(tile), index_size_}});
                     }},
                [this, all](std::uint32_t tile) {
                  return work_.share_product(work_.tile(tile), *query_, all(tile));
                });
  }
  if (indexer_) indexer_->add_steps(program);
  program.add(
      {.name = "absorb",
       .matrix = true,
       .run = by_heads([this](std::uint32_t tile, std::uint32_t head) { absorb(tile, head); })},
      [this, all](std::uint32_t tile) {
        const std::size_t absorbed = rows_.tile(set_, tile).absorbed_rows;
        const std::size_t each = std::size_t{config_.key_dim} * config_.latent_dim;
        const std::size_t turned = std::size_t{all(tile)} * config_.rope_dim;
        return work_.share(work_.tile(tile), config_.heads,
                           config_.heads * (absorbed * each + 4 * turned));
      });
  program.add({.name = "attend",
               .keys = KeysAccess::kRead,
               .run = [this](std::uint32_t tile, std::uint32_t blocks,
                             const cores::Part& part) { attend(tile, part.block, blocks); }},
              [this](std::uint32_t tile) {
                return work_.share(work_.tile(tile), items(tile), work(tile));
              });
  program.add(
      {.name = "values",
       .matrix = true,
       .run =
           by_heads([this](std::uint32_t tile, std::uint32_t head) { take_values(tile, head); })},
      [this](std::uint32_t tile) {
        const std::size_t absorbed = rows_.tile(set_, tile).absorbed_rows;
        const std::size_t each = std::size_t{config_.value_dim} * config_.latent_dim;
        return work_.share(work_.tile(tile), config_.heads, config_.heads * absorbed * each);
      });
  program.add({.name = "attended",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     const Range rows = part_of(work_.count(set_, tile), part.block, blocks);
                     for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
                       const std::uint32_t row = work_.row(set_, tile, i) - tile.rows.begin;
                       output_.prepare(work_.attended.row(tile, row, attended_size_), i,
                                       work_.count(set_, tile), work_.prepared(tile));
                     }
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = work_.count(set_, tile);
                return work_.share(tile, rows, rows * 2 * attended_size_);
              });
  add_projection(program, "output", output_, set_, work_);
}

void LatentAttention::multiply_input(const RowTile& tile, std::uint32_t block,
                                     std::uint32_t blocks) {
  Linear::Output query = {work_.query.of(tile), query_size_};
  if (query_) query = {work_.gate.of(tile), config_.query_rank};
  const Linear::Output latent = {work_.key.of(tile), config_.cached_dim()};
  const std::size_t rows = tile.rows.size();
  const std::byte* prepared = work_.prepared(tile);
  if (!indexer_) return input_.multiply(block, blocks, rows, prepared, {query, latent});
  input_.multiply(block, blocks, rows, prepared,
                  {query,
                   latent,
                   {work_.value.of(tile), config_.index_dim},
                   {work_.shared_gate.of(tile), config_.index_heads}});
}

// Latents, and the indexer's keys, into the cache; queries of low rank are made ready for their
// second product.
void LatentAttention::place(const RowTile& tile, const Range& rows) {
  const kernels::CacheType type = work_.cache->shape().type();
  const std::size_t latent = config_.latent_dim;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const PassRow& row = work_.pass.rows()[tile.rows.begin + i];
    float* cached = work_.key.row(tile, i, config_.cached_dim());
    latent_norm_.apply(cached, cached);
    turn_elements(row.position, cached + latent);
    const std::size_t place = row.position % kernels::kBlockSize;
    work_.kernels.store_value(type, cached, config_.cached_dim(), place,
                              tile_of(row, cache_layer_));
    if (indexer_) {
      float* key = work_.value.row(tile, i, config_.index_dim);
      index_norm_.apply(key, key);
      turn_index(row.position, key);
      work_.kernels.store_value(type, key, config_.index_dim, place,
                                tile_of(row, cache_layer_ + 1));
    }
    if (!query_) continue;
    float* query = work_.gate.row(tile, i, config_.query_rank);
    query_norm_.apply(query, query);
    query_->prepare(query, i, tile.rows.size(), work_.prepared(tile));
  }
}

// What lanes share of a tile's absorbed rows, for as many heads: rows that choose, segments, or
// all.
std::uint32_t LatentAttention::walks(const LatentRows::Cut& cut, const QueryTile& of) const {
  if (rows_.chooses(of)) return of.rows;
  return cut.segments > 0 ? segments_until(of) : 1;
}

// What lanes share of a tile's attention: prompts' rows by heads, then absorbed rows.
std::uint32_t LatentAttention::items(std::uint32_t index) const {
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const LatentRows::Cut& cut = rows_.cut(index);
  std::uint32_t absorbed = 0;
  for (const QueryTile& of : rows.absorbed) absorbed += walks(cut, of);
  const std::uint32_t groups = (config_.heads + cut.heads - 1) / cut.heads;
  return static_cast<std::uint32_t>(rows.prompts.size()) * config_.heads + absorbed * groups;
}

// In multiplications.
std::size_t LatentAttention::work(std::uint32_t index) const {
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const std::size_t made = std::size_t{config_.key_dim} + config_.value_dim;
  std::size_t work = 0;
  for (const QueryTile& run : rows.prompts) {
    const std::size_t seen = run.position + run.rows;
    work += seen * (made * config_.latent_dim + run.rows * (made + config_.rope_dim));
  }
  for (const QueryTile& of : rows.absorbed) {
    const std::size_t seen = rows_.chooses(of) ? config_.index_top : of.position + of.rows;
    work += of.rows * seen * 2 * config_.cached_dim();
  }
  return work * config_.heads;
}

// Neighbouring items may be of very different contexts, so blocks take them in turns.
void LatentAttention::attend(std::uint32_t index, std::uint32_t block, std::uint32_t blocks) {
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const LatentRows::Cut& cut = rows_.cut(index);
  std::uint32_t item = 0;
  const auto mine = [&] { return item++ % blocks == block; };
  for (const QueryTile& run : rows.prompts) {
    for (std::uint32_t head = 0; head < config_.heads; ++head) {
      if (mine()) attend_prompt(work_.tile(index), run, head);
    }
  }
  std::size_t absorbed = 0;  // rows of the tile
  for (const QueryTile& of : rows.absorbed) {
    for (std::uint32_t head = 0; head < config_.heads; head += cut.heads) {
      for (std::uint32_t walk = 0; walk < walks(cut, of); ++walk) {
        if (!mine()) continue;
        if (rows_.chooses(of)) {
          attend_picked(index, of.row + walk, absorbed + walk, head);
        } else {
          attend_latents(index, of, absorbed, head,
                         cut.segments > 0 ? walk : kernels::AttentionArgs::kAllSegments);
        }
      }
    }
    absorbed += of.rows;
  }
}

const std::byte* LatentAttention::tile_at(const Segment& segment, std::uint32_t layer,
                                          std::size_t block) const {
  const CacheShape& shape = work_.cache->shape();
  const std::size_t place = block * shape.groups() + shape.layers()[layer].group;
  return work_.cache->values(layer, 0, segment.block_table[place]);
}

std::byte* LatentAttention::tile_of(const PassRow& row, std::uint32_t layer) const {
  const CacheShape& shape = work_.cache->shape();
  const Segment& segment = work_.pass.segments()[row.segment];
  const std::size_t place =
      row.position / kernels::kBlockSize * shape.groups() + shape.layers()[layer].group;
  return work_.cache->values(layer, 0, segment.block_table[place]);
}

// A head's keys and values of the positions [first, end) of one segment of the context, made of
// what the cache has, into tiles.
void LatentAttention::expand(const Segment& segment, std::uint32_t head, std::size_t first,
                             std::size_t end) {
  constexpr std::size_t kBlock = kernels::kBlockSize;
  const kernels::Kernels& kernels = work_.kernels;
  const kernels::CacheType type = work_.cache->shape().type();
  const std::size_t cached = config_.cached_dim();
  const std::size_t keys = config_.key_dim;
  const std::size_t values = config_.value_dim;
  const std::size_t made = keys + values;
  const std::size_t count = end - first;
  Scratch& mine = scratch();
  const std::size_t blocks = (count + kBlock - 1) / kBlock;
  grow(mine.latents, blocks * kBlock * cached);
  grow(mine.products, count * made);
  for (std::size_t b = 0; b < blocks; ++b) {
    kernels.load_values(type, tile_at(segment, cache_layer_, first / kBlock + b), cached, 0, kBlock,
                        mine.latents.data() + b * kBlock * cached);
  }
  for (const HeadMatrix* of : {&keys_, &values_}) {
    const kernels::DataType weights = of->matrix().type;
    const std::size_t bytes = of->row_bytes();
    if (of == &keys_ || weights != keys_.matrix().type) {
      mine.prepared.reserve(count * bytes);
      for (std::size_t i = 0; i < count; ++i)
        kernels.prepare(weights, mine.latents.data() + i * cached, config_.latent_dim,
                        mine.prepared.data() + i * bytes);
    }
    of->multiply(head, count, mine.prepared.data(),
                 mine.products.data() + (of == &keys_ ? 0 : keys), made);
  }
  constexpr kernels::CacheType kFloats = kernels::CacheType::kF32;
  const std::size_t key_bytes = kernels::cache_tile_bytes(kFloats, config_.head_dim());
  const std::size_t value_bytes = kernels::cache_tile_bytes(kFloats, values);
  mine.keys.reserve(blocks * key_bytes);
  mine.values.reserve(blocks * value_bytes);
  grow(mine.row, config_.head_dim());
  for (std::size_t i = 0; i < count; ++i) {
    const float* product = mine.products.data() + i * made;
    std::copy_n(product, keys, mine.row.data());
    std::copy_n(mine.latents.data() + i * cached + config_.latent_dim, config_.rope_dim,
                mine.row.data() + keys);
    const std::size_t b = i / kBlock;
    kernels.store_key(kFloats, mine.row.data(), config_.head_dim(), i % kBlock,
                      mine.keys.data() + b * key_bytes);
    kernels.store_value(kFloats, product + keys, values, i % kBlock,
                        mine.values.data() + b * value_bytes);
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    mine.key_blocks[first / kBlock + b] = mine.keys.data() + b * key_bytes;
    mine.value_blocks[first / kBlock + b] = mine.values.data() + b * value_bytes;
  }
}

// Rows of a prompt that follow each other, segment by segment of what they see.
void LatentAttention::attend_prompt(const RowTile& tile, const QueryTile& run, std::uint32_t head) {
  const Segment& segment = work_.pass.segments()[run.segment];
  const std::size_t end = run.position + run.rows;
  const std::size_t blocks = (end + kernels::kBlockSize - 1) / kernels::kBlockSize;
  const std::uint32_t segments = segments_until(run);
  const std::size_t floats = kernels::attention_part_floats(config_.value_dim);
  Scratch& mine = scratch();
  mine.key_blocks.assign(blocks, nullptr);
  mine.value_blocks.assign(blocks, nullptr);
  grow(mine.parts, std::size_t{run.rows} * segments * floats);
  kernels::AttentionArgs args;
  args.cache_type = kernels::CacheType::kF32;
  args.query =
      work_.query.row(tile, run.row - tile.rows.begin, query_size_) + head * config_.head_dim();
  args.query_stride = query_size_;
  args.output_stride = segments * floats;
  args.rows = run.rows;
  args.heads = 1;
  args.head_dim = config_.head_dim();
  args.value_dim = config_.value_dim;
  args.first_position = run.position;
  args.scale = config_.scale;
  for (std::uint32_t part = 0; part < segments; ++part) {
    const std::size_t first = std::size_t{part} * kLatentSegment;
    expand(segment, head, first, std::min(end, first + kLatentSegment));
    args.key_blocks = mine.key_blocks.data();
    args.value_blocks = mine.value_blocks.data();
    args.segment = part;
    args.output = mine.parts.data() + part * floats;
    work_.kernels.attention(args);
  }
  for (std::uint32_t i = 0; i < run.rows; ++i) {
    work_.kernels.merge_attention(
        mine.parts.data() + std::size_t{i} * segments * floats,
        (run.position + i) / kLatentSegment + 1, floats, config_.value_dim, nullptr,
        work_.attended.row(tile, run.row + i - tile.rows.begin, attended_size_) +
            head * config_.value_dim);
  }
}

}  // namespace dovetail::model
