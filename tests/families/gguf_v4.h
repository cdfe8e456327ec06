#pragma once

#include <algorithm>
#include <cstring>

#include "families/gguf_converter.h"

// DeepSeek-V4 as GGUF files: keys and names of tensors as llama.cpp's converter writes them.
namespace dovetail::families {

inline constexpr std::pair<std::string_view, std::string_view> kStoredV4Names[] = {
    {"output_hc.fn", "output_hc_fn.weight"},
    {"output_hc.base", "output_hc_base.weight"},
    {"output_hc.scale", "output_hc_scale.weight"},
    {"hc_attn.fn", "hc_attn_fn.weight"},
    {"hc_attn.base", "hc_attn_base.weight"},
    {"hc_attn.scale", "hc_attn_scale.weight"},
    {"hc_ffn.fn", "hc_ffn_fn.weight"},
    {"hc_ffn.base", "hc_ffn_base.weight"},
    {"hc_ffn.scale", "hc_ffn_scale.weight"},
    {"attn_kv_norm.weight", "attn_kv_a_norm.weight"},
    {"attn_output.weight", "attn_output_b.weight"},
    {"indexer.compress_kv.weight", "indexer_compressor_kv.weight"},
    {"indexer.compress_gate.weight", "indexer_compressor_gate.weight"},
    {"indexer.compress_ape.weight", "indexer_compressor_ape.weight"},
    {"indexer.compress_norm.weight", "indexer_compressor_norm.weight"},
    {"compress_kv.weight", "attn_compressor_kv.weight"},
    {"compress_gate.weight", "attn_compressor_gate.weight"},
    {"compress_ape.weight", "attn_compressor_ape.weight"},
    {"compress_norm.weight", "attn_compressor_norm.weight"},
    {"ffn_token_experts.weight", "ffn_gate_tid2eid.weight"},
};

// "blk.0.hc_attn.fn" and so on; others as they are.
inline std::string stored_v4_name(const std::string& name) {
  for (const auto& [ours, stored] : kStoredV4Names) {
    if (name == ours) return std::string(stored);
    const std::string ending = fmt::format(".{}", ours);
    if (name.ends_with(ending))
      return name.substr(0, name.size() - ours.size()) + std::string(stored);
  }
  return name;
}

inline void add_experts_of_one(GgufBuilder& out, const ModelSource& source, const std::string& stem,
                               std::uint32_t count, std::set<std::string>& done) {
  Bytes all;
  const TensorView* one = nullptr;
  for (std::uint32_t e = 0; e < count; ++e) {
    const std::string name = fmt::format("{}.{}.weight", stem, e);
    one = &source.tensors.at(name);
    append_raw(all, one->data.data(), one->data.size());
    done.insert(name);
  }
  out.tensors.push_back({stem + "_exps.weight",
                         {one->columns, one->rows, count},
                         ggml_number(one->type),
                         std::move(all),
                         {}});
}

// Of two matrices side by side, as of the embedding's and the hidden row's.
inline Bytes side_by_side(const TensorView& left, const TensorView& right) {
  Bytes out;
  const std::size_t row = kernels::row_bytes(left.type, left.columns);
  for (std::size_t i = 0; i < left.rows; ++i) {
    append_raw(out, left.data.data() + i * row, row);
    append_raw(out, right.data.data() + i * row, row);
  }
  return out;
}

// The model without the layer that drafts, or the file of that layer alone, which has embeddings
// and the head as well.
inline GgufBuilder v4_as_gguf(const ModelSource& source, bool drafts = false) {
  const ModelConfig& config = source.config;
  const CompressedConfig& picks = *config.layers[1].compressed();
  const ExpertsConfig& experts = *config.layers.front().experts();
  const RopeConfig& rope = config.ropes.back();
  const auto layers = static_cast<std::uint32_t>(config.layers.size() + (drafts ? 1 : 0));
  const std::string prefix = "deepseek4.";
  GgufBuilder out;
  const auto count = [&](const char* key, std::uint32_t value) {
    out.set_u32(prefix + key, value);
  };
  const auto number = [&](const char* key, float value) { out.set_f32(prefix + key, value); };
  out.set_string("general.architecture", "deepseek4");
  count("block_count", layers);
  count("context_length", config.max_context);
  count("embedding_length", config.hidden_size);
  count("embedding_length_out", config.hidden_size * config.hyper.streams);
  count("vocab_size", config.vocab_size);
  count("attention.head_count", picks.heads);
  count("attention.head_count_kv", 1);
  count("attention.key_length", picks.head_dim);
  count("attention.value_length", picks.head_dim);
  count("attention.q_lora_rank", picks.query_rank);
  count("attention.sliding_window", picks.window);
  count("attention.output_group_count", picks.groups);
  count("attention.output_lora_rank", picks.group_rank);
  count("attention.indexer.head_count", picks.index_heads);
  count("attention.indexer.key_length", picks.index_dim);
  count("attention.indexer.top_k", picks.index_top);
  std::vector<std::int32_t> ratios;
  for (const LayerConfig& layer : config.layers)
    ratios.push_back(static_cast<std::int32_t>(layer.compressed()->ratio));
  ratios.push_back(0);  // of the layer that drafts
  out.set_numbers<std::int32_t>(prefix + "attention.compress_ratios", GgufType::kInt32, ratios);
  number("attention.compress_rope_freq_base", rope.theta);
  number("attention.layer_norm_rms_epsilon", config.output_norm.epsilon);
  count("rope.dimension_count", picks.rope_dim);
  number("rope.freq_base", config.ropes.front().theta);
  out.set_string(prefix + "rope.scaling.type", "yarn");
  number("rope.scaling.factor", rope.factor);
  count("rope.scaling.original_context_length", rope.original_context);
  number("rope.scaling.yarn_beta_fast", rope.beta_fast);
  number("rope.scaling.yarn_beta_slow", rope.beta_slow);
  count("expert_count", experts.count);
  count("expert_used_count", experts.used);
  count("expert_shared_count", experts.shared_size / experts.size);
  count("expert_feed_forward_length", experts.size);
  count("expert_gating_func", 4);
  number("expert_weights_scale", experts.scale);
  out.set_bool(prefix + "expert_weights_norm", experts.normalized);
  const std::vector<float> limits(layers, experts.limit);
  out.set_numbers<float>(prefix + "swiglu_clamp_exp", GgufType::kFloat32, limits);
  out.set_numbers<float>(prefix + "swiglu_clamp_shexp", GgufType::kFloat32, limits);
  count("hyper_connection.count", config.hyper.streams);
  count("hyper_connection.sinkhorn_iterations", config.hyper.iterations);
  number("hyper_connection.epsilon", config.hyper.epsilon);
  const auto by_token = [](const LayerConfig& layer) { return layer.experts()->by_token; };
  count("hash_layer_count", static_cast<std::uint32_t>(std::count_if(
                                config.layers.begin(), config.layers.end(), by_token)));
  if (drafts) count("nextn_predict_layers", 1);

  std::set<std::string> done;
  const std::string of_drafts = config.draft_prefix();
  for (std::uint32_t i = drafts ? layers - 1 : 0; i < layers; ++i) {
    for (const char* stem : {"ffn_gate", "ffn_up", "ffn_down"})
      add_experts_of_one(out, source, fmt::format("blk.{}.{}", i, stem), experts.count, done);
  }
  const std::string e_proj = of_drafts + "nextn.e_proj.weight";
  const std::string h_proj = of_drafts + "nextn.h_proj.weight";
  if (drafts) {
    const TensorView& left = source.tensors.at(e_proj);
    out.tensors.push_back({of_drafts + "nextn.eh_proj.weight",
                           {2 * left.columns, left.rows},
                           ggml_number(left.type),
                           side_by_side(left, source.tensors.at(h_proj)),
                           {}});
    done.insert({e_proj, h_proj});
  }
  for (const auto& [name, tensor] : source.tensors) {
    const bool mine = name.starts_with(of_drafts);
    const bool kept =
        name.starts_with("token_embd") || name == "output.weight" || name == "output_norm.weight";
    if (done.contains(name) || (drafts ? !mine && !kept : mine)) continue;
    std::vector<std::uint64_t> dimensions = {tensor.columns};
    if (tensor.rows > 1) dimensions.push_back(tensor.rows);
    std::uint32_t type = ggml_number(tensor.type);
    Bytes data(tensor.data.begin(), tensor.data.end());
    if (name.ends_with("ffn_token_experts.weight")) {
      type = 26;  // I32
      for (std::size_t at = 0; at < data.size(); at += sizeof(float)) {
        float expert = 0.0F;
        std::memcpy(&expert, data.data() + at, sizeof expert);
        const auto whole = static_cast<std::int32_t>(expert);
        std::memcpy(data.data() + at, &whole, sizeof whole);
      }
    }
    // The sum of the layer's streams is called as the model's is.
    const std::string sum = of_drafts + "nextn.hc_head.";
    const std::string called =
        name.starts_with(sum) ? "output_hc." + name.substr(sum.size()) : name;
    out.tensors.push_back(
        {stored_v4_name(called), std::move(dimensions), type, std::move(data), {}});
  }
  return out;
}

}  // namespace dovetail::families
