// ERNIE 4.5: Llama whose heads turn in pairs of neighbours. Models with experts have them behind a
// few dense layers, chosen by the softmax and biases beside it, and one that all tokens have.

#include <fmt/core.h>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

constexpr Rename kErnieNames[] = {
    {"model.layers.*.mlp.moe_statics.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
};

// All layers, as they are without experts.
void read_ernie4_5(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config, true);
  fields.suppose("num_key_value_heads", fields.family() == "ernie4_5" ? 2 : 4);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 128);
  MlpConfig mlp = read_mlp(fields);
  if (fields.gguf()) {
    attention.bias = fields.has_tensor("blk.0.attn_q.bias");
    attention.output_bias = fields.has_tensor("blk.0.attn_output.bias");
    mlp.bias = fields.has_tensor("blk.0.ffn_up.bias");
  } else {
    attention.bias = fields.flag({"", "use_bias"}).value_or(false);
    attention.output_bias = mlp.bias = attention.bias;
  }
  config.ropes = {read_rope(fields,
                            {.head_dim = attention.head_dim,
                             .theta = 500000.0F,
                             .interleaved_in_gguf = true,
                             .interleaved_in_hf = true},
                            config)};
  config.layers.assign(layers, plain_layer(norm, attention, mlp));
}

// `first`: the first layer that has them.
ExpertsConfig read_ernie_experts(Fields& fields, std::uint32_t first) {
  fields.spell("num_experts_per_tok", "moe_k");
  ExpertsConfig experts = read_experts(fields, {.count = "moe_num_experts"});
  experts.picks_biased = !fields.gguf() || fields.described() ||
                         fields.has_tensor(fmt::format("blk.{}.exp_probs_b.bias", first));
  experts.normalized = true;
  // Which is the least that weights are divided by: far below what a softmax can give.
  constexpr Key kLeast = {"", "moe_norm_min"};
  const auto least = fields.number(kLeast, 0.0F, load::kLargestFactor);
  if (least && *least > 1e-6F) fields.reject(kLeast, fmt::format("{}", *least), "at most 1e-6");
  const std::uint32_t shared =
      fields.count({"expert_shared_count", "moe_num_shared_experts"}, 0, load::kMostUsedExperts)
          .value_or(fields.gguf() ? 0 : 2);
  // Of some files it is the size of all shared experts, of others that of one.
  fields.ask({"expert_shared_feed_forward_length", ""});
  experts.shared_size = shared * experts.size;
  return experts;
}

void read_ernie4_5_moe(Fields& fields, ModelConfig& config) {
  read_ernie4_5(fields, config);
  const auto layers = static_cast<std::uint32_t>(config.layers.size());
  const std::uint32_t first =
      fields.count({"leading_dense_block_count", "moe_layer_start_index"}, 0, load::kMostLayers)
          .value_or(fields.gguf() ? 0 : 1);
  const std::uint32_t every =
      fields.count({"interleave_moe_layer_step", "moe_layer_interval"}, 1, load::kMostLayers)
          .value_or(1);
  std::uint32_t end = layers;
  if (!fields.gguf()) {
    // -1, which is what is usual, or the last layer that has them.
    constexpr Key kLast = {"", "moe_layer_end_index"};
    if (const auto last = fields.number(kLast, -1.0F, static_cast<float>(load::kMostLayers)))
      end = *last < 0.0F ? layers : static_cast<std::uint32_t>(*last) + 1;
  }
  std::uint32_t next = first;
  while ((next + 1) % every != 0) ++next;
  const ExpertsConfig experts = read_ernie_experts(fields, next);
  for (; next < layers && next < end; next += every) config.layers[next].mlp = experts;
}

// The layer that drafts tokens is not run.
constexpr std::string_view kErnieSpare[] = {"model.mtp_"};

}  // namespace

constinit const Reader kErnie4_5 = {read_ernie4_5};
constinit const Reader kErnie4_5Moe = {
    .read = read_ernie4_5_moe, .hf_names = kErnieNames, .spare = kErnieSpare};

}  // namespace dovetail::families
