#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/data_type.h"
#include "load/gguf.h"

namespace dovetail::load {

using Bytes = std::vector<std::byte>;

inline void append_raw(Bytes& out, const void* data, std::size_t size) {
  const std::size_t before = out.size();
  out.resize(before + size);
  if (size != 0) std::memcpy(out.data() + before, data, size);
}

template <class T>
void append_number(Bytes& out, T value) {
  append_raw(out, &value, sizeof(value));
}

inline void append_text(Bytes& out, std::string_view text) {
  append_raw(out, text.data(), text.size());
}

inline void append_string(Bytes& out, std::string_view text) {
  append_number<std::uint64_t>(out, text.size());
  append_text(out, text);
}

// A number in ggml's count of types.
inline std::uint32_t ggml_number(kernels::DataType type) { return info(type).gguf; }

// A GGUF file taken apart, so that a test can change any part, consistent or not, before it is
// written down.
struct GgufBuilder {
  struct Pair {
    std::string key;
    std::uint32_t type;
    Bytes value;
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dimensions;  // innermost first, as in the file
    std::uint32_t type;
    Bytes data;
    std::optional<std::uint64_t> offset;  // in place of the right one
  };

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> pair_count;    // in place of the right one
  std::optional<std::uint64_t> tensor_count;  // in place of the right one
  std::size_t alignment = 32;                 // of the data; the metadata do not follow
  std::vector<Pair> pairs;
  std::vector<Tensor> tensors;

  void erase(std::string_view key) {
    std::erase_if(pairs, [&](const Pair& pair) { return pair.key == key; });
  }
  void set_raw(std::string_view key, GgufType type, Bytes value) {
    const auto number = static_cast<std::uint32_t>(type);
    for (Pair& pair : pairs) {
      if (pair.key != key) continue;
      pair.type = number;
      pair.value = std::move(value);
      return;
    }
    pairs.push_back({std::string(key), number, std::move(value)});
  }
  template <class T>
  void set_number(std::string_view key, GgufType type, T value) {
    Bytes raw;
    append_number(raw, value);
    set_raw(key, type, std::move(raw));
  }
  void set_u32(std::string_view key, std::uint32_t value) {
    set_number(key, GgufType::kUint32, value);
  }
  void set_f32(std::string_view key, float value) { set_number(key, GgufType::kFloat32, value); }
  void set_bool(std::string_view key, bool value) {
    set_number(key, GgufType::kBool, static_cast<std::uint8_t>(value));
  }
  void set_string(std::string_view key, std::string_view value) {
    Bytes raw;
    append_string(raw, value);
    set_raw(key, GgufType::kString, std::move(raw));
  }
  template <class T>
  void set_numbers(std::string_view key, GgufType element, const std::vector<T>& values) {
    Bytes raw = array_header(element, values.size());
    for (const T value : values) append_number(raw, value);
    set_raw(key, GgufType::kArray, std::move(raw));
  }
  void set_strings(std::string_view key, const std::vector<std::string>& values) {
    Bytes raw = array_header(GgufType::kString, values.size());
    for (const std::string& value : values) append_string(raw, value);
    set_raw(key, GgufType::kArray, std::move(raw));
  }
  static Bytes array_header(GgufType element, std::uint64_t count) {
    Bytes raw;
    append_number(raw, static_cast<std::uint32_t>(element));
    append_number(raw, count);
    return raw;
  }

  Tensor& tensor(std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const Tensor& tensor) { return tensor.name == name; });
  }
  void erase_tensor(std::string_view name) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
  }
  // `shape` outermost first; the data are small numbers that are valid in every type.
  void add_tensor(std::string_view name, kernels::DataType type, std::vector<std::uint64_t> shape) {
    std::size_t rows = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    Bytes data(rows * kernels::row_bytes(type, shape.back()));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 48);
    std::reverse(shape.begin(), shape.end());
    tensors.push_back(
        {std::string(name), std::move(shape), ggml_number(type), std::move(data), {}});
  }

  // Numbers beside a matrix that products of it are multiplied by.
  void add_scales(std::string_view name, const std::vector<float>& scales) {
    add_tensor(name, kernels::DataType::kF32, {scales.size()});
    std::memcpy(tensors.back().data.data(), scales.data(), scales.size() * sizeof(float));
  }

  Bytes bytes() const {
    Bytes out;
    append_text(out, magic);
    append_number(out, version);
    append_number<std::uint64_t>(out, tensor_count.value_or(tensors.size()));
    append_number<std::uint64_t>(out, pair_count.value_or(pairs.size()));
    for (const Pair& pair : pairs) {
      append_string(out, pair.key);
      append_number(out, pair.type);
      out.insert(out.end(), pair.value.begin(), pair.value.end());
    }
    std::uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      append_string(out, tensor.name);
      append_number(out, static_cast<std::uint32_t>(tensor.dimensions.size()));
      for (const std::uint64_t dimension : tensor.dimensions) append_number(out, dimension);
      append_number(out, tensor.type);
      append_number(out, tensor.offset.value_or(offset));
      offset += padded(tensor.data.size());
    }
    if (tensors.empty()) return out;
    out.resize(padded(out.size()));
    for (const Tensor& tensor : tensors) {
      out.insert(out.end(), tensor.data.begin(), tensor.data.end());
      out.resize(out.size() + padded(tensor.data.size()) - tensor.data.size());
    }
    return out;
  }

 private:
  std::size_t padded(std::size_t size) const {
    return (size + alignment - 1) / alignment * alignment;
  }
};

