// Granite 3 and 4 with attention in every layer: Llama with scales of embeddings, attention,
// residuals and logits. Some have experts, and one that all tokens have.

#include <nlohmann/json.hpp>
#include <utility>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

float read_scale(Fields& fields, Key key, float usual) {
  return fields.number(key, 1e-9F, load::kLargestFactor).value_or(usual);
}

// Whether there are positions: a GGUF file and a hybrid's configuration may say that there are
// none.
bool turns(Fields& fields, bool hybrid) {
  if (fields.gguf()) return fields.flag({"rope.scaling.finetuned", ""}).value_or(true);
  if (!hybrid) return true;
  constexpr Key kPositions = {"", "position_embedding_type"};
  const auto kind = fields.text(kPositions);
  if (kind && *kind != "rope" && *kind != "nope") {
    fields.reject(kPositions, load::quote(*kind), "'rope', 'nope'");
  }
  return kind == "rope";
}

// All layers; their feed-forwards are still to be read.
void read_granite_layers(Fields& fields, ModelConfig& config, bool hybrid = false) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  config.embedding_scale = read_scale(fields, {"embedding_scale", "embedding_multiplier"}, 1.0F);
  config.logit_scale = 1.0F / read_scale(fields, {"logit_scale", "logits_scaling"}, 1.0F);
  AttentionConfig attention = read_heads(fields, config);
  // llama.cpp takes what is usual elsewhere for a file that gives none, transformers 1.
  attention.scale = read_scale(fields, {"attention.scale", "attention_multiplier"},
                               fields.gguf() ? attention.scale : 1.0F);
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .interleaved_in_gguf = true}, config)};
  if (!turns(fields, hybrid)) attention.rope = -1;
  LayerConfig layer = plain_layer(norm, attention, MlpConfig());
  const float residual = read_scale(fields, {"residual_scale", "residual_multiplier"}, 1.0F);
  layer.mixer_norms.scale = residual;
  layer.mlp_norms.scale = residual;
  config.layers.assign(layers, layer);
}

template <class Mlp>
void add_to_layers(ModelConfig& config, const Mlp& mlp) {
  for (LayerConfig& layer : config.layers) layer.mlp = mlp;
}

constexpr Key kSharedSize = {"expert_shared_feed_forward_length", "shared_intermediate_size"};

void add_experts(Fields& fields, ModelConfig& config) {
  config.family = "granitemoe";
  ExpertsConfig experts = read_experts(
      fields, {.count = "num_local_experts", .size = {"feed_forward_length", "intermediate_size"}});
  experts.normalized = true;
  experts.shared_size = fields.count(kSharedSize, 0, load::kLargestIntermediateSize).value_or(0);
  add_to_layers(config, experts);
}

void read_granite(Fields& fields, ModelConfig& config) {
  // Converters give what a hybrid's feed-forward is called in its configuration, too.
  fields.ask(kSharedSize);
  read_granite_layers(fields, config);
  add_to_layers(config, read_mlp(fields));
}

void read_granite_moe(Fields& fields, ModelConfig& config) {
  read_granite_layers(fields, config);
  add_experts(fields, config);
}

// Models that might have Mamba in some layers. Without experts the shared one is a plain
// feed-forward.
void read_granite_hybrid(Fields& fields, ModelConfig& config) {
  constexpr Key kTypes = {"", "layer_types"};
  const nlohmann::json* types = fields.member("layer_types");
  if (types == nullptr) types = fields.member("layers_block_type");
  constexpr std::string_view kValid = "a list of 'attention' for every layer: there is no Mamba";
  if (types == nullptr || !types->is_array()) {
    fields.reject(kTypes, types == nullptr ? "missing" : load::text_of(*types), kValid);
    return;
  }
  for (const nlohmann::json& type : *types) {
    if (type != "attention" && type != "full_attention") {
      fields.reject(kTypes, load::text_of(type), kValid);
    }
  }
  read_granite_layers(fields, config, true);
  constexpr Key kCount = {"", "num_local_experts"};
  if (fields.count(kCount, 0, load::kMostExperts).value_or(8) != 0) {
    return add_experts(fields, config);
  }
  config.family = "granite";
  MlpConfig mlp;
  mlp.size = fields.required_count(kSharedSize, 1, load::kLargestIntermediateSize);
  add_to_layers(config, mlp);
}

constexpr Rename kGraniteMoeNames[] = {
    {"model.layers.*.block_sparse_moe.router.layer", "blk.*.ffn_gate_inp"},
    {"model.layers.*.block_sparse_moe.input_linear", "blk.*.ffn_gate_up_exps"},
    {"model.layers.*.block_sparse_moe.output_linear", "blk.*.ffn_down_exps"},
    {"model.layers.*.shared_mlp.input_linear", "blk.*.ffn_gate_up_shexp"},
    {"model.layers.*.shared_mlp.output_linear", "blk.*.ffn_down_shexp"},
};

// Where there are no experts, what they share are the layers' own.
Status take_shared(load::StoredTensors& tensors, Owned& /*owned*/) {
  if (tensors.contains("blk.0.ffn_gate_inp.weight")) return {};
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {".ffn_gate_up_shexp.weight", ".ffn_up.weight"},
      {".ffn_down_shexp.weight", ".ffn_down.weight"}};
  std::vector<std::pair<std::string, std::string>> renamed;
  for (const auto& [name, tensor] : tensors) {
    for (const auto& [shared, own] : kNames) {
      if (!name.ends_with(shared)) continue;
      renamed.emplace_back(name, name.substr(0, name.size() - shared.size()) + std::string(own));
    }
  }
  for (const auto& [from, to] : renamed) {
    auto node = tensors.extract(from);
    node.key() = to;
    const auto placed = tensors.insert(std::move(node));
    if (placed.inserted) continue;
    return fail(ErrorKind::kInvalid, "{}: tensor {}: given beside {}; valid: one of the two",
                placed.node.mapped().file, load::quote(placed.node.mapped().stored_name),
                load::quote(placed.position->second.stored_name));
  }
  return {};
}

}  // namespace

constinit const Reader kGranite = {read_granite};
constinit const Reader kGraniteMoe = {read_granite_moe, kGraniteMoeNames};
constinit const Reader kGraniteHybrid = {
    read_granite_hybrid, kGraniteMoeNames, {}, {}, take_shared};

}  // namespace dovetail::families
