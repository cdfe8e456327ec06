// Mellum 2: Qwen3 with experts, of whose layers some slide, with a base of rotary embedding of
// their own, and some may be dense.

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"
#include "load/json_fields.h"

namespace dovetail::families {
namespace {

// For each layer whether it has experts: all, unless a config.json lists kinds.
std::vector<bool> read_sparse_layers(Fields& fields, std::uint32_t layers) {
  const nlohmann::json* kinds = fields.member("mlp_layer_types");
  std::vector<bool> out(layers, true);
  if (kinds == nullptr) return out;
  bool valid = kinds->is_array() && kinds->size() == layers;
  for (std::size_t i = 0; valid && i < layers; ++i) {
    out[i] = (*kinds)[i] == "sparse";
    valid = out[i] || (*kinds)[i] == "dense";
  }
  if (!valid) {
    fields.reject({"", "mlp_layer_types"}, load::text_of(*kinds),
                  fmt::format("a list of {}, 'dense' or 'sparse'", layers));
  }
  return out;
}

void read_mellum(Fields& fields, ModelConfig& config) {
  ExpertsConfig experts = read_experts(fields);
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(true);
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  RopeRules rules = {
      .head_dim = attention.head_dim, .theta = 500000.0F, .layer_type = "full_attention"};
  config.ropes = {read_rope(fields, rules, config)};
  rules.layer_type = "sliding_attention";
  rules.theta = 10000.0F;
  rules.scaled = false;
  // A GGUF file without a base for these layers means the other one.
  if (!fields.gguf() || fields.has({"rope.freq_base_swa", ""}))
    rules.base = {"rope.freq_base_swa", "rope_theta"};
  config.ropes.push_back(read_rope(fields, rules, config));
  const std::uint32_t window = read_window(fields, 1024).value_or(0);
  const std::vector<bool> slides =
      read_sliding_layers(fields, layers, fields.gguf() && window != 0 ? 4 : 0);
  const std::vector<bool> sparse = read_sparse_layers(fields, layers);
  fields.ask({"feed_forward_length", "intermediate_size"});
  for (std::uint32_t i = 0; i < layers; ++i) {
    attention.window = slides[i] ? window : 0;
    attention.rope = slides[i] ? 1 : 0;
    config.layers.push_back(sparse[i] ? plain_layer(norm, attention, experts)
                                      : plain_layer(norm, attention, read_mlp(fields)));
  }
}

// The layer that drafts tokens is not run.
constexpr std::string_view kMellumSpare[] = {"mtp."};

}  // namespace

constinit const Reader kMellum = {.read = read_mellum, .spare = kMellumSpare};

}  // namespace dovetail::families
