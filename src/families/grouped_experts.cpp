#include "families/grouped_experts.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

// What a config.json means where it does not say it.
struct Usual {
  std::string_view family;
  std::uint32_t dense, shared, groups, groups_used, drafts;
  float scale;
  bool normalized;
  std::string_view method;
};
constexpr Usual kUsual[] = {
    {"bailing_moe_v2", 0, 0, 1, 1, 0, 1.0F, true, "noaux_tc"},
    {"bailing_moe", 0, 0, 1, 1, 0, 1.0F, true, "noaux_tc"},
    {"deepseek_v2", 0, 2, 0, 0, 0, 1.0F, false, "greedy"},
    {"deepseek_v3", 3, 1, 8, 4, 1, 2.5F, true, "noaux_tc"},
    {"deepseek_v32", 3, 1, 8, 4, 0, 2.5F, true, "noaux_tc"},
    {"dots1", 0, 0, 1, 1, 0, 1.0F, false, "noaux_tc"},
    {"exaone_moe", 1, 1, 1, 1, 0, 2.5F, true, "noaux_tc"},
    {"glm4_moe", 1, 1, 1, 1, 1, 1.0F, true, "noaux_tc"},
    {"glm4_moe_lite", 1, 1, 1, 1, 0, 1.8F, true, "noaux_tc"},
    {"glm4v_moe_text", 1, 1, 1, 1, 0, 1.0F, true, "noaux_tc"},
    {"glm_moe_dsa", 3, 1, 1, 1, 0, 2.5F, true, "noaux_tc"},
    {"kimi_k2", 0, 0, 0, 0, 0, 1.0F, true, "noaux_tc"},
    {"kimi_linear", 1, 1, 1, 1, 0, 2.446F, true, "noaux_tc"},
    {"mistral4", 0, 1, 1, 1, 0, 1.0F, true, "group_limited_greedy"},
    {"solar_open", 0, 1, 1, 1, 0, 1.0F, true, "noaux_tc"},
};
// None of a GGUF file.
constexpr Usual kUnusual = {"", 0, 0, 0, 0, 0, 1.0F, false, ""};

const Usual& usual_of(const Fields& fields) {
  const auto* found = std::find_if(std::begin(kUsual), std::end(kUsual), [&](const Usual& usual) {
    return !fields.gguf() && usual.family == fields.family();
  });
  return found == std::end(kUsual) ? kUnusual : *found;
}

// What DeepSeek-V2 does with softmax, V3 does with sigmoids, and with biases that count for the
// choice alone.
ExpertsConfig read_grouped_experts(Fields& fields) {
  constexpr Key kGating = {"expert_gating_func", "scoring_func"};
  const Usual& usual = usual_of(fields);
  const bool mistral = fields.family() == "mistral4";
  const bool softmax = fields.family() == "deepseek_v2" || mistral;
  bool sigmoids = !fields.gguf() && !softmax;
  ExpertFields names;
  names.count = "n_routed_experts";
  if (fields.gguf()) {
    const std::uint32_t gating = fields.count(kGating, 0, 1U << 30U).value_or(1);
    sigmoids = gating == 2 || fields.has_tensor("blk.1.exp_probs_b.bias");
    names.gating = sigmoids ? 2 : gating == 0 ? 0 : 1;
    names.kind = sigmoids ? "sigmoids" : "softmax";
  } else if (const auto scores = fields.text(kGating)) {
    // As published files of dots.llm1 call them.
    const bool dots = fields.family() == "dots1" && *scores == "noaux_tc";
    sigmoids = *scores == "sigmoid" || dots;
    if (!sigmoids && *scores != "softmax")
      fields.reject(kGating, load::quote(*scores), "'softmax' or 'sigmoid'");
  }
  constexpr Key kMethod = {"", "topk_method"};
  std::string method = fields.text(kMethod).value_or(std::string(usual.method));
  if (method.empty()) method = sigmoids ? "noaux_tc" : "group_limited_greedy";
  if (method != "noaux_tc" && method != "greedy" && method != "group_limited_greedy") {
    fields.reject(kMethod, load::quote(method), "'greedy', 'group_limited_greedy' or 'noaux_tc'");
  }
  ExpertsConfig experts = read_experts(fields, names);
  experts.gate = sigmoids ? load::ExpertGate::kSigmoid : load::ExpertGate::kSoftmax;
  experts.picks_biased = sigmoids && method == "noaux_tc";
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"})
                           .value_or(fields.gguf() ? sigmoids : usual.normalized);
  experts.least_sum = 1e-20F;
  experts.scale =
      fields.number({"expert_weights_scale", "routed_scaling_factor"}, 0.0F, load::kLargestFactor)
          .value_or(usual.scale);
  if (fields.gguf() && experts.scale == 0.0F) experts.scale = 1.0F;
  constexpr Key kGroups = {"expert_group_count", "n_group"};
  constexpr Key kGroupsUsed = {"expert_group_used_count", "topk_group"};
  const std::uint32_t groups =
      count_or_none(fields, kGroups, load::kMostExpertGroups, usual.groups);
  const std::uint32_t used =
      count_or_none(fields, kGroupsUsed, load::kMostExpertGroups, usual.groups_used);
  // transformers adds two of the softmax's in a group; no published model has more than one.
  if (mistral && groups > 1) fields.reject(kGroups, fmt::format("{}", groups), "1");
  if (method != "greedy" && groups > 1) {
    experts.groups = groups;
    experts.groups_used = used == 0 ? groups : used;
    experts.groups_by_two = sigmoids;
  }
  const std::uint32_t shared = count_or_none(fields, {"expert_shared_count", "n_shared_experts"},
                                             load::kMostUsedExperts, usual.shared);
  fields.ask({"expert_shared_feed_forward_length", ""});
  experts.shared_size = shared * experts.size;
  return experts;
}

