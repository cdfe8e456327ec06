#include "load/tensor_binding.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_set>
#include <variant>

#include "load/quote.h"
#include "load/stored_parts.h"
#include "load/tensor_roles.h"

namespace dovetail::load {
namespace {

class Binder {
 public:
  // With `type_of` nothing is stored, and all that is called for is taken to be there.
  Binder(const ModelConfig& config, const StoredTensors& stored, std::string_view source,
         const TypeOfTensor* type_of = nullptr)
      : config_(config), stored_(stored), source_(source), type_of_(type_of) {}

  Result<std::unordered_map<std::string, TensorView>> bind() {
    const std::size_t hidden = config_.hidden_size;
    table("token_embd.weight", config_.vocab_size, hidden);
    if (config_.learned_positions) {
      const std::size_t positions = std::size_t{config_.max_context} + config_.position_offset;
      table("position_embd.weight", positions, hidden);
    }
    if (config_.token_types) table("token_types.weight", rows_of("token_types.weight"), hidden);
    norm(config_.embedding_norm, "token_embd_norm", hidden);
    norm(config_.output_norm, "output_norm", hidden);
    bind_stream_head("output_hc");
    if (config_.has_logits && !config_.tied_embeddings)
      matrix("output.weight", config_.vocab_size, hidden);
    for (std::uint32_t layer = 0; layer < config_.layers.size() && !error_; ++layer)
      bind(config_.layers[layer], fmt::format("blk.{}.", layer));
    if (config_.draft_layer && !error_) bind_draft_layer(hidden);
    bind_head();
    check_left_over();
    if (error_) return fail(*std::move(error_));
    return std::move(bound_);
  }

 private:
  struct Shape {
    std::size_t rows;
    std::size_t columns;
    friend bool operator==(const Shape&, const Shape&) = default;
  };

  // Several matrices one above the other in one tensor, of each expert if it is one of all of them:
  // their rows, and the first of the one in question.
  struct Fused {
    std::string_view name;  // without its ending; empty: there is none
    std::size_t rows;
    std::size_t first;
  };

  void bind_draft_layer(std::size_t hidden) {
    const std::string prefix = config_.draft_prefix();
    if (config_.hyper.streams > 1) {
      matrix(prefix + "nextn.e_proj.weight", hidden, hidden);
      matrix(prefix + "nextn.h_proj.weight", hidden, hidden);
      bind_stream_head(prefix + "nextn.hc_head");
    } else {
      matrix(prefix + "nextn.eh_proj.weight", hidden, 2 * hidden);
    }
    norm(config_.output_norm, prefix + "nextn.enorm", hidden);
    norm(config_.output_norm, prefix + "nextn.hnorm", hidden);
    norm(config_.output_norm, prefix + "nextn.shared_head_norm", hidden);
    bind(*config_.draft_layer, prefix);
  }

  // The weights of a sum of the streams.
  void bind_stream_head(const std::string& name) {
    const std::size_t streams = config_.hyper.streams;
    if (streams > 1) bind_hyper(name, streams, 1);
  }

  void bind_hyper(const std::string& name, std::size_t weights, std::size_t scales) {
    const std::size_t row = std::size_t{config_.hyper.streams} * config_.hidden_size;
    table(name + ".fn", weights, row);
    vector(name + ".base", weights);
    vector(name + ".scale", scales);
  }

  void bind_head() {
    std::size_t width = config_.hidden_size;
    for (const HeadConfig& part : config_.head) {
      product(part.name, {part.size, width}, part.bias);
      norm(part.norm, part.name + ".norm", part.size);
      width = part.size;
    }
  }

  void bind(const LayerConfig& layer, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    if (config_.hyper.streams > 1) {
      bind_hyper(prefix + "hc_attn", config_.hyper.weights(), 3);
      bind_hyper(prefix + "hc_ffn", config_.hyper.weights(), 3);
    }
    norm(layer.mixer_norms.before, prefix + "attn_norm", hidden);
    norm(layer.mixer_norms.behind, prefix + "post_attention_norm", hidden);
    norm(layer.mixer_norms.after, prefix + "attn_output_norm", hidden);
    std::visit([&](const auto& mixer) { bind(mixer, prefix); }, layer.mixer);
    norm(layer.mlp_norms.before, prefix + "ffn_norm", hidden);
    norm(layer.mlp_norms.behind, prefix + "post_ffw_norm", hidden);
    norm(layer.mlp_norms.after, prefix + "layer_output_norm", hidden);
    if (const MlpConfig* mlp = layer.dense()) {
      bind(*mlp, prefix);
    } else {
      bind(*layer.experts(), prefix);
    }
  }

