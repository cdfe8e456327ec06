#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "load/gguf_builder.h"
#include "load/model_source.h"
#include "load/stored_parts.h"

namespace dovetail::families {

using namespace load;

// Models of tests/golden/models as GGUF files, as llama.cpp's converter would write them but for
// the order of rows of queries and keys.
struct Converted {
  std::string folder;
  std::string architecture;
  // Keys beyond those that all have, by their names without the architecture.
  std::function<void(GgufBuilder&, const std::string& prefix)> keys;
  std::vector<std::pair<std::string, std::string>> names = {};  // of tensors, where they differ
  bool fused = false;  // queries, keys and values are one tensor, and so are gate and up
  bool interleaved = false;
};

inline void PrintTo(const Converted& model, std::ostream* out) { *out << model.folder; }

inline Bytes data_of(const TensorView& tensor) {
  Bytes out(tensor.bytes());
  if (tensor.parts) {
    write_rows(*tensor.parts, 0, tensor.rows, out.data());
  } else {
    std::copy(tensor.data.begin(), tensor.data.end(), out.begin());
  }
  return out;
}

inline std::vector<float> floats_of(const TensorView& tensor) {
  std::vector<float> out(tensor.rows * tensor.columns);
  kernels::best_kernels().dequantize_row(tensor.type, data_of(tensor).data(), out.size(),
                                         out.data());
  return out;
}

class Converter {
 public:
  Converter(const ModelSource& source, const Converted& how) : source_(source), how_(how) {}

