// StableLM 3B, Zephyr 3B and StableLM 2 of 1.6B: Llama with norms that have biases, of heads of
// which a quarter turns; attention and feed-forward may be side by side.

#include "families/common.h"
#include "families/encoder.h"
#include "families/families.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

void read_stablelm(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_layer_norm(fields, "layer_norm_eps", 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_q.bias")
                                 : fields.flag({"", "use_qkv_bias"}).value_or(false);
  // Each head has a norm of its own with weights of its own.
  must_be(fields, "qk_layernorm", false);
  config.ropes = {read_rope(
      fields, {.head_dim = attention.head_dim, .partial = 0.25F, .may_be_partial = true}, config)};
  LayerConfig layer = plain_layer(norm, attention, read_mlp(fields));
  // Converters write the flag as published files have it, and llama.cpp goes by the tensor.
  layer.parallel = fields.gguf()
                       ? !fields.described() && !fields.has_tensor("blk.0.ffn_norm.weight")
                       : fields.flag({"", "use_parallel_residual"}).value_or(false);
  if (layer.parallel) layer.mlp_norms.before = NormConfig();
  config.layers.assign(layers, layer);
}

}  // namespace

constinit const Reader kStableLm = {read_stablelm};

}  // namespace dovetail::families
