// Kimi Linear (https://arxiv.org/abs/2510.26692): Kimi Delta Attention in three layers of four,
// latent attention without positions in the others, and experts as DeepSeek-V3 has them.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "families/common.h"
#include "families/families.h"
#include "families/grouped_experts.h"
#include "families/latent.h"
#include "load/json_fields.h"

namespace dovetail::families {
namespace {

using load::KimiDeltaConfig;
using nlohmann::json;

constexpr Rename kKimiLinearNames[] = {
    {"model.layers.*.self_attn.q_conv1d", "blk.*.ssm_conv1d_q"},
    {"model.layers.*.self_attn.k_conv1d", "blk.*.ssm_conv1d_k"},
    {"model.layers.*.self_attn.v_conv1d", "blk.*.ssm_conv1d_v"},
    {"model.layers.*.self_attn.f_a_proj", "blk.*.ssm_f_a"},
    {"model.layers.*.self_attn.f_b_proj", "blk.*.ssm_f_b"},
    {"model.layers.*.self_attn.g_a_proj", "blk.*.ssm_g_a"},
    {"model.layers.*.self_attn.g_b_proj", "blk.*.ssm_g_b"},
    {"model.layers.*.self_attn.b_proj", "blk.*.ssm_beta"},
    {"model.layers.*.self_attn.dt_bias", "blk.*.ssm_dt.bias"},
    {"model.layers.*.self_attn.A_log", "blk.*.ssm_a_log"},
    {"model.layers.*.self_attn.o_norm", "blk.*.ssm_norm"},
    // transformers writes dense layers so, too.
    {"model.layers.*.block_sparse_moe.gate_proj", "blk.*.ffn_gate"},
    {"model.layers.*.block_sparse_moe.up_proj", "blk.*.ffn_up"},
    {"model.layers.*.block_sparse_moe.down_proj", "blk.*.ffn_down"},
    {"model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp"},
    {"model.layers.*.block_sparse_moe.gate.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
    {"model.layers.*.block_sparse_moe.experts.*.w1", "blk.*.ffn_gate.*"},
    {"model.layers.*.block_sparse_moe.experts.*.w3", "blk.*.ffn_up.*"},
    {"model.layers.*.block_sparse_moe.experts.*.w2", "blk.*.ffn_down.*"},
    {"model.layers.*.block_sparse_moe.shared_experts.gate_proj", "blk.*.ffn_gate_shexp"},
    {"model.layers.*.block_sparse_moe.shared_experts.up_proj", "blk.*.ffn_up_shexp"},
    {"model.layers.*.block_sparse_moe.shared_experts.down_proj", "blk.*.ffn_down_shexp"},
};

// Published files spell some fields otherwise than transformers does.
void spell_fields(Fields& fields) {
  constexpr std::pair<std::string_view, std::string_view> kPublished[] = {
      {"max_position_embeddings", "model_max_length"},
      {"n_routed_experts", "num_experts"},
      {"num_experts_per_tok", "num_experts_per_token"},
      {"n_shared_experts", "num_shared_experts"},
      {"n_group", "num_expert_group"},
      {"norm_topk_prob", "moe_renormalize"},
      {"scoring_func", "moe_router_activation_func"},
  };
  for (const auto& [here, there] : kPublished)
    if (fields.has({"", there})) fields.spell(here, there);
  if (fields.has({"", "num_local_experts"})) fields.spell("n_routed_experts", "num_local_experts");
  if (!fields.gguf() && !fields.has({"", "n_routed_experts"})) {
    fields.reject({"", "num_experts"}, "missing", "the number of experts", ErrorKind::kInvalid);
  }
  must_be(fields, "mla_use_nope", true);
  // One group of experts, which all of them are in.
  fields.ask({"", "use_grouped_topk"});
}

// For each layer whether it has attention, by lists of layers that count from 1.
std::vector<bool> attending(Fields& fields, const json& lists, std::uint32_t layers) {
  std::vector<int> kinds(layers, -1);
  const auto read = [&](const char* name, int kind) {
    const auto list = lists.find(name);
    const auto bad = [&](const json& value) {
      fields.reject({"", "linear_attn_config"}, fmt::format("{}: {}", name, load::text_of(value)),
                    fmt::format("a list of numbers of the {} layers, each in one list", layers),
                    ErrorKind::kInvalid);
    };
    if (list == lists.end() || !list->is_array()) return bad(list == lists.end() ? json() : *list);
    for (const json& number : *list) {
      const bool fits = number.is_number_unsigned() && number.get<std::uint64_t>() >= 1 &&
                        number.get<std::uint64_t>() <= layers;
      if (!fits || kinds[number.get<std::size_t>() - 1] >= 0) return bad(*list);
      kinds[number.get<std::size_t>() - 1] = kind;
    }
  };
  read("full_attn_layers", 1);
  read("kda_layers", 0);
  if (std::find(kinds.begin(), kinds.end(), -1) != kinds.end()) {
    fields.reject({"", "linear_attn_config"}, "too few layers",
                  fmt::format("lists that have all {} layers", layers), ErrorKind::kInvalid);
  }
  std::vector<bool> attends(layers);
  for (std::size_t i = 0; i < layers; ++i) attends[i] = kinds[i] == 1;
  return attends;
}

struct Mixers {
  KimiDeltaConfig delta;
  std::vector<bool> attends;
};

Mixers read_mixers(Fields& fields, std::uint32_t layers, float epsilon) {
  constexpr std::uint32_t kMostDim = load::kLargestDeltaDim;
  Mixers out;
  out.delta.epsilon = epsilon;
  out.delta.log_rates = !fields.gguf();
  if (fields.gguf()) {
    out.delta.heads = fields.required_uniform({"attention.head_count", ""}, 1, load::kMostHeads);
    out.delta.head_dim = fields.required_count({"kda.head_dim", ""}, 1, kMostDim);
    out.delta.convolution =
        fields.required_count({"ssm.conv_kernel", ""}, 2, load::kMostConvolution);
    const AttendingLayers of = read_attending_layers(fields, layers);
    out.attends = of.kv_heads == 0 ? std::vector<bool>(layers, true) : of.attends;
    return out;
  }
  out.delta.heads = fields.count({"", "linear_num_heads"}, 1, load::kMostHeads).value_or(32);
  out.delta.head_dim = fields.count({"", "linear_head_dim"}, 1, kMostDim).value_or(128);
  out.delta.convolution =
      fields.count({"", "linear_conv_kernel_dim"}, 2, load::kMostConvolution).value_or(4);
  auto types =
      read_layer_types(fields, layers, "linear_attention", "linear_attention, full_attention");
  const json* lists = fields.member("linear_attn_config");
  if (lists != nullptr && !lists->is_object()) {
    fields.reject({"", "linear_attn_config"}, load::text_of(*lists), "an object",
                  ErrorKind::kInvalid);
  } else if (lists != nullptr) {
    load::JsonFields inner(*lists, fields.file(), "linear_attn_config.");
    const auto number = [&](const char* name, std::uint32_t low, std::uint32_t high,
                            std::uint32_t& to) {
      to = inner.optional_count(name, low, high).value_or(to);
    };
    number("num_heads", 1, load::kMostHeads, out.delta.heads);
    number("head_dim", 1, kMostDim, out.delta.head_dim);
    number("short_conv_kernel_size", 2, load::kMostConvolution, out.delta.convolution);
    fields.take_failure(inner.status());
  }
  if (types) {
    types->flip();
    out.attends = *std::move(types);
  } else if (lists != nullptr &&
             (lists->contains("full_attn_layers") || lists->contains("kda_layers"))) {
    out.attends = attending(fields, *lists, layers);
  } else {
    out.attends.resize(layers);
    for (std::size_t i = 4; i < layers; i += 4) out.attends[i] = true;
  }
  return out;
}

void read_kimi_linear(Fields& fields, ModelConfig& config) {
  spell_fields(fields);
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  const Mixers mixers = read_mixers(fields, layers, norm.epsilon);
  LayerConfig layer;
  layer.mixer_norms.before = layer.mlp_norms.before = norm;
  load::LatentConfig latent = read_latent_sizes(fields, norm);
  latent.rope = -1;
  latent.norm.epsilon = 1e-6F;  // of latents, whatever the format
  latent.scale = 1.0F / std::sqrt(static_cast<float>(latent.head_dim()));
  const auto first = std::find(mixers.attends.begin(), mixers.attends.end(), true);
  if (fields.gguf()) {
    latent.split =
        fields.has_tensor(fmt::format("blk.{}.attn_k_b.weight", first - mixers.attends.begin()));
  }
  layer.mixer = latent;
  read_grouped_layers(fields, layer, layers, config);
  for (std::size_t i = 0; i < config.layers.size(); ++i)
    if (!mixers.attends[i]) config.layers[i].mixer = mixers.delta;
}

// Rates of heads have other dimensions, of 1, around them.
Status flatten_rates(load::StoredTensors& tensors, Owned& /*owned*/) {
  for (auto& [name, tensor] : tensors) {
    if (!name.ends_with(".ssm_a") && !name.ends_with(".ssm_a_log")) continue;
    if (tensor.shape.size() > 1) std::erase(tensor.shape, std::uint64_t{1});
    if (tensor.shape.empty()) tensor.shape = {1};
  }
  return {};
}

}  // namespace

constinit const Reader kKimiLinear = {
    .read = read_kimi_linear, .hf_names = kKimiLinearNames, .adapt = flatten_rates};

}  // namespace dovetail::families
