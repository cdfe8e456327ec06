#include "model/decoder.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "cores/trace.h"
#include "model/mutation.h"
#include "model/pack_weights.h"
#include "model/scratch.h"

namespace dovetail::model {
namespace {

// What tasks of a pass share, a byte for each tile: the rows that the tile works on, and from
// kKeys on the keys and values of a layer.
constexpr cores::BufferId kRows = 0;
constexpr cores::BufferId kKeys = 1;

// Throws std::bad_alloc where rows that have to be made do not fit the memory.
DecoderWeights unpacked_weights(std::shared_ptr<const load::ModelSource> source,
                                const kernels::Kernels& kernels) {
  DecoderWeights weights = bind_weights(std::move(source), kernels);
  PackOptions only_parts;
  only_parts.pack = false;
  if (!pack_weights(weights, kernels, only_parts)) throw std::bad_alloc();
  return weights;
}

}  // namespace

Decoder::Decoder(std::shared_ptr<const load::ModelSource> source, const kernels::Kernels& kernels,
                 cores::Executor& executor)
    : Decoder(unpacked_weights(std::move(source), kernels), kernels, executor) {}

Decoder::Decoder(DecoderWeights weights, const kernels::Kernels& kernels, cores::Executor& executor)
    : config_(weights.source->config),
      kernels_(kernels),
      executor_(executor),
      lanes_(executor.topology().lanes()),
      weights_(std::move(weights)),
      logits_product_(kernels, {&weights_.output}),
      rope_(config_.rope, config_.head_dim),
      query_size_(std::size_t{config_.heads} * config_.head_dim),
      kv_size_(std::size_t{config_.kv_heads} * config_.head_dim) {
  assert(executor.threads() == lanes_);
  products_.reserve(weights_.layers.size());
  if (config_.experts.count > 0)
    experts_.emplace(config_, weights_.layers, kernels, executor.topology());
  else
    feed_forward_.reserve(weights_.layers.size());
  for (const LayerWeights& layer : weights_.layers) {
    const auto prepares = [&](const Linear& linear) {
      prepared_row_bytes_ = std::max(prepared_row_bytes_, linear.row_bytes());
    };
    const LayerProducts& products = products_.emplace_back(
        LayerProducts{Linear(kernels, {&layer.query, &layer.key, &layer.value}),
                      Linear(kernels, {&layer.attention_output})});
    prepares(products.query_key_value);
    prepares(products.output);
    if (experts_) {
      prepares(experts_->router(static_cast<std::uint32_t>(products_.size() - 1)));
    } else {
      const FeedForwardProducts& dense =
          feed_forward_.emplace_back(layer.feed_forward.front(), kernels);
      prepares(dense.gate_up);
      prepares(dense.down);
    }
  }
}

std::span<const Decoder::Stage> Decoder::mlp_stages(const load::ModelConfig& config) {
  using enum Stage;
  static constexpr std::array kDense = {kGateUp, kActivate, kDown};
  static constexpr std::array kSparse = {kRouter, kChoose, kSort, kExperts, kCombine};
  if (config.experts.count > 0) return kSparse;
  return kDense;
}

std::uint32_t Decoder::max_tasks(const load::ModelConfig& config) {
  const auto of_layer = static_cast<std::uint32_t>(kLayerStages.size() + mlp_stages(config).size());
  return Pass::kMostTiles * (of_layer * config.layers + 2) + 1;
}

CacheShape Decoder::cache_shape(kernels::CacheType type) const {
  return {config_.layers, config_.kv_heads, config_.head_dim, type};
}

void Decoder::forward(std::span<const Segment> segments, const Cache& cache,
                      std::span<float> logits) {
  TileRows worth;
  if (experts_) worth = experts_->tile_rows();
  pass_.lay_out(segments, static_cast<std::uint32_t>(lanes_), worth);
  assert(logits.size() == pass_.wanted().size() * config_.vocab_size);
  cache_ = &cache;
  logits_ = logits;
  rope_.extend(pass_.positions());
  const std::size_t rows = pass_.rows().size();
  grow(residual_, rows * config_.hidden_size);
  grow(projected_, rows * config_.hidden_size);
  grow(query_, rows * query_size_);
  grow(attended_, rows * query_size_);
  grow(key_, rows * kv_size_);
  grow(value_, rows * kv_size_);
  if (experts_) {
    experts_->reserve(rows);
  } else {
    grow(gate_, rows * config_.intermediate_size);
    grow(up_, rows * config_.intermediate_size);
  }
  prepared_.reserve(rows * prepared_row_bytes_);
  prepared_logit_rows_.reserve(pass_.wanted().size() * logits_product_.row_bytes());
  split_attention();
  share_out();

  Graph& graph = graph_of(shape());
  cut(graph);
  // Its tasks do not fail, and the executor has their lanes and room for them.
  [[maybe_unused]] const Status ran = executor_.run(graph.recording);
  assert(ran);
}

Decoder::Shape Decoder::shape() const {
  Shape shape;
  for (const RowTile& tile : pass_.tiles())
    shape.first_shared[shape.tiles++] = static_cast<std::uint8_t>(tile.first_shared);
  return shape;
}

// Steps are often of the shape of the one before, so that the first graph is it.
Decoder::Graph& Decoder::graph_of(const Shape& shape) {
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const Graph& graph) {
    if (mutated(Mutant::kTilesAreTheShape)) return graph.shape.tiles == shape.tiles;
    return graph.shape == shape;
  });
  if (found != graphs_.end()) {
    graphs_.splice(graphs_.begin(), graphs_, found);
  } else {
    if (graphs_.size() == kMostGraphs) graphs_.pop_back();
    graphs_.push_front(record(shape));
  }
  return graphs_.front();
}

