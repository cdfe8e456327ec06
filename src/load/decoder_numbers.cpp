#include "load/decoder_numbers.h"

#include <cmath>

namespace dovetail::load {
std::string_view family_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kMistral:
      return "mistral";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
    case Architecture::kMixtral:
      return "mixtral";
    case Architecture::kQwen3Moe:
      return "qwen3_moe";
  }
  return {};
}

ModelConfig compose(const DecoderNumbers& numbers) {
  ModelConfig config;
  config.family = family_name(numbers.architecture);
  config.vocab_size = numbers.vocab_size;
  config.hidden_size = numbers.hidden_size;
  config.max_context = numbers.max_context;
  config.tied_embeddings = numbers.tied_embeddings;
  config.ropes = {numbers.rope};
  const NormConfig norm = {NormKind::kRms, numbers.rms_norm_epsilon};
  config.output_norm = norm;

  AttentionConfig attention;
  attention.heads = numbers.heads;
  attention.kv_heads = numbers.kv_heads;
  attention.head_dim = numbers.head_dim;
  attention.window = numbers.sliding_window;
  attention.scale = 1.0F / std::sqrt(static_cast<float>(numbers.head_dim));
  attention.bias = numbers.attention_bias;
  if (numbers.qk_norm) {
    attention.query_key_norm = QueryKeyNorm::kHead;
    attention.norm = norm;
  }
  LayerConfig layer;
  layer.mixer_norms.before = norm;
  layer.mixer = attention;
  layer.mlp_norms.before = norm;
  if (numbers.experts.count > 0) {
    ExpertsConfig experts = numbers.experts;
    experts.size = numbers.intermediate_size;
    layer.mlp = experts;
  } else {
    MlpConfig mlp;
    mlp.size = numbers.intermediate_size;
    layer.mlp = mlp;
  }
  config.layers.assign(numbers.layers, layer);
  return config;
}

}  // namespace dovetail::load
