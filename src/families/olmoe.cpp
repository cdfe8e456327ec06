// OLMoE (https://arxiv.org/abs/2409.02060): experts in every layer, queries and keys normed over
// all heads together.

#include <fmt/core.h>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

void read_olmoe(Fields& fields, ModelConfig& config) {
  constexpr Key kOwnSize = {"expert_feed_forward_length", "intermediate_size"};
  const Key size =
      fields.has(kOwnSize) ? kOwnSize : Key{"feed_forward_length", "intermediate_size"};
  ExpertsConfig experts = read_experts(fields, {.size = size});
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(false);
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.query_key_norm = load::QueryKeyNorm::kRow;
  attention.norm = norm;
  constexpr Key kClip = {"attention.clamp_kqv", "clip_qkv"};
  if (const auto clip = fields.number(kClip, 0.0F, load::kLargestFactor))
    fields.reject(kClip, fmt::format("{}", *clip), "absent");
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  config.layers.assign(layers, plain_layer(norm, attention, experts));
}

}  // namespace

constinit const Reader kOlmoe = {read_olmoe};

}  // namespace dovetail::families
