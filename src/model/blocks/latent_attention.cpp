#include "model/blocks/latent_attention.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "model/blocks/projection.h"

namespace dovetail::model {
namespace {

constexpr auto kSegment = static_cast<std::uint32_t>(kernels::kAttentionSegment);

// Fewer heads than this are not worth walking a context for.
constexpr std::uint32_t kFewestHeads = 4;

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

std::uint32_t segments_until(const QueryTile& queries) {
  return (queries.position + queries.rows - 1) / kSegment + 1;
}

// The matrices of all heads with rows for columns; floats where their type has no elements of its
// own.
Matrix turn(const HeadMatrix& of, std::size_t heads, const kernels::Kernels& kernels,
            AlignedBuffer& memory) {
  const Matrix& from = *of.matrix;
  Matrix out;
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
  const char* query = config.query_rank == 0 ? "attn_q.weight" : "attn_q_a.weight";
  return {kernels,
          {&weights.matrix(layer + query), &weights.matrix(layer + "attn_kv_a_mqa.weight")}};
}

}  // namespace

void LatentRows::sort(std::span<const QueryTile> queries, Tile& tile) {
  tile.prompts.clear();
  tile.generated.clear();
  tile.generated_rows = 0;
  for (const QueryTile& query : queries) {
    if (query.generated) {
      tile.generated.push_back(query);
      tile.generated_rows += query.rows;
      continue;
    }
    QueryTile* last = tile.prompts.empty() ? nullptr : &tile.prompts.back();
    if (last != nullptr && last->segment == query.segment && last->row + last->rows == query.row) {
      last->rows += query.rows;
    } else {
      tile.prompts.push_back(query);
    }
  }
}

LatentRows::Cut LatentRows::choose(const Tile& tile) const {
  Cut cut;
  cut.heads = config_.heads;
  const std::size_t wanted = lanes_ == 1 ? 1 : lanes_ * kBlocksPerLane;
  std::size_t items = tile.generated.size();
  if (items == 0 || items >= wanted) return cut;
  std::uint32_t longest = 0;
  std::size_t parts = 0;
  for (const QueryTile& query : tile.generated) {
    longest = std::max(longest, segments_until(query));
    parts += segments_until(query);
  }
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
    rows += all_[t].generated_rows;
    cuts_[t] = choose(all_[t]);
    cuts_[t].parts = floats;
    floats += all_[t].generated_rows * parts_size(static_cast<std::uint32_t>(t));
  }
  grow(queries_, rows * query_size());
  grow(latents_, rows * latents_size());
  grow(parts_, floats);
}

