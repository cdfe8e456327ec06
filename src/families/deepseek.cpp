// DeepSeek-V2 to V3.2 and R1, and what has their layers: Kimi K2, GLM-4.7-Flash, GLM-5, Mistral 4.
// Latent attention, in V3.2 and GLM-5 over positions that an indexer picks, and experts in groups
// behind a few dense layers.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "families/common.h"
#include "families/families.h"
#include "families/grouped_experts.h"
#include "families/latent.h"
#include "families/rope.h"
#include "kernels/functions.h"
#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

using load::LatentConfig;

// What YaRN multiplies the scale of attention with is the square of this: mscale_all_dim, which
// GGUF files have a tenth of.
float scale_magnitude(Fields& fields, RopeConfig& rope) {
  if (rope.scaling != load::RopeScaling::kYarn) return 1.0F;
  float all_dims = 0.0F;
  if (fields.gguf()) {
    constexpr Key kTenth = {"rope.scaling.yarn_log_multiplier", ""};
    all_dims = 10.0F * fields.number(kTenth, 0.0F, load::kLargestFactor).value_or(0.0F);
    rope.attention_factor = 1.0F;
  } else {
    const char* name = fields.has({"", "rope_parameters"}) ? "rope_parameters" : "rope_scaling";
    if (const nlohmann::json* member = fields.member(name)) {
      load::JsonFields inner(*member, fields.file(), fmt::format("{}.", name));
      all_dims = inner.optional_float("mscale_all_dim", 0.0F, load::kLargestFactor).value_or(0.0F);
      fields.take_failure(inner.status());
    }
  }
  if (rope.factor <= 1.0F) return 1.0F;
  return 0.1F * all_dims * static_cast<float>(kernels::log(rope.factor)) + 1.0F;
}

bool is_glm5(const Fields& fields) {
  return fields.family() == "glm-dsa" || fields.family() == "glm_moe_dsa";
}

// In GLM-5.2 some layers attend to what the indexer of one before has picked.
void refuse_shared_picks(Fields& fields, std::uint32_t layers, std::uint32_t context) {
  constexpr Key kTypes = {"attention.indexer.types", "indexer_types"};
  constexpr std::string_view kValid = "an indexer in every layer";
  if (fields.gguf()) {
    // As llama.cpp has it, files of GLM-5.2 may leave the types out.
    constexpr std::uint32_t kContextOf52 = 1U << 20U;
    const std::vector<bool> full = fields.flags(kTypes, layers);
    if (full.empty() && context >= kContextOf52) fields.reject(kTypes, "missing", kValid);
    if (std::find(full.begin(), full.end(), false) != full.end())
      fields.reject(kTypes, "false in some layers", kValid);
    return;
  }
  const auto all = [&](std::string_view field, std::string_view full) {
    const nlohmann::json* types = fields.member(field);
    if (types == nullptr) return;
    const bool shared =
        !types->is_array() || std::any_of(types->begin(), types->end(),
                                          [&](const nlohmann::json& type) { return type != full; });
    const bool letters =
        types->is_string() &&
        types->get_ref<const std::string&>().find_first_not_of('F') == std::string::npos;
    if (shared && !letters) fields.reject({"", field}, load::text_of(*types), kValid);
  };
  all("indexer_types", "full");
  // What the types follow from where they are not given.
  if (fields.has({"", "indexer_types"})) return;
  all("index_topk_pattern", "full");
  constexpr Key kEvery = {"", "index_topk_freq"};
  const auto every = fields.count(kEvery, 0, load::kMostLayers);
  if (every.value_or(1) > 1 && !fields.has({"", "index_topk_pattern"}))
    fields.reject(kEvery, fmt::format("{}", *every), "1, for an indexer in every layer");
}

void read_indexer(Fields& fields, LatentConfig& latent) {
  latent.index_heads =
      fields.required_count({"attention.indexer.head_count", "index_n_heads"}, 1, load::kMostHeads);
  latent.index_dim = fields.required_count({"attention.indexer.key_length", "index_head_dim"}, 2,
                                           load::kLargestLatent);
  latent.index_top =
      fields.required_count({"attention.indexer.top_k", "index_topk"}, 1, load::kLargestContext);
  latent.index_norm = {.kind = load::NormKind::kLayer, .epsilon = 1e-6F, .bias = true};
}

LatentConfig read_latent(Fields& fields, const NormConfig& norm, ModelConfig& config) {
  LatentConfig out = read_latent_sizes(fields, norm);
  if (fields.family() == "deepseek32" || fields.family() == "deepseek_v32" || is_glm5(fields))
    read_indexer(fields, out);
  if (is_glm5(fields)) {
    out.index_neighbours = true;
    must_be(fields, "rope_interleave", true);
    must_be(fields, "indexer_rope_interleave", true);
  }
  const bool pairs = fields.flag({"", "rope_interleave"}).value_or(true);
  RopeRules rules = {
      .head_dim = out.rope_dim, .interleaved_in_gguf = true, .interleaved_in_hf = pairs};
  // Of the whole head, where transformers writes it.
  if (fields.family() == "mistral4")
    rules.whole = static_cast<float>(out.rope_dim) / static_cast<float>(out.head_dim());
  config.ropes = {read_rope(fields, rules, config)};
  const float magnitude = scale_magnitude(fields, config.ropes.front());
  out.scale = magnitude * magnitude / std::sqrt(static_cast<float>(out.head_dim()));
  const Temperature temperature = read_temperature(fields, config.ropes.front());
  out.temperature = temperature.scale;
  out.temperature_context = temperature.context;
  return out;
}

void read_deepseek(Fields& fields, ModelConfig& config) {
  std::uint32_t layers = read_sizes(fields, config, fields.family() == "youtu");
  drop_draft_layers(fields, layers, config);
  const bool glm5 = is_glm5(fields);
  if (glm5) refuse_shared_picks(fields, layers, config.max_context);
  const NormConfig norm = read_rms_norm(fields, glm5 ? 1e-5F : 1e-6F);
  config.output_norm = norm;
  LayerConfig layer;
  layer.mixer_norms.before = layer.mlp_norms.before = norm;
  layer.mixer = read_latent(fields, norm, config);
  read_grouped_layers(fields, layer, layers, config);
  // Its layer that drafts is not known from any code to hold it to.
  if (glm5) config.draft_layer.reset();
}

constexpr Rename kDeepseekHfNames[] = {
    {"model.layers.*.self_attn.indexer.wq_b", "blk.*.indexer.attn_q_b"},
    {"model.layers.*.self_attn.indexer.wk", "blk.*.indexer.attn_k"},
    {"model.layers.*.self_attn.indexer.k_norm", "blk.*.indexer.k_norm"},
    {"model.layers.*.self_attn.indexer.weights_proj", "blk.*.indexer.proj"},
};

}  // namespace

constinit const Reader kDeepseek = {read_deepseek, kDeepseekHfNames};

}  // namespace dovetail::families