  void bind(const AttentionConfig& attention, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t query = std::size_t{attention.heads} * attention.head_dim;
    const std::size_t key = std::size_t{attention.kv_heads} * attention.head_dim;
    const std::size_t query_rows = attention.gated ? 2 * query : query;
    const std::string fused = prefix + "attn_qkv";
    const std::size_t all = query_rows + 2 * key;
    product(prefix + "attn_q", {query_rows, hidden}, attention.bias, {fused, all, 0});
    product(prefix + "attn_k", {key, hidden}, attention.bias, {fused, all, query_rows});
    product(prefix + "attn_v", {key, hidden}, attention.bias, {fused, all, query_rows + key});
    product(prefix + "attn_output", {hidden, query}, attention.output_bias);
    if (attention.sinks) vector(prefix + "attn_sinks.weight", attention.heads);
    const bool by_row = attention.query_key_norm == QueryKeyNorm::kRow;
    if (attention.query_key_norm != QueryKeyNorm::kNone) {
      norm(attention.norm, prefix + "attn_q_norm", by_row ? query : attention.head_dim);
      norm(attention.norm, prefix + "attn_k_norm", by_row ? key : attention.head_dim);
    }
  }

  void bind(const LatentConfig& latent, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t heads = latent.heads;
    const std::size_t query = heads * latent.head_dim();
    if (latent.query_rank == 0) {
      matrix(prefix + "attn_q.weight", query, hidden);
    } else {
      matrix(prefix + "attn_q_a.weight", latent.query_rank, hidden);
      norm(latent.norm, prefix + "attn_q_a_norm", latent.query_rank);
      matrix(prefix + "attn_q_b.weight", query, latent.query_rank);
    }
    matrix(prefix + "attn_kv_a_mqa.weight", latent.cached_dim(), hidden);
    norm(latent.norm, prefix + "attn_kv_a_norm", latent.latent_dim);
    if (latent.split) {
      stack(prefix + "attn_k_b.weight", heads, latent.latent_dim, latent.key_dim);
      stack(prefix + "attn_v_b.weight", heads, latent.value_dim, latent.latent_dim);
    } else {
      matrix(prefix + "attn_kv_b.weight", heads * (latent.key_dim + latent.value_dim),
             latent.latent_dim);
    }
    matrix(prefix + "attn_output.weight", hidden, heads * latent.value_dim);
    if (latent.index_heads == 0) return;
    const std::size_t index = std::size_t{latent.index_heads} * latent.index_dim;
    matrix(prefix + "indexer.attn_q_b.weight", index, latent.query_rank);
    matrix(prefix + "indexer.attn_k.weight", latent.index_dim, hidden);
    norm(latent.index_norm, prefix + "indexer.k_norm", latent.index_dim);
    matrix(prefix + "indexer.proj.weight", latent.index_heads, hidden);
  }

  void bind(const CompressedConfig& config, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t dim = config.head_dim;
    const std::size_t query = config.heads * dim;
    matrix(prefix + "attn_q_a.weight", config.query_rank, hidden);
    norm(config.norm, prefix + "attn_q_a_norm", config.query_rank);
    matrix(prefix + "attn_q_b.weight", query, config.query_rank);
    matrix(prefix + "attn_kv.weight", dim, hidden);
    norm(config.norm, prefix + "attn_kv_norm", dim);
    vector(prefix + "attn_sinks.weight", config.heads);
    const std::size_t ranks = std::size_t{config.groups} * config.group_rank;
    matrix(prefix + "attn_output_a.weight", ranks, query / config.groups);
    matrix(prefix + "attn_output.weight", hidden, ranks);
    if (config.ratio == 0) return;
    bind_compressor(config, prefix + "compress", dim);
    if (config.index_heads == 0) return;
    const std::size_t index = config.index_dim;
    matrix(prefix + "indexer.attn_q_b.weight", config.index_heads * index, config.query_rank);
    matrix(prefix + "indexer.proj.weight", config.index_heads, hidden);
    bind_compressor(config, prefix + "indexer.compress", index);
  }

