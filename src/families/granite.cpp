// Granite 3 and 4 without experts: Llama with scales of embeddings, attention, residuals and
// logits.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

float read_scale(Fields& fields, Key key, float usual) {
  return fields.number(key, 1e-9F, load::kLargestFactor).value_or(usual);
}

void read_granite(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  config.embedding_scale = read_scale(fields, {"embedding_scale", "embedding_multiplier"}, 1.0F);
  config.logit_scale = 1.0F / read_scale(fields, {"logit_scale", "logits_scaling"}, 1.0F);
  AttentionConfig attention = read_heads(fields, config);
  // llama.cpp takes what is usual elsewhere for a file that gives none, transformers 1.
  attention.scale = read_scale(fields, {"attention.scale", "attention_multiplier"},
                               fields.gguf() ? attention.scale : 1.0F);
  constexpr Key kTurns = {"rope.scaling.finetuned", ""};
  if (!fields.flag(kTurns).value_or(true)) fields.reject(kTurns, "false", "true");
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .interleaved_in_gguf = true}, config)};
  LayerConfig layer = plain_layer(norm, attention, read_mlp(fields));
  const float residual = read_scale(fields, {"residual_scale", "residual_multiplier"}, 1.0F);
  layer.mixer_norms.scale = residual;
  layer.mlp_norms.scale = residual;
  config.layers.assign(layers, layer);
}

}  // namespace

constinit const Reader kGranite = {read_granite};

}  // namespace dovetail::families