  GgufBuilder convert() {
    const ModelConfig& config = source_.config;
    const AttentionConfig& attention =
        *std::find_if(config.layers.begin(), config.layers.end(), [](const LayerConfig& layer) {
           return layer.attention() != nullptr;
         })->attention();
    const std::string prefix = how_.architecture + ".";
    out_.set_string("general.architecture", how_.architecture);
    std::vector<LayerConfig> layers = config.layers;
    if (config.draft_layer) {
      // It is counted and is the last.
      layers.push_back(*config.draft_layer);
      out_.set_u32(prefix + "nextn_predict_layers", 1);
    }
    out_.set_u32(prefix + "block_count", static_cast<std::uint32_t>(layers.size()));
    out_.set_u32(prefix + "context_length", config.max_context);
    out_.set_u32(prefix + "embedding_length", config.hidden_size);
    const LayerConfig& layer = *std::find_if(
        config.layers.begin(), config.layers.end(),
        [](const LayerConfig& one) { return !std::holds_alternative<std::monostate>(one.mlp); });
    out_.set_u32(prefix + "feed_forward_length",
                 layer.dense() != nullptr ? layer.dense()->size : layer.experts()->size);
    out_.set_u32(prefix + "attention.head_count", attention.heads);
    out_.set_u32(prefix + "attention.head_count_kv", attention.kv_heads);
    out_.set_u32(prefix + "attention.key_length", attention.head_dim);
    out_.set_u32(prefix + "attention.value_length", attention.head_dim);
    const bool rms = config.output_norm.kind == NormKind::kRms;
    out_.set_f32(
        prefix + (rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
        config.output_norm.epsilon);
    out_.set_f32(prefix + "rope.freq_base", config.ropes.front().theta);
    how_.keys(out_, prefix);
    add("token_embd.weight");
    add("output_norm.weight");
    if (!config.tied_embeddings) add("output.weight");
    for (const auto& [name, tensor] : source_.tensors) {
      if (name.starts_with("per_layer_")) add(name);
    }
    for (std::size_t i = 0; i < layers.size(); ++i) add_layer(fmt::format("blk.{}.", i), layers[i]);
    return out_;
  }

 private:
  // Tensors of the layer whose names have one part more: "attn_q.weight".
  void add_layer(const std::string& prefix, const LayerConfig& layer) {
    const ExpertsConfig* experts = layer.experts();
    if (how_.fused) {
      fuse(prefix, {"attn_q", "attn_k", "attn_v"}, "attn_qkv");
      fuse(prefix, {"ffn_gate", "ffn_up"}, "ffn_up");
    }
    if (const MambaConfig* mamba = layer.mamba()) add_mamba(prefix, *mamba);
    if (experts != nullptr) {
      for (const char* stem : {"ffn_gate", "ffn_up", "ffn_down"}) {
        for (const char* ending : {".weight", ".bias"}) merge(prefix + stem, ending, *experts);
      }
    }
    for (const auto& [name, tensor] : source_.tensors) {
      if (name.starts_with(prefix) && !done_.contains(name)) add(name);
    }
  }

  // Rates as they are rather than their logarithms, a column of each number of a head, and the
  // norm group by group.
  void add_mamba(const std::string& prefix, const MambaConfig& mamba) {
    const TensorView& logs = source_.tensors.at(prefix + "ssm_a_log");
    Bytes rates;
    for (const float log : floats_of(logs)) append_number(rates, -std::exp(log));
    const auto put = [&](const std::string& name, std::uint64_t columns, std::uint64_t rows,
                         kernels::DataType type, const Bytes& data) {
      out_.tensors.push_back({prefix + name, {columns, rows}, ggml_number(type), data, {}});
    };
    put("ssm_a", 1, mamba.heads, kernels::DataType::kF32, rates);
    const TensorView& skips = source_.tensors.at(prefix + "ssm_d");
    put("ssm_d", 1, mamba.heads, skips.type, data_of(skips));
    done_.insert({prefix + "ssm_a_log", prefix + "ssm_d"});
    if (!mamba.norm) return;
    const TensorView& norm = source_.tensors.at(prefix + "ssm_norm.weight");
    put("ssm_norm.weight", mamba.inner_size() / mamba.groups, mamba.groups, norm.type,
        data_of(norm));
    done_.insert(prefix + "ssm_norm.weight");
  }

  void add(const std::string& name) { add(name, source_.tensors.at(name)); }
  void add(const std::string& name, const TensorView& tensor) {
    std::string stored = name;
    for (const auto& [from, to] : how_.names) {
      const std::size_t at = ("." + stored + ".").find("." + from + ".");
      if (at != std::string::npos) stored.replace(at, from.size(), to);
    }
    std::vector<std::uint64_t> shape = {tensor.columns};
    if (tensor.rows > 1) shape.push_back(tensor.rows);
    out_.tensors.push_back(
        {stored, std::move(shape), ggml_number(tensor.type), data_of(tensor), {}});
    done_.insert(name);
  }

  // Tensors one above the other.
  void fuse(const std::string& prefix, const std::vector<std::string>& stems,
            const std::string& stem) {
    for (const char* ending : {".weight", ".bias"}) {
      Bytes data;
      std::uint64_t rows = 0, columns = 0;
      std::uint32_t type = 0;
      for (const std::string& part : stems) {
        const auto found = source_.tensors.find(prefix + part + ending);
        if (found == source_.tensors.end()) return;
        const Bytes bytes = data_of(found->second);
        data.insert(data.end(), bytes.begin(), bytes.end());
        const bool bias = found->second.rows == 1;
        rows += bias ? found->second.columns : found->second.rows;
        columns = bias ? 0 : found->second.columns;
        type = ggml_number(found->second.type);
        done_.insert(found->first);
      }
      std::vector<std::uint64_t> shape = {rows};
      if (columns != 0) shape = {columns, rows};
      out_.tensors.push_back({prefix + stem + ending, shape, type, data, {}});
    }
  }

  void merge(const std::string& stem, const std::string& ending, const ExpertsConfig& experts) {
    Bytes data;
    const TensorView* last = nullptr;
    for (std::uint32_t i = 0; i < experts.count; ++i) {
      const auto found = source_.tensors.find(fmt::format("{}.{}{}", stem, i, ending));
      if (found == source_.tensors.end()) return;
      const Bytes bytes = data_of(found->second);
      data.insert(data.end(), bytes.begin(), bytes.end());
      last = &found->second;
      done_.insert(found->first);
    }
    std::vector<std::uint64_t> shape = {last->columns};
    if (last->rows > 1) shape.push_back(last->rows);
    shape.push_back(experts.count);
    out_.tensors.push_back({stem + "_exps" + ending, shape, ggml_number(last->type), data, {}});
  }

  const ModelSource& source_;
  const Converted& how_;
  GgufBuilder out_;
  std::set<std::string> done_;
};

// A tensor of numbers that are no weights.
inline void add_floats(GgufBuilder& builder, const std::string& name,
                       const std::vector<float>& of) {
  Bytes data;
  for (const float value : of) append_number(data, value);
  builder.tensors.push_back(
      {name, {of.size()}, ggml_number(kernels::DataType::kF32), std::move(data), {}});
}

inline void set_granite(GgufBuilder& b, const std::string& p) {
  b.set_f32(p + "attention.scale", 0.2F);
  b.set_f32(p + "embedding_scale", 3.0F);
  b.set_f32(p + "logit_scale", 2.0F);
  b.set_f32(p + "residual_scale", 0.5F);
}

inline void set_experts(GgufBuilder& b, const std::string& p, std::uint32_t size) {
  b.set_u32(p + "expert_count", 8);
  b.set_u32(p + "expert_used_count", 3);
  b.set_u32(p + "expert_feed_forward_length", size);
}

inline void set_sections(GgufBuilder& b, const std::string& p) {
  b.set_numbers<std::int32_t>(p + "rope.dimension_sections", GgufType::kInt32, {4, 2, 2, 0});
}

inline void set_mamba(GgufBuilder& b, const std::string& p, std::uint32_t heads,
                      std::uint32_t groups, std::uint32_t state, std::uint32_t inner = 64) {
  b.set_u32(p + "ssm.conv_kernel", 4);
  b.set_u32(p + "ssm.state_size", state);
  b.set_u32(p + "ssm.group_count", groups);
  b.set_u32(p + "ssm.inner_size", inner);
  b.set_u32(p + "ssm.time_step_rank", heads);
}

// Every other layer slides, and the others have heads of 16 of which a quarter turns.
inline void set_gemma4(GgufBuilder& b, const std::string& p, std::uint32_t layers,
                       std::uint32_t sharing, std::uint32_t input) {
  std::vector<std::uint8_t> slides;
  for (std::uint32_t i = 0; i < layers; ++i) slides.push_back(i % 2 == 0 ? 1 : 0);
  b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool, slides);
  b.set_u32(p + "attention.sliding_window", 16);
  b.set_u32(p + "attention.shared_kv_layers", sharing);
  b.set_u32(p + "embedding_length_per_layer_input", input);
  b.set_u32(p + "attention.key_length", 16);
  b.set_u32(p + "attention.value_length", 16);
  b.set_u32(p + "attention.key_length_swa", 8);
  b.set_u32(p + "attention.value_length_swa", 8);
  b.set_u32(p + "rope.dimension_count", 16);
  b.set_u32(p + "rope.dimension_count_swa", 8);
  b.set_f32(p + "rope.freq_base_swa", 1000.0F);
  b.set_f32(p + "final_logit_softcapping", 6.0F);
  add_floats(b, "rope_freqs.weight", {1.0F, 1.0F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F});
}

inline const Converted kConverted[] = {
    {"afmoe-tiny", "afmoe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
       b.set_u32(p + "attention.sliding_window", 16);
     }},
    {"bailing-moe-tiny",
     "bailingmoe2",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "rope.dimension_count", 8);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_group_count", 4);
       b.set_u32(p + "expert_group_used_count", 2);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_shared_feed_forward_length", 12);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     },
     {},
     true},
    {"mellum-tiny", "mellum",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
       b.set_f32(p + "rope.freq_base_swa", 1000.0F);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
     }},
    {"minicpm-tiny",
     "minicpm",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "embedding_scale", 3.0F);
       b.set_f32(p + "residual_scale", 1.4F / std::sqrt(2.0F));
       b.set_f32(p + "logit_scale", 2.0F);
     },
     {},
     false,
     true},
    {"dots1-tiny", "dots1",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_shared_count", 2);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     }},
    {"ernie4-5-moe-tiny",
     "ernie4_5-moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "interleave_moe_layer_step", 1);
       b.set_u32(p + "expert_shared_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
     },
     {},
     false,
     true},
    {"ernie4-5-tiny",
     "ernie4_5",
     [](GgufBuilder& /*b*/, const std::string& /*p*/) {},
     {},
     false,
     true},
    {"granite-swa-moe-tiny",
     "granite_swa",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool, {0, 1});
     },
     {},
     false,
     true},
    {"hunyuan-moe-tiny", "hunyuan-moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 24);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
       b.set_string(p + "rope.scaling.type", "none");
       b.set_f32(p + "rope.scaling.factor", 1.0F);
     }},
    {"hunyuan-tiny", "hunyuan-dense",
     [](GgufBuilder& b, const std::string& p) {
       b.set_string(p + "rope.scaling.type", "none");
       b.set_f32(p + "rope.scaling.factor", 1.0F);
     }},
    {"olmoe-tiny", "olmoe",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
     }},
    {"qwen2-5-vl-tiny", "qwen2vl", set_sections},
    {"qwen2-moe-tiny", "qwen2moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
     }},
    {"qwen3-vl-moe-tiny", "qwen3vlmoe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       set_sections(b, p);
       b.set_u32(p + "n_deepstack_layers", 1);
     }},
    {"qwen3-vl-tiny", "qwen3vl",
     [](GgufBuilder& b, const std::string& p) {
       set_sections(b, p);
       b.set_u32(p + "n_deepstack_layers", 1);
     }},
    {"cohere-tiny",
     "command-r",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "logit_scale", 0.5F);
       b.set_string(p + "rope.scaling.type", "none");
     },
     {},
     false,
     true},
    {"cohere2-tiny",
     "cohere2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "logit_scale", 0.5F);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_u32(p + "rope.dimension_count", 8);
     },
     {},
     false,
     true},
    {"exaone4-tiny", "exaone4",
     [](GgufBuilder& b, const std::string& p) {
       b.add_tensor("rope_freqs.weight", kernels::DataType::kF32, {4});
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_u32(p + "attention.sliding_window_pattern", 2);
     }},
    {"falcon-h1-tiny",
     "falcon-h1",
     [](GgufBuilder& b, const std::string& p) { set_mamba(b, p, 3, 1, 20, 48); },
     {{"ffn_norm.weight", "ffn_norm"}}},
    {"falcon-h1-normed-tiny",
     "falcon-h1",
     [](GgufBuilder& b, const std::string& p) { set_mamba(b, p, 4, 2, 16); },
     {{"ffn_norm.weight", "ffn_norm"}}},
    {"gemma2-tiny", "gemma2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_f32(p + "attn_logit_softcapping", 2.0F);
       b.set_f32(p + "final_logit_softcapping", 6.0F);
       b.set_f32(p + "attention.scale", 1.0F / std::sqrt(24.0F));
     }},
    {"gemma3-tiny", "gemma3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
       b.set_f32(p + "rope.freq_base_swa", 1000.0F);
       b.set_string(p + "rope.scaling.type", "linear");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_f32(p + "attention.scale", 1.0F / std::sqrt(24.0F));
     }},
    {"gemma4-tiny", "gemma4",
     [](GgufBuilder& b, const std::string& p) {
       set_gemma4(b, p, 4, 0, 0);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {2, 1, 2, 1});
     }},
    {"gemma4-moe-tiny",
     "gemma4",
     [](GgufBuilder& b, const std::string& p) {
       set_gemma4(b, p, 2, 0, 0);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {2, 1});
       b.set_u32(p + "feed_forward_length", 48);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_count", 6);
       b.set_u32(p + "expert_used_count", 3);
     },
     {{"ffn_gate_inp_norm.weight", "ffn_gate_inp.scale"},
      {"exp_scales.weight", "ffn_down_exps.scale"}}},
    {"gemma4-ple-tiny", "gemma4",
     [](GgufBuilder& b, const std::string& p) {
       set_gemma4(b, p, 6, 3, 12);
       b.set_numbers<std::int32_t>(p + "feed_forward_length", GgufType::kInt32,
                                   {48, 48, 48, 96, 96, 96});
     }},
    {"glm4-tiny",
     "glm4",
     [](GgufBuilder& b, const std::string& p) { b.set_u32(p + "rope.dimension_count", 8); },
     {},
     true,
     true},
    {"glm4-moe-tiny",
     "glm4moe",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 4);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
       b.set_u32(p + "expert_group_count", 1);
       b.set_u32(p + "expert_group_used_count", 1);
       b.set_u32(p + "expert_feed_forward_length", 12);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     },
     {{"ffn_norm", "post_attention_norm"}}},
    {"gpt-oss-tiny",
     "gpt-oss",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_feed_forward_length", 32);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
       b.set_f32(p + "rope.scaling.yarn_beta_fast", 4.0F);
       b.set_f32(p + "rope.scaling.yarn_beta_slow", 0.5F);
     },
     {{"ffn_norm", "post_attention_norm"}}},
    {"gpt-oss-f16-tiny",
     "gpt-oss",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
       b.set_f32(p + "rope.scaling.yarn_beta_fast", 4.0F);
       b.set_f32(p + "rope.scaling.yarn_beta_slow", 0.5F);
     },
     {{"ffn_norm", "post_attention_norm"}}},
    {"granite-hybrid-tiny",
     "granite",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       b.set_u32(p + "expert_count", 0);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
     },
     {},
     false,
     true},
    {"granite-h-tiny",
     "granitehybrid",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       set_mamba(b, p, 4, 1, 20);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 0, 2, 0});
     },
     {},
     false,
     true},
    {"granite-h-moe-tiny",
     "granitehybrid",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       set_mamba(b, p, 8, 2, 16);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 2, 0});
     },
     {},
     false,
     true},
    {"granite-moe-tiny",
     "granitemoe",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
     },
     {},
     false,
     true},
    {"granite-tiny", "granite", set_granite, {}, false, true},
    {"nemotron-h-tiny", "nemotron_h",
     [](GgufBuilder& b, const std::string& p) {
       set_mamba(b, p, 4, 2, 20);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32,
                                   {0, 0, 2, 0, 0});
       b.set_numbers<std::int32_t>(p + "feed_forward_length", GgufType::kInt32, {0, 48, 0, 0, 48});
     }},
    {"nemotron-h-moe-tiny", "nemotron_h_moe",
     [](GgufBuilder& b, const std::string& p) {
       set_mamba(b, p, 8, 2, 20);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32,
                                   {0, 0, 2, 0, 0});
       b.set_numbers<std::int32_t>(p + "feed_forward_length", GgufType::kInt32, {0, 24, 0, 24, 0});
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
       b.set_u32(p + "expert_group_count", 1);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     }},
    {"minimax-m2-tiny", "minimax-m2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 8);
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_gating_func", 2);
     }},
    {"lfm2-moe-tiny",
     "lfm2moe",
     [](GgufBuilder& b, const std::string& p) {
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 2, 0});
       b.set_u32(p + "shortconv.l_cache", 3);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_gating_func", 2);
     },
     {{"output_norm", "token_embd_norm"}}},
    {"lfm2-tiny",
     "lfm2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 2, 0});
       b.set_u32(p + "shortconv.l_cache", 3);
     },
     {{"output_norm", "token_embd_norm"}}},
    {"ministral3-tiny",
     "mistral3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "attention.temperature_scale", 0.1F);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 8.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 16);
       b.set_f32(p + "rope.scaling.yarn_log_multiplier", 1.0F);
     },
     {},
     false,
     true},
    {"olmo2-tiny", "olmo2", [](GgufBuilder&, const std::string&) {}},
    {"phi3-longrope-tiny",
     "phi3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 12);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
       b.set_f32(p + "rope.scaling.attn_factor",
                 static_cast<float>(std::sqrt(1.0 + std::log(8.0) / std::log(32.0))));
       add_floats(b, "rope_factors_long.weight", {1.0F, 1.5F, 2.25F, 3.5F, 5.0F, 8.0F});
       add_floats(b, "rope_factors_short.weight", {1.0F, 1.0F, 1.125F, 1.25F, 1.5F, 1.75F});
     },
     {},
     true},
    {"phi3-tiny",
     "phi3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 8);
       b.set_u32(p + "attention.sliding_window", 24);
     },
     {},
     true},
    {"qwen2-window-tiny", "qwen2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {0, 1, 1});
     }},
    {"qwen3-window-tiny", "qwen3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
     }},
    {"seed-oss-tiny",
     "seed_oss",
     [](GgufBuilder&, const std::string&) {},
     {{"ffn_norm", "post_attention_norm"}}},
};

}  // namespace dovetail::families
