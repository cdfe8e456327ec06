// MiniMax-M2: experts in every layer, chosen by sigmoids and biases; queries and keys are normed
// over all heads, and of each head a part turns.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "load/json_fields.h"

namespace dovetail::families {
namespace {

constexpr Rename kMinimaxM2Names[] = {
    {"model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp"},
    {"model.layers.*.block_sparse_moe.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
    {"model.layers.*.block_sparse_moe.experts.*.w1", "blk.*.ffn_gate.*"},
    {"model.layers.*.block_sparse_moe.experts.*.w3", "blk.*.ffn_up.*"},
    {"model.layers.*.block_sparse_moe.experts.*.w2", "blk.*.ffn_down.*"},
};

// Published configurations name what other models of the same makers vary; transformers reads none
// of it.
void refuse_other_models(Fields& fields) {
  must_be(fields, "use_qk_norm", true);
  must_be(fields, "use_routing_bias", true);
  must_say(fields, "qk_norm_type", "per_layer");
  must_say(fields, "scoring_func", "sigmoid");
  constexpr Key kShared = {"", "shared_intermediate_size"};
  const auto shared = fields.count(kShared, 0, load::kLargestIntermediateSize);
  if (shared.value_or(0) != 0) fields.reject(kShared, fmt::format("{}", *shared), "0");
  const nlohmann::json* kinds = fields.member("attn_type_list");
  const auto is_softmax = [](const nlohmann::json& kind) { return kind == 1; };
  if (kinds != nullptr &&
      !(kinds->is_array() && std::all_of(kinds->begin(), kinds->end(), is_softmax))) {
    fields.reject({"", "attn_type_list"}, load::text_of(*kinds),
                  "a list of 1: softmax attention in every layer");
  }
}

// The part of a head that turns: published files give its size.
float turning_part(Fields& fields, std::uint32_t head_dim) {
  constexpr Key kTurning = {"", "rotary_dim"};
  const auto turning = fields.count(kTurning, 2, load::kLargestHeadDim);
  if (!turning) return 1.0F;
  if (*turning > head_dim) {
    fields.reject(kTurning, fmt::format("{}", *turning),
                  fmt::format("at most the head size {}", head_dim), ErrorKind::kInvalid);
  }
  return static_cast<float>(*turning) / static_cast<float>(head_dim);
}

void read_minimax_m2(Fields& fields, ModelConfig& config) {
  refuse_other_models(fields);
  ExpertsConfig experts =
      read_experts(fields, {.count = "num_local_experts",
                            .size = {"expert_feed_forward_length", "intermediate_size"},
                            .gating = 2,
                            .kind = "sigmoids"});
  experts.gate = load::ExpertGate::kSigmoid;
  experts.picks_biased = true;
  experts.normalized = true;
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.query_key_norm = load::QueryKeyNorm::kRow;
  attention.norm = norm;
  config.ropes = {read_rope(fields,
                            {.head_dim = attention.head_dim,
                             .theta = 5e6F,
                             .partial = turning_part(fields, attention.head_dim),
                             .may_be_partial = true},
                            config)};
  config.layers.assign(layers, plain_layer(norm, attention, experts));
}

}  // namespace

constinit const Reader kMinimaxM2 = {read_minimax_m2, kMinimaxM2Names};

}  // namespace dovetail::families
