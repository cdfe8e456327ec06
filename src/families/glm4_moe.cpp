// GLM-4.5 to 4.7: half of each head turns, in most models queries and keys are normed and have
// biases, and behind a few dense layers there are experts as DeepSeek-V3 has them.

#include "families/common.h"
#include "families/families.h"
#include "families/grouped_experts.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

constexpr Rename kGlm4MoeGgufNames[] = {
    {"blk.*.post_attention_norm", "blk.*.ffn_norm"},
};

void read_glm4_moe(Fields& fields, ModelConfig& config) {
  std::uint32_t layers = read_sizes(fields, config);
  drop_draft_layers(fields, layers, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_q.bias")
                                 : fields.flag({"", "attention_bias"}).value_or(false);
  const bool normed = fields.gguf() ? fields.has_tensor("blk.0.attn_q_norm.weight")
                                    : fields.flag({"", "use_qk_norm"}).value_or(false);
  if (normed) {
    attention.query_key_norm = load::QueryKeyNorm::kHead;
    attention.norm = norm;
  }
  config.ropes = {read_rope(
      fields, {.head_dim = attention.head_dim, .partial = 0.5F, .may_be_partial = true}, config)};
  read_grouped_layers(fields, plain_layer(norm, attention, MlpConfig()), layers, config);
}

}  // namespace

constinit const Reader kGlm4Moe = {read_glm4_moe, {}, kGlm4MoeGgufNames};

}  // namespace dovetail::families
