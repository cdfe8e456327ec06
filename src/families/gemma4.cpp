// Gemma 4 (https://ai.google.dev/gemma/docs/core), text only: five of six layers slide; the others
// have larger heads, of which a part turns, and may take values from the keys' matrix. The larger
// models have experts beside a dense feed-forward; in the smaller ones each layer gets an embedding
// of the token, and the last ones have the keys and values of earlier layers.

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "families/families.h"
#include "families/gemma.h"
#include "families/rope.h"
#include "families/windows.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

using nlohmann::json;

constexpr Rename kGemma4HfNames[] = {
    kGemmaHfNames[0],
    kGemmaHfNames[1],
    kGemmaHfNames[2],
    {"model.layers.*.layer_scalar", "blk.*.layer_output_scale.weight"},
    {"model.layers.*.router.proj", "blk.*.ffn_gate_inp"},
    {"model.layers.*.router.scale", "blk.*.ffn_gate_inp_norm.weight"},
    {"model.layers.*.router.per_expert_scale", "blk.*.exp_scales.weight"},
    {"model.layers.*.experts.gate_up_proj", "blk.*.ffn_gate_up_exps.weight"},
    {"model.layers.*.experts.down_proj", "blk.*.ffn_down_exps.weight"},
    // As quantised checkpoints have them.
    {"model.layers.*.experts.*.gate_proj", "blk.*.ffn_gate.*"},
    {"model.layers.*.experts.*.up_proj", "blk.*.ffn_up.*"},
    {"model.layers.*.experts.*.down_proj", "blk.*.ffn_down.*"},
    {"model.layers.*.pre_feedforward_layernorm_2", "blk.*.pre_ffw_norm_2"},
    {"model.layers.*.post_feedforward_layernorm_1", "blk.*.post_ffw_norm_1"},
    {"model.layers.*.post_feedforward_layernorm_2", "blk.*.post_ffw_norm_2"},
    {"model.embed_tokens_per_layer", "per_layer_token_embd"},
    {"model.per_layer_model_projection", "per_layer_model_proj"},
    {"model.per_layer_projection_norm", "per_layer_proj_norm"},
    {"model.layers.*.per_layer_input_gate", "blk.*.inp_gate"},
    {"model.layers.*.per_layer_projection", "blk.*.proj"},
    {"model.layers.*.post_per_layer_input_norm", "blk.*.post_norm"},
};

// What would pass for factors of these matrices.
constexpr Rename kGemma4GgufNames[] = {
    {"blk.*.ffn_gate_inp.scale", "blk.*.ffn_gate_inp_norm.weight"},
    {"blk.*.ffn_down_exps.scale", "blk.*.exp_scales.weight"},
};

constexpr Key kGemma4KeyHeads = {"attention.head_count_kv", "num_key_value_heads"};
constexpr Key kSharedLayers = {"attention.shared_kv_layers", "num_kv_shared_layers"};
constexpr Key kGemma4FeedForward = {"feed_forward_length", "intermediate_size"};

// Of the models without encoders, whose text has defaults of its own.
bool is_unified(const Fields& fields) { return fields.family() == "gemma4_unified_text"; }

// What transformers takes for a config.json that says nothing of it.
void suppose_sizes(Fields& fields) {
  fields.suppose("vocab_size", 262144);
  fields.suppose("max_position_embeddings", is_unified(fields) ? 262144 : 131072);
  fields.suppose("hidden_size", 2304);
  fields.suppose("intermediate_size", 9216);
  fields.suppose("num_hidden_layers", 30);
  fields.suppose("num_attention_heads", 8);
  fields.suppose("num_key_value_heads", 4);
}

// What tells layers apart.
struct Gemma4Layer {
  bool slides = false;
  std::uint32_t head_dim = 0, kv_heads = 0, feed_forward = 0;
  std::int32_t shares = -1;
  bool values_of_keys = false;
};

std::vector<Gemma4Layer> read_kinds(Fields& fields, std::uint32_t layers) {
  std::vector<Gemma4Layer> out(layers);
  const std::vector<bool> slides = read_sliding_layers(fields, layers, 6);
  for (std::uint32_t i = 0; i < layers; ++i) out[i].slides = slides[i];
  // Whatever transformers is told.
  if (!fields.gguf() && layers > 0) out.back().slides = false;
  return out;
}

