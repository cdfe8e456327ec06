// DeepSeek-V2 to V3.2 and R1, and what has their layers: Kimi K2, GLM-4.7-Flash, Mistral 4. Latent
// attention, in V3.2 over positions that an indexer picks, and experts in groups behind a few dense
// layers.

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "kernels/functions.h"
#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

using load::LatentConfig;

// What a config.json means where it does not say it.
struct Usual {
  std::string_view family;
  std::uint32_t dense, shared, groups, groups_used, drafts;
  float scale;
  bool normalized;
  std::string_view method;
};
constexpr Usual kUsual[] = {
    {"deepseek_v2", 0, 2, 0, 0, 0, 1.0F, false, "greedy"},
    {"deepseek_v3", 3, 1, 8, 4, 1, 2.5F, true, "noaux_tc"},
    {"deepseek_v32", 3, 1, 8, 4, 0, 2.5F, true, "noaux_tc"},
    {"glm4_moe_lite", 1, 1, 1, 1, 0, 1.8F, true, "noaux_tc"},
    {"kimi_k2", 0, 0, 0, 0, 0, 1.0F, true, "noaux_tc"},
    {"mistral4", 0, 1, 1, 1, 0, 1.0F, true, "group_limited_greedy"},
};
// None of a GGUF file.
constexpr Usual kUnusual = {"", 0, 0, 0, 0, 0, 1.0F, false, ""};

const Usual& usual_of(const Fields& fields) {
  const auto* found = std::find_if(std::begin(kUsual), std::end(kUsual), [&](const Usual& usual) {
    return !fields.gguf() && usual.family == fields.family();
  });
  return found == std::end(kUsual) ? kUnusual : *found;
}

// What YaRN multiplies the scale of attention with is the square of this: mscale_all_dim, which
// GGUF files have a tenth of.
float scale_magnitude(Fields& fields, RopeConfig& rope) {
  if (rope.scaling != load::RopeScaling::kYarn) return 1.0F;
  float all_dims = 0.0F;
  if (fields.gguf()) {
    constexpr Key kTenth = {"rope.scaling.yarn_log_multiplier", ""};
    all_dims = 10.0F * fields.number(kTenth, 0.0F, load::kLargestFactor).value_or(0.0F);
    rope.attention_factor = 1.0F;
  } else {
    const char* name = fields.has({"", "rope_parameters"}) ? "rope_parameters" : "rope_scaling";
    if (const nlohmann::json* member = fields.member(name)) {
      load::JsonFields inner(*member, fields.file(), fmt::format("{}.", name));
      all_dims = inner.optional_float("mscale_all_dim", 0.0F, load::kLargestFactor).value_or(0.0F);
      fields.take_failure(inner.status());
    }
  }
  if (rope.factor <= 1.0F) return 1.0F;
  return 0.1F * all_dims * static_cast<float>(kernels::log(rope.factor)) + 1.0F;
}

// A number that a config.json may give as null; `usual` where it says nothing.
std::uint32_t count_or_none(Fields& fields, Key key, std::uint32_t high, std::uint32_t usual = 0) {
  if (fields.is_null(key)) {
    fields.ask(key);
    return 0;
  }
  return fields.count(key, 0, high).value_or(usual);
}

void read_indexer(Fields& fields, LatentConfig& latent) {
  latent.index_heads =
      fields.required_count({"attention.indexer.head_count", "index_n_heads"}, 1, load::kMostHeads);
  latent.index_dim = fields.required_count({"attention.indexer.key_length", "index_head_dim"}, 2,
                                           load::kLargestLatent);
  latent.index_top =
      fields.required_count({"attention.indexer.top_k", "index_topk"}, 1, load::kLargestContext);
  latent.index_norm = {.kind = load::NormKind::kLayer, .epsilon = 1e-6F, .bias = true};
}

