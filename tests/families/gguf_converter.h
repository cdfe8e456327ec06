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
    if (config.output_norm.bias) add("output_norm.bias");
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

}  // namespace dovetail::families
