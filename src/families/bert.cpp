// BERT as embedders have it (MiniLM, bge, gte, e5): both directions, learned positions, a norm
// after each sum.

#include <fmt/core.h>

#include "families/common.h"
#include "families/families.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

load::Activation read_activation(Fields& fields) {
  constexpr Key kActivation = {"", "hidden_act"};
  const std::string name = fields.text(kActivation).value_or("gelu");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return load::Activation::kGeluTanh;
  if (name != "gelu") {
    fields.reject(kActivation, load::quote(name), "'gelu', 'gelu_new', 'gelu_pytorch_tanh'");
  }
  return load::Activation::kGelu;
}

void read_bert(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  config.has_logits = false;
  config.tied_embeddings = false;
  config.learned_positions = config.token_types = true;
  config.pooling = load::Pooling::kMean;
  constexpr Key kPositions = {"", "position_embedding_type"};
  const std::string positions = fields.text(kPositions).value_or("absolute");
  if (positions != "absolute") fields.reject(kPositions, load::quote(positions), "'absolute'");
  fields.ask({"attention.causal", ""});

  NormConfig norm;
  norm.kind = load::NormKind::kLayer;
  norm.bias = true;
  norm.epsilon = fields.number({"attention.layer_norm_epsilon", "layer_norm_eps"}, 0.0F, 1.0F)
                     .value_or(1e-12F);
  config.embedding_norm = norm;

  AttentionConfig attention = read_heads(fields, config);
  attention.causal = false;
  attention.rope = -1;
  attention.bias = attention.output_bias = true;
  MlpConfig mlp = read_mlp(fields);
  mlp.gated = false;
  mlp.bias = true;
  mlp.activation = read_activation(fields);
  LayerConfig layer;
  layer.mixer = attention;
  layer.mixer_norms.after = norm;
  layer.mlp = mlp;
  layer.mlp_norms.after = norm;
  config.layers.assign(layers, layer);
}

constexpr Rename kBertNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"encoder.layer.*.attention.self.query", "blk.*.attn_q"},
    {"encoder.layer.*.attention.self.key", "blk.*.attn_k"},
    {"encoder.layer.*.attention.self.value", "blk.*.attn_v"},
    {"encoder.layer.*.attention.output.dense", "blk.*.attn_output"},
    {"encoder.layer.*.attention.output.LayerNorm", "blk.*.attn_output_norm"},
    {"encoder.layer.*.intermediate.dense", "blk.*.ffn_up"},
    {"encoder.layer.*.output.dense", "blk.*.ffn_down"},
    {"encoder.layer.*.output.LayerNorm", "blk.*.layer_output_norm"},
};

// What a classifier would take, and the numbers of the positions.
constexpr std::string_view kBertSpare[] = {"pooler.", "embeddings.position_ids"};

}  // namespace

constinit const Reader kBert = {read_bert, kBertNames, {}, kBertSpare};

}  // namespace dovetail::families
