// DeepSeek-V4: hyper-connections, attention over a window and over compressed entries, experts that
// a token's number or its router picks. Files have the names of the published checkpoints.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "load/json_fields.h"
#include "load/quote.h"
#include "load/stored_parts.h"

namespace dovetail::families {
namespace {

using load::CompressedConfig;

constexpr std::uint32_t kOverlapping = 4;  // the ratio whose entries overlap and have an indexer

// A ratio for each layer, and for those that draft tokens.
std::vector<std::uint32_t> read_ratios(Fields& fields, std::size_t layers) {
  constexpr Key kRatios = {"attention.compress_ratios", "compress_ratios"};
  if (fields.gguf()) {
    std::vector<std::uint32_t> given = fields.counts(kRatios, layers, load::kLargestRatio);
    if (given.empty())
      fields.reject(kRatios, "missing", fmt::format("an array of {} integers", layers),
                    ErrorKind::kInvalid);
    given.resize(layers);
    return given;
  }
  const nlohmann::json* list = fields.member("compress_ratios");
  std::vector<std::uint32_t> ratios(layers, 0);
  const std::string valid = fmt::format("a list of at least {} numbers", layers);
  if (list == nullptr || !list->is_array() || list->size() < layers) {
    fields.reject(kRatios, list == nullptr ? "missing" : load::text_of(*list), valid,
                  ErrorKind::kInvalid);
    return ratios;
  }
  for (std::size_t i = 0; i < layers; ++i) {
    const nlohmann::json& ratio = (*list)[i];
    if (!ratio.is_number_unsigned() || ratio > load::kLargestRatio) {
      fields.reject(kRatios, load::text_of(ratio), fmt::format("0 to {}", load::kLargestRatio),
                    ErrorKind::kInvalid);
      return ratios;
    }
    ratios[i] = ratio.get<std::uint32_t>();
  }
  return ratios;
}

CompressedConfig read_mixer(Fields& fields, const NormConfig& norm, ModelConfig& config) {
  CompressedConfig out;
  out.norm = norm;
  out.heads =
      fields.required_count({"attention.head_count", "num_attention_heads"}, 1, load::kMostHeads);
  fields.count({"attention.head_count_kv", "num_key_value_heads"}, 1, 1);
  out.head_dim =
      fields.required_count({"attention.key_length", "head_dim"}, 2, load::kLargestLatent);
  out.rope_dim =
      fields.required_count({"rope.dimension_count", "qk_rope_head_dim"}, 2, load::kLargestLatent);
  out.query_rank =
      fields.required_count({"attention.q_lora_rank", "q_lora_rank"}, 1, load::kLargestHiddenSize);
  out.window = fields.required_count({"attention.sliding_window", "sliding_window"}, 1,
                                     load::kLargestContext);
  out.groups =
      fields.required_count({"attention.output_group_count", "o_groups"}, 1, load::kMostHeads);
  out.group_rank = fields.required_count({"attention.output_lora_rank", "o_lora_rank"}, 1,
                                         load::kLargestHiddenSize);
  out.index_heads =
      fields.required_count({"attention.indexer.head_count", "index_n_heads"}, 1, load::kMostHeads);
  out.index_dim = fields.required_count({"attention.indexer.key_length", "index_head_dim"}, 2,
                                        load::kLargestLatent);
  out.index_top =
      fields.required_count({"attention.indexer.top_k", "index_topk"}, 1, load::kLargestContext);
  // One vector is both.
  fields.count({"attention.value_length", ""}, out.head_dim, out.head_dim);
  out.scale = 1.0F / std::sqrt(static_cast<float>(out.head_dim));
  // Layers that see a window alone are not scaled.
  config.ropes.push_back(read_rope(fields,
                                   {.head_dim = out.rope_dim,
                                    .interleaved_in_gguf = true,
                                    .interleaved_in_hf = true,
                                    .layer_type = "main",
                                    .scaled = false},
                                   config));
  config.ropes.push_back(
      read_rope(fields,
                {.head_dim = out.rope_dim,
                 .theta = 160000.0F,
                 .interleaved_in_gguf = true,
                 .interleaved_in_hf = true,
                 .base = {"attention.compress_rope_freq_base", "compress_rope_theta"}},
                config));
  config.ropes.back().attention_factor = 1.0F;
  return out;
}

// What gates and what they multiply are clamped by. GGUF files say it layer by layer, and for the
// shared expert as well.
float read_limit(Fields& fields) {
  if (!fields.gguf())
    return fields.number({"", "swiglu_limit"}, 0.0F, load::kLargestFactor).value_or(0.0F);
  std::optional<float> limit;
  for (const Key key : {Key{"swiglu_clamp_exp", ""}, Key{"swiglu_clamp_shexp", ""}}) {
    for (const float one : fields.of_gguf().floats(fields.gguf_key(key.gguf))) {
      if (one == limit.value_or(one) && one >= 0.0F && one <= load::kLargestFactor) {
        limit = one;
      } else {
        fields.reject(key, fmt::format("{}", one),
                      fmt::format("one number from 0 to {} for all layers", load::kLargestFactor));
      }
    }
  }
  return limit.value_or(0.0F);
}

ExpertsConfig read_token_experts(Fields& fields) {
  ExpertFields names;
  names.count = "n_routed_experts";
  names.gating = 4;
  names.kind = "roots of softplus";
  ExpertsConfig experts = read_experts(fields, names);
  constexpr Key kScores = {"", "scoring_func"};
  if (const auto scores = fields.text(kScores); scores && *scores != "sqrtsoftplus")
    fields.reject(kScores, load::quote(*scores), "'sqrtsoftplus'");
  constexpr Key kMethod = {"", "topk_method"};
  if (const auto method = fields.text(kMethod); method && *method != "noaux_tc")
    fields.reject(kMethod, load::quote(*method), "'noaux_tc'");
  // The tensors tell it as well; a type that comes later is told by this alone.
  constexpr Key kStored = {"", "expert_dtype"};
  if (const auto type = fields.text(kStored); type && *type != "fp4" && *type != "fp8")
    fields.reject(kStored, load::quote(*type), "'fp4' or 'fp8'");
  experts.gate = load::ExpertGate::kRootSoftplus;
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(true);
  experts.least_sum = 1e-20F;
  experts.scale =
      fields.number({"expert_weights_scale", "routed_scaling_factor"}, 0.0F, load::kLargestFactor)
          .value_or(1.0F);
  experts.limit = read_limit(fields);
  const auto shared =
      fields.count({"expert_shared_count", "n_shared_experts"}, 0, load::kMostUsedExperts);
  experts.shared_size = shared.value_or(0) * experts.size;
  return experts;
}

void read_deepseek_v4(Fields& fields, ModelConfig& config) {
  std::uint32_t layers = read_sizes(fields, config);
  if (fields.gguf()) {
    drop_draft_layers(fields, layers, config);
  } else {
    config.draft_layers =
        fields.count({"", "num_nextn_predict_layers"}, 0, load::kMostLayers).value_or(0);
  }
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  config.hyper.streams =
      fields.required_count({"hyper_connection.count", "hc_mult"}, 2, load::kMostStreams);
  config.hyper.iterations = fields.required_count(
      {"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters"}, 1, load::kMostIterations);
  config.hyper.epsilon = fields.required_number({"hyper_connection.epsilon", "hc_eps"}, 0.0F, 1.0F);
  config.hyper.norm_epsilon = norm.epsilon;
  const CompressedConfig mixer = read_mixer(fields, norm, config);
  const ExpertsConfig experts = read_token_experts(fields);
  const std::uint32_t by_token =
      fields.count({"hash_layer_count", "num_hash_layers"}, 0, load::kMostLayers).value_or(0);
  const auto layer_of = [&](std::uint32_t ratio, bool hashes) {
    LayerConfig layer;
    layer.mixer_norms.before = layer.mlp_norms.before = norm;
    CompressedConfig mine = mixer;
    mine.ratio = ratio;
    mine.overlaps = ratio == kOverlapping;
    mine.rope = ratio == 0 ? 0 : 1;
    if (!mine.overlaps) mine.index_heads = mine.index_dim = mine.index_top = 0;
    layer.mixer = mine;
    ExpertsConfig chosen = experts;
    chosen.by_token = hashes;
    chosen.picks_biased = !hashes;
    layer.mlp = chosen;
    return layer;
  };
  const std::uint32_t streams = config.hyper.streams * config.hidden_size;
  fields.count({"embedding_length_out", ""}, streams, streams);
  const std::vector<std::uint32_t> ratios = read_ratios(fields, layers);
  for (std::uint32_t i = 0; i < layers; ++i)
    config.layers.push_back(layer_of(ratios[i], i < by_token));
  if (config.draft_layers > 0 &&
      (fields.described() ||
       fields.has_tensor(fmt::format("blk.{}.nextn.e_proj.weight", layers)))) {
    config.draft_layer = layer_of(0, false);
  }
}

constexpr Rename kDeepseekV4HfNames[] = {
    {"embed", "token_embd"},
    {"norm", "output_norm"},
    {"head", "output"},
    {"hc_head_fn", "output_hc.fn"},
    {"hc_head_base", "output_hc.base"},
    {"hc_head_scale", "output_hc.scale"},
    {"layers.*.attn_norm", "blk.*.attn_norm"},
    {"layers.*.ffn_norm", "blk.*.ffn_norm"},
    {"layers.*.hc_attn_fn", "blk.*.hc_attn.fn"},
    {"layers.*.hc_attn_base", "blk.*.hc_attn.base"},
    {"layers.*.hc_attn_scale", "blk.*.hc_attn.scale"},
    {"layers.*.hc_ffn_fn", "blk.*.hc_ffn.fn"},
    {"layers.*.hc_ffn_base", "blk.*.hc_ffn.base"},
    {"layers.*.hc_ffn_scale", "blk.*.hc_ffn.scale"},
    {"layers.*.attn.wq_a", "blk.*.attn_q_a"},
    {"layers.*.attn.q_norm", "blk.*.attn_q_a_norm"},
    {"layers.*.attn.wq_b", "blk.*.attn_q_b"},
    {"layers.*.attn.wkv", "blk.*.attn_kv"},
    {"layers.*.attn.kv_norm", "blk.*.attn_kv_norm"},
    {"layers.*.attn.attn_sink", "blk.*.attn_sinks.weight"},
    {"layers.*.attn.wo_a", "blk.*.attn_output_a"},
    {"layers.*.attn.wo_b", "blk.*.attn_output"},
    {"layers.*.attn.compressor.wkv", "blk.*.compress_kv"},
    {"layers.*.attn.compressor.wgate", "blk.*.compress_gate"},
    {"layers.*.attn.compressor.ape", "blk.*.compress_ape.weight"},
    {"layers.*.attn.compressor.norm", "blk.*.compress_norm"},
    {"layers.*.attn.indexer.wq_b", "blk.*.indexer.attn_q_b"},
    {"layers.*.attn.indexer.weights_proj", "blk.*.indexer.proj"},
    {"layers.*.attn.indexer.compressor.wkv", "blk.*.indexer.compress_kv"},
    {"layers.*.attn.indexer.compressor.wgate", "blk.*.indexer.compress_gate"},
    {"layers.*.attn.indexer.compressor.ape", "blk.*.indexer.compress_ape.weight"},
    {"layers.*.attn.indexer.compressor.norm", "blk.*.indexer.compress_norm"},
    {"layers.*.ffn.gate.bias", "blk.*.exp_probs_b.bias"},
    {"layers.*.ffn.gate.tid2eid", "blk.*.ffn_token_experts.weight"},
    {"layers.*.ffn.gate", "blk.*.ffn_gate_inp"},
    {"layers.*.ffn.experts.*.w1", "blk.*.ffn_gate.*"},
    {"layers.*.ffn.experts.*.w2", "blk.*.ffn_down.*"},
    {"layers.*.ffn.experts.*.w3", "blk.*.ffn_up.*"},
    {"layers.*.ffn.shared_experts.w1", "blk.*.ffn_gate_shexp"},
    {"layers.*.ffn.shared_experts.w2", "blk.*.ffn_down_shexp"},
    {"layers.*.ffn.shared_experts.w3", "blk.*.ffn_up_shexp"},
    // Of the layers that draft tokens, which files call mtp.0 and so on.
    {"layers.*.e_proj", "blk.*.nextn.e_proj"},
    {"layers.*.h_proj", "blk.*.nextn.h_proj"},
    {"layers.*.enorm", "blk.*.nextn.enorm"},
    {"layers.*.hnorm", "blk.*.nextn.hnorm"},
    {"layers.*.norm", "blk.*.nextn.shared_head_norm"},
    {"layers.*.hc_head_fn", "blk.*.nextn.hc_head.fn"},
    {"layers.*.hc_head_base", "blk.*.nextn.hc_head.base"},
    {"layers.*.hc_head_scale", "blk.*.nextn.hc_head.scale"},
};

// llama.cpp's (its pull request 24162). Its files have no layer that drafts: the converter writes
// one into a file of its own.
constexpr Rename kDeepseekV4GgufNames[] = {
    {"output_hc_fn.weight", "output_hc.fn"},
    {"output_hc_base.weight", "output_hc.base"},
    {"output_hc_scale.weight", "output_hc.scale"},
    {"blk.*.hc_attn_fn.weight", "blk.*.hc_attn.fn"},
    {"blk.*.hc_attn_base.weight", "blk.*.hc_attn.base"},
    {"blk.*.hc_attn_scale.weight", "blk.*.hc_attn.scale"},
    {"blk.*.hc_ffn_fn.weight", "blk.*.hc_ffn.fn"},
    {"blk.*.hc_ffn_base.weight", "blk.*.hc_ffn.base"},
    {"blk.*.hc_ffn_scale.weight", "blk.*.hc_ffn.scale"},
    {"blk.*.attn_kv_a_norm", "blk.*.attn_kv_norm"},
    {"blk.*.attn_output_b", "blk.*.attn_output"},
    {"blk.*.attn_compressor_kv", "blk.*.compress_kv"},
    {"blk.*.attn_compressor_gate", "blk.*.compress_gate"},
    {"blk.*.attn_compressor_ape", "blk.*.compress_ape"},
    {"blk.*.attn_compressor_norm", "blk.*.compress_norm"},
    {"blk.*.indexer_compressor_kv", "blk.*.indexer.compress_kv"},
    {"blk.*.indexer_compressor_gate", "blk.*.indexer.compress_gate"},
    {"blk.*.indexer_compressor_ape", "blk.*.indexer.compress_ape"},
    {"blk.*.indexer_compressor_norm", "blk.*.indexer.compress_norm"},
    {"blk.*.ffn_gate_tid2eid", "blk.*.ffn_token_experts"},
};

// Layers that draft tokens, "mtp.0." and so on, are numbered on from the others.
std::string v4_draft_name(std::string stored, std::uint32_t layers) {
  constexpr std::string_view kDrafts = "mtp.";
  if (!stored.starts_with(kDrafts)) return stored;
  const std::string_view name = std::string_view(stored).substr(kDrafts.size());
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (failure != std::errc() || number >= load::kMostLayers) return stored;
  return fmt::format("layers.{}{}", layers + number,
                     name.substr(static_cast<std::size_t>(end - name.data())));
}

// Numbers of experts as floats, which have them exactly; what is none of one becomes -1.
void make_floats(load::StoredTensor& tensor, Owned& owned) {
  const bool wide = tensor.stored_type == "I64";
  if (!wide && tensor.stored_type != "I32") return;
  const std::size_t bytes = wide ? 8 : 4;
  const auto floats = std::make_shared<std::vector<float>>(tensor.data.size() / bytes);
  for (std::size_t i = 0; i < floats->size(); ++i) {
    std::int64_t number = 0;
    std::int32_t narrow = 0;
    std::memcpy(wide ? static_cast<void*>(&number) : &narrow, tensor.data.data() + i * bytes,
                bytes);
    if (!wide) number = narrow;
    (*floats)[i] = number >= 0 && number < load::kMostExperts ? static_cast<float>(number) : -1.0F;
  }
  tensor.type = kernels::DataType::kF32;
  tensor.data = std::as_bytes(std::span(*floats));
  owned.push_back(floats);
}

// The two halves of a matrix's columns, of any type whose blocks the middle does not cut. Each is
// every other row of the file's bytes, which are copied only for what is computed with them.
std::optional<std::array<load::StoredTensor, 2>> halves(const load::StoredTensor& tensor) {
  if (!tensor.type || tensor.parts || tensor.shape.size() != 2) return {};
  const std::uint64_t columns = tensor.shape[1] / 2;
  const std::size_t block = kernels::info(*tensor.type).elements_per_block;
  if (tensor.shape[1] % 2 != 0 || columns % block != 0) return {};
  std::array<load::StoredTensor, 2> out = {tensor, tensor};
  for (std::size_t half = 0; half < 2; ++half) {
    load::StoredParts parts;
    parts.type = *tensor.type;
    parts.rows = static_cast<std::size_t>(tensor.shape[0]);
    parts.columns = static_cast<std::size_t>(columns);
    parts.first_row = half;
    parts.row_step = 2;
    parts.codes = load::StoredParts::Codes::kRows;
    parts.bytes = tensor.data;
    out[half].shape = {tensor.shape[0], columns};
    out[half].data = {};
    out[half].parts = std::make_shared<const load::StoredParts>(parts);
  }
  return out;
}

// Of GGUF files, where one matrix is for the embedding and the hidden row behind it: two here,
// since there are several hidden rows for one embedding.
Status cut_draft_input(load::StoredTensors& tensors) {
  constexpr std::string_view kBoth = "nextn.eh_proj.weight";
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with(kBoth)) names.push_back(name);
  for (const std::string& name : names) {
    const load::StoredTensor tensor = tensors.at(name);
    const auto both = halves(tensor);
    if (!both) {
      return fail(ErrorKind::kUnsupported,
                  "{}: tensor {}: shape {} of type {}; valid: rows of two halves in whole blocks",
                  tensor.file, load::quote(tensor.stored_name), load::shape_text(tensor.shape),
                  load::quote(tensor.stored_type));
    }
    const std::string prefix = name.substr(0, name.size() - kBoth.size());
    tensors.erase(name);
    tensors.insert_or_assign(prefix + "nextn.e_proj.weight", (*both)[0]);
    tensors.insert_or_assign(prefix + "nextn.h_proj.weight", (*both)[1]);
  }
  return {};
}

Status adapt_deepseek_v4(load::StoredTensors& tensors, Owned& owned) {
  for (auto& [name, tensor] : tensors)
    if (name.ends_with(".ffn_token_experts.weight")) make_floats(tensor, owned);
  return cut_draft_input(tensors);
}

}  // namespace

constinit const Reader kDeepseekV4 = {.read = read_deepseek_v4,
                                      .hf_names = kDeepseekV4HfNames,
                                      .gguf_names = kDeepseekV4GgufNames,
                                      .adapt = adapt_deepseek_v4,
                                      .draft_name = v4_draft_name};

}  // namespace dovetail::families