// The heads of layers by their number, as newer versions of transformers write them.
void read_layer_config(Fields& fields, const json& given, std::vector<Gemma4Layer>& layers) {
  constexpr Key kLayers = {"", "per_layer_config"};
  if (!given.is_object()) {
    fields.reject(kLayers, load::text_of(given), "an object of objects by a layer's number",
                  ErrorKind::kInvalid);
    return;
  }
  std::size_t found = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto entry = given.find(std::to_string(i));
    if (entry == given.end() || !entry->is_object()) continue;
    ++found;
    load::JsonFields of(*entry, fields.file(), fmt::format("per_layer_config.{}.", i));
    for (const auto& [name, value] : entry->items()) {
      if (name == "head_dim" || name == "num_key_value_heads") continue;
      of.reject(name, load::text_of(value), "absent, beside head_dim and num_key_value_heads",
                ErrorKind::kUnsupported);
    }
    Gemma4Layer& out = layers[i];
    out.head_dim = of.optional_count("head_dim", 1, load::kLargestHeadDim).value_or(out.head_dim);
    out.kv_heads =
        of.optional_count("num_key_value_heads", 1, load::kMostHeads).value_or(out.kv_heads);
    fields.take_failure(of.status());
  }
  if (found != given.size()) {
    fields.reject(
        kLayers, fmt::format("{} members, {} of them objects of layers", given.size(), found),
        fmt::format("objects by the numbers of the {} layers", layers.size()), ErrorKind::kInvalid);
  }
  // Rotary embedding is of a kind of layers.
  for (const Gemma4Layer& one : layers) {
    for (const Gemma4Layer& other : layers) {
      if (one.slides != other.slides || one.head_dim == other.head_dim) continue;
      fields.reject(kLayers, fmt::format("head_dim {} and {}", one.head_dim, other.head_dim),
                    "the same for all layers that slide, and for all others");
      return;
    }
  }
}

void read_heads_of_hf(Fields& fields, std::uint32_t head_dim, std::vector<Gemma4Layer>& layers) {
  const std::uint32_t kv_heads = fields.uniform(kGemma4KeyHeads, 1, load::kMostHeads).value_or(4);
  const bool keys_are_values = fields.flag({"", "attention_k_eq_v"}).value_or(false);
  const std::uint32_t full_dim =
      fields.count({"", "global_head_dim"}, 1, load::kLargestHeadDim).value_or(512);
  const auto full_heads = fields.count({"", "num_global_key_value_heads"}, 1, load::kMostHeads);
  const json* by_layer = fields.member("per_layer_config");
  for (Gemma4Layer& layer : layers) {
    const bool full = !layer.slides && by_layer == nullptr;
    layer.head_dim = full ? full_dim : head_dim;
    layer.kv_heads = full && keys_are_values ? full_heads.value_or(kv_heads) : kv_heads;
    layer.values_of_keys = keys_are_values && !layer.slides;
  }
  if (by_layer != nullptr) read_layer_config(fields, *by_layer, layers);
}

void read_heads_of_gguf(Fields& fields, std::uint32_t head_dim, std::vector<Gemma4Layer>& layers) {
  constexpr Key kKeys = {"attention.key_length_swa", ""};
  constexpr Key kValues = {"attention.value_length_swa", ""};
  const std::uint32_t sliding_dim = fields.required_count(kKeys, 1, load::kLargestHeadDim);
  const auto values = fields.count(kValues, 0, 1U << 20U);
  if (values && *values != sliding_dim) {
    fields.reject(kValues, fmt::format("{}", *values),
                  fmt::format("the head size {}", sliding_dim));
  }
  std::vector<std::uint32_t> kv_heads;
  if (fields.is_array(kGemma4KeyHeads)) {
    kv_heads = fields.counts(kGemma4KeyHeads, layers.size(), load::kMostHeads);
  } else {
    kv_heads.assign(layers.size(), fields.required_uniform(kGemma4KeyHeads, 1, load::kMostHeads));
  }
  kv_heads.resize(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].head_dim = layers[i].slides ? sliding_dim : head_dim;
    layers[i].kv_heads = kv_heads[i];
    const auto has = [&](const char* name) {
      return fields.has_tensor(fmt::format("blk.{}.{}.weight", i, name));
    };
    layers[i].values_of_keys = !has("attn_v") && !has("attn_qkv");
  }
}

