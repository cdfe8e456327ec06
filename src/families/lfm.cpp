// LFM2 and LFM2.5 (https://arxiv.org/abs/2511.23404): gated short convolutions in most layers,
// attention with norms of heads in the others. Some have experts in all but the first layers. LFM3
// has layers that slide, gates of heads, and norms behind both halves of a layer.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"
#include "load/json_fields.h"

namespace dovetail::families {
namespace {

using load::ShortConvConfig;
using nlohmann::json;

constexpr Rename kLfm2Names[] = {
    {"model.embedding_norm", "output_norm"},
    {"model.layers.*.operator_norm", "blk.*.attn_norm"},
    {"model.layers.*.post_operator_norm", "blk.*.post_attention_norm"},
    {"model.layers.*.post_ffn_norm", "blk.*.post_ffw_norm"},
    {"model.layers.*.self_attn.g_proj", "blk.*.attn_gate"},
    {"model.layers.*.self_attn.gate_proj", "blk.*.attn_gate"},
    {"model.layers.*.ffn_norm", "blk.*.ffn_norm"},
    {"model.layers.*.self_attn.out_proj", "blk.*.attn_output"},
    {"model.layers.*.self_attn.q_layernorm", "blk.*.attn_q_norm"},
    {"model.layers.*.self_attn.k_layernorm", "blk.*.attn_k_norm"},
    {"model.layers.*.conv.in_proj", "blk.*.shortconv.in_proj"},
    {"model.layers.*.conv.conv", "blk.*.shortconv.conv"},
    {"model.layers.*.conv.out_proj", "blk.*.shortconv.out_proj"},
    {"model.layers.*.feed_forward.w1", "blk.*.ffn_gate"},
    {"model.layers.*.feed_forward.w3", "blk.*.ffn_up"},
    {"model.layers.*.feed_forward.w2", "blk.*.ffn_down"},
    {"model.layers.*.feed_forward.gate", "blk.*.ffn_gate_inp"},
    {"model.layers.*.feed_forward.expert_bias", "blk.*.exp_probs_b.bias"},
    {"model.layers.*.feed_forward.experts.*.w1", "blk.*.ffn_gate.*"},
    {"model.layers.*.feed_forward.experts.*.w3", "blk.*.ffn_up.*"},
    {"model.layers.*.feed_forward.experts.*.w2", "blk.*.ffn_down.*"},
};

// Older files call the last norm as the checkpoints do.
constexpr Rename kLfm2GgufNames[] = {
    {"token_embd_norm", "output_norm"},
};

// For each layer whether it has attention.
std::vector<bool> read_attention_layers(Fields& fields, std::uint32_t layers) {
  if (auto convolves = read_layer_types(fields, layers, "conv", "conv, full_attention")) {
    convolves->flip();
    return *std::move(convolves);
  }
  std::vector<bool> out(layers);
  constexpr Key kPlaces = {"", "full_attn_idxs"};
  const json* places = fields.member("full_attn_idxs");
  if (places == nullptr) return std::vector<bool>(layers, true);
  const auto bad = [&](const json& value) {
    fields.reject(kPlaces, load::text_of(value),
                  fmt::format("a list of numbers of the {} layers", layers), ErrorKind::kInvalid);
    return out;
  };
  if (!places->is_array()) return bad(*places);
  for (const json& place : *places) {
    if (!place.is_number_unsigned() || place.get<std::uint64_t>() >= layers) return bad(place);
    out[place.get<std::uint64_t>()] = true;
  }
  return out;
}

// What a config.json gives as the size of the feed-forward is often not it: two thirds of it are,
// some multiple of them, rounded up.
std::uint32_t read_size(Fields& fields) {
  constexpr std::uint32_t kMost = load::kLargestIntermediateSize;
  constexpr Key kOld = {"", "block_ff_dim"};
  const Key key = fields.has(kOld) ? kOld : Key{"feed_forward_length", "intermediate_size"};
  std::uint32_t size = fields.required_uniform(key, 1, kMost);
  if (fields.gguf() || !fields.flag({"", "block_auto_adjust_ff_dim"}).value_or(true)) return size;
  size = 2 * size / 3;
  constexpr Key kMultiplier = {"", "block_ffn_dim_multiplier"};
  constexpr Key kUnit = {"", "block_multiple_of"};
  const std::uint32_t unit = fields.count(kUnit, 1, kMost).value_or(256);
  if (fields.is_null(kMultiplier)) return size;
  const double factor = fields.number(kMultiplier, 0.001F, 1000.0F).value_or(1.0F);
  const double scaled = std::ceil(std::floor(factor * size) / unit) * unit;
  if (scaled < 1.0 || scaled > kMost) {
    fields.reject(kMultiplier, fmt::format("{}", factor),
                  fmt::format("a feed-forward of 1 to {}, while {} gives {}", kMost, size, scaled));
    return 1;
  }
  return static_cast<std::uint32_t>(scaled);
}

// All layers; their feed-forwards are still to be read.
void read_lfm2_layers(Fields& fields, ModelConfig& config) {
  if (fields.has({"", "tie_embedding"})) fields.spell("tie_word_embeddings", "tie_embedding");
  const std::uint32_t layers = read_sizes(fields, config, true);
  NormConfig norm;
  norm.kind = load::NormKind::kRms;
  norm.epsilon =
      fields.number({"attention.layer_norm_rms_epsilon", "norm_eps"}, 0.0F, 1.0F).value_or(1e-5F);
  config.output_norm = norm;
  must_be(fields, "conv_bias", false);

  // A GGUF file tells layers without attention by their number of key-value heads.
  AttendingLayers of;
  if (fields.gguf()) {
    of = read_attending_layers(fields, layers);
  } else {
    of.attends = read_attention_layers(fields, layers);
  }
  AttentionConfig attention = read_heads(fields, config, 0, of.kv_heads);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim, .theta = 1e6F}, config)};
  ShortConvConfig convolution;
  convolution.channels = config.hidden_size;
  convolution.convolution =
      fields.count({"shortconv.l_cache", "conv_L_cache"}, 2, load::kMostConvolution).value_or(3);
  LayerConfig layer = plain_layer(norm, attention, MlpConfig());
  for (const bool has_attention : of.attends) {
    if (has_attention) {
      layer.mixer = attention;
    } else {
      layer.mixer = convolution;
    }
    config.layers.push_back(layer);
  }
}