struct TinyShape {
  std::string architecture = "llama";
  std::uint32_t vocabulary = 16;
  std::uint32_t hidden = 32;
  std::uint32_t inner = 64;
  std::uint32_t layers = 2;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 8;
  bool tied = false;
  bool attention_bias = false;
  bool qk_norm = false;
  std::uint32_t experts = 0;  // of a layer; then `inner` is the size of one
  std::uint32_t experts_used = 2;
  bool split_experts = false;  // GGUF: a tensor for each expert, as old files have it
};

// A valid model with a tokenizer; matrices have the type given, vectors are F32.
inline GgufBuilder tiny_gguf(const TinyShape& shape = {},
                             kernels::DataType type = kernels::DataType::kF32) {
  GgufBuilder out;
  const std::string prefix = shape.architecture + ".";
  out.set_string("general.architecture", shape.architecture);
  out.set_u32("general.alignment", 32);
  out.set_u32(prefix + "block_count", shape.layers);
  out.set_u32(prefix + "context_length", 128);
  out.set_u32(prefix + "embedding_length", shape.hidden);
  if (shape.architecture == "qwen3moe") {
    out.set_u32(prefix + "feed_forward_length", 3 * shape.inner);  // of no layer
    out.set_u32(prefix + "expert_feed_forward_length", shape.inner);
  } else {
    out.set_u32(prefix + "feed_forward_length", shape.inner);
  }
  if (shape.experts > 0) {
    out.set_u32(prefix + "expert_count", shape.experts);
    out.set_u32(prefix + "expert_used_count", shape.experts_used);
  }
  out.set_u32(prefix + "attention.head_count", shape.heads);
  out.set_u32(prefix + "attention.head_count_kv", shape.kv_heads);
  out.set_u32(prefix + "attention.key_length", shape.head_dim);
  out.set_f32(prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
  out.set_f32(prefix + "rope.freq_base", 10000.0F);
  out.set_string("tokenizer.ggml.model", "llama");
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (std::uint32_t i = 0; i < shape.vocabulary; ++i) {
    tokens.push_back(fmt::format("t{}", i));
    scores.push_back(-static_cast<float>(i));
    types.push_back(1);
  }
  out.set_strings("tokenizer.ggml.tokens", tokens);
  out.set_numbers("tokenizer.ggml.scores", GgufType::kFloat32, scores);
  out.set_numbers("tokenizer.ggml.token_type", GgufType::kInt32, types);
  out.set_u32("tokenizer.ggml.bos_token_id", 1);
  out.set_u32("tokenizer.ggml.eos_token_id", 2);
  out.set_bool("tokenizer.ggml.add_bos_token", true);
  out.set_string("tokenizer.chat_template", "{{ messages }}");

  const std::uint64_t query = std::uint64_t{shape.heads} * shape.head_dim;
  const std::uint64_t key = std::uint64_t{shape.kv_heads} * shape.head_dim;
  out.add_tensor("token_embd.weight", type, {shape.vocabulary, shape.hidden});
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    out.add_tensor(block + "attn_norm.weight", kernels::DataType::kF32, {shape.hidden});
    out.add_tensor(block + "attn_q.weight", type, {query, shape.hidden});
    out.add_tensor(block + "attn_k.weight", type, {key, shape.hidden});
    out.add_tensor(block + "attn_v.weight", type, {key, shape.hidden});
    out.add_tensor(block + "attn_output.weight", type, {shape.hidden, query});
    if (shape.attention_bias) {
      out.add_tensor(block + "attn_q.bias", kernels::DataType::kF32, {query});
      out.add_tensor(block + "attn_k.bias", kernels::DataType::kF32, {key});
      out.add_tensor(block + "attn_v.bias", kernels::DataType::kF32, {key});
    }
    if (shape.qk_norm) {
      out.add_tensor(block + "attn_q_norm.weight", kernels::DataType::kF32, {shape.head_dim});
      out.add_tensor(block + "attn_k_norm.weight", kernels::DataType::kF32, {shape.head_dim});
    }
    out.add_tensor(block + "ffn_norm.weight", kernels::DataType::kF32, {shape.hidden});
    if (shape.experts == 0) {
      out.add_tensor(block + "ffn_gate.weight", type, {shape.inner, shape.hidden});
      out.add_tensor(block + "ffn_up.weight", type, {shape.inner, shape.hidden});
      out.add_tensor(block + "ffn_down.weight", type, {shape.hidden, shape.inner});
      continue;
    }
    out.add_tensor(block + "ffn_gate_inp.weight", kernels::DataType::kF32,
                   {shape.experts, shape.hidden});
    for (std::uint32_t i = 0; shape.split_experts && i < shape.experts; ++i) {
      out.add_tensor(fmt::format("{}ffn_gate.{}.weight", block, i), type,
                     {shape.inner, shape.hidden});
      out.add_tensor(fmt::format("{}ffn_up.{}.weight", block, i), type,
                     {shape.inner, shape.hidden});
      out.add_tensor(fmt::format("{}ffn_down.{}.weight", block, i), type,
                     {shape.hidden, shape.inner});
    }
    if (shape.split_experts) continue;
    out.add_tensor(block + "ffn_gate_exps.weight", type,
                   {shape.experts, shape.inner, shape.hidden});
    out.add_tensor(block + "ffn_up_exps.weight", type, {shape.experts, shape.inner, shape.hidden});
    out.add_tensor(block + "ffn_down_exps.weight", type,
                   {shape.experts, shape.hidden, shape.inner});
  }
  out.add_tensor("output_norm.weight", kernels::DataType::kF32, {shape.hidden});
  if (!shape.tied) out.add_tensor("output.weight", type, {shape.vocabulary, shape.hidden});
  return out;
}

}  // namespace dovetail::load