// The last layers have the keys and values of the last one of their kind before them. The number of
// those that have their own.
std::size_t read_sharing(Fields& fields, std::vector<Gemma4Layer>& layers) {
  const auto most = static_cast<std::uint32_t>(layers.empty() ? 0 : layers.size() - 1);
  const std::uint32_t sharing = fields.count(kSharedLayers, 0, most).value_or(0);
  const std::size_t own = layers.size() - sharing;
  for (std::size_t i = own; i < layers.size(); ++i) {
    std::size_t from = own;
    while (from > 0 && layers[from - 1].slides != layers[i].slides) --from;
    if (from == 0) {
      fields.reject(kSharedLayers, fmt::format("{}", sharing),
                    fmt::format("fewer: no layer before has keys and values for layer {}, which {}",
                                i, layers[i].slides ? "slides" : "does not slide"),
                    ErrorKind::kInvalid);
      break;
    }
    layers[i].shares = static_cast<std::int32_t>(from - 1);
    layers[i].values_of_keys = false;
  }
  return own;
}

void read_feed_forwards(Fields& fields, std::size_t own, std::vector<Gemma4Layer>& layers) {
  constexpr std::uint32_t kMost = load::kLargestIntermediateSize;
  if (fields.gguf() && fields.is_array(kGemma4FeedForward)) {
    const std::vector<std::uint32_t> sizes =
        fields.counts(kGemma4FeedForward, layers.size(), kMost);
    for (std::size_t i = 0; i < sizes.size() && i < layers.size(); ++i)
      layers[i].feed_forward = sizes[i];
    return;
  }
  const std::uint32_t size = fields.required_uniform(kGemma4FeedForward, 1, kMost);
  const bool wide = fields.flag({"", "use_double_wide_mlp"}).value_or(false);
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers[i].feed_forward = wide && i >= own ? 2 * size : size;
}

std::vector<RopeConfig> read_ropes(Fields& fields, std::uint32_t full, std::uint32_t sliding,
                                   ModelConfig& config) {
  RopeConfig whole = read_rope(fields,
                               {.head_dim = full,
                                .theta = 1e6F,
                                .base = {"rope.freq_base", ""},
                                .layer_type = "full_attention",
                                .proportional = true},
                               config);
  if (!fields.gguf() && !fields.has({"", "rope_parameters"})) turn_part(whole, full, 0.25F);
  if (fields.gguf() && !fields.has_tensor("rope_freqs.weight")) {
    fields.take_failure(fail(ErrorKind::kInvalid,
                             "{}: tensor 'rope_freqs.weight': missing; valid: the divisors that "
                             "say which part of a head turns",
                             fields.file()));
  }
  return {whole, read_rope(fields,
                           {.head_dim = sliding,
                            .base = {"rope.freq_base_swa", ""},
                            .layer_type = "sliding_attention",
                            .scaled = false,
                            .dims = {"rope.dimension_count_swa", ""}},
                           config)};
}

void read_layer_inputs(Fields& fields, const NormConfig& norm, ModelConfig& config) {
  constexpr Key kSize = {"embedding_length_per_layer_input", "hidden_size_per_layer_input"};
  constexpr Key kTokens = {"", "vocab_size_per_layer_input"};
  const bool usual = !fields.gguf() && !is_unified(fields) && !fields.is_null(kSize);
  load::LayerInputConfig& inputs = config.layer_inputs;
  inputs.size = fields.count(kSize, 0, load::kLargestHiddenSize).value_or(usual ? 256 : 0);
  if (inputs.size == 0) return;
  inputs.norm = norm;
  inputs.embedding_scale = gemma_row_scale(fields, "per_layer_token_embd.weight", inputs.size);
  if (fields.gguf()) return;
  const std::uint32_t tokens = fields.count(kTokens, 1, load::kLargestVocabulary).value_or(262144);
  if (tokens != config.vocab_size) {
    fields.reject(kTokens, fmt::format("{}", tokens),
                  fmt::format("the vocab_size {}", config.vocab_size));
  }
}

