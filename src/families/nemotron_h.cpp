// Nemotron-H and Nemotron 3 Nano: layers of one sublayer each, which is Mamba-2, attention without
// positions, a feed-forward without a gate, or experts that are such feed-forwards.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "families/common.h"
#include "families/families.h"
#include "families/mamba.h"
#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

using nlohmann::json;

// Kinds of layers, by the letters of hybrid_override_pattern.
constexpr char kMambaLayer = 'M', kAttentionLayer = '*', kMlpLayer = '-', kExpertLayer = 'E';

struct LayerKindName {
  std::string_view name;
  char letter;
};
constexpr LayerKindName kLayerKindNames[] = {
    {"mamba", kMambaLayer},
    {"linear_attention", kMambaLayer},
    {"attention", kAttentionLayer},
    {"full_attention", kAttentionLayer},
    {"mlp", kMlpLayer},
    {"moe", kExpertLayer},
};

// Of a config.json, as letters.
std::string read_pattern(Fields& fields) {
  constexpr Key kPattern = {"", "hybrid_override_pattern"};
  for (const std::string_view name : {"layers_block_type", "layer_types"}) {
    const json* kinds = fields.member(name);
    if (kinds == nullptr) continue;
    std::string out;
    for (const json& kind : kinds->is_array() ? *kinds : json::array({*kinds})) {
      const auto* known = std::find_if(std::begin(kLayerKindNames), std::end(kLayerKindNames),
                                       [&](const LayerKindName& one) { return kind == one.name; });
      if (known == std::end(kLayerKindNames)) {
        fields.reject({"", name}, load::text_of(kind),
                      "a list of 'mamba', 'attention', 'mlp', 'moe'");
        return {};
      }
      out += known->letter;
    }
    fields.ask(kPattern);
    return out;
  }
  // What transformers takes a configuration for that says nothing.
  std::string out = fields.text(kPattern).value_or("ME*-");
  if (out.find_first_not_of("M*-E") != std::string::npos)
    fields.reject(kPattern, load::quote(out), "a text of the letters M, *, - and E");
  return out;
}

// Of a GGUF file: layers without heads for keys and without a feed-forward have Mamba. `size`: of
// feed-forwards, as far as a key says so for all of them.
std::string read_gguf_pattern(Fields& fields, std::uint32_t layers, AttendingLayers& of,
                              std::uint32_t& size) {
  constexpr Key kSizes = {"feed_forward_length", ""};
  const std::vector<std::uint32_t> sizes =
      fields.counts(kSizes, layers, load::kLargestIntermediateSize);
  const bool experts = has_experts(fields);
  of = read_attending_layers(fields, layers);
  std::string out;
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::uint32_t mine = i < sizes.size() ? sizes[i] : 0;
    if (of.attends[i]) {
      out += kAttentionLayer;
    } else if (mine == 0) {
      out += kMambaLayer;
    } else {
      out += experts ? kExpertLayer : kMlpLayer;
      if (size != 0 && size != mine) {
        fields.reject(kSizes, fmt::format("{} in one layer, {} in another", size, mine),
                      "the same for every layer with a feed-forward");
      }
      size = mine;
    }
  }
  return out;
}

NormConfig read_norm(Fields& fields) {
  constexpr Key kRms = {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"};
  constexpr Key kOther = {"attention.layer_norm_epsilon", "layer_norm_epsilon"};
  NormConfig norm;
  norm.kind = load::NormKind::kRms;
  norm.epsilon = fields.number(fields.has(kRms) ? kRms : kOther, 0.0F, 1.0F).value_or(1e-5F);
  fields.ask(kOther);
  return norm;
}

ExpertsConfig read_plain_experts(Fields& fields) {
  fields.suppose("n_routed_experts", 8);
  fields.suppose("num_experts_per_tok", 2);
  fields.suppose("moe_intermediate_size", 7688);
  fields.suppose("moe_shared_expert_intermediate_size", 7688);
  ExpertsConfig experts =
      read_experts(fields, {.count = "n_routed_experts", .gating = 2, .kind = "sigmoids"});
  experts.gate = load::ExpertGate::kSigmoid;
  experts.picks_biased = true;
  experts.gated = false;
  experts.activation = load::Activation::kRelu2;
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(true);
  experts.least_sum = 1e-20F;
  experts.scale =
      fields.number({"expert_weights_scale", "routed_scaling_factor"}, 0.0F, load::kLargestFactor)
          .value_or(1.0F);
  experts.groups =
      fields.count({"expert_group_count", "n_group"}, 1, load::kMostExpertGroups).value_or(1);
  experts.groups_used =
      fields.count({"expert_group_used_count", "topk_group"}, 1, load::kMostExpertGroups)
          .value_or(fields.gguf() ? experts.groups : 1);
  experts.groups_by_two = true;
  // There is one, whatever their number.
  fields.ask({"expert_shared_count", "n_shared_experts"});
  experts.shared_size = fields.required_count(
      {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"}, 1,
      load::kLargestIntermediateSize);
  constexpr Key kLatent = {"", "moe_latent_size"};
  const auto latent = fields.count(kLatent, 0, load::kLargestHiddenSize);
  if (latent) fields.reject(kLatent, fmt::format("{}", *latent), "null: experts of whole rows");
  return experts;
}

// Fields that are called as Granite's are not.
void spell_mamba(Fields& fields) {
  must_be(fields, "mamba_proj_bias", false);
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"mamba_n_heads", "mamba_num_heads"}, {"mamba_d_head", "mamba_head_dim"},
      {"mamba_n_groups", "n_groups"},       {"mamba_d_state", "ssm_state_size"},
      {"mamba_d_conv", "conv_kernel"},      {"mamba_conv_bias", "use_conv_bias"},
      {"mamba_proj_bias", "use_bias"},
  };
  for (const auto& [usual, here] : kNames) {
    const bool older =
        usual == "mamba_n_groups" || usual == "mamba_d_conv" || usual == "mamba_conv_bias";
    if (!older || !fields.has({"", usual})) fields.spell(usual, here);
  }
}

