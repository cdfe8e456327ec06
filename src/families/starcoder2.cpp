// StarCoder2 (https://arxiv.org/abs/2402.19173): LayerNorm, biases of all products, a feed-forward
// without a gate, and perhaps a window in every layer.

#include "families/common.h"
#include "families/encoder.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

void read_starcoder2(Fields& fields, ModelConfig& config) {
  fields.suppose("num_key_value_heads", 2);
  const std::uint32_t layers = read_sizes(fields, config, true);
  must_say(fields, "norm_type", "layer_norm");
  must_say(fields, "mlp_type", "default");
  const NormConfig norm = read_layer_norm(fields, "norm_epsilon", 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  const bool biased = fields.gguf() ? fields.has_tensor("blk.0.attn_output.bias")
                                    : fields.flag({"", "use_bias"}).value_or(true);
  attention.bias = attention.output_bias = biased;
  attention.window = read_uniform_window(fields, layers, true);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  MlpConfig mlp = read_mlp(fields);
  mlp.gated = false;
  mlp.bias = biased;
  mlp.activation = read_activation(fields, {"", "hidden_act"}, "gelu_pytorch_tanh");
  config.layers.assign(layers, plain_layer(norm, attention, mlp));
}

constexpr Rename kStarcoder2Names[] = {
    {"model.layers.*.mlp.c_fc", "blk.*.ffn_up"},
    {"model.layers.*.mlp.c_proj", "blk.*.ffn_down"},
};

}  // namespace

constinit const Reader kStarcoder2 = {read_starcoder2, kStarcoder2Names};

}  // namespace dovetail::families
