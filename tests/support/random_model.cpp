#include "support/random_model.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/block_scales.h"

namespace dovetail::test {
namespace {

using kernels::DataType;

// Halves of normal size, rounded towards zero.
std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = (bits >> 23) & 0xffU;
  if (exponent < 113 || exponent > 142) return 0;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | ((exponent - 112) << 10) |
                                    ((bits >> 13) & 0x3ffU));
}

std::uint16_t to_bfloat(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

class Builder {
 public:
  explicit Builder(load::ModelSource& source, std::uint64_t seed)
      : source_(source), random_(seed) {}

  void matrix(const std::string& name, DataType type, std::size_t rows, std::size_t columns) {
    auto bytes = std::make_shared<std::vector<std::byte>>(rows * kernels::row_bytes(type, columns));
    const float scale = 1.5F / std::sqrt(static_cast<float>(columns));
    const kernels::DataTypeInfo block = kernels::info(type);
    for (std::size_t at = 0; at < bytes->size(); at += block.bytes_per_block)
      fill_block(type, scale, std::span(*bytes).subspan(at, block.bytes_per_block));
    add(name, type, rows, columns, std::move(bytes));
  }

  void vector(const std::string& name, std::size_t size, float mean, float deviation) {
    auto bytes = std::make_shared<std::vector<std::byte>>(size * sizeof(float));
    for (std::size_t i = 0; i < size; ++i)
      put(std::span(*bytes).subspan(i * sizeof(float)), mean + deviation * normal_(random_));
    add(name, DataType::kF32, 1, size, std::move(bytes));
  }

 private:
  template <class T>
  static void put(std::span<std::byte> at, T value) {
    std::memcpy(at.data(), &value, sizeof value);
  }

  // One block of random weights of about `scale`.
  void fill_block(DataType type, float scale, std::span<std::byte> block) {
    switch (type) {
      case DataType::kF32:
        return put(block, scale * normal_(random_));
      case DataType::kF16:
        return put(block, to_half(scale * normal_(random_)));
      case DataType::kBF16:
        return put(block, to_bfloat(scale * normal_(random_)));
      default:
        break;
    }
    for (std::byte& byte : block) byte = static_cast<std::byte>(random_());
    set_block_scales(type, block.data(), [&](float size) { return to_half(scale / size); });
  }

  void add(const std::string& name, DataType type, std::size_t rows, std::size_t columns,
           std::shared_ptr<std::vector<std::byte>> bytes) {
    source_.tensors[name] = {type, rows, columns, std::span<const std::byte>(*bytes)};
    source_.mappings.push_back(std::move(bytes));
  }

  load::ModelSource& source_;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

load::ModelConfig describe(const RandomModelOptions& options) {
  load::ModelConfig config;
  config.family = options.family;
  config.vocab_size = options.vocab_size;
  config.hidden_size = options.hidden_size;
  config.max_context = options.max_context;
  config.tied_embeddings = options.tied_embeddings;
  config.ropes.emplace_back();
  const load::NormConfig norm = {.kind = load::NormKind::kRms};
  config.output_norm = norm;

  load::AttentionConfig attention;
  attention.heads = options.heads;
  attention.kv_heads = options.kv_heads;
  attention.head_dim = options.head_dim;
  attention.window = options.sliding_window;
  attention.scale = 1.0F / std::sqrt(static_cast<float>(options.head_dim));
  attention.bias = options.attention_bias;
  if (options.query_key_norm) {
    attention.query_key_norm = load::QueryKeyNorm::kHead;
    attention.norm = norm;
  }
  load::LayerConfig layer;
  layer.mixer_norms.before = norm;
  layer.mixer = attention;
  layer.mlp_norms.before = norm;
  if (options.experts > 0) {
    load::ExpertsConfig experts;
    experts.count = options.experts;
    experts.used = options.experts_used;
    experts.size = options.intermediate_size;
    experts.normalized = options.experts_normalized;
    layer.mlp = experts;
  } else {
    load::MlpConfig mlp;
    mlp.size = options.intermediate_size;
    layer.mlp = mlp;
  }
  config.layers.assign(options.layers, layer);
  return config;
}

}  // namespace

RandomModelOptions options_of(std::string_view family) {
  RandomModelOptions options;
  options.family = family;
  options.attention_bias = family == "qwen2";
  options.query_key_norm = family.starts_with("qwen3");
  return options;
}

std::shared_ptr<load::ModelSource> random_model(const RandomModelOptions& options) {
  auto source = std::make_shared<load::ModelSource>();
  source->name = "random";
  source->format = "memory";
  source->config = describe(options);

  Builder build(*source, options.seed);
  const std::size_t hidden = options.hidden_size;
  const std::size_t query = std::size_t{options.heads} * options.head_dim;
  const std::size_t kv = std::size_t{options.kv_heads} * options.head_dim;
  build.matrix("token_embd.weight", options.type, options.vocab_size, hidden);
  if (!options.tied_embeddings)
    build.matrix("output.weight", options.type, options.vocab_size, hidden);
  build.vector("output_norm.weight", hidden, 1.0F, 0.1F);
  for (std::uint32_t layer = 0; layer < options.layers; ++layer) {
    const auto name = [&](const char* tensor) { return fmt::format("blk.{}.{}", layer, tensor); };
    build.vector(name("attn_norm.weight"), hidden, 1.0F, 0.1F);
    build.matrix(name("attn_q.weight"), options.type, query, hidden);
    build.matrix(name("attn_k.weight"), options.type, kv, hidden);
    build.matrix(name("attn_v.weight"), options.type, kv, hidden);
    build.matrix(name("attn_output.weight"), options.type, hidden, query);
    if (options.attention_bias) {
      build.vector(name("attn_q.bias"), query, 0.0F, 0.5F);
      build.vector(name("attn_k.bias"), kv, 0.0F, 0.5F);
      build.vector(name("attn_v.bias"), kv, 0.0F, 0.5F);
    }
    if (options.query_key_norm) {
      build.vector(name("attn_q_norm.weight"), options.head_dim, 1.0F, 0.1F);
      build.vector(name("attn_k_norm.weight"), options.head_dim, 1.0F, 0.1F);
    }
    build.vector(name("ffn_norm.weight"), hidden, 1.0F, 0.1F);
    const auto feed_forward = [&](const std::string& ending) {
      const auto part = [&](const char* stem) { return name(stem) + ending; };
      build.matrix(part("ffn_gate"), options.type, options.intermediate_size, hidden);
      build.matrix(part("ffn_up"), options.type, options.intermediate_size, hidden);
      build.matrix(part("ffn_down"), options.type, hidden, options.intermediate_size);
    };
    if (options.experts == 0) {
      feed_forward(".weight");
      continue;
    }
    // Files of quantised experts keep their routers plain.
    const bool plain = kernels::info(options.type).elements_per_block == 1;
    build.matrix(name("ffn_gate_inp.weight"), plain ? options.type : DataType::kF32,
                 options.experts, hidden);
    for (std::uint32_t expert = 0; expert < options.experts; ++expert)
      feed_forward(fmt::format(".{}.weight", expert));
  }
  return source;
}

}  // namespace dovetail::test
