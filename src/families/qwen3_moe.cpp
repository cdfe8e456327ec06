// Qwen3 MoE and Qwen3 Coder: Qwen3 with experts in every layer.

#include <fmt/core.h>

#include "families/common.h"
#include "families/families.h"
#include "families/qwen.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

bool slides(Fields& fields) {
  if (!uses_sliding_window(fields, kQwenWindow)) return false;
  // Old versions of transformers keep so many layers from sliding, newer ones let all slide.
  constexpr Key kFull = {"", "max_window_layers"};
  const auto full = fields.count(kFull, 0, load::kLargestContext);
  if (full.value_or(0) != 0) {
    fields.reject(kFull, fmt::format("{}", *full), "0 or absent where use_sliding_window is true");
  }
  return true;
}

void read_qwen3_moe(Fields& fields, ModelConfig& config) {
  ExpertsConfig experts = read_experts(fields);
  // transformers takes them as they are where nothing is said, llama.cpp divides them.
  experts.normalized =
      fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(fields.gguf());
  refuse_dense_layers(fields);
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.gguf() && fields.has_tensor("blk.0.attn_q.bias");
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  attention.window = read_uniform_window(fields, layers, slides(fields), kQwenWindow);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  config.output_norm = norm;
  config.layers.assign(layers, plain_layer(norm, attention, experts));
}

}  // namespace

constinit const Reader kQwen3Moe = {read_qwen3_moe};

}  // namespace dovetail::families