const cores::Recording& Decoder::last_graph() const {
  assert(!graphs_.empty());
  return graphs_.front().recording;
}

// Products are matrix work, of which the lanes of a CPU do as well as of the rest.
cores::TaskShape Decoder::lanes_for(Stage stage) {
  switch (stage) {
    case Stage::kQueryKeyValue:
    case Stage::kOutput:
    case Stage::kGateUp:
    case Stage::kDown:
    case Stage::kRouter:
    case Stage::kExperts:
    case Stage::kLogits:
      return cores::kMatrixTask;
    default:
      return cores::kVectorTask;
  }
}

// Says in how many blocks its tasks are cut, and which experts lanes share.
void Decoder::cut(Graph& graph) const {
  // Steps of one token for each sequence are often like the one before. What experts share depends
  // on more than the blocks.
  if (!experts_ && graph.blocks == blocks_ && graph.last_blocks == last_blocks_) return;
  graph.blocks = blocks_;
  graph.last_blocks = last_blocks_;
  for (std::size_t number = 0; number < graph.tasks.size(); ++number) {
    const Graph::Task& task = graph.tasks[number];
    graph.recording.set_blocks(number, blocks_of(task.stage, task.layer, task.tile));
    if (task.stage == Stage::kExperts) {
      const bool mixed = experts_->mixed(rows_of(task.layer, pass_.tiles()[task.tile]));
      graph.recording.set_shape(number, mixed ? cores::kWholeGroup : lanes_for(task.stage));
    }
  }
}

observe::LaneSlice Decoder::slice(const cores::Span& span) const {
  static constexpr std::array<const char*, kStages> kNames = {
      "embed",  "norm",     "query-key-value", "place",    "attend",     "attended",
      "output", "mlp-norm", "gate-up",         "activate", "down",       "router",
      "choose", "sort",     "experts",         "combine",  "logit-rows", "logits"};
  assert(!graphs_.empty());
  const Graph::Task& task = graphs_.front().tasks[span.task];
  observe::LaneSlice slice =
      cores::lane_slice(span, executor_.topology(), kNames[static_cast<std::size_t>(task.stage)]);
  const bool in_layer = task.stage != Stage::kEmbed && task.stage < Stage::kLogitRows;
  slice.layer = in_layer ? static_cast<std::int32_t>(task.layer) : -1;
  slice.tile = task.tile;
  return slice;
}