LatentAttention::LatentAttention(const load::LatentConfig& config, const ModelWeights& weights,
                                 const std::string& layer, std::uint32_t cache_layer, RowSet set,
                                 const RopeTable& rope, LatentRows& rows, Workspace& workspace)
    : work_(workspace),
      config_(config),
      cache_layer_(cache_layer),
      set_(set),
      rope_(rope),
      rows_(rows),
      query_size_(std::size_t{config.heads} * config.head_dim()),
      attended_size_(std::size_t{config.heads} * config.value_dim),
      input_(input_of(config, weights, layer, workspace.kernels)),
      output_(workspace.kernels, {&weights.matrix(layer + "attn_output.weight")}),
      latent_norm_(config.norm, weights, layer + "attn_kv_a_norm", workspace.kernels) {
  const std::size_t keys = config.key_dim;
  const std::size_t values = config.value_dim;
  const std::size_t latent = config.latent_dim;
  if (config.query_rank > 0) {
    query_.emplace(workspace.kernels, std::initializer_list<const Matrix*>{
                                          &weights.matrix(layer + "attn_q_b.weight")});
    query_norm_ = Norm(config.norm, weights, layer + "attn_q_a_norm", workspace.kernels);
    workspace.gate.need(config.query_rank);
    workspace.prepares(*query_);
  }
  if (config.split) {
    turned_keys_ = {&weights.matrix(layer + "attn_k_b.weight"), latent, 0, latent};
    values_ = {&weights.matrix(layer + "attn_v_b.weight"), values, 0, values};
    turned_matrix_ = turn(turned_keys_, config.heads, workspace.kernels, turned_memory_);
    keys_ = {&turned_matrix_, keys, 0, keys};
  } else {
    const Matrix& both = weights.matrix(layer + "attn_kv_b.weight");
    keys_ = {&both, keys + values, 0, keys};
    values_ = {&both, keys + values, keys, values};
    turned_matrix_ = turn(keys_, config.heads, workspace.kernels, turned_memory_);
    turned_keys_ = {&turned_matrix_, latent, 0, latent};
  }
  workspace.query.need(query_size_);
  workspace.key.need(config.cached_dim());
  workspace.attended.need(attended_size_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(output_);
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
                       query_->multiply(part.block, blocks, tile.rows.size(), work_.prepared(tile),
                                        {{work_.query.of(tile), query_size_}});
                     }},
                [this, all](std::uint32_t tile) {
                  return work_.share_product(work_.tile(tile), *query_, all(tile));
                });
  }
  program.add(
      {.name = "absorb",
       .matrix = true,
       .run = by_heads([this](std::uint32_t tile, std::uint32_t head) { absorb(tile, head); })},
      [this, all](std::uint32_t tile) {
        const std::size_t generated = rows_.tile(set_, tile).generated_rows;
        const std::size_t each = std::size_t{config_.key_dim} * config_.latent_dim;
        const std::size_t turned = std::size_t{all(tile)} * config_.rope_dim;
        return work_.share(work_.tile(tile), config_.heads,
                           config_.heads * (generated * each + 4 * turned));
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
        const std::size_t generated = rows_.tile(set_, tile).generated_rows;
        const std::size_t each = std::size_t{config_.value_dim} * config_.latent_dim;
        return work_.share(work_.tile(tile), config_.heads, config_.heads * generated * each);
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
  input_.multiply(block, blocks, tile.rows.size(), work_.prepared(tile),
                  {query, {work_.key.of(tile), config_.cached_dim()}});
}

// Latents into the cache; queries of low rank are made ready for their second product.
void LatentAttention::place(const RowTile& tile, const Range& rows) {
  const Cache& cache = *work_.cache;
  const CacheShape& shape = cache.shape();
  const std::size_t latent = config_.latent_dim;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const PassRow& row = work_.pass.rows()[tile.rows.begin + i];
    float* cached = work_.key.row(tile, i, config_.cached_dim());
    latent_norm_.apply(cached, cached);
    work_.kernels.rope(cached + latent, rope_.cos(row.position).data(),
                       rope_.sin(row.position).data(), rope_.dims(), rope_.interleaved());
    const Segment& segment = work_.pass.segments()[row.segment];
    const std::size_t block = row.position / kernels::kBlockSize;
    const std::size_t place = block * shape.groups() + shape.layers()[cache_layer_].group;
    work_.kernels.store_value(shape.type(), cached, config_.cached_dim(),
                              row.position % kernels::kBlockSize,
                              cache.values(cache_layer_, 0, segment.block_table[place]));
    if (!query_) continue;
    float* query = work_.gate.row(tile, i, config_.query_rank);
    query_norm_.apply(query, query);
    query_->prepare(query, i, tile.rows.size(), work_.prepared(tile));
  }
}

// Turns what turns of a head's queries, and makes those of generated tokens queries for latents.
void LatentAttention::absorb(std::uint32_t index, std::uint32_t head) {
  const RowTile& tile = work_.tile(index);
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const std::size_t keys = config_.key_dim;
  const auto query = [&](std::uint32_t row) {
    return work_.query.row(tile, row - tile.rows.begin, query_size_) + head * config_.head_dim();
  };
  for (const auto* tiles : {&rows.prompts, &rows.generated}) {
    for (const QueryTile& of : *tiles) {
      for (std::uint32_t i = 0; i < of.rows; ++i) {
        const std::uint32_t position = of.position + i;
        float* mine = query(of.row + i);
        work_.kernels.rope(mine + keys, rope_.cos(position).data(), rope_.sin(position).data(),
                           rope_.dims(), rope_.interleaved());
        if (config_.temperature == 0.0F) continue;
        work_.kernels.scale(
            mine, query_temperature(config_.temperature, config_.temperature_context, position),
            config_.head_dim());
      }
    }
  }
  if (rows.generated_rows == 0) return;
  AlignedBuffer& prepared = scratch().prepared;
  const kernels::DataType type = turned_keys_.matrix->type;
  const std::size_t bytes = work_.kernels.activation_bytes(type, keys);
  prepared.reserve(rows.generated_rows * bytes);
  std::size_t next = 0;
  for (const QueryTile& of : rows.generated) {
    for (std::uint32_t i = 0; i < of.rows; ++i, ++next) {
      const float* from = query(of.row + i);
      work_.kernels.prepare(type, from, keys, prepared.data() + next * bytes);
      std::copy_n(
          from + keys, config_.rope_dim,
          rows_.query(rows.first + next) + head * config_.cached_dim() + config_.latent_dim);
    }
  }
  multiply(turned_keys_, head, rows.generated_rows, prepared.data(),
           rows_.query(rows.first) + head * config_.cached_dim(), rows_.query_size());
}

