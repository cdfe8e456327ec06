// GLM-4.5 to 4.7 and the text of GLM-4.5V and 4.6V: half of each head turns, in most models queries
// and keys are normed and have biases, and behind a few dense layers there are experts as
// DeepSeek-V3 has them. Solar Open: the same with plain attention, and no layer is dense.

#include <string>

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

// What a config.json means where it does not say it.
struct UsualOfGlm4Moe {
  bool biased = false;
  std::uint32_t head_dim = 0;  // 0: heads share the hidden size
  float theta = 10000.0F;
  float partial = 0.5F;
};

void read_layers_of_glm4_moe(Fields& fields, const UsualOfGlm4Moe& usual, ModelConfig& config) {
  if (fields.gguf()) read_qwen_sections(fields);
  std::uint32_t layers = read_sizes(fields, config);
  drop_draft_layers(fields, layers, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, usual.head_dim);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_q.bias")
                                 : fields.flag({"", "attention_bias"}).value_or(usual.biased);
  const bool normed = fields.gguf() ? fields.has_tensor("blk.0.attn_q_norm.weight")
                                    : fields.flag({"", "use_qk_norm"}).value_or(false);
  if (normed) {
    attention.query_key_norm = load::QueryKeyNorm::kHead;
    attention.norm = norm;
  }
  config.ropes = {read_rope(fields,
                            {.head_dim = attention.head_dim,
                             .theta = usual.theta,
                             .partial = usual.partial,
                             .may_be_partial = true},
                            config)};
  read_grouped_layers(fields, plain_layer(norm, attention, MlpConfig()), layers, config);
}

void read_glm4_moe(Fields& fields, ModelConfig& config) {
  read_layers_of_glm4_moe(fields, {}, config);
}

void read_glm4v_moe(Fields& fields, ModelConfig& config) {
  must_be(fields, "use_qk_norm", false);
  fields.suppose("num_key_value_heads", 8);
  read_layers_of_glm4_moe(fields, {.biased = true}, config);
}

void read_solar_open(Fields& fields, ModelConfig& config) {
  must_be(fields, "use_qk_norm", false);
  // transformers does not ask for it, and gives all layers experts.
  constexpr Key kDense = {"", "first_k_dense_replace"};
  const std::uint32_t dense = fields.count(kDense, 0, load::kMostLayers).value_or(0);
  if (dense != 0) fields.reject(kDense, std::to_string(dense), "0");
  fields.suppose("num_key_value_heads", 8);
  read_layers_of_glm4_moe(fields, {.head_dim = 128, .theta = 1e6F, .partial = 1.0F}, config);
}

}  // namespace

constinit const Reader kGlm4Moe = {read_glm4_moe, {}, kGlm4MoeGgufNames};
constinit const Reader kSolarOpen = {read_solar_open};
constinit const Reader kGlm4vMoe = {.read = read_glm4v_moe, .spare = kQwenPictures};

}  // namespace dovetail::families
