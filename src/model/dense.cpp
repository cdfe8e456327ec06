#include "model/dense.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <utility>

namespace dovetail::model {
namespace {

// Query rows per attention task: enough that keys and values are read for several at a time.
constexpr std::uint32_t kQueryTile = 16;

void grow(std::vector<float>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

DenseModel::DenseModel(std::shared_ptr<const load::ModelSource> source,
                       const kernels::Kernels& kernels, cores::Workers& workers)
    : config_(source->config),
      kernels_(kernels),
      workers_(workers),
      weights_(bind_weights(std::move(source), kernels)),
      rope_(config_.rope, config_.head_dim),
      query_size_(std::size_t{config_.heads} * config_.head_dim),
      kv_size_(std::size_t{config_.kv_heads} * config_.head_dim),
      prepared_(kernels) {}

CacheShape DenseModel::cache_shape(kernels::CacheType type) const {
  return {config_.layers, config_.kv_heads, config_.head_dim, type};
}

void DenseModel::forward(std::span<const Segment> segments, const Cache& cache,
                         std::span<float> logits) {
  begin_pass(segments);
  for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
    attention(layer, segments, cache);
    mlp(layer);
  }
  project_logits(segments, logits);
}

void DenseModel::begin_pass(std::span<const Segment> segments) {
  places_.clear();
  tiles_.clear();
  std::size_t positions = 0;
  for (std::uint32_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    const auto count = static_cast<std::uint32_t>(segment.tokens.size());
    for (std::uint32_t done = 0; done < count; done += kQueryTile) {
      tiles_.push_back({s, static_cast<std::uint32_t>(places_.size()) + done,
                        segment.first_position + done, std::min(kQueryTile, count - done)});
    }
    for (std::uint32_t i = 0; i < count; ++i) places_.push_back({s, segment.first_position + i});
    positions = std::max<std::size_t>(positions, segment.first_position + count);
    assert(segment.block_table.size() * kernels::kBlockSize >= segment.first_position + count);
  }
  rope_.extend(positions);

  const std::size_t tokens = places_.size();
  grow(residual_, tokens * config_.hidden_size);
  grow(projected_, tokens * config_.hidden_size);
  grow(query_, tokens * query_size_);
  grow(attended_, tokens * query_size_);
  grow(key_, tokens * kv_size_);
  grow(value_, tokens * kv_size_);
  grow(gate_, tokens * config_.intermediate_size);
  grow(up_, tokens * config_.intermediate_size);

  std::size_t row = 0;
  const Matrix& embedding = weights_.embedding;
  const std::size_t bytes = load::row_bytes(embedding.type, embedding.columns);
  for (const Segment& segment : segments) {
    for (const std::int32_t token : segment.tokens) {
      assert(token >= 0 && static_cast<std::size_t>(token) < embedding.rows);
      kernels_.dequantize_row(embedding.type,
                              embedding.data.data() + static_cast<std::size_t>(token) * bytes,
                              embedding.columns, residual_.data() + row++ * config_.hidden_size);
    }
  }
}

void DenseModel::attention(std::uint32_t layer, std::span<const Segment> segments,
                           const Cache& cache) {
  const LayerWeights& weights = weights_.layers[layer];
  const std::size_t tokens = places_.size();
  const std::size_t hidden = config_.hidden_size;

  const std::array<Product, 3> inputs = {Product{&weights.query, query_.data(), query_size_},
                                         Product{&weights.key, key_.data(), kv_size_},
                                         Product{&weights.value, value_.data(), kv_size_}};
  prepared_.reset(tokens, hidden, inputs);
  for_each_row(workers_, tokens, 4 * hidden, [&](std::size_t row) {
    float* normed = projected_.data() + row * hidden;
    kernels_.rms_norm(residual_.data() + row * hidden, weights.attention_norm.data(), hidden,
                      config_.rms_norm_epsilon, normed);
    prepared_.set(row, normed);
  });
  prepared_.multiply(workers_, inputs);

  // All keys and values of the pass are stored before any attention reads them.
  for_each_row(workers_, tokens, 4 * (query_size_ + kv_size_), [&](std::size_t row) {
    place_heads(layer, row, segments[places_[row].segment], cache);
  });

  std::size_t cost = 0;
  for (const QueryTile& tile : tiles_)
    cost += 2 * std::size_t{tile.rows} * (tile.position + tile.rows) * query_size_;
  const std::size_t tasks = tiles_.size() * config_.kv_heads;
  for_each_row(workers_, tasks, cost / tasks, [&](std::size_t task) {
    const QueryTile& tile = tiles_[task / config_.kv_heads];
    attend(layer, static_cast<std::uint32_t>(task % config_.kv_heads), tile, segments[tile.segment],
           cache);
  });

  const std::array<Product, 1> output = {
      Product{&weights.attention_output, projected_.data(), hidden}};
  prepared_.reset(tokens, query_size_, output);
  for_each_row(workers_, tokens, 2 * query_size_,
               [&](std::size_t row) { prepared_.set(row, attended_.data() + row * query_size_); });
  prepared_.multiply(workers_, output);
}

// Biases, norms and rotation of one token's heads; its keys and values go into the cache.
void DenseModel::place_heads(std::uint32_t layer, std::size_t row, const Segment& segment,
                             const Cache& cache) {
  const LayerWeights& weights = weights_.layers[layer];
  const std::size_t dim = config_.head_dim;
  const std::uint32_t position = places_[row].position;
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
    if (config_.qk_norm) kernels_.rms_norm(head, norm.data(), dim, config_.rms_norm_epsilon, head);
    kernels_.rope(head, cos, sin, dim, config_.rope.interleaved);
  };
  for (std::size_t head = 0; head < config_.heads; ++head)
    turn(query + head * dim, weights.query_norm);

