#pragma once

#include "load/decoder_numbers.h"
#include "load/model_config.h"

namespace dovetail::load {

// What a model's first layer, and the model itself, were composed of: for tests of readers whose
// layers are alike.
inline DecoderNumbers numbers_of(const ModelConfig& config) {
  DecoderNumbers numbers;
  for (const Architecture known :
       {Architecture::kLlama, Architecture::kMistral, Architecture::kQwen2, Architecture::kQwen3,
        Architecture::kMixtral, Architecture::kQwen3Moe}) {
    if (config.family == family_name(known)) numbers.architecture = known;
  }
  const LayerConfig& layer = config.layers.front();
  const AttentionConfig& attention = *layer.attention();
  numbers.vocab_size = config.vocab_size;
  numbers.hidden_size = config.hidden_size;
  numbers.layers = static_cast<std::uint32_t>(config.layers.size());
  numbers.heads = attention.heads;
  numbers.kv_heads = attention.kv_heads;
  numbers.head_dim = attention.head_dim;
  numbers.max_context = config.max_context;
  numbers.sliding_window = attention.window;
  numbers.rms_norm_epsilon = config.output_norm.epsilon;
  numbers.attention_bias = attention.bias;
  numbers.qk_norm = attention.query_key_norm == QueryKeyNorm::kHead;
  numbers.tied_embeddings = config.tied_embeddings;
  if (layer.experts() != nullptr) {
    numbers.experts = *layer.experts();
    numbers.intermediate_size = numbers.experts.size;
  } else {
    numbers.intermediate_size = layer.dense()->size;
  }
  numbers.rope = config.ropes.front();
  return numbers;
}

}  // namespace dovetail::load