  void bind_compressor(const CompressedConfig& config, const std::string& name, std::size_t dim) {
    const std::size_t channels = config.halves() * dim;
    matrix(name + "_kv.weight", channels, config_.hidden_size);
    matrix(name + "_gate.weight", channels, config_.hidden_size);
    table(name + "_ape.weight", config.ratio, channels);
    if (is_stored()) check_plain(stored_.at(name + "_ape.weight"));
    norm(config.norm, name + "_norm", dim);
  }

  void bind(const DeltaConfig& delta, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    if (delta.grouped_input) {
      matrix(prefix + "ssm_in.weight", delta.channels() + delta.value_size(), hidden);
    } else {
      matrix(prefix + "attn_qkv.weight", delta.channels(), hidden);
      matrix(prefix + "attn_gate.weight", delta.value_size(), hidden);
    }
    if (delta.grouped_rates) {
      matrix(prefix + "ssm_ba.weight", std::size_t{2} * delta.value_heads, hidden);
    } else {
      matrix(prefix + "ssm_beta.weight", delta.value_heads, hidden);
      matrix(prefix + "ssm_alpha.weight", delta.value_heads, hidden);
    }
    table(prefix + "ssm_conv1d.weight", delta.channels(), delta.convolution);
    vector(prefix + "ssm_dt.bias", delta.value_heads);
    vector(prefix + (delta.log_rates ? "ssm_a_log" : "ssm_a"), delta.value_heads);
    vector(prefix + "ssm_norm.weight", delta.value_dim);
    matrix(prefix + "ssm_out.weight", hidden, delta.value_size());
  }

  void bind(const ShortConvConfig& convolution, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t channels = convolution.channels;
    matrix(prefix + "shortconv.in_proj.weight", 3 * channels, hidden);
    table(prefix + "shortconv.conv.weight", channels, convolution.convolution);
    matrix(prefix + "shortconv.out_proj.weight", hidden, channels);
  }

  void bind(const MlpConfig& mlp, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::string up = prefix + "ffn_up";
    if (!mlp.gated) {
      product(up, {mlp.size, hidden}, mlp.bias);
    } else if (stored_.contains(prefix + "ffn_gate.weight") || !stored_.contains(up + ".weight") ||
               shape_of(stored_.at(up + ".weight")).rows != 2 * std::size_t{mlp.size}) {
      product(prefix + "ffn_gate", {mlp.size, hidden}, mlp.bias);
      product(up, {mlp.size, hidden}, mlp.bias);
    } else {
      // The gate's rows come first.
      const std::size_t both = 2 * std::size_t{mlp.size};
      slice(prefix + "ffn_gate", ".weight", {mlp.size, hidden}, {up, both, 0});
      slice(up, ".weight", {mlp.size, hidden}, {up, both, mlp.size});
      if (mlp.bias) slice(prefix + "ffn_gate", ".bias", {mlp.size, 1}, {up, both, 0});
      if (mlp.bias) slice(up, ".bias", {mlp.size, 1}, {up, both, mlp.size});
    }
    product(prefix + "ffn_down", {hidden, mlp.size}, mlp.bias);
  }

  void bind(const ExpertsConfig& experts, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    product(prefix + "ffn_gate_inp", {experts.count, hidden}, experts.bias);
    if (experts.picks_biased) vector(prefix + "exp_probs_b.bias", experts.count);
    if (experts.by_token) bind_token_experts(experts, prefix + "ffn_token_experts.weight");
    const std::size_t size = experts.size;
    const std::string fused = prefix + "ffn_gate_up_exps";
    bind_experts(prefix + "ffn_gate", experts, {size, hidden}, {fused, 2 * size, 0});
    bind_experts(prefix + "ffn_up", experts, {size, hidden}, {fused, 2 * size, size});
    bind_experts(prefix + "ffn_down", experts, {hidden, size});
    if (experts.shared_size == 0) return;
    const std::size_t shared = experts.shared_size;
    const std::string both = prefix + "ffn_gate_up_shexp";
    product(prefix + "ffn_gate_shexp", {shared, hidden}, false, {both, 2 * shared, 0});
    product(prefix + "ffn_up_shexp", {shared, hidden}, false, {both, 2 * shared, shared});
    matrix(prefix + "ffn_down_shexp.weight", hidden, shared);
    if (experts.shared_gated) matrix(prefix + "ffn_gate_inp_shexp.weight", 1, hidden);
  }

