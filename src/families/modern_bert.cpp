// ModernBERT (https://arxiv.org/abs/2412.13663): windows in two of three layers, another base of
// the rotation there, norms before both halves of a layer but the first, GeGLU.

#include <string>

#include "families/encoder.h"
#include "families/families.h"
#include "families/ranker.h"
#include "families/rope.h"
#include "families/windows.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

void read_modern_bert(Fields& fields, ModelConfig& config) {
  fields.spell("sliding_window", "local_attention");
  fields.spell("sliding_window_pattern", "global_attn_every_n_layers");
  const std::uint32_t layers = read_encoder_sizes(fields, config);
  config.pooling = load::Pooling::kFirst;
  NormConfig norm = read_layer_norm(fields, "norm_eps", 1e-5F);
  norm.bias = fields.gguf() ? fields.has_tensor("token_embd_norm.bias")
                            : fields.flag({"", "norm_bias"}).value_or(false);
  config.embedding_norm = config.output_norm = norm;

  AttentionConfig attention = read_encoder_heads(fields, config);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_qkv.bias")
                                 : fields.flag({"", "attention_bias"}).value_or(false);
  attention.output_bias = attention.bias;
  config.ropes = {read_rope(fields,
                            {.head_dim = attention.head_dim,
                             .theta = 160000.0F,
                             .base = {"rope.freq_base", "global_rope_theta"},
                             .layer_type = "full_attention"},
                            config),
                  read_rope(fields,
                            {.head_dim = attention.head_dim,
                             .base = {"rope.freq_base_swa", "local_rope_theta"},
                             .layer_type = "sliding_attention",
                             .scaled = false},
                            config)};
  MlpConfig mlp = read_mlp(fields);
  mlp.bias = fields.gguf() ? fields.has_tensor("blk.0.ffn_up.bias")
                           : fields.flag({"", "mlp_bias"}).value_or(false);
  mlp.activation = read_activation(fields, {"hidden_activation", "hidden_activation"}, "gelu");

  const std::uint32_t window = window_of_both_sides(read_window(fields).value_or(128));
  const std::vector<bool> slides = read_sliding_layers(fields, layers, 3, FullLayer::kFirst);
  for (std::uint32_t i = 0; i < layers; ++i) {
    attention.window = slides[i] ? window : 0;
    attention.rope = slides[i] ? 1 : 0;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
  // The norm of the embeddings stands for it.
  if (!config.layers.empty()) config.layers.front().mixer_norms.before = {};
}

// The head norms what its first product gives.
void read_modern_bert_ranker(Fields& fields, ModelConfig& config) {
  read_modern_bert(fields, config);
  config.score = read_score(fields);
  add_rank_head(config, load::HeadFunction::kGelu);
  load::HeadConfig& first = config.head.front();
  first.bias = fields.flag({"", "classifier_bias"}).value_or(false);
  first.norm = config.output_norm;
  constexpr Key kFunction = {"", "classifier_activation"};
  if (const auto name = fields.text(kFunction); name && *name != "gelu")
    fields.reject(kFunction, load::quote(*name), "'gelu'");
  constexpr Key kPooling = {"", "classifier_pooling"};
  const std::string pooling = fields.text(kPooling).value_or("cls");
  if (pooling == "mean") config.pooling = load::Pooling::kMean;
  if (pooling != "mean" && pooling != "cls")
    fields.reject(kPooling, load::quote(pooling), "'cls', 'mean'");
}

constexpr Rename kModernBertNames[] = {
    {"model.embeddings.tok_embeddings", "token_embd"},
    {"model.embeddings.norm", "token_embd_norm"},
    {"model.layers.*.attn_norm", "blk.*.attn_norm"},
    {"model.layers.*.attn.Wqkv", "blk.*.attn_qkv"},
    {"model.layers.*.attn.Wo", "blk.*.attn_output"},
    {"model.layers.*.mlp_norm", "blk.*.ffn_norm"},
    {"model.layers.*.mlp.Wi", "blk.*.ffn_up"},
    {"model.layers.*.mlp.Wo", "blk.*.ffn_down"},
    {"model.final_norm", "output_norm"},
    {"head.dense", "cls"},
    {"head.norm", "cls.norm"},
    {"classifier", "cls.output"},
};

}  // namespace

constinit const Reader kModernBert = {read_modern_bert, kModernBertNames};
constinit const Reader kModernBertRanker = {read_modern_bert_ranker, kModernBertNames};

}  // namespace dovetail::families
