#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "load/model_source.h"

namespace dovetail::test {

struct RandomModelOptions {
  std::string family = "llama";
  bool attention_bias = false;                       // of queries, keys and values
  bool query_key_norm = false;                       // of each head
  kernels::DataType type = kernels::DataType::kF32;  // of all matrices
  std::uint32_t hidden_size = 64;
  std::uint32_t intermediate_size = 96;  // with experts: of one of them
  std::uint32_t layers = 2;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 16;
  std::uint32_t vocab_size = 97;
  std::uint32_t max_context = 256;
  std::uint32_t sliding_window = 0;
  bool tied_embeddings = false;
  std::uint64_t seed = 1;
  std::uint32_t experts = 0;  // of a layer; 0: the feed-forward is dense
  std::uint32_t experts_used = 2;
  bool experts_normalized = true;
  // Makes something else of the model that the options describe; empty: nothing.
  std::function<void(load::ModelConfig& config)> change = {};
};

// A model with random weights, in memory: the same options give the same model. It has no
// tokenizer. Vectors are F32, and so are the matrices of the small products beside large ones.
std::shared_ptr<load::ModelSource> random_model(const RandomModelOptions& options);

// DeepSeek-V4's parts in place of all layers: a window of `window`, and entries for these ratios,
// in turns (0: none; 4: with an indexer that picks six); the first layer's experts by the token's
// number; three streams; and a layer that drafts.
void make_compressed(load::ModelConfig& config, std::uint32_t window,
                     std::span<const std::uint32_t> ratios);

// The parts that the layers of a family have: of llama, mistral, mixtral, qwen2, qwen3 or
// qwen3_moe.
RandomModelOptions options_of(std::string_view family);

}  // namespace dovetail::test