void read_lfm2(Fields& fields, ModelConfig& config) {
  read_lfm2_layers(fields, config);
  MlpConfig mlp;
  mlp.size = read_size(fields);
  for (LayerConfig& layer : config.layers) layer.mlp = mlp;
}

void read_lfm2_moe(Fields& fields, ModelConfig& config) {
  read_lfm2_layers(fields, config);
  ExpertsConfig experts = read_experts(fields, {.gating = 2, .kind = "sigmoids"});
  experts.gate = load::ExpertGate::kSigmoid;
  experts.least_sum = 1e-6F;
  experts.normalized = fields.flag({"", "norm_topk_prob"}).value_or(true);
  experts.picks_biased = fields.flag({"", "use_expert_bias"}).value_or(true);
  constexpr Key kScale = {"", "routed_scaling_factor"};
  const auto scale = fields.number(kScale, 0.0F, load::kLargestFactor);
  if (scale && *scale != 1.0F) fields.reject(kScale, fmt::format("{}", *scale), "1");
  const MlpConfig mlp = read_mlp(fields);
  const auto layers = static_cast<std::uint32_t>(config.layers.size());
  const std::uint32_t dense =
      fields.count({"leading_dense_block_count", "num_dense_layers"}, 0, load::kMostLayers)
          .value_or(fields.gguf() ? 0 : 2);
  for (std::uint32_t i = 0; i < layers; ++i) {
    if (i < dense) {
      config.layers[i].mlp = mlp;
    } else {
      config.layers[i].mlp = experts;
    }
  }
}