Decoder::Graph Decoder::record(const Shape& shape) {
  const std::uint32_t tiles = shape.tiles;
  Graph graph;
  graph.shape = shape;
  cores::Recorder recorder(max_tasks(config_), 4 * max_tasks(config_));
  const auto add = [&](Stage stage, std::uint32_t layer, std::uint32_t tile,
                       std::initializer_list<cores::Access> accesses) {
    const auto function = [this, stage, layer, tile](const cores::Part& part) {
      run(stage, layer, tile, part);
    };
    [[maybe_unused]] const auto number =
        recorder.add({lanes_for(stage)}, function, std::span(accesses.begin(), accesses.size()));
    assert(number && *number == graph.tasks.size());
    graph.tasks.push_back({stage, layer, tile});
  };
  const auto own = [](cores::BufferId buffer, std::uint32_t tile, cores::AccessMode mode) {
    return cores::Access{cores::Region(buffer, tile, 1), mode};
  };
  using enum cores::AccessMode;
  for (std::uint32_t t = 0; t < tiles; ++t) add(Stage::kEmbed, 0, t, {own(kRows, t, kWrite)});
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    const cores::BufferId keys = kKeys + layer;
    for (std::uint32_t t = 0; t < tiles; ++t) {
      const cores::Access rows = own(kRows, t, kReadWrite);
      // A row sees nothing of the tiles behind its own, nor of those without its sequence.
      std::uint32_t first = shape.first_shared[t];
      if (mutated(Mutant::kOneTileTooLate)) first = std::min(first + 1, t);
      const cores::Access seen = {cores::Region(keys, first, t + 1 - first), kRead};
      for (const Stage stage : kLayerStages) {
        switch (stage) {
          case Stage::kPlace:
            add(stage, layer, t, {rows, own(keys, t, kWrite)});
            break;
          case Stage::kAttend:
            add(stage, layer, t, {rows, seen});
            break;
          default:
            add(stage, layer, t, {rows});
        }
      }
      for (const Stage stage : mlp_stages(config_)) add(stage, layer, t, {rows});
    }
  }
  for (std::uint32_t t = 0; t < tiles; ++t)
    add(Stage::kLogitRows, 0, t, {own(kRows, t, kReadWrite)});
  add(Stage::kLogits, 0, 0, {{cores::Region(kRows, 0, tiles), kRead}});
  graph.recording = std::move(recorder).finish();
  return graph;
}

// How many rows a layer computes beyond keys and values: the last one those that have logits.
std::uint32_t Decoder::rows_of(std::uint32_t layer, const RowTile& tile) const {
  return layer + 1 == config_.layers ? tile.wanted.size() : tile.rows.size();
}

// The pass's row that is the tile's `index`-th of these.
std::uint32_t Decoder::row_at(std::uint32_t layer, const RowTile& tile, std::uint32_t index) const {
  return layer + 1 == config_.layers ? pass_.wanted()[tile.wanted.begin + index]
                                     : tile.rows.begin + index;
}

// Where a tile's rows are prepared.
std::byte* Decoder::prepared(const RowTile& tile) const {
  if (mutated(Mutant::kSharedRows)) return prepared_.data();
  return prepared_.data() + tile.rows.begin * prepared_row_bytes_;
}

// What mlp_norm() prepares its rows for.
const Linear& Decoder::mlp_input(std::uint32_t layer) const {
  return experts_ ? experts_->router(layer) : feed_forward_[layer].gate_up;
}

Experts::Rows Decoder::expert_rows(std::uint32_t layer, std::uint32_t tile) const {
  const RowTile& rows = pass_.tiles()[tile];
  return {tile, rows.rows.begin, rows_of(layer, rows)};
}

void Decoder::share_out() {
  Share of_tile;  // of all rows
  const auto share = [&](std::size_t items, std::size_t work) {
    return model::share(items, work, lanes_, of_tile);
  };
  const auto share_product = [&](const Linear& linear, std::size_t rows) {
    return share(linear.outputs(), rows * linear.columns() * linear.outputs());
  };
  const auto index = [](Stage stage) { return static_cast<std::size_t>(stage); };
  const std::size_t hidden = config_.hidden_size;
  const LayerProducts& products = products_.front();
  blocks_.clear();
  last_blocks_.clear();
  for (std::uint32_t index_of_tile = 0; index_of_tile < pass_.tiles().size(); ++index_of_tile) {
    const RowTile& tile = pass_.tiles()[index_of_tile];
    const std::size_t all = tile.rows.size();
    // All lanes gather for experts, and none should be long in coming.
    if (!experts_) of_tile = {all, pass_.rows().size()};
    const auto blocks = [&](std::size_t rows, const Range& queries) {
      std::size_t reads = 0;
      for (const QueryTile& query : pass_.queries().subspan(queries.begin, queries.size()))
        reads += std::size_t{query.rows} * (query.position + query.rows);
      Blocks made = {};
      made[index(Stage::kEmbed)] = share(all, all * hidden);
      made[index(Stage::kNorm)] = share(all, all * 4 * hidden);
      made[index(Stage::kQueryKeyValue)] = share_product(products.query_key_value, all);
      made[index(Stage::kPlace)] = share(all, all * 4 * (query_size_ + kv_size_));
      made[index(Stage::kAttend)] =
          share(attention_items(index_of_tile, queries), 2 * reads * query_size_);
      made[index(Stage::kAttended)] = share(rows, rows * 2 * query_size_);
      made[index(Stage::kOutput)] = share_product(products.output, rows);
      made[index(Stage::kMlpNorm)] = share(rows, rows * 4 * hidden);
      if (experts_) {
        made[index(Stage::kRouter)] = share_product(experts_->router(0), rows);
        made[index(Stage::kChoose)] = share(rows, rows * 32 * config_.experts.count);
        made[index(Stage::kSort)] = 1;
        made[index(Stage::kExperts)] = experts_->blocks(static_cast<std::uint32_t>(rows));
        made[index(Stage::kCombine)] = share(rows, rows * config_.experts.used * hidden);
      } else {
        made[index(Stage::kGateUp)] = share_product(feed_forward_.front().gate_up, rows);
        made[index(Stage::kActivate)] = share(rows, rows * 8 * config_.intermediate_size);
        made[index(Stage::kDown)] = share_product(feed_forward_.front().down, rows);
      }
      made[index(Stage::kLogitRows)] = share(tile.wanted.size(), tile.wanted.size() * 4 * hidden);
      return made;
    };
    blocks_.push_back(blocks(all, tile.queries));
    last_blocks_.push_back(blocks(tile.wanted.size(), tile.wanted_queries));
  }
  // After all tiles, with all lanes to itself.
  of_tile = {};
  blocks_.front()[index(Stage::kLogits)] = share_product(logits_product_, pass_.wanted().size());
}

