// Nomic's BERT, of nomic-embed-text v1 and v1.5 (https://arxiv.org/abs/2402.01613): rotated queries
// and keys, a gated feed-forward, no biases but of norms.

#include <fmt/core.h>

#include <algorithm>

#include "families/encoder.h"
#include "families/families.h"
#include "families/rope.h"
#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

// The makers' own config.json has GPT-2's names; transformers writes its usual ones.
void spell_as_gpt2(Fields& fields) {
  for (const auto& [usual, here] :
       {std::pair{"num_hidden_layers", "n_layer"},
        std::pair{"max_position_embeddings", "n_positions"}, std::pair{"hidden_size", "n_embd"},
        std::pair{"num_attention_heads", "n_head"}, std::pair{"intermediate_size", "n_inner"},
        std::pair{"layer_norm_eps", "layer_norm_epsilon"},
        std::pair{"rope_theta", "rotary_emb_base"},
        std::pair{"partial_rotary_factor", "rotary_emb_fraction"}})
    fields.spell(usual, here);
}

void refuse_flag(Fields& fields, std::string_view field) {
  if (fields.flag({"", field}).value_or(false)) fields.reject({"", field}, "true", "false");
}

// What only the makers' own configuration says. Whether attention, and the feed-forward, have
// biases.
void read_makers(Fields& fields, ModelConfig& config, AttentionConfig& attention, MlpConfig& mlp) {
  for (const char* field : {"causal", "prenorm", "use_rms_norm", "parallel_block"})
    refuse_flag(fields, field);
  constexpr Key kExperts = {"", "moe_every_n_layers"};
  if (const auto every = fields.count(kExperts, 0, load::kMostLayers); every.value_or(0) != 0) {
    fields.reject(kExperts, fmt::format("{}", *every),
                  "0: layers of experts (nomic-embed-text-v2-moe) are not supported");
  }
  constexpr Key kActivation = {"", "activation_function"};
  const std::string activation = fields.text(kActivation).value_or("swiglu");
  if (activation != "swiglu") fields.reject(kActivation, load::quote(activation), "'swiglu'");
  if (fields.has({"", "rotary_emb_scale_base"})) {
    fields.reject({"", "rotary_emb_scale_base"},
                  load::text_of(*fields.member("rotary_emb_scale_base")), "null");
  }
  attention.bias = attention.output_bias = fields.flag({"", "qkv_proj_bias"}).value_or(true);
  mlp.bias = fields.flag({"", "mlp_fc1_bias"}).value_or(true);
  constexpr Key kSecond = {"", "mlp_fc2_bias"};
  const bool second = fields.flag(kSecond).value_or(true);
  if (second != mlp.bias) {
    fields.reject(kSecond, fmt::format("{}", second), fmt::format("{}, as mlp_fc1_bias", mlp.bias));
  }
  // Longer texts are for another rotation (rotary_scaling_factor) than that of the training.
  config.max_context = std::min(
      config.max_context,
      fields.count({"", "max_trained_positions"}, 1, load::kLargestContext).value_or(2048));
}

void read_nomic_bert(Fields& fields, ModelConfig& config) {
  const bool makers = fields.has({"", "n_embd"});
  if (makers) spell_as_gpt2(fields);
  const std::uint32_t layers = read_encoder_sizes(fields, config);
  const NormConfig norm = read_layer_norm(fields, "layer_norm_eps", 1e-12F);
  config.embedding_norm = norm;
  config.token_types = fields.gguf()
                           ? fields.has_tensor("token_types.weight")
                           : fields.count({"", "type_vocab_size"}, 0, 1U << 16U).value_or(2) != 0;
  AttentionConfig attention = read_encoder_heads(fields, config);
  attention.rope = 0;
  MlpConfig mlp = read_mlp(fields);
  if (makers) {
    read_makers(fields, config, attention, mlp);
  } else if (!fields.gguf()) {
    mlp.activation = read_activation(fields, {"", "hidden_act"}, "silu");
  }
  config.ropes = {
      read_rope(fields,
                {.head_dim = attention.head_dim,
                 .theta = 1000.0F,
                 .interleaved_in_hf = fields.flag({"", "rotary_emb_interleaved"}).value_or(false),
                 .may_be_partial = true},
                config)};
  config.layers.assign(layers, post_norm_layer(norm, attention, mlp));
}

constexpr Rename kNomicBertNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"emb_ln", "token_embd_norm"},
    {"encoder.layers.*.attn.Wqkv", "blk.*.attn_qkv"},
    {"encoder.layers.*.attn.out_proj", "blk.*.attn_output"},
    {"encoder.layers.*.norm1", "blk.*.attn_output_norm"},
    {"encoder.layers.*.mlp.fc11", "blk.*.ffn_up"},
    {"encoder.layers.*.mlp.fc12", "blk.*.ffn_gate"},
    {"encoder.layers.*.mlp.fc2", "blk.*.ffn_down"},
    {"encoder.layers.*.norm2", "blk.*.layer_output_norm"},
    // As transformers calls them, where it differs from its decoders.
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"layers.*.post_attention_layernorm", "blk.*.attn_output_norm"},
    {"layers.*.post_mlp_layernorm", "blk.*.layer_output_norm"},
};

constexpr std::string_view kNomicBertSpare[] = {"pooler."};

}  // namespace

constinit const Reader kNomicBert = {read_nomic_bert, kNomicBertNames, {}, kNomicBertSpare};

}  // namespace dovetail::families
