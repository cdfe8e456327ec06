// GLM-4-0414: norms before and behind both halves of a layer, half of each head turns in pairs of
// neighbours, biases of queries, keys and values, gate and up in one tensor.

#include "families/families.h"
#include "families/gemma.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kGlm4Names[] = {
    {"model.layers.*.post_self_attn_layernorm", "blk.*.post_attention_norm"},
    {"model.layers.*.post_mlp_layernorm", "blk.*.post_ffw_norm"},
    {"model.layers.*.mlp.gate_up_proj", "blk.*.ffn_up"},
};

void read_glm4(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1.5625e-7F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_q.bias") ||
                                       fields.has_tensor("blk.0.attn_qkv.bias")
                                 : fields.flag({"", "attention_bias"}).value_or(true);
  config.ropes = {read_rope(fields,
                            {.head_dim = attention.head_dim,
                             .interleaved_in_gguf = true,
                             .interleaved_in_hf = true,
                             .partial = 0.5F,
                             .may_be_partial = true},
                            config)};
  config.layers.assign(layers, sandwich_layer(norm, attention, read_mlp(fields)));
}

}  // namespace

constinit const Reader kGlm4 = {read_glm4, kGlm4Names};

}  // namespace dovetail::families
