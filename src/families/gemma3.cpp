// Gemma 3 (https://arxiv.org/abs/2503.19786), text only: five of six layers slide and have a base
// of rotary embedding of their own; norms of heads, and before and behind both halves of a layer.

#include "families/families.h"
#include "families/gemma.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

void read_gemma3(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config, true);
  const NormConfig norm = read_gemma_norm(fields);
  config.output_norm = norm;
  config.embedding_scale = gemma_embedding_scale(fields, config);
  config.logit_softcap = fields
                             .number({"final_logit_softcapping", "final_logit_softcapping"}, 0.0F,
                                     load::kLargestFactor)
                             .value_or(0.0F);
  AttentionConfig attention = read_heads(fields, config, 256);
  attention.scale = read_gemma_scale(fields, config, attention, layers, 62);
  attention.softcap =
      fields
          .number({"attn_logit_softcapping", "attn_logit_softcapping"}, 0.0F, load::kLargestFactor)
          .value_or(0.0F);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  constexpr Key kBothWays = {"", "use_bidirectional_attention"};
  if (fields.flag(kBothWays).value_or(false)) fields.reject(kBothWays, "true", "false");
  config.ropes = {
      read_rope(fields,
                {.head_dim = attention.head_dim, .theta = 1e6F, .layer_type = "full_attention"},
                config),
      read_rope(fields,
                {.head_dim = attention.head_dim,
                 .base = {"rope.freq_base_swa", "rope_local_base_freq"},
                 .layer_type = "sliding_attention",
                 .scaled = false},
                config)};
  // A GGUF file without a window has none; its layers take the global base then.
  const auto given = read_window(fields);
  const std::uint32_t window = given.value_or(fields.gguf() ? 0 : 4096);
  const std::vector<bool> slides = read_sliding_layers(fields, layers, window == 0 ? 0 : 6);
  const MlpConfig mlp = read_gemma_mlp(fields);
  for (const bool slide : slides) {
    attention.window = slide ? window : 0;
    attention.rope = slide ? 1 : 0;
    config.layers.push_back(sandwich_layer(norm, attention, mlp));
  }
}

}  // namespace

constinit const Reader kGemma3 = {read_gemma3, kGemmaHfNames};

}  // namespace dovetail::families