  // A family has made floats of the numbers, so that they are exact.
  void bind_token_experts(const ExpertsConfig& experts, const std::string& name) {
    table(name, config_.vocab_size, experts.used);
    if (!is_stored()) return;
    const StoredTensor& tensor = stored_.at(name);
    if (tensor.type != kernels::DataType::kF32) {
      return reject(tensor, fmt::format("type {}", quote(tensor.stored_type)), "whole numbers",
                    ErrorKind::kUnsupported);
    }
    for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
      float expert = 0.0F;
      std::memcpy(&expert, tensor.data.data() + at, sizeof expert);
      if (expert >= 0.0F && expert < static_cast<float>(experts.count)) continue;
      return reject(tensor, fmt::format("expert {}", expert),
                    fmt::format("0 to {}", experts.count - 1), ErrorKind::kInvalid);
    }
  }

  void norm(const NormConfig& config, const std::string& name, std::size_t elements) {
    if (!config) return;
    vector(name + ".weight", elements);
    if (config.bias) vector(name + ".bias", elements);
  }

  // A matrix and the bias of its rows, on their own or as rows of a fused tensor.
  void product(const std::string& name, Shape wanted, bool bias, Fused fused = {{}, 0, 0}) {
    const auto is_fused = [&](std::string_view ending) {
      return !fused.name.empty() && !stored_.contains(fmt::format("{}{}", name, ending)) &&
             stored_.contains(fmt::format("{}{}", fused.name, ending));
    };
    if (is_fused(".weight")) {
      slice(name, ".weight", wanted, fused);
    } else {
      matrix(name + ".weight", wanted.rows, wanted.columns);
    }
    if (!bias) return;
    if (is_fused(".bias")) {
      slice(name, ".bias", {wanted.rows, 1}, fused);
    } else {
      vector(name + ".bias", wanted.rows);
    }
  }

  void matrix(const std::string& name, std::size_t rows, std::size_t columns) {
    pick(name, {rows, columns});
    if (is_stored()) bound_.at(name).factor = factor_of(stored_.at(name), scales_of(name, 1));
  }
  // One that no product reads by columns: rows are looked up, or read in a way of their own.
  void table(const std::string& name, std::size_t rows, std::size_t columns) {
    pick(name, {rows, columns});
    if (!is_stored() || stored_.at(name).factor == 1.0F) return;
    reject(stored_.at(name), "a scale for all of the tensor beside those of its groups",
           "none, since it is no product's matrix", ErrorKind::kUnsupported);
  }
  // As many matrices in one tensor, one above the other.
  void stack(const std::string& name, std::size_t count, std::size_t rows, std::size_t columns) {
    if (error_) return;
    const auto found = stored_.find(name);
    const std::vector<std::uint64_t> shape = {count, rows, columns};
    if (found == stored_.end()) return pick(name, {count * rows, columns});
    const StoredTensor& tensor = found->second;
    if (!tensor.type || !same_shape(tensor.shape, shape)) {
      const std::string valid = shape_text(shape);
      return reject(tensor, "shape " + shape_text(tensor.shape), valid, ErrorKind::kInvalid);
    }
    used_.insert(found->first);
    const float factor = factor_of(tensor, scales_of(name, 1));
    bound_.emplace(
        name, TensorView{*tensor.type, count * rows, columns, tensor.data, tensor.parts, factor});
  }
  void vector(const std::string& name, std::size_t elements) {
    pick(name, {1, elements});
    if (is_stored()) check_plain(stored_.at(name));
  }

  // Norms and biases are never quantised.
  void check_plain(const StoredTensor& tensor) {
    if (is_plain(*tensor.type)) return;
    reject(tensor, fmt::format("type {}", quote(tensor.stored_type)),
           "F32, F16 or BF16 for a norm or a bias", ErrorKind::kUnsupported);
  }