void read_nemotron_h(Fields& fields, ModelConfig& config) {
  std::string pattern;
  std::uint32_t feed_forward = 0;
  AttendingLayers of;
  if (!fields.gguf()) {
    pattern = read_pattern(fields);
    fields.suppose("num_hidden_layers", static_cast<std::uint32_t>(pattern.size()));
    fields.suppose("num_attention_heads", 32);
    fields.suppose("num_key_value_heads", 8);
    fields.suppose("intermediate_size", 21504);
    fields.suppose("max_position_embeddings", 4096);
    fields.suppose("vocab_size", 131072);
    fields.suppose("hidden_size", 4096);
    spell_mamba(fields);
    must_say(fields, "mlp_hidden_act", "relu2");
    must_say(fields, "mamba_hidden_act", "silu");
    fields.ask({"", "hidden_act"});
  }
  std::uint32_t layers = read_sizes(fields, config);
  if (fields.gguf()) {
    drop_draft_layers(fields, layers, config);
    pattern = read_gguf_pattern(fields, layers, of, feed_forward);
  } else if (layers != pattern.size()) {
    fields.reject({"", "num_hidden_layers"}, fmt::format("{}", layers),
                  fmt::format("the {} layers of the list of their kinds", pattern.size()),
                  ErrorKind::kInvalid);
  }
  const NormConfig norm = read_norm(fields);
  config.output_norm = norm;
  config.ropes.resize(1);
  LayerConfig layer;
  layer.mixer = std::monostate();
  layer.mlp = std::monostate();
  const auto has = [&](char kind) { return pattern.find(kind) != std::string::npos; };
  AttentionConfig attention = read_heads(fields, config, 128, of.kv_heads);
  attention.rope = -1;
  load::MambaConfig mamba;
  if (has(kMambaLayer)) {
    mamba = read_mamba(fields, norm, config.hidden_size,
                       {.heads = 128, .head_dim = 64, .groups = 8, .state_dim = 128},
                       static_cast<std::uint32_t>(pattern.find(kMambaLayer)));
  }
  MlpConfig mlp;
  mlp.gated = false;
  mlp.activation = load::Activation::kRelu2;
  if (has(kMlpLayer)) {
    constexpr Key kSize = {"", "intermediate_size"};
    mlp.size = fields.gguf() ? feed_forward
                             : fields.required_count(kSize, 1, load::kLargestIntermediateSize);
  }
  ExpertsConfig experts;
  if (has(kExpertLayer)) {
    config.family = "nemotron_h_moe";
    experts = read_plain_experts(fields);
  }
  for (const char kind : pattern) {
    LayerConfig& next = config.layers.emplace_back(layer);
    if (kind == kMambaLayer) next.mixer = mamba;
    if (kind == kAttentionLayer) next.mixer = attention;
    if (kind == kMlpLayer) next.mlp = mlp;
    if (kind == kExpertLayer) next.mlp = experts;
    (next.mixes() ? next.mixer_norms : next.mlp_norms).before = norm;
  }
}

constexpr Rename kNemotronNames[] = {
    {"model.embeddings", "token_embd"},
    {"model.norm_f", "output_norm"},
    {"model.layers.*.norm", "blk.*.attn_norm"},
    {"model.layers.*.mixer.in_proj", "blk.*.ssm_in"},
    {"model.layers.*.mixer.conv1d", "blk.*.ssm_conv1d"},
    {"model.layers.*.mixer.dt_bias", "blk.*.ssm_dt.bias"},
    {"model.layers.*.mixer.A_log", "blk.*.ssm_a_log"},
    {"model.layers.*.mixer.D", "blk.*.ssm_d"},
    {"model.layers.*.mixer.norm", "blk.*.ssm_norm"},
    {"model.layers.*.mixer.out_proj", "blk.*.ssm_out"},
    {"model.layers.*.mixer.q_proj", "blk.*.attn_q"},
    {"model.layers.*.mixer.k_proj", "blk.*.attn_k"},
    {"model.layers.*.mixer.v_proj", "blk.*.attn_v"},
    {"model.layers.*.mixer.o_proj", "blk.*.attn_output"},
    {"model.layers.*.mixer.up_proj", "blk.*.ffn_up"},
    {"model.layers.*.mixer.down_proj", "blk.*.ffn_down"},
    {"model.layers.*.mixer.gate", "blk.*.ffn_gate_inp"},
    {"model.layers.*.mixer.gate.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
    {"model.layers.*.mixer.experts.up_proj", "blk.*.ffn_up_exps.weight"},
    {"model.layers.*.mixer.experts.down_proj", "blk.*.ffn_down_exps.weight"},
    {"model.layers.*.mixer.experts.*.up_proj", "blk.*.ffn_up.*"},
    {"model.layers.*.mixer.experts.*.down_proj", "blk.*.ffn_down.*"},
    {"model.layers.*.mixer.shared_experts.up_proj", "blk.*.ffn_up_shexp"},
    {"model.layers.*.mixer.shared_experts.down_proj", "blk.*.ffn_down_shexp"},
};

// Layers that draft tokens are left alone.
constexpr std::string_view kNemotronSpare[] = {"mtp."};

}  // namespace

constinit const Reader kNemotronH = {.read = read_nemotron_h,
                                     .hf_names = kNemotronNames,
                                     .spare = kNemotronSpare,
                                     .adapt = flatten_mamba,
                                     .base = "backbone."};

}  // namespace dovetail::families
