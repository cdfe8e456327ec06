// Granite 3 and 4: Llama with scales of embeddings, attention, residuals and logits. Some have
// experts, and one that all tokens have; those named H have Mamba-2 in most layers, and of those
// named SWAsh most layers slide.

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "families/common.h"
#include "families/families.h"
#include "families/mamba.h"
#include "families/rope.h"
#include "families/windows.h"
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

// Of a hybrid's layers, which have attention.
AttendingLayers read_hybrid_layers(Fields& fields, std::uint32_t layers) {
  if (fields.gguf()) return read_attending_layers(fields, layers);
  constexpr Key kTypes = {"", "layer_types"};
  const nlohmann::json* types = fields.member("layer_types");
  if (types == nullptr) types = fields.member("layers_block_type");
  AttendingLayers out{std::vector<bool>(layers, true)};
  const std::string valid = fmt::format(
      "a list of 'attention' and 'mamba' for {} layers, one 'attention' at least", layers);
  if (types == nullptr || !types->is_array() || types->size() != layers) {
    fields.reject(kTypes, types == nullptr ? "missing" : load::text_of(*types), valid);
    return out;
  }
  for (std::uint32_t i = 0; i < layers; ++i) {
    const nlohmann::json& type = (*types)[i];
    out.attends[i] = type == "attention" || type == "full_attention";
    if (out.attends[i] || type == "mamba" || type == "linear_attention") continue;
    fields.reject(kTypes, load::text_of(type), valid);
  }
  return out;
}

// What a config.json means that says nothing.
struct UsualOfGranite {
  bool tied = false;
  float epsilon = 1e-6F;
};

// All layers; their feed-forwards are still to be read.
void read_granite_layers(Fields& fields, ModelConfig& config, bool hybrid = false,
                         const UsualOfGranite& usual = {}) {
  const std::uint32_t layers = read_sizes(fields, config, usual.tied);
  AttendingLayers of{std::vector<bool>(layers, true)};
  if (hybrid) of = read_hybrid_layers(fields, layers);
  const NormConfig norm = read_rms_norm(fields, usual.epsilon);
  config.output_norm = norm;
  config.embedding_scale = read_scale(fields, {"embedding_scale", "embedding_multiplier"}, 1.0F);
  config.logit_scale = 1.0F / read_scale(fields, {"logit_scale", "logits_scaling"}, 1.0F);
  AttentionConfig attention = read_heads(fields, config, 0, of.kv_heads);
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
  const auto first = std::find(of.attends.begin(), of.attends.end(), false) - of.attends.begin();
  if (first == layers) return;
  const load::MambaConfig mamba =
      read_mamba(fields, norm, config.hidden_size, {.heads = 128, .state_dim = 256},
                 static_cast<std::uint32_t>(first));
  for (std::uint32_t i = 0; i < layers; ++i) {
    if (!of.attends[i]) config.layers[i].mixer = mamba;
  }
}

bool has_mamba(const ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const LayerConfig& layer) { return layer.mamba() != nullptr; });
}

template <class Mlp>
void add_to_layers(ModelConfig& config, const Mlp& mlp) {
  for (LayerConfig& layer : config.layers) layer.mlp = mlp;
}

constexpr Key kSharedSize = {"expert_shared_feed_forward_length", "shared_intermediate_size"};