// How many layers have no experts: the first ones. transformers 5 writes a kind for each layer.
std::uint32_t read_dense_layers(Fields& fields, std::uint32_t layers) {
  constexpr Key kDense = {"leading_dense_block_count", "first_k_dense_replace"};
  if (!fields.gguf() && !fields.has({"", "n_routed_experts"})) return layers;
  const std::uint32_t dense =
      fields.count(kDense, 0, load::kMostLayers).value_or(usual_of(fields).dense);
  const nlohmann::json* kinds = fields.member("mlp_layer_types");
  if (kinds == nullptr) return std::min(dense, layers);
  std::uint32_t first = 0;
  const auto is = [&](std::size_t i, std::string_view kind) { return (*kinds)[i] == kind; };
  bool valid = kinds->is_array() && kinds->size() == layers;
  while (valid && first < layers && is(first, "dense")) ++first;
  for (std::size_t i = first; valid && i < layers; ++i) valid = is(i, "sparse");
  if (!valid) {
    fields.reject({"", "mlp_layer_types"}, load::text_of(*kinds),
                  fmt::format("a list of {}, 'dense' and from some layer on 'sparse'", layers));
  }
  return first;
}

}  // namespace

std::uint32_t count_or_none(Fields& fields, Key key, std::uint32_t high, std::uint32_t usual) {
  if (fields.is_null(key)) {
    fields.ask(key);
    return 0;
  }
  return fields.count(key, 0, high).value_or(usual);
}

void read_grouped_layers(Fields& fields, LayerConfig layer, std::uint32_t layers,
                         ModelConfig& config) {
  if (!fields.gguf()) {
    config.draft_layers = count_or_none(fields, {"", "num_nextn_predict_layers"}, load::kMostLayers,
                                        usual_of(fields).drafts);
  }
  const std::uint32_t dense = read_dense_layers(fields, layers);
  constexpr Key kEvery = {"", "moe_layer_freq"};
  const auto every = fields.count(kEvery, 1, load::kMostLayers);
  if (every.value_or(1) != 1) fields.reject(kEvery, fmt::format("{}", *every), "1");
  if (dense > 0) {
    layer.mlp = read_mlp(fields);
    config.layers.assign(std::min(dense, layers), layer);
  } else {
    fields.ask({"feed_forward_length", "intermediate_size"});
  }
  if (dense < layers) {
    layer.mlp = read_grouped_experts(fields);
    config.layers.resize(layers, layer);
  }
  read_draft_layer(fields, layer, config);
}

}  // namespace dovetail::families
