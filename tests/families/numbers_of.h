#pragma once

#include <cstdint>
#include <string>

#include "load/model_config.h"

namespace dovetail::families {

// The numbers of a decoder whose layers are alike, those of its first one: for tests of readers.
struct DecoderNumbers {
  std::string family;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;  // with experts: of one of them
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t max_context = 0;
  std::uint32_t sliding_window = 0;
  float rms_norm_epsilon = 0;
  bool attention_bias = false;
  bool qk_norm = false;
  bool tied_embeddings = false;
  load::ExpertsConfig experts;
  load::RopeConfig rope;
};

inline DecoderNumbers numbers_of(const load::ModelConfig& config) {
  const load::LayerConfig& layer = config.layers.front();
  const load::AttentionConfig& attention = *layer.attention();
  DecoderNumbers numbers;
  numbers.family = config.family;
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
  numbers.qk_norm = attention.query_key_norm == load::QueryKeyNorm::kHead;
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

}  // namespace dovetail::families