LatentConfig read_latent(Fields& fields, const NormConfig& norm, ModelConfig& config) {
  constexpr std::uint32_t kLargest = load::kLargestHeadDim;
  LatentConfig out;
  out.norm = norm;
  // transformers has this number for norms of latents, whatever the configuration says.
  if (!fields.gguf()) out.norm.epsilon = 1e-6F;
  out.heads =
      fields.required_uniform({"attention.head_count", "num_attention_heads"}, 1, load::kMostHeads);
  // As many as there are heads, or the one that latents are for all of them.
  fields.ask({"attention.head_count_kv", "num_key_value_heads"});
  fields.ask({"", "head_dim"});
  fields.ask({"", "qk_head_dim"});
  out.latent_dim =
      fields.required_count({"attention.kv_lora_rank", "kv_lora_rank"}, 1, load::kLargestLatent);
  out.query_rank =
      count_or_none(fields, {"attention.q_lora_rank", "q_lora_rank"}, load::kLargestHiddenSize);
  out.rope_dim = fields.required_count({"rope.dimension_count", "qk_rope_head_dim"}, 2, kLargest);
  if (fields.gguf()) {
    out.split = fields.has_tensor("blk.0.attn_k_b.weight");
    // Files of latents for all heads give the sizes of these, and those of the heads beside them.
    const bool latents = fields.has({"attention.key_length_mla", ""});
    const Key key = {latents ? "attention.key_length_mla" : "attention.key_length", ""};
    const Key value = {latents ? "attention.value_length_mla" : "attention.value_length", ""};
    fields.ask({"attention.key_length", ""});
    fields.ask({"attention.value_length", ""});
    const std::uint32_t head = fields.required_count(key, 1, kLargest);
    if (head <= out.rope_dim) {
      fields.reject(key, fmt::format("{}", head),
                    fmt::format("more than the {} elements that turn", out.rope_dim),
                    ErrorKind::kInvalid);
    }
    out.key_dim = head > out.rope_dim ? head - out.rope_dim : 1;
    out.value_dim = fields.required_count(value, 1, kLargest);
  } else {
    out.key_dim = fields.required_count({"", "qk_nope_head_dim"}, 1, kLargest);
    out.value_dim = fields.required_count({"", "v_head_dim"}, 1, kLargest);
  }
  if (fields.family() == "deepseek32" || fields.family() == "deepseek_v32")
    read_indexer(fields, out);
  const bool pairs = fields.flag({"", "rope_interleave"}).value_or(true);
  RopeRules rules = {
      .head_dim = out.rope_dim, .interleaved_in_gguf = true, .interleaved_in_hf = pairs};
  // Of the whole head, where transformers writes it.
  if (fields.family() == "mistral4")
    rules.whole = static_cast<float>(out.rope_dim) / static_cast<float>(out.head_dim());
  config.ropes = {read_rope(fields, rules, config)};
  const float magnitude = scale_magnitude(fields, config.ropes.front());
  out.scale = magnitude * magnitude / std::sqrt(static_cast<float>(out.head_dim()));
  const Temperature temperature = read_temperature(fields, config.ropes.front());
  out.temperature = temperature.scale;
  out.temperature_context = temperature.context;
  return out;
}

// What DeepSeek-V2 does with softmax, V3 does with sigmoids, and with biases that count for the
// choice alone.
ExpertsConfig read_grouped_experts(Fields& fields) {
  constexpr Key kGating = {"expert_gating_func", "scoring_func"};
  const Usual& usual = usual_of(fields);
  const bool mistral = fields.family() == "mistral4";
  const bool softmax = fields.family() == "deepseek_v2" || mistral;
  bool sigmoids = !fields.gguf() && !softmax;
  ExpertFields names;
  names.count = "n_routed_experts";
  if (fields.gguf()) {
    const std::uint32_t gating = fields.count(kGating, 0, 1U << 30U).value_or(1);
    sigmoids = gating == 2 || fields.has_tensor("blk.1.exp_probs_b.bias");
    names.gating = sigmoids ? 2 : gating == 0 ? 0 : 1;
    names.kind = sigmoids ? "sigmoids" : "softmax";
  } else if (const auto scores = fields.text(kGating)) {
    sigmoids = *scores == "sigmoid";
    if (!sigmoids && *scores != "softmax")
      fields.reject(kGating, load::quote(*scores), "'softmax' or 'sigmoid'");
  }
  constexpr Key kMethod = {"", "topk_method"};
  std::string method = fields.text(kMethod).value_or(std::string(usual.method));
  if (method.empty()) method = sigmoids ? "noaux_tc" : "group_limited_greedy";
  if (method != "noaux_tc" && method != "greedy" && method != "group_limited_greedy") {
    fields.reject(kMethod, load::quote(method), "'greedy', 'group_limited_greedy' or 'noaux_tc'");
  }
  ExpertsConfig experts = read_experts(fields, names);
  experts.gate = sigmoids ? load::ExpertGate::kSigmoid : load::ExpertGate::kSoftmax;
  experts.picks_biased = sigmoids && method == "noaux_tc";
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"})
                           .value_or(fields.gguf() ? sigmoids : usual.normalized);
  experts.least_sum = 1e-20F;
  experts.scale =
      fields.number({"expert_weights_scale", "routed_scaling_factor"}, 0.0F, load::kLargestFactor)
          .value_or(usual.scale);
  if (fields.gguf() && experts.scale == 0.0F) experts.scale = 1.0F;
  constexpr Key kGroups = {"expert_group_count", "n_group"};
  constexpr Key kGroupsUsed = {"expert_group_used_count", "topk_group"};
  const std::uint32_t groups =
      count_or_none(fields, kGroups, load::kMostExpertGroups, usual.groups);
  const std::uint32_t used =
      count_or_none(fields, kGroupsUsed, load::kMostExpertGroups, usual.groups_used);
  // transformers adds two of the softmax's in a group; no published model has more than one.
  if (mistral && groups > 1) fields.reject(kGroups, fmt::format("{}", groups), "1");
  if (method != "greedy" && groups > 1) {
    experts.groups = groups;
    experts.groups_used = used == 0 ? groups : used;
    experts.groups_by_two = sigmoids;
  }
  const std::uint32_t shared = count_or_none(fields, {"expert_shared_count", "n_shared_experts"},
                                             load::kMostUsedExperts, usual.shared);
  fields.ask({"expert_shared_feed_forward_length", ""});
  experts.shared_size = shared * experts.size;
  return experts;
}

