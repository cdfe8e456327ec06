// AFMoE, of which Trinity is (https://www.arcee.ai): norms before and behind both halves of a
// layer, gates for each element of the attention, positions in the layers that slide alone, and
// behind a few dense layers experts chosen by sigmoids and biases.

#include <cmath>

#include "families/common.h"
#include "families/families.h"
#include "families/gemma.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kAfmoeNames[] = {
    {"model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm"},
    {"model.layers.*.pre_mlp_layernorm", "blk.*.ffn_norm"},
    {"model.layers.*.post_mlp_layernorm", "blk.*.post_ffw_norm"},
    {"model.layers.*.self_attn.gate_proj", "blk.*.attn_gate"},
    {"model.layers.*.mlp.router.gate", "blk.*.ffn_gate_inp"},
    {"model.layers.*.mlp.expert_bias", "blk.*.exp_probs_b.bias"},
};

ExpertsConfig read_afmoe_experts(Fields& fields) {
  fields.suppose("num_experts", 64);
  fields.suppose("num_experts_per_tok", 6);
  ExpertsConfig experts = read_experts(fields, {.gating = 2, .kind = "sigmoids"});
  experts.gate = load::ExpertGate::kSigmoid;
  experts.picks_biased = true;
  experts.least_sum = 1e-20F;
  experts.normalized = fields.flag({"expert_weights_norm", ""}).value_or(true);
  must_be(fields, "route_norm", true);
  experts.scale = fields.number({"expert_weights_scale", "route_scale"}, 0.0F, load::kLargestFactor)
                      .value_or(1.0F);
  const std::uint32_t shared =
      fields.count({"expert_shared_count", "num_shared_experts"}, 0, load::kMostUsedExperts)
          .value_or(fields.gguf() ? 0 : 2);
  experts.shared_size = shared * experts.size;
  return experts;
}

void read_afmoe(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  // GGUF files do not say it, and llama.cpp takes it for so.
  if (fields.gguf() || fields.flag({"", "mup_enabled"}).value_or(false))
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  attention.gate = load::AttentionGate::kElements;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  const std::uint32_t dense =
      fields.count({"leading_dense_block_count", "num_dense_layers"}, 0, load::kMostLayers)
          .value_or(fields.gguf() ? 0 : 1);
  const MlpConfig mlp = read_mlp(fields);
  const ExpertsConfig experts = read_afmoe_experts(fields);
  const std::uint32_t window = read_window(fields, 1024).value_or(0);
  constexpr Key kEvery = {"", "global_attn_every_n_layers"};
  const std::uint32_t every = fields.count(kEvery, 1, load::kMostLayers).value_or(4);
  const std::vector<bool> slides =
      read_sliding_layers(fields, layers, window == 0 && fields.gguf() ? 0 : every);
  for (std::uint32_t i = 0; i < layers; ++i) {
    attention.window = slides[i] ? window : 0;
    attention.rope = slides[i] ? 0 : -1;
    LayerConfig layer = sandwich_layer(norm, attention, mlp);
    if (i >= dense) layer.mlp = experts;
    config.layers.push_back(layer);
  }
}

}  // namespace

constinit const Reader kAfmoe = {read_afmoe, kAfmoeNames};

}  // namespace dovetail::families
