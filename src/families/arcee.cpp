// Arcee's AFM: Llama with a feed-forward that has no gates and squares what is above zero.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

void read_arcee(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = attention.output_bias = fields.flag({"", "attention_bias"}).value_or(false);
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .interleaved_in_gguf = true}, config)};
  must_say(fields, "hidden_act", "relu2");
  MlpConfig mlp = read_mlp(fields);
  mlp.gated = false;
  mlp.bias = fields.flag({"", "mlp_bias"}).value_or(false);
  mlp.activation = load::Activation::kRelu2;
  config.layers.assign(layers, plain_layer(norm, attention, mlp));
}

}  // namespace

constinit const Reader kArcee = {read_arcee};

}  // namespace dovetail::families