// How many layers have no experts: the first ones. transformers 5 writes a kind for each layer.
std::uint32_t read_dense_layers(Fields& fields, std::uint32_t layers) {
  constexpr Key kDense = {"leading_dense_block_count", "first_k_dense_replace"};
  if (!fields.gguf() && !fields.has({"", "n_routed_experts"})) return layers;
  const std::uint32_t dense =
      fields.count(kDense, 0, load::kMostLayers).value_or(usual_of(fields).dense);
  const nlohmann::json* kinds = fields.member("mlp_layer_types");
  if (kinds == nullptr) return std::min(dense, layers);
  std::uint32_t first = 0;
  const auto is = [&](std::size_t i, std::string_view kind) { return (*kinds)[i] == kind; };
  bool valid = kinds->is_array() && kinds->size() == layers;
  while (valid && first < layers && is(first, "dense")) ++first;
  for (std::size_t i = first; valid && i < layers; ++i) valid = is(i, "sparse");
  if (!valid) {
    fields.reject({"", "mlp_layer_types"}, load::text_of(*kinds),
                  fmt::format("a list of {}, 'dense' and from some layer on 'sparse'", layers));
  }
  return first;
}

void read_deepseek(Fields& fields, ModelConfig& config) {
  std::uint32_t layers = read_sizes(fields, config);
  drop_draft_layers(fields, layers, config);
  if (!fields.gguf()) {
    config.draft_layers = count_or_none(fields, {"", "num_nextn_predict_layers"}, load::kMostLayers,
                                        usual_of(fields).drafts);
  }
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  LayerConfig layer;
  layer.mixer_norms.before = layer.mlp_norms.before = norm;
  layer.mixer = read_latent(fields, norm, config);
  const std::uint32_t dense = read_dense_layers(fields, layers);
  constexpr Key kEvery = {"", "moe_layer_freq"};
  const auto every = fields.count(kEvery, 1, load::kMostLayers);
  if (every.value_or(1) != 1) fields.reject(kEvery, fmt::format("{}", *every), "1");
  if (dense > 0) {
    layer.mlp = read_mlp(fields);
    config.layers.assign(std::min(dense, layers), layer);
  } else {
    fields.ask({"feed_forward_length", "intermediate_size"});
  }
  if (dense < layers) {
    layer.mlp = read_grouped_experts(fields);
    config.layers.resize(layers, layer);
  }
  read_draft_layer(fields, layer, config);
}

constexpr Rename kDeepseekHfNames[] = {
    {"model.layers.*.self_attn.q_a_proj", "blk.*.attn_q_a"},
    {"model.layers.*.self_attn.q_a_layernorm", "blk.*.attn_q_a_norm"},
    {"model.layers.*.self_attn.q_b_proj", "blk.*.attn_q_b"},
    {"model.layers.*.self_attn.kv_a_proj_with_mqa", "blk.*.attn_kv_a_mqa"},
    {"model.layers.*.self_attn.kv_a_layernorm", "blk.*.attn_kv_a_norm"},
    {"model.layers.*.self_attn.kv_b_proj", "blk.*.attn_kv_b"},
    {"model.layers.*.self_attn.indexer.wq_b", "blk.*.indexer.attn_q_b"},
    {"model.layers.*.self_attn.indexer.wk", "blk.*.indexer.attn_k"},
    {"model.layers.*.self_attn.indexer.k_norm", "blk.*.indexer.k_norm"},
    {"model.layers.*.self_attn.indexer.weights_proj", "blk.*.indexer.proj"},
    {"model.layers.*.mlp.gate.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
    {"model.layers.*.mlp.shared_experts.gate_proj", "blk.*.ffn_gate_shexp"},
    {"model.layers.*.mlp.shared_experts.up_proj", "blk.*.ffn_up_shexp"},
    {"model.layers.*.mlp.shared_experts.down_proj", "blk.*.ffn_down_shexp"},
    // Of the layers that draft tokens.
    {"model.layers.*.embed_tokens", "blk.*.nextn.embed_tokens"},
    {"model.layers.*.enorm", "blk.*.nextn.enorm"},
    {"model.layers.*.hnorm", "blk.*.nextn.hnorm"},
    {"model.layers.*.eh_proj", "blk.*.nextn.eh_proj"},
    {"model.layers.*.shared_head.norm", "blk.*.nextn.shared_head_norm"},
    {"model.layers.*.shared_head.head", "blk.*.nextn.shared_head_head"},
};

}  // namespace

constinit const Reader kDeepseek = {read_deepseek, kDeepseekHfNames};

}  // namespace dovetail::families
