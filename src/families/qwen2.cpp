// Qwen2 and Qwen2.5: Llama with biases of queries, keys and values.

#include "families/common.h"
#include "families/families.h"
#include "families/qwen.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

void read_qwen2(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = true;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  const MlpConfig mlp = read_mlp(fields);
  for (const std::uint32_t window : read_qwen_windows(fields, layers)) {
    attention.window = window;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
}

}  // namespace

constinit const Reader kQwen2 = {read_qwen2};

}  // namespace dovetail::families
