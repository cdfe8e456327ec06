// MiniCPM 1, 2, 4 (https://arxiv.org/abs/2506.07900): Llama with scales of embeddings, residuals
// and logits, which GGUF files call as Granite's do.

#include <cmath>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

float read_factor(Fields& fields, Key key, float usual) {
  return fields.number(key, 1e-9F, load::kLargestFactor).value_or(usual);
}

void read_minicpm(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config, true);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  const AttentionConfig attention = read_heads(fields, config);
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .interleaved_in_gguf = true}, config)};
  LayerConfig layer = plain_layer(norm, attention, read_mlp(fields));
  float residual = 1.0F;
  if (fields.gguf()) {
    // Of the first files, which say nothing of them, as llama.cpp has them.
    config.embedding_scale = read_factor(fields, {"embedding_scale", ""}, 12.0F);
    const float usual = 1.4F / std::sqrt(static_cast<float>(layers));
    residual = read_factor(fields, {"residual_scale", ""}, usual);
    const float width = static_cast<float>(config.hidden_size) / 256.0F;
    config.logit_scale = 1.0F / read_factor(fields, {"logit_scale", ""}, width);
  } else {
    config.embedding_scale = read_factor(fields, {"", "scale_emb"}, 1.0F);
    residual =
        read_factor(fields, {"", "scale_depth"}, 1.0F) / std::sqrt(static_cast<float>(layers));
    config.logit_scale =
        read_factor(fields, {"", "dim_model_base"}, 1.0F) / static_cast<float>(config.hidden_size);
  }
  layer.mixer_norms.scale = layer.mlp_norms.scale = residual;
  config.layers.assign(layers, layer);
}

}  // namespace

constinit const Reader kMinicpm = {read_minicpm};

}  // namespace dovetail::families
