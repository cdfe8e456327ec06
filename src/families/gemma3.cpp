// Gemma 3 (https://arxiv.org/abs/2503.19786), text only: five of six layers slide and have a base
// of rotary embedding of their own; norms of heads, and before and behind both halves of a layer.

#include <algorithm>
#include <string>

#include "families/encoder.h"
#include "families/families.h"
#include "families/gemma.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Key kBothWays = {"", "use_bidirectional_attention"};

void read_text(Fields& fields, ModelConfig& config, bool causal) {
  // The larger models' published files leave these out.
  fields.suppose("vocab_size", 262208);
  fields.suppose("max_position_embeddings", 131072);
  fields.suppose("num_attention_heads", 8);
  fields.suppose("num_key_value_heads", 4);
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
  std::uint32_t window = given.value_or(fields.gguf() ? 0 : 4096);
  if (!causal) window = window_of_both_sides(window);
  attention.causal = causal;
  const std::vector<bool> slides = read_sliding_layers(fields, layers, window == 0 ? 0 : 6);
  const MlpConfig mlp = read_gemma_mlp(fields);
  for (const bool slide : slides) {
    attention.window = slide ? window : 0;
    attention.rope = slide ? 1 : 0;
    config.layers.push_back(sandwich_layer(norm, attention, mlp));
  }
}

void read_gemma3(Fields& fields, ModelConfig& config) {
  if (fields.flag(kBothWays).value_or(false)) fields.reject(kBothWays, "true", "false");
  read_text(fields, config, true);
}

// EmbeddingGemma (https://arxiv.org/abs/2509.20354): the same in both directions, without logits,
// and with dense layers behind the pooled row, which a folder has beside the model.
void read_gemma_embedding(Fields& fields, ModelConfig& config) {
  fields.ask({"attention.causal", ""});
  const bool causal = !fields.gguf() && !fields.flag(kBothWays).value_or(false);
  read_text(fields, config, causal);
  config.has_logits = config.tied_embeddings = false;
  config.pooling = load::Pooling::kMean;
  for (const char* name : {"dense.0", "dense.1"}) {
    const load::StoredTensor* dense = fields.tensor(std::string(name) + ".weight");
    if (!fields.gguf() || dense == nullptr) continue;
    load::HeadConfig part;
    part.name = name;
    part.size = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(dense->shape.front(), load::kLargestHiddenSize + 1ULL));
    part.bias = fields.has_tensor(part.name + ".bias");
    config.head.push_back(part);
  }
}

constexpr Rename kGemmaEmbeddingNames[] = {{"dense_2", "dense.0"}, {"dense_3", "dense.1"}};

}  // namespace

constinit const Reader kGemma3 = {read_gemma3, kGemmaHfNames};
constinit const Reader kGemmaEmbedding = {read_gemma_embedding, kGemmaHfNames,
                                          kGemmaEmbeddingNames};

}  // namespace dovetail::families
