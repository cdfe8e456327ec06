// Cohere's Command R and Aya: attention and feed-forward side by side behind one norm, pairs of
// neighbours turn, logits are scaled. In Command R7B and Command A three of four layers slide, and
// the others have no positions.

#include <fmt/core.h>

#include <algorithm>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

NormConfig read_cohere_norm(Fields& fields) {
  NormConfig norm;
  norm.kind = load::NormKind::kLayer;
  norm.epsilon =
      fields.number({"attention.layer_norm_epsilon", "layer_norm_eps"}, 0.0F, 1.0F).value_or(1e-5F);
  return norm;
}

// What both have in common; the layers but for their windows.
LayerConfig read_cohere_layer(Fields& fields, ModelConfig& config, AttentionConfig& attention) {
  const NormConfig norm = read_cohere_norm(fields);
  config.output_norm = norm;
  config.logit_scale =
      fields.number({"logit_scale", "logit_scale"}, 1e-9F, load::kLargestFactor).value_or(0.0625F);
  attention = read_heads(fields, config);
  LayerConfig layer;
  layer.parallel = true;
  layer.mixer_norms.before = norm;
  layer.mlp = read_mlp(fields);
  return layer;
}

RopeRules rope_rules(const AttentionConfig& attention, float theta) {
  return {.head_dim = attention.head_dim,
          .theta = theta,
          .interleaved_in_gguf = true,
          .interleaved_in_hf = true};
}

void read_cohere(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config, true);
  // What the model was trained on, while max_position_embeddings is what its first server took.
  const auto longest = fields.count({"", "model_max_length"}, 1, load::kLargestContext);
  config.max_context = std::max(config.max_context, longest.value_or(0));
  must_be(fields, "use_qk_norm", false);
  AttentionConfig attention;
  LayerConfig layer = read_cohere_layer(fields, config, attention);
  config.ropes = {read_rope(fields, rope_rules(attention, 500000.0F), config)};
  layer.mixer = attention;
  config.layers.assign(layers, layer);
}

void read_cohere2(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config, true);
  constexpr Key kPart = {"", "rotary_pct"};
  const auto part = fields.number(kPart, 0.0F, 1.0F);
  if (part && *part != 1.0F) fields.reject(kPart, fmt::format("{}", *part), "1");
  AttentionConfig attention;
  LayerConfig layer = read_cohere_layer(fields, config, attention);
  config.ropes = {read_rope(fields, rope_rules(attention, 10000.0F), config)};
  const std::uint32_t window = read_window(fields).value_or(4096);
  for (const bool slides : read_sliding_layers(fields, layers, 4)) {
    attention.window = slides ? window : 0;
    attention.rope = slides ? 0 : -1;
    layer.mixer = attention;
    config.layers.push_back(layer);
  }
}

}  // namespace

constinit const Reader kCohere = {read_cohere};
constinit const Reader kCohere2 = {read_cohere2};

}  // namespace dovetail::families
