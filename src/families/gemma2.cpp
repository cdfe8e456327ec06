// Gemma 2 (https://arxiv.org/abs/2408.00118): every other layer slides, attention and logits are
// capped, norms before and behind both halves of a layer.

#include "families/families.h"
#include "families/gemma.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

// A cap, which config.json switches off by a null.
float read_cap(Fields& fields, Key key, float usual) {
  if (!fields.gguf() && fields.is_null(key)) return 0.0F;
  return fields.number(key, 0.0F, load::kLargestFactor).value_or(usual);
}

void read_gemma2(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config, true);
  const NormConfig norm = read_gemma_norm(fields);
  config.output_norm = norm;
  config.embedding_scale = gemma_embedding_scale(fields, config);
  config.logit_softcap =
      read_cap(fields, {"final_logit_softcapping", "final_logit_softcapping"}, 30.0F);
  AttentionConfig attention = read_heads(fields, config, 256);
  attention.scale = read_gemma_scale(fields, config, attention, layers, 46);
  attention.softcap = read_cap(fields, {"attn_logit_softcapping", "attn_logit_softcapping"}, 50.0F);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  const std::uint32_t window = read_window(fields).value_or(4096);
  const std::vector<bool> slides = read_sliding_layers(fields, layers, 2);
  const MlpConfig mlp = read_gemma_mlp(fields);
  for (const bool slide : slides) {
    attention.window = slide ? window : 0;
    config.layers.push_back(sandwich_layer(norm, attention, mlp));
  }
}

}  // namespace

constinit const Reader kGemma2 = {read_gemma2, kGemmaHfNames};

}  // namespace dovetail::families
