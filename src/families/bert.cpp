// BERT as embedders and rankers have it (MiniLM, bge, gte, e5), and XLM-RoBERTa, whose positions
// begin behind the padding's (bge-m3, multilingual e5, bge-reranker-v2-m3): both directions,
// learned positions, a norm after each sum.

#include <fmt/core.h>

#include "families/encoder.h"
#include "families/families.h"
#include "families/ranker.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

void read_bert(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_encoder_sizes(fields, config);
  config.learned_positions = config.token_types = true;
  constexpr Key kPositions = {"", "position_embedding_type"};
  const std::string positions = fields.text(kPositions).value_or("absolute");
  if (positions != "absolute") fields.reject(kPositions, load::quote(positions), "'absolute'");

  const NormConfig norm = read_layer_norm(fields, "layer_norm_eps", 1e-12F);
  config.embedding_norm = norm;
  AttentionConfig attention = read_encoder_heads(fields, config);
  attention.bias = attention.output_bias = true;
  MlpConfig mlp = read_mlp(fields);
  mlp.gated = false;
  mlp.bias = true;
  mlp.activation = read_activation(fields, {"", "hidden_act"}, "gelu");
  config.layers.assign(layers, post_norm_layer(norm, attention, mlp));
  if (fields.gguf()) read_rank_head_of_gguf(fields, config);
}

void read_bert_ranker(Fields& fields, ModelConfig& config) {
  read_bert(fields, config);
  config.score = read_score(fields);
  config.pooling = load::Pooling::kFirst;
  add_rank_head(config, load::HeadFunction::kTanh);
}

// A token's position counts from behind the padding's id on. A converter leaves those rows out, and
// a GGUF file is one of BERT.
void read_xlm_roberta(Fields& fields, ModelConfig& config) {
  read_bert(fields, config);
  config.position_offset =
      fields.count({"", "pad_token_id"}, 0, load::kLargestVocabulary).value_or(1) + 1;
  if (config.position_offset >= config.max_context) {
    fields.reject({"", "max_position_embeddings"}, fmt::format("{}", config.max_context),
                  fmt::format("more than the {} rows before position 0", config.position_offset),
                  ErrorKind::kInvalid);
    return;
  }
  config.max_context -= config.position_offset;
}

void read_xlm_roberta_ranker(Fields& fields, ModelConfig& config) {
  read_xlm_roberta(fields, config);
  config.score = read_score(fields);
  config.pooling = load::Pooling::kFirst;
  add_rank_head(config, load::HeadFunction::kTanh);
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
    // The heads of the two.
    {"pooler.dense", "cls"},
    {"classifier", "cls.output"},
    {"classifier.dense", "cls"},
    {"classifier.out_proj", "cls.output"},
};

// What a classifier would take, and the numbers of the positions.
constexpr std::string_view kBertSpare[] = {"pooler.", "embeddings.position_ids"};
constexpr std::string_view kRankerSpare[] = {"embeddings.position_ids"};

constexpr std::string_view kBertBase = "bert.";
constexpr std::string_view kRobertaBase = "roberta.";

}  // namespace

constinit const Reader kBert = {
    .read = read_bert, .hf_names = kBertNames, .spare = kBertSpare, .base = kBertBase};
constinit const Reader kBertRanker = {
    .read = read_bert_ranker, .hf_names = kBertNames, .spare = kRankerSpare, .base = kBertBase};
constinit const Reader kXlmRoberta = {
    .read = read_xlm_roberta, .hf_names = kBertNames, .spare = kBertSpare, .base = kRobertaBase};
// Its head has a product of its own in place of the pooler's.
constinit const Reader kXlmRobertaRanker = {.read = read_xlm_roberta_ranker,
                                            .hf_names = kBertNames,
                                            .spare = kBertSpare,
                                            .base = kRobertaBase};

}  // namespace dovetail::families