// Of the head's rows of a matrix and `rows` rows that are prepared one after another.
void LatentAttention::multiply(const HeadMatrix& of, std::uint32_t head, std::size_t rows,
                               const std::byte* prepared, float* output, std::size_t stride) const {
  const Matrix& matrix = *of.matrix;
  assert(!matrix.packed);
  kernels::MatmulArgs args;
  args.type = matrix.type;
  args.weights =
      matrix.data + (of.first + head * of.stride) * kernels::row_bytes(matrix.type, matrix.columns);
  args.activations = prepared;
  args.activation_stride = work_.kernels.activation_bytes(matrix.type, matrix.columns);
  args.output = output;
  args.output_stride = stride;
  args.m = rows;
  args.k = matrix.columns;
  args.n_end = of.rows;
  work_.kernels.matmul(args);
}

// What lanes share of a tile's attention: prompts' rows by heads, then generated rows.
std::uint32_t LatentAttention::items(std::uint32_t index) const {
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const LatentRows::Cut& cut = rows_.cut(index);
  std::uint32_t walks = 0;
  for (const QueryTile& of : rows.generated) walks += cut.segments > 0 ? segments_until(of) : 1;
  const std::uint32_t groups = (config_.heads + cut.heads - 1) / cut.heads;
  return static_cast<std::uint32_t>(rows.prompts.size()) * config_.heads + walks * groups;
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
  for (const QueryTile& of : rows.generated)
    work += std::size_t{of.rows} * (of.position + of.rows) * 2 * config_.cached_dim();
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
  for (const QueryTile& of : rows.generated) {
    for (std::uint32_t head = 0; head < config_.heads; head += cut.heads) {
      if (cut.segments == 0) {
        if (mine()) attend_latents(index, of, head, kernels::AttentionArgs::kAllSegments);
        continue;
      }
      for (std::uint32_t segment = 0; segment < segments_until(of); ++segment) {
        if (mine()) attend_latents(index, of, head, segment);
      }
    }
  }
}

const std::byte* LatentAttention::tile_at(const Segment& segment, std::size_t block) const {
  const CacheShape& shape = work_.cache->shape();
  const std::size_t place = block * shape.groups() + shape.layers()[cache_layer_].group;
  return work_.cache->values(cache_layer_, 0, segment.block_table[place]);
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
    kernels.load_values(type, tile_at(segment, first / kBlock + b), cached,
                        mine.latents.data() + b * kBlock * cached);
  }
  for (const HeadMatrix* of : {&keys_, &values_}) {
    const kernels::DataType weights = of->matrix->type;
    const std::size_t bytes = kernels.activation_bytes(weights, config_.latent_dim);
    if (of == &keys_ || weights != keys_.matrix->type) {
      mine.prepared.reserve(count * bytes);
      for (std::size_t i = 0; i < count; ++i)
        kernels.prepare(weights, mine.latents.data() + i * cached, config_.latent_dim,
                        mine.prepared.data() + i * bytes);
    }
    multiply(*of, head, count, mine.prepared.data(),
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
    const std::size_t first = std::size_t{part} * kSegment;
    expand(segment, head, first, std::min(end, first + kSegment));
    args.key_blocks = mine.key_blocks.data();
    args.value_blocks = mine.value_blocks.data();
    args.segment = part;
    args.output = mine.parts.data() + part * floats;
    work_.kernels.attention(args);
  }
  for (std::uint32_t i = 0; i < run.rows; ++i) {
    work_.kernels.merge_attention(
        mine.parts.data() + std::size_t{i} * segments * floats, (run.position + i) / kSegment + 1,
        floats, config_.value_dim, nullptr,
        work_.attended.row(tile, run.row + i - tile.rows.begin, attended_size_) +
            head * config_.value_dim);
  }
}

