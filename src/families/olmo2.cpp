// OLMo 2 (https://arxiv.org/abs/2501.00656): norms behind both halves of a layer and none before,
// queries and keys normed over all heads together. OLMo 3 adds layers that slide, three of four,
// which take no part in rope scaling; its GGUF files are of the same architecture.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kOlmo2Names[] = {
    {"model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm"},
    {"model.layers.*.post_feedforward_layernorm", "blk.*.post_ffw_norm"},
};

void read_olmo2(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.query_key_norm = load::QueryKeyNorm::kRow;
  attention.norm = norm;
  const bool may_slide = fields.gguf() || fields.family() == "olmo3";
  const std::uint32_t window = may_slide ? read_window(fields, 4096).value_or(0) : 0;
  std::vector<bool> slides(layers);
  if (may_slide) slides = read_sliding_layers(fields, layers, window == 0 ? 0 : 4);
  RopeRules rules = {.head_dim = attention.head_dim, .layer_type = "full_attention"};
  if (fields.family() == "olmo3") rules.theta = 500000.0F;
  config.ropes = {read_rope(fields, rules, config)};
  if (window != 0) {
    rules.layer_type = "sliding_attention";
    rules.scaled = false;
    config.ropes.push_back(read_rope(fields, rules, config));
  }
  LayerConfig layer;
  layer.mixer_norms.behind = norm;
  layer.mlp_norms.behind = norm;
  layer.mlp = read_mlp(fields);
  for (const bool slide : slides) {
    attention.window = slide ? window : 0;
    attention.rope = slide && window != 0 ? 1 : 0;
    layer.mixer = attention;
    config.layers.push_back(layer);
  }
}

}  // namespace

constinit const Reader kOlmo2 = {read_olmo2, kOlmo2Names};

}  // namespace dovetail::families