std::optional<ExpertsConfig> read_gemma4_experts(Fields& fields, const NormConfig& norm) {
  const bool there =
      fields.gguf() ? has_experts(fields) : fields.flag({"", "enable_moe_block"}).value_or(false);
  if (!there) return std::nullopt;
  fields.spell("num_experts_per_tok", "top_k_experts");
  ExpertsConfig experts = read_experts(fields);
  experts.normalized = true;
  experts.apart = norm;
  return experts;
}

void refuse_both_directions(Fields& fields) {
  constexpr Key kDirections = {"", "use_bidirectional_attention"};
  // Pictures' tokens see each other with "vision", text's never do.
  const auto given = fields.text(kDirections);
  if (given && *given != "vision") {
    fields.reject(kDirections, load::quote(*given),
                  "null or 'vision', which is for pictures alone");
  }
}

LayerConfig gemma4_layer(const Gemma4Layer& kind, AttentionConfig attention, const NormConfig& norm,
                         load::Activation activation) {
  attention.head_dim = kind.head_dim;
  attention.kv_heads = kind.kv_heads;
  attention.rope = kind.slides ? 1 : 0;
  if (!kind.slides) attention.window = 0;
  attention.shares = kind.shares;
  attention.values_of_keys = kind.values_of_keys;
  if (kind.shares < 0) attention.value_norm = norm;
  MlpConfig mlp;
  mlp.size = kind.feed_forward;
  mlp.activation = activation;
  return sandwich_layer(norm, attention, mlp);
}

void read_gemma4(Fields& fields, ModelConfig& config) {
  suppose_sizes(fields);
  refuse_both_directions(fields);
  const std::uint32_t layers = read_sizes(fields, config, true);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  config.embedding_scale = gemma_embedding_scale(fields, config);
  config.logit_softcap = fields
                             .number({"final_logit_softcapping", "final_logit_softcapping"}, 0.0F,
                                     load::kLargestFactor)
                             .value_or(0.0F);
  AttentionConfig attention = read_heads(fields, config, 256, 1);
  attention.scale = 1.0F;
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  std::vector<Gemma4Layer> kinds = read_kinds(fields, layers);
  if (fields.gguf()) {
    read_heads_of_gguf(fields, attention.head_dim, kinds);
  } else {
    read_heads_of_hf(fields, attention.head_dim, kinds);
  }
  read_feed_forwards(fields, read_sharing(fields, kinds), kinds);
  constexpr Key kWindow = {"attention.sliding_window", "sliding_window"};
  attention.window = read_window(fields, is_unified(fields) ? 1024 : 512).value_or(0);
  std::uint32_t full_dim = attention.head_dim, sliding_dim = attention.head_dim;
  for (const Gemma4Layer& kind : kinds) {
    (kind.slides ? sliding_dim : full_dim) = kind.head_dim;
    if (kind.slides && attention.window == 0)
      fields.reject(kWindow, "none", "a number of positions, since there are layers that slide");
  }
  config.ropes = read_ropes(fields, full_dim, sliding_dim, config);
  read_layer_inputs(fields, norm, config);
  const load::Activation activation = read_gemma_activation(fields);
  std::optional<ExpertsConfig> experts = read_gemma4_experts(fields, norm);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    LayerConfig layer = gemma4_layer(kinds[i], attention, norm, activation);
    const auto has = [&](const char* name) {
      return fields.described() || fields.has_tensor(fmt::format("blk.{}.{}.weight", i, name));
    };
    if (experts) {
      experts->activation = activation;
      experts->shared_size = kinds[i].feed_forward;
      experts->scaled = !fields.gguf() || has("exp_scales");
      layer.mlp = *experts;
    }
    layer.scaled = has("layer_output_scale");
    config.layers.push_back(layer);
  }
}

}  // namespace

constinit const Reader kGemma4 = {read_gemma4, kGemma4HfNames, kGemma4GgufNames};

}  // namespace dovetail::families
