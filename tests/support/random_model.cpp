#include "support/random_model.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
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
    if (columns % block.elements_per_block != 0) {
      throw std::logic_error(fmt::format("{}: rows of {} elements are no whole blocks of {}", name,
                                         columns, block.elements_per_block));
    }
    for (std::size_t at = 0; at < bytes->size(); at += block.bytes_per_block)
      fill_block(type, scale, std::span(*bytes).subspan(at, block.bytes_per_block));
    add(name, type, rows, columns, std::move(bytes));
  }

  // Whole numbers below `limit`, as floats.
  void table(const std::string& name, std::size_t rows, std::size_t columns, std::uint32_t limit) {
    auto bytes = std::make_shared<std::vector<std::byte>>(rows * columns * sizeof(float));
    for (std::size_t i = 0; i < rows * columns; ++i)
      put(std::span(*bytes).subspan(i * sizeof(float)), static_cast<float>(random_() % limit));
    add(name, DataType::kF32, rows, columns, std::move(bytes));
  }

  // The first of the columns, and a little of all: of a row that it takes, mostly what it has
  // there.
  void projection(const std::string& name, DataType type, std::size_t rows, std::size_t columns) {
    if (kernels::info(type).elements_per_block > 1) return matrix(name, type, rows, columns);
    const std::size_t bytes_each = kernels::info(type).bytes_per_block;
    auto bytes = std::make_shared<std::vector<std::byte>>(rows * kernels::row_bytes(type, columns));
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const float value = (i / columns == i % columns ? 1.0F : 0.0F) + 0.02F * normal_(random_);
      const auto at = std::span(*bytes).subspan(i * bytes_each, bytes_each);
      type == DataType::kF32   ? put(at, value)
      : type == DataType::kF16 ? put(at, to_half(value))
                               : put(at, to_bfloat(value));
    }
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

// The tensors of a model, as load/model_config.h names them.
class ModelBuilder {
 public:
  ModelBuilder(Builder& builder, const load::ModelConfig& config, DataType type)
      : build_(builder),
        config_(config),
        type_(type),
        // Files of quantised experts keep their routers plain.
        plain_(kernels::info(type).elements_per_block == 1 ? type : DataType::kF32) {}

  void build() {
    const std::size_t hidden = config_.hidden_size;
    build_.matrix("token_embd.weight", type_, config_.vocab_size, hidden);
    if (config_.learned_positions)
      build_.matrix("position_embd.weight", type_, config_.max_context, hidden);
    norm(config_.embedding_norm, "token_embd_norm", hidden);
    if (config_.has_logits && !config_.tied_embeddings)
      build_.matrix("output.weight", type_, config_.vocab_size, hidden);
    norm(config_.output_norm, "output_norm", hidden);
    if (config_.hyper.streams > 1) hyper("output_hc", config_.hyper.streams, 1);
    if (const std::size_t size = config_.layer_inputs.size; size > 0) {
      const std::size_t all = size * config_.layers.size();
      build_.matrix("per_layer_token_embd.weight", type_, config_.vocab_size, all);
      build_.matrix("per_layer_model_proj.weight", type_, all, hidden);
      norm(config_.layer_inputs.norm, "per_layer_proj_norm", size);
    }
    for (std::size_t i = 0; i < config_.layers.size(); ++i)
      layer(config_.layers[i], fmt::format("blk.{}.", i));
    if (config_.draft_layer) {
      const std::string name = fmt::format("blk.{}.", config_.layers.size());
      if (config_.hyper.streams > 1) {
        build_.matrix(name + "nextn.e_proj.weight", type_, hidden, hidden);
        build_.matrix(name + "nextn.h_proj.weight", type_, hidden, hidden);
        hyper(name + "nextn.hc_head", config_.hyper.streams, 1);
      } else {
        build_.projection(name + "nextn.eh_proj.weight", type_, hidden, 2 * hidden);
      }
      for (const char* of : {"enorm", "hnorm", "shared_head_norm"})
        norm(config_.output_norm, name + "nextn." + of, hidden);
      layer(*config_.draft_layer, name);
    }
    std::size_t width = hidden;
    for (const load::HeadConfig& part : config_.head) {
      build_.matrix(part.name + ".weight", type_, part.size, width);
      bias(part.bias, part.name, part.size);
      norm(part.norm, part.name + ".norm", part.size);
      width = part.size;
    }
  }