  // The rows of `wanted` from a fused tensor; of a bias, whose rows have one element, its elements.
  void slice(const std::string& name, std::string_view ending, Shape wanted, Fused fused) {
    if (error_) return;
    const auto found = stored_.find(fmt::format("{}{}", fused.name, ending));
    const bool bias = ending == ".bias";
    const Shape whole = bias ? Shape{1, fused.rows} : Shape{fused.rows, wanted.columns};
    if (!fits(found == stored_.end() ? nullptr : &found->second,
              fmt::format("{}{}", fused.name, ending), whole)) {
      return;
    }
    const StoredTensor& tensor = found->second;
    if (bias) check_plain(tensor);
    if (error_) return;
    const std::size_t row = row_bytes(*tensor.type, wanted.columns);
    TensorView view{*tensor.type, wanted.rows, wanted.columns, {}};
    if (tensor.parts) {
      auto parts = std::make_shared<StoredParts>(*tensor.parts);
      parts->rows = wanted.rows;
      parts->first_row += fused.first * parts->row_step;
      view.parts = std::move(parts);
    } else {
      view.data = tensor.data.subspan(fused.first * row, wanted.rows * row);
    }
    view.factor = factor_of(tensor, scales_of(found->first, 1));
    if (bias) std::swap(view.rows, view.columns);
    used_.insert(found->first);
    bound_.insert_or_assign(fmt::format("{}{}", name, ending), std::move(view));
  }

  // The matrices of all experts of a layer: one tensor of them all, which may have another matrix
  // of each expert as well, or a tensor for each; with their biases.
  void bind_experts(const std::string& stem, const ExpertsConfig& experts, Shape wanted,
                    Fused fused = {{}, 0, 0}) {
    if (error_) return;
    const std::uint32_t count = experts.count;
    const std::string all = stem + "_exps";
    if (type_of_ != nullptr) {
      // Without an allocation for each, which nothing in a file stands against.
      matrix(all + ".weight", count * wanted.rows, wanted.columns);
      if (experts.bias) matrix(all + ".bias", count, wanted.rows);
      return;
    }
    if (experts.bias) cut(stem, ".bias", count, {1, wanted.rows}, {all, 1, 0});
    if (stored_.contains(all + ".weight"))
      return cut(stem, ".weight", count, wanted, {all, wanted.rows, 0});
    if (!fused.name.empty() && stored_.contains(fmt::format("{}.weight", fused.name)))
      return cut(stem, ".weight", count, wanted, fused);
    std::optional<kernels::DataType> type;
    for (std::uint32_t expert = 0; expert < count; ++expert) {
      const std::string name = expert_name(stem, expert, ".weight");
      matrix(name, wanted.rows, wanted.columns);
      if (error_) return;
      const StoredTensor& tensor = stored_.at(name);
      if (!type) type = tensor.type;
      if (*tensor.type == *type) continue;
      reject(tensor, fmt::format("type {}", quote(tensor.stored_type)),
             fmt::format("{}, as of expert 0 of the layer", info(*type).name),
             ErrorKind::kUnsupported);
      return;
    }
  }

  // A tensor of all experts of a layer, outermost first, to one for each; a bias has one row.
  void cut(const std::string& stem, std::string_view ending, std::uint32_t count, Shape wanted,
           Fused from) {
    if (error_) return;
    const bool bias = ending == ".bias";
    const std::string stored = fmt::format("{}{}", from.name, ending);
    std::vector<std::uint64_t> shape = {count, from.rows, wanted.columns};
    if (bias) shape = {count, wanted.columns};
    const auto found = stored_.find(stored);
    if (found == stored_.end()) {
      error_ = Error{ErrorKind::kInvalid,
                     fmt::format("{}: tensor {}: missing; valid: a tensor of shape {}", source_,
                                 quote(stored), shape_text(shape))};
      return;
    }
    const StoredTensor& tensor = found->second;
    if (!tensor.type) {
      reject(tensor, fmt::format("type {}", quote(tensor.stored_type)), "F32, F16 or BF16",
             ErrorKind::kUnsupported);
      return;
    }
    if (bias) check_plain(tensor);
    if (error_) return;
    if (!same_shape(tensor.shape, shape)) {
      reject(tensor, "shape " + shape_text(tensor.shape), shape_text(shape), ErrorKind::kInvalid);
      return;
    }
    const std::size_t row = row_bytes(*tensor.type, wanted.columns);
    const StoredTensor* scales = scales_of(stored, count);
    for (std::uint32_t expert = 0; expert < count && !error_; ++expert) {
      std::string name = expert_name(stem, expert, ending);
      if (const auto twice = stored_.find(name); twice != stored_.end()) {
        reject(twice->second, fmt::format("given beside {}", quote(tensor.stored_name)),
               "one of the two", ErrorKind::kInvalid);
        return;
      }
      const std::size_t first = expert * from.rows + from.first;
      TensorView view{*tensor.type, wanted.rows, wanted.columns, {}};
      if (tensor.parts) {
        auto parts = std::make_shared<StoredParts>(*tensor.parts);
        parts->rows = wanted.rows;
        parts->first_row += first * parts->row_step;
        view.parts = std::move(parts);
      } else {
        view.data = tensor.data.subspan(first * row, wanted.rows * row);
      }
      view.factor = factor_of(tensor, scales, expert);
      bound_.emplace(std::move(name), std::move(view));
    }
    used_.insert(found->first);
  }

