// Ling and Ring of version 2 (https://arxiv.org/abs/2510.22115): half of each head turns, queries
// and keys are normed, and behind a few dense layers there are experts as DeepSeek-V3 has them.

#include "families/common.h"
#include "families/families.h"
#include "families/grouped_experts.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

constexpr Rename kBailingNames[] = {
    {"model.word_embeddings", "token_embd"},
    {"model.layers.*.attention.query_key_value", "blk.*.attn_qkv"},
    {"model.layers.*.attention.query_layernorm", "blk.*.attn_q_norm"},
    {"model.layers.*.attention.key_layernorm", "blk.*.attn_k_norm"},
    {"model.layers.*.attention.dense", "blk.*.attn_output"},
    {"model.layers.*.mlp.gate.expert_bias", "blk.*.exp_probs_b.bias"},
};

void read_bailing_moe(Fields& fields, ModelConfig& config) {
  fields.spell("n_routed_experts", "num_experts");
  fields.spell("n_shared_experts", "num_shared_experts");
  fields.spell("scoring_func", "score_function");
  must_be(fields, "use_bias", false);
  must_be(fields, "use_qkv_bias", false);
  must_be(fields, "use_qk_norm", true);
  must_be(fields, "moe_router_enable_expert_bias", true);
  std::uint32_t layers = read_sizes(fields, config);
  drop_draft_layers(fields, layers, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_rope(
      fields, {.head_dim = attention.head_dim, .partial = 0.5F, .may_be_partial = true}, config)};
  read_grouped_layers(fields, plain_layer(norm, attention, MlpConfig()), layers, config);
  // What stands behind its own last norm is not as DeepSeek's.
  config.draft_layer.reset();
}

}  // namespace

constinit const Reader kBailingMoe = {read_bailing_moe, kBailingNames};

}  // namespace dovetail::families