 private:
  void norm(const load::NormConfig& config, const std::string& name, std::size_t size) {
    if (!config) return;
    build_.vector(name + ".weight", size, 1.0F - config.offset, 0.1F);
    if (config.bias) build_.vector(name + ".bias", size, 0.0F, 0.2F);
  }
  void bias(bool there, const std::string& name, std::size_t size) {
    if (there) build_.vector(name + ".bias", size, 0.0F, 0.5F);
  }

  void layer(const load::LayerConfig& layer, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    if (config_.hyper.streams > 1) {
      hyper(name + "hc_attn", config_.hyper.weights(), 3);
      hyper(name + "hc_ffn", config_.hyper.weights(), 3);
    }
    norm(layer.mixer_norms.before, name + "attn_norm", hidden);
    norm(layer.mixer_norms.behind, name + "post_attention_norm", hidden);
    norm(layer.mixer_norms.after, name + "attn_output_norm", hidden);
    std::visit([&](const auto& config) { mixer(config, name); }, layer.mixer);
    if (layer.beside) mixer(*layer.beside, name);
    norm(layer.mlp_norms.before, name + (layer.mixes() ? "ffn_norm" : "attn_norm"), hidden);
    norm(layer.mlp_norms.behind, name + "post_ffw_norm", hidden);
    norm(layer.mlp_norms.after, name + "layer_output_norm", hidden);
    if (const load::MlpConfig* config = layer.dense()) {
      if (config->gated) build_.matrix(name + "ffn_gate.weight", type_, config->size, hidden);
      build_.matrix(name + "ffn_up.weight", type_, config->size, hidden);
      build_.matrix(name + "ffn_down.weight", type_, hidden, config->size);
      bias(config->bias && config->gated, name + "ffn_gate", config->size);
      bias(config->bias, name + "ffn_up", config->size);
      bias(config->bias, name + "ffn_down", hidden);
    } else if (layer.experts() != nullptr) {
      experts(*layer.experts(), name);
    }
    if (const std::size_t size = config_.layer_inputs.size; size > 0) {
      build_.matrix(name + "inp_gate.weight", type_, size, hidden);
      build_.matrix(name + "proj.weight", type_, hidden, size);
      norm(config_.layer_inputs.norm, name + "post_norm", hidden);
    }
    if (layer.scaled) build_.vector(name + "layer_output_scale.weight", 1, 0.9F, 0.1F);
  }

  static void mixer(std::monostate /*none*/, const std::string& /*name*/) {}

  void mixer(const load::AttentionConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t heads = std::size_t{config.heads} * config.head_dim;
    const std::size_t query = config.query_rows();
    const std::size_t kv = std::size_t{config.kv_heads} * config.head_dim;
    build_.matrix(name + "attn_q.weight", type_, query, hidden);
    const bool keys = config.shares < 0, values = keys && !config.values_of_keys;
    if (keys) build_.matrix(name + "attn_k.weight", type_, kv, hidden);
    if (values) build_.matrix(name + "attn_v.weight", type_, kv, hidden);
    build_.matrix(name + "attn_output.weight", type_, hidden, heads);
    bias(config.bias, name + "attn_q", query);
    bias(config.bias && keys, name + "attn_k", kv);
    bias(config.bias && values, name + "attn_v", kv);
    bias(config.output_bias, name + "attn_output", hidden);
    if (config.query_key_norm != load::QueryKeyNorm::kNone) {
      const bool by_row = config.query_key_norm == load::QueryKeyNorm::kRow;
      norm(config.norm, name + "attn_q_norm", by_row ? heads : config.head_dim);
      if (keys) norm(config.norm, name + "attn_k_norm", by_row ? kv : config.head_dim);
    }
    if (config.sinks) build_.vector(name + "attn_sinks.weight", config.heads, 0.5F, 1.0F);
    if (const std::size_t gates = config.gate_rows(); gates > 0)
      build_.matrix(name + "attn_gate.weight", type_, gates, hidden);
  }