  // What products of a matrix are multiplied by, as llama.cpp's converter writes it beside what it
  // makes of NVFP4: NAME.scale, a number for each of `count` matrices that are one tensor. Null:
  // there is none. How far activations reach, NAME.input_scale, is dropped.
  const StoredTensor* scales_of(std::string_view weight, std::size_t count) {
    constexpr std::string_view kEnding = ".weight";
    if (error_ || !weight.ends_with(kEnding)) return nullptr;
    const std::string stem(weight.substr(0, weight.size() - kEnding.size()));
    if (const auto reach = stored_.find(stem + ".input_scale"); reach != stored_.end())
      used_.insert(reach->first);
    const auto found = stored_.find(stem + ".scale");
    if (found == stored_.end()) return nullptr;
    const StoredTensor& scales = found->second;
    used_.insert(found->first);
    if (scales.type != kernels::DataType::kF32) {
      reject(scales, fmt::format("type {}", quote(scales.stored_type)), "F32",
             ErrorKind::kUnsupported);
    } else if (!same_shape(scales.shape, std::array<std::uint64_t, 1>{count})) {
      reject(scales, "shape " + shape_text(scales.shape), fmt::format("[{}]", count),
             ErrorKind::kInvalid);
    }
    for (std::size_t i = 0; i < count && !error_; ++i) {
      const float number = element(scales, i);
      if (number > 0.0F && std::isfinite(number)) continue;
      reject(scales, fmt::format("{} as number {}", number, i), "finite numbers above 0",
             ErrorKind::kInvalid);
    }
    return error_ ? nullptr : &scales;
  }

  static float element(const StoredTensor& floats, std::size_t index) {
    float out = 0.0F;
    std::memcpy(&out, floats.data.data() + index * sizeof out, sizeof out);
    return out;
  }

  static float factor_of(const StoredTensor& tensor, const StoredTensor* scales,
                         std::size_t index = 0) {
    return scales == nullptr ? tensor.factor : tensor.factor * element(*scales, index);
  }

  static std::string expert_name(std::string_view stem, std::uint32_t expert,
                                 std::string_view ending) {
    return fmt::format("{}.{}{}", stem, expert, ending);
  }

  // Outer dimensions of 1 do not count.
  static bool same_shape(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
    while (a.size() > 1 && a.front() == 1) a = a.subspan(1);
    while (b.size() > 1 && b.front() == 1) b = b.subspan(1);
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  // Rows of a table whose size no field tells.
  std::size_t rows_of(const std::string& name) const {
    const auto found = stored_.find(name);
    if (type_of_ != nullptr) return 2;  // of a text and of a second one
    return found == stored_.end() ? 1 : std::max<std::size_t>(shape_of(found->second).rows, 1);
  }

  // Whether the tensor is there with type and shape; an error if not.
  bool fits(const StoredTensor* tensor, std::string_view name, Shape wanted) {
    if (error_) return false;
    if (tensor == nullptr) {
      error_ = Error{ErrorKind::kInvalid,
                     fmt::format("{}: tensor {}: missing; valid: a tensor of shape {}", source_,
                                 quote(name), wanted_text(wanted))};
    } else if (!tensor->type) {
      reject(*tensor, fmt::format("type {}", quote(tensor->stored_type)), "F32, F16 or BF16",
             ErrorKind::kUnsupported);
    } else if (shape_of(*tensor) != wanted) {
      reject(*tensor, "shape " + shape_text(tensor->shape), wanted_text(wanted),
             ErrorKind::kInvalid);
    }
    return !error_;
  }

  // Whether there is a tensor that was just picked, to be looked at further.
  bool is_stored() const { return !error_ && type_of_ == nullptr; }

  void pick(const std::string& name, Shape wanted) {
    if (error_) return;
    if (type_of_ != nullptr) {
      const kernels::DataType type = (*type_of_)(name, wanted.rows, wanted.columns);
      bound_.emplace(name, TensorView{type, wanted.rows, wanted.columns, {}});
      return;
    }
    const auto found = stored_.find(name);
    if (!fits(found == stored_.end() ? nullptr : &found->second, name, wanted)) return;
    const StoredTensor& tensor = found->second;
    if (tensor.parts && tensor.parts->order && is_read_by_rows(name)) {
      return reject(tensor, "columns in an order of their own (desc_act, actorder)",
                    "columns in groups in their order, where single rows or heads are read",
                    ErrorKind::kUnsupported);
    }
    used_.insert(found->first);
    bound_.emplace(
        name, TensorView{*tensor.type, wanted.rows, wanted.columns, tensor.data, tensor.parts});
  }

  // Outer dimensions of 1 do not count.
  static Shape shape_of(const StoredTensor& tensor) {
    std::span<const std::uint64_t> shape = tensor.shape;
    while (shape.size() > 2 && shape.front() == 1) shape = shape.subspan(1);
    // A convolution of each channel by itself.
    if (shape.size() == 3 && shape[1] == 1) return {shape[0], shape[2]};
    if (shape.size() == 1) return {1, static_cast<std::size_t>(shape[0])};
    if (shape.size() == 2) {
      return {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1])};
    }
    return {0, 0};
  }