// Some heads of generated rows.
void LatentAttention::attend_latents(std::uint32_t index, const QueryTile& queries,
                                     std::uint32_t head, std::size_t segment) {
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  const LatentRows::Cut& cut = rows_.cut(index);
  std::size_t before = 0;  // generated rows of the tile
  for (const QueryTile& of : rows.generated) {
    if (of.row == queries.row) break;
    before += of.rows;
  }
  const Segment& sequence = work_.pass.segments()[queries.segment];
  const std::size_t end = queries.position + queries.rows;
  const std::size_t blocks = (end + kernels::kBlockSize - 1) / kernels::kBlockSize;
  std::vector<const std::byte*>& tiles = scratch().value_blocks;
  tiles.resize(blocks);
  for (std::size_t i = 0; i < blocks; ++i) tiles[i] = tile_at(sequence, i);
  kernels::AttentionArgs args;
  args.cache_type = work_.cache->shape().type();
  args.value_blocks = tiles.data();
  args.latent = true;
  args.query = rows_.query(rows.first + before) + head * config_.cached_dim();
  args.query_stride = rows_.query_size();
  args.rows = queries.rows;
  args.heads = std::min(cut.heads, config_.heads - head);
  args.head_dim = config_.cached_dim();
  args.value_dim = config_.latent_dim;
  args.first_position = queries.position;
  args.scale = config_.scale;
  args.segment = segment;
  if (segment == kernels::AttentionArgs::kAllSegments) {
    args.output = rows_.latents(rows.first + before) + head * config_.latent_dim;
    args.output_stride = rows_.latents_size();
  } else {
    const std::size_t floats = kernels::attention_part_floats(config_.latent_dim);
    args.output = rows_.parts(index, before) + (segment * config_.heads + head) * floats;
    args.output_stride = rows_.parts_size(index);
  }
  work_.kernels.attention(args);
}

// What a head's generated rows found, merged where it came by segments, into values.
void LatentAttention::take_values(std::uint32_t index, std::uint32_t head) {
  const RowTile& tile = work_.tile(index);
  const LatentRows::Tile& rows = rows_.tile(set_, index);
  if (rows.generated_rows == 0) return;
  const LatentRows::Cut& cut = rows_.cut(index);
  const std::size_t latent = config_.latent_dim;
  const std::size_t floats = kernels::attention_part_floats(latent);
  const kernels::DataType type = values_.matrix->type;
  const std::size_t bytes = work_.kernels.activation_bytes(type, latent);
  Scratch& mine = scratch();
  mine.prepared.reserve(rows.generated_rows * bytes);
  grow(mine.products, std::size_t{rows.generated_rows} * config_.value_dim);
  std::size_t next = 0;
  for (const QueryTile& of : rows.generated) {
    for (std::uint32_t i = 0; i < of.rows; ++i, ++next) {
      float* found = rows_.latents(rows.first + next) + head * latent;
      if (cut.segments > 0) {
        work_.kernels.merge_attention(rows_.parts(index, next) + head * floats,
                                      (of.position + i) / kSegment + 1, config_.heads * floats,
                                      latent, nullptr, found);
      }
      work_.kernels.prepare(type, found, latent, mine.prepared.data() + next * bytes);
    }
  }
  multiply(values_, head, rows.generated_rows, mine.prepared.data(), mine.products.data(),
           config_.value_dim);
  next = 0;
  for (const QueryTile& of : rows.generated) {
    for (std::uint32_t i = 0; i < of.rows; ++i, ++next) {
      std::copy_n(mine.products.data() + next * config_.value_dim, config_.value_dim,
                  work_.attended.row(tile, of.row + i - tile.rows.begin, attended_size_) +
                      head * config_.value_dim);
    }
  }
}

}  // namespace dovetail::model