std::uint32_t Decoder::blocks_of(Stage stage, std::uint32_t layer, std::uint32_t tile) const {
  const bool last =
      layer + 1 == config_.layers && stage != Stage::kEmbed && stage < Stage::kLogitRows;
  return (last ? last_blocks_ : blocks_)[tile][static_cast<std::size_t>(stage)];
}

void Decoder::run(Stage stage, std::uint32_t layer, std::uint32_t index, const cores::Part& task) {
  const std::uint32_t block = task.block;
  const RowTile& tile = pass_.tiles()[index];
  const std::uint32_t blocks = blocks_of(stage, layer, index);
  const LayerProducts& products = products_[layer];
  const std::uint32_t all = tile.rows.size();
  const std::uint32_t rows = rows_of(layer, tile);
  const auto part = [&](std::uint32_t count) { return part_of(count, block, blocks); };
  // Where the tile's rows lie in a matrix of so many columns.
  const auto at = [&](std::vector<float>& matrix, std::size_t stride) {
    return Linear::Output{matrix.data() + tile.rows.begin * stride, stride};
  };
  const std::size_t hidden = config_.hidden_size;
  const std::size_t intermediate = config_.intermediate_size;
  switch (stage) {
    case Stage::kEmbed:
      return embed(tile, part(all));
    case Stage::kNorm:
      return norm(layer, tile, part(all));
    case Stage::kQueryKeyValue:
      return products.query_key_value.multiply(
          block, blocks, all, prepared(tile),
          {at(query_, query_size_), at(key_, kv_size_), at(value_, kv_size_)});
    case Stage::kPlace:
      return place(layer, tile, part(all));
    case Stage::kAttend:
      return attend(layer, index, block, blocks);
    case Stage::kAttended:
      return take_attended(layer, index, part(rows));
    case Stage::kOutput:
      return products.output.multiply(block, blocks, rows, prepared(tile),
                                      {at(projected_, hidden)});
    case Stage::kMlpNorm:
      return mlp_norm(layer, tile, part(rows));
    case Stage::kGateUp:
      return feed_forward_[layer].gate_up.multiply(
          block, blocks, rows, prepared(tile), {at(gate_, intermediate), at(up_, intermediate)});
    case Stage::kActivate:
      return activate(layer, tile, part(rows));
    case Stage::kDown:
      return feed_forward_[layer].down.multiply(block, blocks, rows, prepared(tile),
                                                {at(projected_, hidden)});
    case Stage::kRouter:
      return experts_->router(layer).multiply(block, blocks, rows, prepared(tile),
                                              {experts_->logits(expert_rows(layer, index))});
    case Stage::kChoose:
      return experts_->choose(expert_rows(layer, index), part(rows));
    case Stage::kSort:
      return experts_->sort(expert_rows(layer, index));
    case Stage::kExperts:
      return experts_->compute(layer, expert_rows(layer, index), at(projected_, hidden).data, task);
    case Stage::kCombine:
      return experts_->combine(expert_rows(layer, index), part(rows), at(projected_, hidden).data);
    case Stage::kLogitRows:
      return logit_rows(tile, part(tile.wanted.size()));
    case Stage::kLogits:
      return logits_product_.multiply(block, blocks, pass_.wanted().size(),
                                      prepared_logit_rows_.data(),
                                      {{logits_.data(), config_.vocab_size}});
  }
}