  const kernels::CacheType type = cache.shape().type;
  const std::uint32_t block = segment.block_table[position / kernels::kBlockSize];
  const std::size_t offset =
      position % kernels::kBlockSize * dim * kernels::cache_element_bytes(type);
  for (std::uint32_t head = 0; head < config_.kv_heads; ++head) {
    turn(key + head * dim, weights.key_norm);
    kernels_.store_cache(type, key + head * dim, dim, cache.keys(layer, head, block) + offset);
    kernels_.store_cache(type, value + head * dim, dim, cache.values(layer, head, block) + offset);
  }
}

void DenseModel::attend(std::uint32_t layer, std::uint32_t kv_head, const QueryTile& tile,
                        const Segment& segment, const Cache& cache) {
  const std::size_t blocks =
      (tile.position + tile.rows + kernels::kBlockSize - 1) / kernels::kBlockSize;
  // One pair of pointer lists per thread, kept between calls.
  thread_local std::vector<const std::byte*> keys;
  thread_local std::vector<const std::byte*> values;
  keys.resize(blocks);
  values.resize(blocks);
  for (std::size_t i = 0; i < blocks; ++i) {
    keys[i] = cache.keys(layer, kv_head, segment.block_table[i]);
    values[i] = cache.values(layer, kv_head, segment.block_table[i]);
  }
  const std::size_t group = config_.heads / config_.kv_heads;
  const std::size_t offset = tile.row * query_size_ + kv_head * group * config_.head_dim;
  kernels::AttentionArgs args;
  args.cache_type = cache.shape().type;
  args.key_blocks = keys.data();
  args.value_blocks = values.data();
  args.query = query_.data() + offset;
  args.query_stride = query_size_;
  args.output = attended_.data() + offset;
  args.output_stride = query_size_;
  args.rows = tile.rows;
  args.heads = group;
  args.head_dim = config_.head_dim;
  args.first_position = tile.position;
  args.window = config_.sliding_window;
  args.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  kernels_.attention(args);
}

void DenseModel::mlp(std::uint32_t layer) {
  const LayerWeights& weights = weights_.layers[layer];
  const std::size_t tokens = places_.size();
  const std::size_t hidden = config_.hidden_size;
  const std::size_t intermediate = config_.intermediate_size;

  const std::array<Product, 2> inputs = {Product{&weights.gate, gate_.data(), intermediate},
                                         Product{&weights.up, up_.data(), intermediate}};
  prepared_.reset(tokens, hidden, inputs);
  for_each_row(workers_, tokens, 4 * hidden, [&](std::size_t row) {
    float* residual = residual_.data() + row * hidden;
    float* projected = projected_.data() + row * hidden;
    kernels_.add(residual, projected, hidden);
    kernels_.rms_norm(residual, weights.mlp_norm.data(), hidden, config_.rms_norm_epsilon,
                      projected);
    prepared_.set(row, projected);
  });
  prepared_.multiply(workers_, inputs);

  const std::array<Product, 1> output = {Product{&weights.down, projected_.data(), hidden}};
  prepared_.reset(tokens, intermediate, output);
  for_each_row(workers_, tokens, 8 * intermediate, [&](std::size_t row) {
    float* gate = gate_.data() + row * intermediate;
    kernels_.silu_mul(gate, up_.data() + row * intermediate, intermediate, gate);
    prepared_.set(row, gate);
  });
  prepared_.multiply(workers_, output);
  for_each_row(workers_, tokens, hidden, [&](std::size_t row) {
    kernels_.add(residual_.data() + row * hidden, projected_.data() + row * hidden, hidden);
  });
}

void DenseModel::project_logits(std::span<const Segment> segments, std::span<float> logits) {
  const std::size_t hidden = config_.hidden_size;
  std::vector<std::size_t> wanted;
  std::size_t row = 0;
  for (const Segment& segment : segments) {
    row += segment.tokens.size();
    assert(segment.logit_rows <= segment.tokens.size());
    for (std::size_t i = segment.logit_rows; i > 0; --i) wanted.push_back(row - i);
  }
  if (wanted.empty()) return;
  assert(logits.size() == wanted.size() * config_.vocab_size);
  const std::array<Product, 1> output = {
      Product{&weights_.output, logits.data(), config_.vocab_size}};
  prepared_.reset(wanted.size(), hidden, output);
  for_each_row(workers_, wanted.size(), 4 * hidden, [&](std::size_t i) {
    float* normed = projected_.data() + wanted[i] * hidden;
    kernels_.rms_norm(residual_.data() + wanted[i] * hidden, weights_.output_norm.data(), hidden,
                      config_.rms_norm_epsilon, normed);
    prepared_.set(i, normed);
  });
  prepared_.multiply(workers_, output);
}

}  // namespace dovetail::model