  void mixer(const load::LatentConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t heads = config.heads;
    const std::size_t query = heads * config.head_dim();
    if (config.query_rank == 0) {
      build_.matrix(name + "attn_q.weight", type_, query, hidden);
    } else {
      build_.matrix(name + "attn_q_a.weight", type_, config.query_rank, hidden);
      norm(config.norm, name + "attn_q_a_norm", config.query_rank);
      build_.matrix(name + "attn_q_b.weight", type_, query, config.query_rank);
    }
    build_.matrix(name + "attn_kv_a_mqa.weight", type_, config.cached_dim(), hidden);
    norm(config.norm, name + "attn_kv_a_norm", config.latent_dim);
    if (config.split) {
      build_.matrix(name + "attn_k_b.weight", type_, heads * config.latent_dim, config.key_dim);
      build_.matrix(name + "attn_v_b.weight", type_, heads * config.value_dim, config.latent_dim);
    } else {
      build_.matrix(name + "attn_kv_b.weight", type_, heads * (config.key_dim + config.value_dim),
                    config.latent_dim);
    }
    build_.matrix(name + "attn_output.weight", type_, hidden, heads * config.value_dim);
    if (config.index_heads == 0) return;
    build_.matrix(name + "indexer.attn_q_b.weight", type_,
                  std::size_t{config.index_heads} * config.index_dim, config.query_rank);
    build_.matrix(name + "indexer.attn_k.weight", type_, config.index_dim, hidden);
    norm(config.index_norm, name + "indexer.k_norm", config.index_dim);
    build_.matrix(name + "indexer.proj.weight", plain_, config.index_heads, hidden);
  }

  void mixer(const load::CompressedConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t query = std::size_t{config.heads} * config.head_dim;
    const std::size_t ranks = std::size_t{config.groups} * config.group_rank;
    build_.matrix(name + "attn_q_a.weight", type_, config.query_rank, hidden);
    norm(config.norm, name + "attn_q_a_norm", config.query_rank);
    build_.matrix(name + "attn_q_b.weight", type_, query, config.query_rank);
    build_.matrix(name + "attn_kv.weight", type_, config.head_dim, hidden);
    norm(config.norm, name + "attn_kv_norm", config.head_dim);
    build_.vector(name + "attn_sinks.weight", config.heads, 0.5F, 1.0F);
    build_.matrix(name + "attn_output_a.weight", type_, ranks, query / config.groups);
    build_.matrix(name + "attn_output.weight", type_, hidden, ranks);
    if (config.ratio == 0) return;
    compressor(config, name + "compress", config.head_dim);
    if (config.index_heads == 0) return;
    build_.matrix(name + "indexer.attn_q_b.weight", type_,
                  std::size_t{config.index_heads} * config.index_dim, config.query_rank);
    build_.matrix(name + "indexer.proj.weight", plain_, config.index_heads, hidden);
    compressor(config, name + "indexer.compress", config.index_dim);
  }

  void compressor(const load::CompressedConfig& config, const std::string& name, std::size_t dim) {
    const std::size_t channels = config.halves() * dim;
    build_.matrix(name + "_kv.weight", type_, channels, config_.hidden_size);
    build_.matrix(name + "_gate.weight", type_, channels, config_.hidden_size);
    build_.matrix(name + "_ape.weight", DataType::kF32, config.ratio, channels);
    norm(config.norm, name + "_norm", dim);
  }