void add_experts(Fields& fields, ModelConfig& config) {
  if (!has_mamba(config)) config.family = "granitemoe";
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

// Models that may have Mamba in some layers. Without experts the shared one is a plain
// feed-forward.
void read_granite_hybrid(Fields& fields, ModelConfig& config) {
  read_granite_layers(fields, config, true);
  constexpr Key kCount = {"expert_count", "num_local_experts"};
  const auto experts = fields.count(kCount, 0, load::kMostExperts);
  if (experts.value_or(fields.gguf() ? 0 : 8) != 0) return add_experts(fields, config);
  if (!has_mamba(config)) config.family = "granite";
  MlpConfig mlp;
  if (fields.gguf()) {
    fields.ask(kSharedSize);
    mlp = read_mlp(fields);
  } else {
    mlp.size = fields.required_count(kSharedSize, 1, load::kLargestIntermediateSize);
  }
  add_to_layers(config, mlp);
}

// For each layer the theta of its positions, 0 where it has none; empty where all have the same.
std::vector<float> read_layer_thetas(Fields& fields, std::uint32_t layers) {
  constexpr Key kThetas = {"", "layer_rope_theta"};
  const nlohmann::json* list = fields.member(kThetas.hf);
  if (list == nullptr) return {};
  const auto fits = [](const nlohmann::json& value) {
    return value.is_number() && (value == 0 || (value >= 1.0 && value <= load::kLargestTheta));
  };
  if (!list->is_array() || list->size() != layers ||
      !std::all_of(list->begin(), list->end(), fits)) {
    fields.reject(
        kThetas, load::text_of(*list),
        fmt::format("a list of {} numbers, each 0 or from 1 to {}", layers, load::kLargestTheta));
    return {};
  }
  return list->get<std::vector<float>>();
}

// Layers that slide, a sink in each, and positions that may differ from layer to layer.
void read_granite_swa(Fields& fields, ModelConfig& config) {
  const bool experts = fields.gguf() ? has_experts(fields) : fields.family() == "granitemoe_swa";
  if (!experts) fields.suppose("num_key_value_heads", 4);
  const UsualOfGranite usual = {.tied = !experts, .epsilon = experts ? 1e-6F : 1e-5F};
  read_granite_layers(fields, config, false, usual);
  const auto layers = static_cast<std::uint32_t>(config.layers.size());
  const std::uint32_t window = read_window(fields, 128).value_or(0);
  const std::vector<bool> slides =
      read_sliding_layers(fields, layers, window == 0 ? 0 : 4, FullLayer::kFirst);
  const std::vector<float> thetas = read_layer_thetas(fields, layers);
  const std::vector<bool> turning = fields.flags({"attention.rope_pattern", ""}, layers);
  const RopeConfig rope = config.ropes.front();
  if (!thetas.empty()) config.ropes.clear();
  for (std::uint32_t i = 0; i < layers; ++i) {
    auto& attention = std::get<AttentionConfig>(config.layers[i].mixer);
    attention.sinks = true;
    attention.window = slides[i] ? window : 0;
    if (!turning.empty() && !turning[i]) attention.rope = -1;
    if (thetas.empty()) continue;
    attention.rope = -1;
    if (thetas[i] == 0.0F) continue;
    const auto known =
        std::find_if(config.ropes.begin(), config.ropes.end(),
                     [&](const RopeConfig& each) { return each.theta == thetas[i]; });
    attention.rope = static_cast<std::int32_t>(known - config.ropes.begin());
    if (known != config.ropes.end()) continue;
    config.ropes.push_back(rope);
    config.ropes.back().theta = thetas[i];
  }
  if (experts) return add_experts(fields, config);
  fields.ask(kSharedSize);
  add_to_layers(config, read_mlp(fields));
}

// Converters leave gate and up of the shared expert together, by the name of the latter.
Status name_pairs(load::StoredTensors& tensors, Owned& /*owned*/) {
  constexpr std::string_view kUp = ".ffn_up_shexp.weight";
  std::vector<std::string> layers;
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(kUp)) continue;
    const std::string layer = name.substr(0, name.size() - kUp.size());
    if (!tensors.contains(layer + ".ffn_gate_shexp.weight")) layers.push_back(layer);
  }
  for (const std::string& layer : layers) {
    auto node = tensors.extract(layer + std::string(kUp));
    node.key() = layer + ".ffn_gate_up_shexp.weight";
    tensors.insert(std::move(node));
  }
  return {};
}

constexpr Rename kGraniteNames[] = {
    {"model.layers.*.self_attn.sinks", "blk.*.attn_sinks.weight"},
    {"model.layers.*.block_sparse_moe.router", "blk.*.ffn_gate_inp"},
    {"model.layers.*.block_sparse_moe.experts.gate_up_proj", "blk.*.ffn_gate_up_exps.weight"},
    {"model.layers.*.block_sparse_moe.experts.down_proj", "blk.*.ffn_down_exps.weight"},
    {"model.layers.*.block_sparse_moe.router.layer", "blk.*.ffn_gate_inp"},
    {"model.layers.*.block_sparse_moe.input_linear", "blk.*.ffn_gate_up_exps"},
    {"model.layers.*.block_sparse_moe.output_linear", "blk.*.ffn_down_exps"},
    {"model.layers.*.shared_mlp.input_linear", "blk.*.ffn_gate_up_shexp"},
    {"model.layers.*.shared_mlp.output_linear", "blk.*.ffn_down_shexp"},
    {"model.layers.*.mamba.in_proj", "blk.*.ssm_in"},
    {"model.layers.*.mamba.conv1d", "blk.*.ssm_conv1d"},
    {"model.layers.*.mamba.dt_bias", "blk.*.ssm_dt.bias"},
    {"model.layers.*.mamba.A_log", "blk.*.ssm_a_log"},
    {"model.layers.*.mamba.D", "blk.*.ssm_d"},
    {"model.layers.*.mamba.norm", "blk.*.ssm_norm"},
    {"model.layers.*.mamba.out_proj", "blk.*.ssm_out"},
};

// Where there are no experts, what they share are the layers' own.
Status take_shared(load::StoredTensors& tensors, Owned& owned) {
  if (auto status = flatten_mamba(tensors, owned); !status) return status;
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
constinit const Reader kGraniteMoe = {read_granite_moe, kGraniteNames};
constinit const Reader kGraniteSwa = {read_granite_swa, kGraniteNames, {}, {}, name_pairs};
constinit const Reader kGraniteHybrid = {read_granite_hybrid, kGraniteNames, {}, {}, take_shared};

}  // namespace dovetail::families
