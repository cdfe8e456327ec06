// Qwen3: Llama with a norm of each head's query and key.

#include "families/common.h"
#include "families/families.h"
#include "families/qwen.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

void read_qwen3(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.bias = fields.gguf() && fields.has_tensor("blk.0.attn_q.bias");
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  config.output_norm = norm;
  const MlpConfig mlp = read_mlp(fields);
  for (const std::uint32_t window : read_qwen_windows(fields, layers)) {
    attention.window = window;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
}

}  // namespace

constinit const Reader kQwen3 = {read_qwen3};

}  // namespace dovetail::families
