#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "load/gguf_builder.h"
#include "support/temp_folder.h"

namespace dovetail::load {

// A safetensors file taken apart, so that a test can change any part before it is written down.
struct SafetensorsBuilder {
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<std::uint64_t> shape;
    Bytes data;
  };

  std::vector<Tensor> tensors;

  void add(std::string_view name, std::vector<std::uint64_t> shape) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : shape) elements *= dimension;
    tensors.push_back({std::string(name), "F32", std::move(shape), Bytes(elements * 4)});
  }
  Tensor& tensor(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const Tensor& tensor) { return tensor.name == name; });
  }
  void erase(std::string_view name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
  }

  nlohmann::json header() const {
    nlohmann::json out = {{"__metadata__", {{"format", "pt"}}}};
    std::uint64_t begin = 0;
    for (const Tensor& tensor : tensors) {
      out[tensor.name] = {{"dtype", tensor.dtype},
                          {"shape", tensor.shape},
                          {"data_offsets", {begin, begin + tensor.data.size()}}};
      begin += tensor.data.size();
    }
    return out;
  }

  Bytes bytes() const { return bytes(header()); }
  Bytes bytes(const nlohmann::json& header) const { return bytes(header.dump()); }
  Bytes bytes(const std::string& header) const {
    Bytes out;
    append_string(out, header);
    for (const Tensor& tensor : tensors) {
      out.insert(out.end(), tensor.data.begin(), tensor.data.end());
    }
    return out;
  }
};

// A Hugging Face folder taken apart.
struct HfBuilder {
  nlohmann::json config;
  SafetensorsBuilder weights;

  void write(const test::TempFolder& folder) const {
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", weights.bytes());
  }
};

// A valid model without a tokenizer.
inline HfBuilder tiny_hf(const TinyShape& shape = {}) {
  const std::vector<std::pair<std::string, std::string>> classes = {
      {"llama", "LlamaForCausalLM"},     {"mistral", "MistralForCausalLM"},
      {"mixtral", "MixtralForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},     {"qwen3_moe", "Qwen3MoeForCausalLM"}};
  HfBuilder out;
  for (const auto& [type, name] : classes) {
    if (type == shape.architecture) out.config["architectures"] = nlohmann::json::array({name});
  }
  out.config["model_type"] = shape.architecture;
  out.config["vocab_size"] = shape.vocabulary;
  out.config["hidden_size"] = shape.hidden;
  if (shape.architecture == "qwen3_moe") {
    out.config["intermediate_size"] = 3 * shape.inner;  // of no layer
    out.config["moe_intermediate_size"] = shape.inner;
    out.config["num_experts"] = shape.experts;
    out.config["num_experts_per_tok"] = shape.experts_used;
    out.config["norm_topk_prob"] = true;
    out.config["decoder_sparse_step"] = 1;
    out.config["mlp_only_layers"] = nlohmann::json::array();
  } else {
    out.config["intermediate_size"] = shape.inner;
  }
  if (shape.architecture == "mixtral") {
    out.config["num_local_experts"] = shape.experts;
    out.config["num_experts_per_tok"] = shape.experts_used;
  }
  out.config["num_hidden_layers"] = shape.layers;
  out.config["num_attention_heads"] = shape.heads;
  out.config["num_key_value_heads"] = shape.kv_heads;
  out.config["head_dim"] = shape.head_dim;
  out.config["max_position_embeddings"] = 128;
  out.config["rms_norm_eps"] = 1e-5;
  out.config["rope_theta"] = 10000.0;
  out.config["hidden_act"] = "silu";
  out.config["tie_word_embeddings"] = shape.tied;
  out.config["eos_token_id"] = 2;
  out.config["torch_dtype"] = "float32";

  const std::uint64_t query = std::uint64_t{shape.heads} * shape.head_dim;
  const std::uint64_t key = std::uint64_t{shape.kv_heads} * shape.head_dim;
  SafetensorsBuilder& weights = out.weights;
  weights.add("model.embed_tokens.weight", {shape.vocabulary, shape.hidden});
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = fmt::format("model.layers.{}.", layer);
    weights.add(block + "input_layernorm.weight", {shape.hidden});
    weights.add(block + "self_attn.q_proj.weight", {query, shape.hidden});
    weights.add(block + "self_attn.k_proj.weight", {key, shape.hidden});
    weights.add(block + "self_attn.v_proj.weight", {key, shape.hidden});
    weights.add(block + "self_attn.o_proj.weight", {shape.hidden, query});
    if (shape.attention_bias) {
      weights.add(block + "self_attn.q_proj.bias", {query});
      weights.add(block + "self_attn.k_proj.bias", {key});
      weights.add(block + "self_attn.v_proj.bias", {key});
    }
    if (shape.qk_norm) {
      weights.add(block + "self_attn.q_norm.weight", {shape.head_dim});
      weights.add(block + "self_attn.k_norm.weight", {shape.head_dim});
    }
    weights.add(block + "post_attention_layernorm.weight", {shape.hidden});
    if (shape.experts == 0) {
      weights.add(block + "mlp.gate_proj.weight", {shape.inner, shape.hidden});
      weights.add(block + "mlp.up_proj.weight", {shape.inner, shape.hidden});
      weights.add(block + "mlp.down_proj.weight", {shape.hidden, shape.inner});
      continue;
    }
    const bool mixtral = shape.architecture == "mixtral";
    const std::string layer_of_experts = block + (mixtral ? "block_sparse_moe." : "mlp.");
    weights.add(layer_of_experts + "gate.weight", {shape.experts, shape.hidden});
    for (std::uint32_t i = 0; i < shape.experts; ++i) {
      const std::string expert = fmt::format("{}experts.{}.", layer_of_experts, i);
      weights.add(expert + (mixtral ? "w1.weight" : "gate_proj.weight"),
                  {shape.inner, shape.hidden});
      weights.add(expert + (mixtral ? "w3.weight" : "up_proj.weight"), {shape.inner, shape.hidden});
      weights.add(expert + (mixtral ? "w2.weight" : "down_proj.weight"),
                  {shape.hidden, shape.inner});
    }
  }
  weights.add("model.norm.weight", {shape.hidden});
  if (!shape.tied) weights.add("lm_head.weight", {shape.vocabulary, shape.hidden});
  return out;
}

}  // namespace dovetail::load