  void hyper(const std::string& name, std::size_t weights, std::size_t scales) {
    build_.matrix(name + ".fn", DataType::kF32, weights,
                  std::size_t{config_.hyper.streams} * config_.hidden_size);
    build_.vector(name + ".base", weights, 0.0F, 0.5F);
    build_.vector(name + ".scale", scales, 0.7F, 0.1F);
  }

  void mixer(const load::ShortConvConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t channels = config.channels;
    build_.matrix(name + "shortconv.in_proj.weight", type_, 3 * channels, hidden);
    build_.matrix(name + "shortconv.conv.weight", DataType::kF32, channels, config.convolution);
    build_.matrix(name + "shortconv.out_proj.weight", type_, hidden, channels);
  }

  void mixer(const load::DeltaConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    build_.matrix(name + "attn_qkv.weight", type_, config.channels(), hidden);
    build_.matrix(name + "attn_gate.weight", type_, config.value_size(), hidden);
    build_.matrix(name + "ssm_beta.weight", plain_, config.value_heads, hidden);
    build_.matrix(name + "ssm_alpha.weight", plain_, config.value_heads, hidden);
    build_.matrix(name + "ssm_conv1d.weight", DataType::kF32, config.channels(),
                  config.convolution);
    build_.vector(name + "ssm_dt.bias", config.value_heads, 0.0F, 0.5F);
    build_.vector(name + "ssm_a", config.value_heads, -0.5F, 0.1F);
    build_.vector(name + "ssm_norm.weight", config.value_dim, 1.0F, 0.1F);
    build_.matrix(name + "ssm_out.weight", type_, hidden, config.value_size());
  }

  void mixer(const load::KimiDeltaConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t size = config.size();
    for (const char* part : {"q", "k", "v"}) {
      build_.matrix(name + "attn_" + part + ".weight", type_, size, hidden);
      build_.matrix(name + "ssm_conv1d_" + part + ".weight", DataType::kF32, size,
                    config.convolution);
    }
    build_.matrix(name + "ssm_beta.weight", plain_, config.heads, hidden);
    for (const char* low_rank : {"ssm_f", "ssm_g"}) {
      build_.matrix(name + low_rank + "_a.weight", plain_, config.head_dim, hidden);
      build_.matrix(name + low_rank + "_b.weight", plain_, size, config.head_dim);
    }
    build_.vector(name + "ssm_dt.bias", size, 0.0F, 0.5F);
    build_.vector(name + "ssm_a", config.heads, -0.5F, 0.1F);
    build_.vector(name + "ssm_norm.weight", config.head_dim, 1.0F, 0.1F);
    build_.matrix(name + "attn_output.weight", type_, hidden, size);
  }

  void mixer(const load::MambaConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    build_.matrix(name + "ssm_in.weight", type_, config.input_size(), hidden);
    build_.matrix(name + "ssm_conv1d.weight", DataType::kF32, config.channels(),
                  config.convolution);
    if (config.convolution_bias)
      build_.vector(name + "ssm_conv1d.bias", config.channels(), 0.0F, 0.2F);
    build_.vector(name + "ssm_dt.bias", config.heads, 0.0F, 0.5F);
    build_.vector(name + "ssm_a", config.heads, -0.5F, 0.1F);
    build_.vector(name + "ssm_d", config.heads, 0.5F, 0.3F);
    norm(config.norm, name + "ssm_norm", config.inner_size());
    build_.matrix(name + "ssm_out.weight", type_, hidden, config.inner_size());
  }

