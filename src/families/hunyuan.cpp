// Hunyuan, dense and with experts: Llama with a norm of each head's query and key behind the
// rotation. Layers with experts have one more that all tokens have.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "kernels/functions.h"
#include "load/json_fields.h"

namespace dovetail::families {
namespace {

constexpr Rename kHunyuanNames[] = {
    {"model.layers.*.self_attn.query_layernorm", "blk.*.attn_q_norm"},
    {"model.layers.*.self_attn.key_layernorm", "blk.*.attn_k_norm"},
    {"model.layers.*.mlp.gate.wg", "blk.*.ffn_gate_inp"},
    {"model.layers.*.mlp.shared_mlp.gate_proj", "blk.*.ffn_gate_shexp"},
    {"model.layers.*.mlp.shared_mlp.up_proj", "blk.*.ffn_up_shexp"},
    {"model.layers.*.mlp.shared_mlp.down_proj", "blk.*.ffn_down_shexp"},
};

// Scaling by a fixed alpha, which files call dynamic, stretches the base and nothing else; in GGUF
// files it is stretched already.
void stretch(Fields& fields, std::uint32_t head_dim, RopeConfig& rope) {
  const char* name = fields.has({"", "rope_parameters"}) ? "rope_parameters" : "rope_scaling";
  const nlohmann::json* member = fields.member(name);
  if (member == nullptr || !member->is_object() || head_dim <= 2) return;
  load::JsonFields inner(*member, fields.file(), fmt::format("{}.", name));
  const auto alpha = inner.optional_float("alpha", 1.0F, load::kLargestFactor);
  fields.take_failure(inner.status());
  const auto is = [&](const char* key) {
    const auto found = member->find(key);
    return found != member->end() && *found == "dynamic";
  };
  if (!alpha || (!is("type") && !is("rope_type"))) return;
  const double dims = head_dim;
  rope.theta = static_cast<float>(double{rope.theta} * kernels::pow(*alpha, dims / (dims - 2.0)));
}

// A number for all layers, or for each of them the same.
std::optional<std::uint32_t> alike(Fields& fields, Key key, std::uint32_t high) {
  const nlohmann::json* list = fields.member(key.hf);
  if (list == nullptr || !list->is_array()) return fields.uniform(key, 1, high);
  const bool same = !list->empty() && std::all_of(list->begin(), list->end(), [&](const auto& one) {
    return one == list->front() && one.is_number_unsigned() && one >= 1U && one <= high;
  });
  if (same) return list->front().get<std::uint32_t>();
  fields.reject(key, load::text_of(*list), fmt::format("one number of 1 to {} for all", high));
  return std::nullopt;
}

template <class Mlp>
void read_layers_of_hunyuan(Fields& fields, const Mlp& mlp, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.query_key_norm = load::QueryKeyNorm::kTurnedHead;
  attention.norm = norm;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  if (!fields.gguf()) stretch(fields, attention.head_dim, config.ropes.front());
  config.layers.assign(layers, plain_layer(norm, attention, mlp));
}

void read_hunyuan_dense(Fields& fields, ModelConfig& config) {
  read_layers_of_hunyuan(fields, read_mlp(fields), config);
}

void read_hunyuan_moe(Fields& fields, ModelConfig& config) {
  ExpertsConfig experts;
  experts.normalized = true;
  must_be(fields, "use_cla", false);
  experts.count = fields.required_count({"expert_count", "num_experts"}, 1, load::kMostExperts);
  constexpr Key kUsed = {"expert_used_count", "moe_topk"};
  experts.used = alike(fields, kUsed, load::kMostUsedExperts).value_or(1);
  constexpr std::uint32_t kLargest = load::kLargestIntermediateSize;
  const std::uint32_t dense =
      fields.required_uniform({"feed_forward_length", "intermediate_size"}, 1, kLargest);
  constexpr Key kSize = {"expert_feed_forward_length", "moe_intermediate_size"};
  experts.size = alike(fields, kSize, kLargest).value_or(dense);
  constexpr Key kShared = {"expert_shared_count", "num_shared_expert"};
  const std::uint32_t shared = alike(fields, kShared, load::kMostUsedExperts).value_or(1);
  experts.shared_size =
      fields.count({"expert_shared_feed_forward_length", ""}, 1, kLargest).value_or(shared * dense);
  read_layers_of_hunyuan(fields, experts, config);
}

}  // namespace

constinit const Reader kHunyuanDense = {read_hunyuan_dense, kHunyuanNames};
constinit const Reader kHunyuanMoe = {read_hunyuan_moe, kHunyuanNames};

}  // namespace dovetail::families