enum class Lfm3Layer : std::uint8_t { kConvolution, kFull, kSliding };

// The kinds of LFM3's layers: those of layer_types, or two convolutions of four.
std::vector<Lfm3Layer> read_lfm3_kinds(Fields& fields, std::uint32_t layers) {
  constexpr Key kTypes = {"", "layer_types"};
  std::vector<Lfm3Layer> out(layers, Lfm3Layer::kConvolution);
  const json* types = fields.member(kTypes.hf);
  if (types == nullptr) {
    for (std::uint32_t i = 0; i < layers; ++i) {
      if (i % 4 == 2) out[i] = Lfm3Layer::kFull;
      if (i % 4 == 0 && i > 0) out[i] = Lfm3Layer::kSliding;
    }
    return out;
  }
  bool valid = types->is_array() && types->size() == layers;
  for (std::uint32_t i = 0; valid && i < layers; ++i) {
    const json& type = (*types)[i];
    if (type == "full_attention") out[i] = Lfm3Layer::kFull;
    if (type == "sliding_attention") out[i] = Lfm3Layer::kSliding;
    valid = out[i] != Lfm3Layer::kConvolution || type == "conv";
  }
  const bool attends = std::any_of(out.begin(), out.end(),
                                   [](Lfm3Layer one) { return one != Lfm3Layer::kConvolution; });
  if (!valid || !attends) {
    fields.reject(kTypes, load::text_of(*types),
                  fmt::format("a list of {} of conv, full_attention and sliding_attention, one of "
                              "attention at least",
                              layers));
  }
  return out;
}

void read_lfm3(Fields& fields, ModelConfig& config) {
  fields.suppose("num_key_value_heads", 4);
  const std::uint32_t layers = read_sizes(fields, config, true);
  NormConfig norm;
  norm.kind = load::NormKind::kRms;
  norm.epsilon = fields.number({"", "norm_eps"}, 0.0F, 1.0F).value_or(1e-5F);
  config.output_norm = norm;
  must_be(fields, "conv_bias", false);
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  if (fields.flag({"", "use_attention_gate"}).value_or(true))
    attention.gate = load::AttentionGate::kHeads;
  RopeRules rules = {.head_dim = attention.head_dim,
                     .theta = 1e6F,
                     .layer_type = "full_attention",
                     .proportional = true};
  RopeConfig full = read_rope(fields, rules, config);
  if (!fields.has({"", "rope_parameters"})) turn_part(full, attention.head_dim, 0.5F);
  rules.layer_type = "sliding_attention";
  rules.theta = 10000.0F;
  config.ropes = {full, read_rope(fields, rules, config)};
  const std::uint32_t window = read_window(fields, 256).value_or(0);
  ShortConvConfig convolution;
  convolution.channels = config.hidden_size;
  convolution.convolution =
      fields.count({"", "conv_L_cache"}, 2, load::kMostConvolution).value_or(7);
  LayerConfig layer = plain_layer(norm, attention, read_mlp(fields));
  if (fields.flag({"", "use_sandwich_norm"}).value_or(true))
    layer.mixer_norms.behind = layer.mlp_norms.behind = norm;
  for (const Lfm3Layer kind : read_lfm3_kinds(fields, layers)) {
    attention.window = kind == Lfm3Layer::kSliding ? window : 0;
    attention.rope = kind == Lfm3Layer::kSliding ? 1 : 0;
    if (kind == Lfm3Layer::kConvolution) {
      layer.mixer = convolution;
    } else {
      layer.mixer = attention;
    }
    config.layers.push_back(layer);
  }
}

}  // namespace

constinit const Reader kLfm2Moe = {read_lfm2_moe, kLfm2Names, kLfm2GgufNames};
constinit const Reader kLfm3 = {read_lfm3, kLfm2Names};
constinit const Reader kLfm2 = {read_lfm2, kLfm2Names, kLfm2GgufNames};

}  // namespace dovetail::families
