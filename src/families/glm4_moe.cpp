// GLM-4.5 to 4.7 and the text of GLM-4.5V and 4.6V: half of each head turns, in most models queries
// and keys are normed and have biases, and behind a few dense layers there are experts as
// DeepSeek-V3 has them.

#include "families/common.h"
#include "families/families.h"
#include "families/grouped_experts.h"
#include "families/qwen.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

constexpr Rename kGlm4MoeGgufNames[] = {
    {"blk.*.post_attention_norm", "blk.*.ffn_norm"},
};

void read_layers_of_glm4_moe(Fields& fields, bool biased, ModelConfig& config) {
  if (fields.gguf()) read_qwen_sections(fields);
  std::uint32_t layers = read_sizes(fields, config);
  drop_draft_layers(fields, layers, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_q.bias")
                                 : fields.flag({"", "attention_bias"}).value_or(biased);
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

void read_glm4_moe(Fields& fields, ModelConfig& config) {
  read_layers_of_glm4_moe(fields, false, config);
}

void read_glm4v_moe(Fields& fields, ModelConfig& config) {
  must_be(fields, "use_qk_norm", false);
  fields.suppose("num_key_value_heads", 8);
  read_layers_of_glm4_moe(fields, true, config);
}

}  // namespace

constinit const Reader kGlm4Moe = {read_glm4_moe, {}, kGlm4MoeGgufNames};
constinit const Reader kGlm4vMoe = {.read = read_glm4v_moe, .spare = kQwenPictures};

}  // namespace dovetail::families
