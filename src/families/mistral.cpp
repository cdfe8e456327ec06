// Mistral 7B and its kin: Llama with a window in every layer. Ministral 8B has windows in some.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

void read_mistral(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.gguf() && fields.has_tensor("blk.0.attn_q.bias");
  attention.window = read_uniform_window(fields, layers, true, 4096);
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .interleaved_in_gguf = true}, config)};
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  config.layers.assign(layers, plain_layer(norm, attention, read_mlp(fields)));
}

void read_ministral(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  AttentionConfig attention = read_heads(fields, config);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  const MlpConfig mlp = read_mlp(fields);
  for (const std::uint32_t window : read_windows(fields, layers, true, 0, 4096)) {
    attention.window = window;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
}

}  // namespace

constinit const Reader kMistral = {read_mistral};
constinit const Reader kMinistral = {read_ministral};

}  // namespace dovetail::families