void Decoder::embed(const RowTile& tile, const Range& rows) {
  const Matrix& embedding = weights_.embedding;
  const std::size_t bytes = kernels::row_bytes(embedding.type, embedding.columns);
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = tile.rows.begin + i;
    const std::int32_t token = pass_.rows()[row].token;
    assert(token >= 0 && static_cast<std::size_t>(token) < embedding.rows);
    kernels_.dequantize_row(
        embedding.type, embedding.data + static_cast<std::size_t>(token) * bytes, embedding.columns,
        residual_.data() + std::size_t{row} * config_.hidden_size);
  }
}

void Decoder::norm(std::uint32_t layer, const RowTile& tile, const Range& rows) {
  const std::size_t hidden = config_.hidden_size;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = tile.rows.begin + i;
    float* residual = residual_.data() + row * hidden;
    float* projected = projected_.data() + row * hidden;
    if (layer > 0) kernels_.add(residual, projected, hidden);
    kernels_.rms_norm(residual, weights_.layers[layer].attention_norm.data(), hidden,
                      config_.rms_norm_epsilon, projected);
    products_[layer].query_key_value.prepare(projected, i, tile.rows.size(), prepared(tile));
  }
}

void Decoder::place(std::uint32_t layer, const RowTile& tile, const Range& rows) {
  const LayerWeights& weights = weights_.layers[layer];
  const std::size_t dim = config_.head_dim;
  const kernels::CacheType type = cache_->shape().type;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = tile.rows.begin + i;
    const std::uint32_t position = pass_.rows()[row].position;
    float* query = query_.data() + row * query_size_;
    float* key = key_.data() + row * kv_size_;
    float* value = value_.data() + row * kv_size_;
    if (config_.attention_bias) {
      kernels_.add(query, weights.query_bias.data(), query_size_);
      kernels_.add(key, weights.key_bias.data(), kv_size_);
      kernels_.add(value, weights.value_bias.data(), kv_size_);
    }
    const float* cos = rope_.cos(position).data();
    const float* sin = rope_.sin(position).data();
    const auto turn = [&](float* head, const std::vector<float>& norm) {
      if (config_.qk_norm)
        kernels_.rms_norm(head, norm.data(), dim, config_.rms_norm_epsilon, head);
      kernels_.rope(head, cos, sin, dim, config_.rope.interleaved);
    };
    for (std::size_t head = 0; head < config_.heads; ++head)
      turn(query + head * dim, weights.query_norm);

    const Segment& segment = pass_.segments()[pass_.rows()[row].segment];
    const std::uint32_t block = segment.block_table[position / kernels::kBlockSize];
    const std::size_t slot = position % kernels::kBlockSize;
    for (std::uint32_t head = 0; head < config_.kv_heads; ++head) {
      turn(key + head * dim, weights.key_norm);
      kernels_.store_key(type, key + head * dim, dim, slot, cache_->keys(layer, head, block));
      kernels_.store_value(type, value + head * dim, dim, slot, cache_->values(layer, head, block));
    }
  }
}

void Decoder::mlp_norm(std::uint32_t layer, const RowTile& tile, const Range& rows) {
  const std::size_t hidden = config_.hidden_size;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    float* residual = residual_.data() + row_at(layer, tile, i) * hidden;
    float* projected = projected_.data() + (tile.rows.begin + i) * hidden;
    kernels_.add(residual, projected, hidden);
    kernels_.rms_norm(residual, weights_.layers[layer].mlp_norm.data(), hidden,
                      config_.rms_norm_epsilon, projected);
    mlp_input(layer).prepare(projected, i, rows_of(layer, tile), prepared(tile));
  }
}

void Decoder::activate(std::uint32_t layer, const RowTile& tile, const Range& rows) {
  const std::size_t size = config_.intermediate_size;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    float* gate = gate_.data() + (tile.rows.begin + i) * size;
    kernels_.gate(kernels::Activation::kSilu, gate, up_.data() + (tile.rows.begin + i) * size, size,
                  gate);
    feed_forward_[layer].down.prepare(gate, i, rows_of(layer, tile), prepared(tile));
  }
}

void Decoder::logit_rows(const RowTile& tile, const Range& rows) {
  const std::size_t hidden = config_.hidden_size;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t wanted = tile.wanted.begin + i;
    float* residual = residual_.data() + pass_.wanted()[wanted] * hidden;
    float* projected = projected_.data() + (tile.rows.begin + i) * hidden;
    kernels_.add(residual, projected, hidden);
    kernels_.rms_norm(residual, weights_.output_norm.data(), hidden, config_.rms_norm_epsilon,
                      projected);
    logits_product_.prepare(projected, wanted, pass_.wanted().size(), prepared_logit_rows_.data());
  }
}

}  // namespace dovetail::model