  void experts(const load::ExpertsConfig& config, const std::string& name) {
    const std::size_t hidden = config_.hidden_size;
    build_.matrix(name + "ffn_gate_inp.weight", plain_, config.count, hidden);
    bias(config.bias, name + "ffn_gate_inp", config.count);
    bias(config.picks_biased, name + "exp_probs_b", config.count);
    if (config.scaled) build_.vector(name + "exp_scales.weight", config.count, 1.0F, 0.3F);
    if (config.by_token) {
      build_.table(name + "ffn_token_experts.weight", config_.vocab_size, config.used,
                   config.count);
    }
    for (std::uint32_t e = 0; e < config.count; ++e) {
      const auto of = [&](const char* stem) { return fmt::format("{}{}.{}", name, stem, e); };
      if (config.gated) build_.matrix(of("ffn_gate") + ".weight", type_, config.size, hidden);
      build_.matrix(of("ffn_up") + ".weight", type_, config.size, hidden);
      build_.matrix(of("ffn_down") + ".weight", type_, hidden, config.size);
      bias(config.bias && config.gated, of("ffn_gate"), config.size);
      bias(config.bias, of("ffn_up"), config.size);
      bias(config.bias, of("ffn_down"), hidden);
    }
    if (config.shared_size == 0) return;
    if (config.apart) {
      for (const char* of :
           {"ffn_gate_inp_norm", "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"})
        norm(config.apart, name + of, hidden);
      build_.matrix(name + "ffn_gate.weight", type_, config.shared_size, hidden);
      build_.matrix(name + "ffn_up.weight", type_, config.shared_size, hidden);
      return build_.matrix(name + "ffn_down.weight", type_, hidden, config.shared_size);
    }
    if (config.gated)
      build_.matrix(name + "ffn_gate_shexp.weight", type_, config.shared_size, hidden);
    build_.matrix(name + "ffn_up_shexp.weight", type_, config.shared_size, hidden);
    build_.matrix(name + "ffn_down_shexp.weight", type_, hidden, config.shared_size);
    if (config.shared_gated) build_.matrix(name + "ffn_gate_inp_shexp.weight", plain_, 1, hidden);
  }

  Builder& build_;
  const load::ModelConfig& config_;
  DataType type_, plain_;
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

void make_compressed(load::ModelConfig& config, std::uint32_t window,
                     std::span<const std::uint32_t> ratios) {
  const load::NormConfig norm = {.kind = load::NormKind::kRms};
  config.hyper = {3, 4, 0.01F, 1e-6F};
  config.ropes.front().interleaved = true;
  config.ropes.push_back(config.ropes.front());
  config.ropes.back().theta = 500.0F;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    load::CompressedConfig mixer;
    mixer.heads = 6;
    mixer.head_dim = 32;
    mixer.rope_dim = 8;
    mixer.query_rank = 32;
    mixer.window = window;
    mixer.ratio = ratios[i % ratios.size()];
    mixer.overlaps = mixer.ratio == 4;
    mixer.groups = 3;
    mixer.group_rank = 32;
    mixer.scale = 0.4F;
    mixer.rope = mixer.ratio == 0 ? 0 : 1;
    mixer.norm = norm;
    if (mixer.overlaps) {
      mixer.index_heads = 3;
      mixer.index_dim = 16;
      mixer.index_top = 6;
    }
    load::ExpertsConfig experts;
    experts.count = 6;
    experts.used = 2;
    experts.size = 32;
    experts.gate = load::ExpertGate::kRootSoftplus;
    experts.by_token = i == 0;
    experts.picks_biased = i != 0;
    experts.normalized = true;
    experts.least_sum = 1e-20F;
    experts.scale = 1.5F;
    experts.shared_size = 32;
    experts.limit = 0.5F;
    load::LayerConfig& layer = config.layers[i];
    layer.mixer = mixer;
    layer.mlp = experts;
  }
  load::LayerConfig drafts = config.layers.back();
  auto& mixer = std::get<load::CompressedConfig>(drafts.mixer);
  mixer.ratio = mixer.index_heads = mixer.index_dim = mixer.index_top = 0;
  mixer.overlaps = false;
  mixer.rope = 0;
  config.draft_layer = drafts;
}

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

  if (options.change) options.change(source->config);
  Builder build(*source, options.seed);
  ModelBuilder(build, source->config, options.type).build();
  return source;
}

}  // namespace dovetail::test
