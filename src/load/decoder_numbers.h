#pragma once

#include <cstdint>
#include <string_view>

#include "load/model_config.h"

namespace dovetail::load {

enum class Architecture : std::uint8_t { kLlama, kMistral, kQwen2, kQwen3, kMixtral, kQwen3Moe };

// The numbers of a decoder whose layers are alike, as configurations of either kind give them.
struct DecoderNumbers {
  Architecture architecture = Architecture::kLlama;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;  // with experts: of one of them
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t max_context = 0;  // positions the model was made for
  std::uint32_t sliding_window =
      0;  // 0: full attention; else a query sees this many last positions, itself included
  float rms_norm_epsilon = 1e-5F;
  bool attention_bias = false;   // q, k and v have biases
  bool qk_norm = false;          // per-head RMS norm of q and k before RoPE
  bool tied_embeddings = false;  // output.weight is token_embd.weight
  ExpertsConfig experts;         // count 0: the feed-forward is dense
  RopeConfig rope;
};

std::string_view family_name(Architecture architecture);

// The model that they describe.
ModelConfig compose(const DecoderNumbers& numbers);

}  // namespace dovetail::load
