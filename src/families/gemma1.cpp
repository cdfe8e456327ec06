// Gemma 1 and CodeGemma (https://arxiv.org/abs/2403.08295): Llama with GeGLU, embeddings multiplied
// by the root of their size, and norms whose weights are stored less by one.

#include "families/families.h"
#include "families/gemma.h"
#include "families/rope.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

// The first files say "gelu" of what the models were trained with: its form with a tanh.
MlpConfig read_gelu_mlp(Fields& fields) {
  constexpr Key kActivation = {"", "hidden_act"};
  const auto name = fields.text(kActivation);
  MlpConfig mlp = read_gemma_mlp(fields);
  if (name && *name != "gelu" && *name != "gelu_pytorch_tanh")
    fields.reject(kActivation, load::quote(*name), "'gelu', 'gelu_pytorch_tanh'");
  return mlp;
}

void read_gemma(Fields& fields, ModelConfig& config) {
  fields.suppose("num_key_value_heads", 16);
  const std::uint32_t layers = read_sizes(fields, config, true);
  const NormConfig norm = read_gemma_norm(fields);
  config.output_norm = norm;
  config.embedding_scale = gemma_embedding_scale(fields, config);
  must_be(fields, "use_bidirectional_attention", false);
  const AttentionConfig attention = read_heads(fields, config, 256);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  config.layers.assign(layers, plain_layer(norm, attention, read_gelu_mlp(fields)));
}

}  // namespace

constinit const Reader kGemma = {read_gemma};

}  // namespace dovetail::families
