// Mixtral: Mistral with experts. Its GGUF files are of the architecture llama.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kMixtralNames[] = {
    {"model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp"},
    {"model.layers.*.block_sparse_moe.experts.*.w1", "blk.*.ffn_gate.*"},
    {"model.layers.*.block_sparse_moe.experts.*.w3", "blk.*.ffn_up.*"},
    {"model.layers.*.block_sparse_moe.experts.*.w2", "blk.*.ffn_down.*"},
};

void read_mixtral(Fields& fields, ModelConfig& config) {
  // The size of the feed-forward is that of an expert, unless a GGUF file has one of their own.
  constexpr Key kOwnSize = {"expert_feed_forward_length", "intermediate_size"};
  const Key size =
      fields.has(kOwnSize) ? kOwnSize : Key{"feed_forward_length", "intermediate_size"};
  ExpertsConfig experts = read_experts(fields, {.count = "num_local_experts", .size = size});
  experts.normalized = true;
  constexpr Key kNormalized = {"expert_weights_norm", ""};
  if (!fields.flag(kNormalized).value_or(true)) {
    fields.reject(kNormalized, "false", "true for architecture llama");
  }
  const std::uint32_t layers = read_sizes(fields, config);
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.gguf() && fields.has_tensor("blk.0.attn_q.bias");
  attention.window = read_uniform_window(fields, layers, true);
  config.ropes = {read_rope(
      fields, {.head_dim = attention.head_dim, .theta = 1e6F, .interleaved_in_gguf = true},
      config)};
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  config.layers.assign(layers, plain_layer(norm, attention, experts));
}

}  // namespace

constinit const Reader kMixtral = {read_mixtral, kMixtralNames};

}  // namespace dovetail::families