  static std::string wanted_text(Shape shape) {
    return shape.rows == 1 ? fmt::format("[{}]", shape.columns)
                           : fmt::format("[{}, {}]", shape.rows, shape.columns);
  }

  bool is_harmless(const std::string& name, const StoredTensor& tensor) const {
    if (tensor.spare || name.starts_with(kSparePrefix) || is_of_draft_layer(name)) return true;
    // Frequencies come from the configuration, and a tied head from the embedding, whether or not
    // a checkpoint spells them out as well.
    return name == "rope_freqs.weight" || name.starts_with("rope_factors_") ||
           name.ends_with("rotary_emb.inv_freq") ||
           (config_.tied_embeddings && name == "output.weight");
  }

  // Layers behind the last, of which the configuration says that they draft tokens.
  bool is_of_draft_layer(std::string_view name) const {
    constexpr std::string_view kLayer = "blk.";
    if (config_.draft_layers == 0 || !name.starts_with(kLayer)) return false;
    std::uint32_t layer = 0;
    const char* digits = name.data() + kLayer.size();
    if (std::from_chars(digits, name.data() + name.size(), layer).ec != std::errc()) return false;
    const std::size_t layers = config_.layers.size();
    return layer >= layers && layer < layers + config_.draft_layers;
  }

  void check_left_over() {
    if (error_) return;
    const StoredTensor* worst = nullptr;
    for (const auto& [name, tensor] : stored_) {
      if (used_.contains(name) || is_harmless(name, tensor)) continue;
      // The smallest name, so that the message does not depend on the map's order.
      if (worst == nullptr || tensor.stored_name < worst->stored_name) worst = &tensor;
    }
    if (worst == nullptr) return;
    reject(*worst, "not a part of the model that the configuration describes",
           "only tensors that the model uses, since leaving one out would change its results",
           ErrorKind::kUnsupported);
  }

  void reject(const StoredTensor& tensor, std::string_view value, std::string_view valid,
              ErrorKind kind) {
    error_ = Error{kind, fmt::format("{}: tensor {}: {}; valid: {}", tensor.file,
                                     quote(tensor.stored_name), value, valid)};
  }

  const ModelConfig& config_;
  const StoredTensors& stored_;
  std::string_view source_;
  const TypeOfTensor* type_of_;
  std::unordered_map<std::string, TensorView> bound_;
  std::unordered_set<std::string_view> used_;  // names in stored_
  std::optional<Error> error_;
};

}  // namespace

Result<std::unordered_map<std::string, TensorView>> bind_tensors(const ModelConfig& config,
                                                                 const StoredTensors& stored,
                                                                 std::string_view source) {
  return Binder(config, stored, source).bind();
}

Result<std::unordered_map<std::string, TensorView>> describe_tensors(const ModelConfig& config,
                                                                     const TypeOfTensor& type_of) {
  const StoredTensors none;
  return Binder(config, none, {}, &type_of).bind();
}

}  // namespace dovetail::load
