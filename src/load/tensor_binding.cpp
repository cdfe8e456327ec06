#include "load/tensor_binding.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "load/quote.h"

namespace dovetail::load {
namespace {

class Binder {
 public:
  Binder(const ModelConfig& config, const StoredTensors& stored, std::string_view source)
      : config_(config), stored_(stored), source_(source) {}

  Result<std::unordered_map<std::string, TensorView>> bind() {
    const std::size_t hidden = config_.hidden_size;
    matrix("token_embd.weight", config_.vocab_size, hidden);
    if (config_.learned_positions) matrix("position_embd.weight", config_.max_context, hidden);
    if (config_.token_types) {
      // Of how many types there are, the first is used.
      const auto types = stored_.find("token_types.weight");
      const std::size_t rows =
          types == stored_.end() || types->second.shape.size() < 2 ? 1 : types->second.shape[0];
      matrix("token_types.weight", rows, hidden);
    }
    norm(config_.embedding_norm, "token_embd_norm", hidden);
    norm(config_.output_norm, "output_norm", hidden);
    if (config_.has_logits && !config_.tied_embeddings) matrix("output.weight", config_.vocab_size, hidden);
    for (std::uint32_t layer = 0; layer < config_.layers.size() && !error_; ++layer)
      bind(config_.layers[layer], fmt::format("blk.{}.", layer));
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

  void bind(const LayerConfig& layer, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    norm(layer.mixer_norms.before, prefix + "attn_norm", hidden);
    norm(layer.mixer_norms.behind, prefix + "post_attention_norm", hidden);
    norm(layer.mixer_norms.after, prefix + "attn_output_norm", hidden);
    std::visit([&](const auto& mixer) { bind(mixer, prefix); }, layer.mixer);
    norm(layer.mlp_norms.before, prefix + "ffn_norm", hidden);
    norm(layer.mlp_norms.behind, prefix + "post_ffw_norm", hidden);
    norm(layer.mlp_norms.after, prefix + "layer_output_norm", hidden);
    if (const MlpConfig* mlp = layer.dense()) {
      if (mlp->gated) matrix(prefix + "ffn_gate.weight", mlp->size, hidden);
      matrix(prefix + "ffn_up.weight", mlp->size, hidden);
      matrix(prefix + "ffn_down.weight", hidden, mlp->size);
      return;
    }
    const ExpertsConfig& experts = *layer.experts();
    matrix(prefix + "ffn_gate_inp.weight", experts.count, hidden);
    bind_experts(prefix + "ffn_gate", experts.count, {experts.size, hidden});
    bind_experts(prefix + "ffn_up", experts.count, {experts.size, hidden});
    bind_experts(prefix + "ffn_down", experts.count, {hidden, experts.size});
  }

  void bind(const AttentionConfig& attention, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t query = std::size_t{attention.heads} * attention.head_dim;
    const std::size_t key = std::size_t{attention.kv_heads} * attention.head_dim;
    matrix(prefix + "attn_q.weight", query, hidden);
    matrix(prefix + "attn_k.weight", key, hidden);
    matrix(prefix + "attn_v.weight", key, hidden);
    matrix(prefix + "attn_output.weight", hidden, query);
    if (attention.bias) {
      vector(prefix + "attn_q.bias", query);
      vector(prefix + "attn_k.bias", key);
      vector(prefix + "attn_v.bias", key);
    }
    const bool by_row = attention.query_key_norm == QueryKeyNorm::kRow;
    if (attention.query_key_norm != QueryKeyNorm::kNone) {
      norm(attention.norm, prefix + "attn_q_norm", by_row ? query : attention.head_dim);
      norm(attention.norm, prefix + "attn_k_norm", by_row ? key : attention.head_dim);
    }
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
    matrix(prefix + "ssm_conv1d.weight", delta.channels(), delta.convolution);
    vector(prefix + "ssm_dt.bias", delta.value_heads);
    vector(prefix + (delta.log_rates ? "ssm_a_log" : "ssm_a"), delta.value_heads);
    vector(prefix + "ssm_norm.weight", delta.value_dim);
    matrix(prefix + "ssm_out.weight", hidden, delta.value_size());
  }

  void norm(const NormConfig& config, const std::string& name, std::size_t elements) {
    if (!config) return;
    vector(name + ".weight", elements);
    if (config.bias) vector(name + ".bias", elements);
  }

  void matrix(const std::string& name, std::size_t rows, std::size_t columns) {
    pick(name, {rows, columns});
  }
  void vector(const std::string& name, std::size_t elements) {
    pick(name, {1, elements});
    if (error_) return;
    const StoredTensor& tensor = stored_.at(name);
    if (is_plain(*tensor.type)) return;
    reject(tensor, fmt::format("type {}", quote(tensor.stored_type)),
           "F32, F16 or BF16 for a norm or a bias", ErrorKind::kUnsupported);
  }

  // The matrices of all experts of a layer: one tensor of them all, or a tensor for each.
  void bind_experts(const std::string& stem, std::uint32_t count, Shape wanted) {
    if (error_) return;
    if (const auto merged = stored_.find(stem + "_exps.weight"); merged != stored_.end()) {
      cut(stem, merged->second, count, wanted);
      cut_.insert(merged->first);
      return;
    }
    std::optional<kernels::DataType> type;
    for (std::uint32_t expert = 0; expert < count; ++expert) {
      const std::string name = expert_name(stem, expert);
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

  void cut(const std::string& stem, const StoredTensor& tensor, std::uint32_t count, Shape wanted) {
    if (!tensor.type) {
      reject(tensor, fmt::format("type {}", quote(tensor.stored_type)), "F32, F16 or BF16",
             ErrorKind::kUnsupported);
      return;
    }
    if (tensor.parts) {
      reject(tensor, "quantised experts in one tensor", "a tensor for each expert",
             ErrorKind::kUnsupported);
      return;
    }
    const std::vector<std::uint64_t> shape = {count, wanted.rows, wanted.columns};
    if (!same_shape(tensor.shape, shape)) {
      reject(tensor, "shape " + shape_text(tensor.shape), shape_text(shape), ErrorKind::kInvalid);
      return;
    }
    const std::size_t bytes = wanted.rows * row_bytes(*tensor.type, wanted.columns);
    for (std::uint32_t expert = 0; expert < count; ++expert) {
      std::string name = expert_name(stem, expert);
      if (const auto twice = stored_.find(name); twice != stored_.end()) {
        reject(twice->second, fmt::format("given beside {}", quote(tensor.stored_name)),
               "one of the two", ErrorKind::kInvalid);
        return;
      }
      bound_.emplace(std::move(name), TensorView{*tensor.type, wanted.rows, wanted.columns,
                                                 tensor.data.subspan(expert * bytes, bytes)});
    }
  }

  static std::string expert_name(std::string_view stem, std::uint32_t expert) {
    return fmt::format("{}.{}.weight", stem, expert);
  }

  // Outer dimensions of 1 do not count.
  static bool same_shape(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
    while (a.size() > 1 && a.front() == 1) a = a.subspan(1);
    while (b.size() > 1 && b.front() == 1) b = b.subspan(1);
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  void pick(const std::string& name, Shape wanted) {
    if (error_) return;
    const auto found = stored_.find(name);
    if (found == stored_.end()) {
      error_ = Error{ErrorKind::kInvalid,
                     fmt::format("{}: tensor {}: missing; valid: a tensor of shape {}", source_,
                                 quote(name), wanted_text(wanted))};
      return;
    }
    const StoredTensor& tensor = found->second;
    if (!tensor.type) {
      reject(tensor, fmt::format("type {}", quote(tensor.stored_type)), "F32, F16 or BF16",
             ErrorKind::kUnsupported);
      return;
    }
    if (shape_of(tensor) != wanted) {
      reject(tensor, "shape " + shape_text(tensor.shape), wanted_text(wanted), ErrorKind::kInvalid);
      return;
    }
    bound_.emplace(
        name, TensorView{*tensor.type, wanted.rows, wanted.columns, tensor.data, tensor.parts});
  }

  // Outer dimensions of 1 do not count.
  static Shape shape_of(const StoredTensor& tensor) {
    std::span<const std::uint64_t> shape = tensor.shape;
    while (shape.size() > 2 && shape.front() == 1) shape = shape.subspan(1);
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
    if (tensor.spare) return true;
    // Frequencies come from the configuration, and a tied head from the embedding, whether or not
    // a checkpoint spells them out as well.
    return name == "rope_freqs.weight" || name.ends_with("rotary_emb.inv_freq") ||
           (config_.tied_embeddings && name == "output.weight");
  }

  void check_left_over() {
    if (error_) return;
    const StoredTensor* worst = nullptr;
    for (const auto& [name, tensor] : stored_) {
      if (bound_.contains(name) || cut_.contains(name) || is_harmless(name, tensor)) continue;
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
  std::unordered_map<std::string, TensorView> bound_;
  std::unordered_set<std::string_view> cut_;  // names in stored_
  std::optional<Error> error_;
};

}  // namespace

Result<std::unordered_map<std::string, TensorView>> bind_tensors(const ModelConfig& config,
                                                                 const StoredTensors& stored,
                                                                 std::string_view source) {
  return Binder(config, stored, source).bind();
}

Status check_numbers(const DecoderNumbers& config, std::string_view source) {
  struct Size {
    std::string_view name;
    std::uint32_t value;
    std::uint32_t high;
  };
  for (const Size& size :
       {Size{"vocabulary size", config.vocab_size, kLargestVocabulary},
        Size{"hidden size", config.hidden_size, kLargestHiddenSize},
        Size{"feed-forward size", config.intermediate_size, kLargestIntermediateSize},
        Size{"number of layers", config.layers, kMostLayers},
        Size{"number of heads", config.heads, kMostHeads},
        Size{"number of key-value heads", config.kv_heads, kMostHeads},
        Size{"head size", config.head_dim, kLargestHeadDim},
        Size{"context length", config.max_context, kLargestContext}}) {
    if (size.value < 1 || size.value > size.high) {
      return fail(ErrorKind::kUnsupported, "{}: {}: {}; valid: 1 to {}", source, size.name,
                  size.value, size.high);
    }
  }
  const ExpertsConfig& experts = config.experts;
  if (experts.count > kMostExperts) {
    return fail(ErrorKind::kUnsupported, "{}: number of experts: {}; valid: 0 to {}", source,
                experts.count, kMostExperts);
  }
  const std::uint32_t most_used = std::min(experts.count, kMostUsedExperts);
  if (experts.count > 0 && (experts.used < 1 || experts.used > most_used)) {
    return fail(ErrorKind::kInvalid, "{}: experts used by a token: {}; valid: 1 to {}, of {}",
                source, experts.used, most_used, experts.count);
  }
  if (config.heads % config.kv_heads != 0) {
    return fail(ErrorKind::kInvalid,
                "{}: number of key-value heads: {}; valid: a divisor of the {} heads", source,
                config.kv_heads, config.heads);
  }
  if (config.rope.scaling == RopeScaling::kYarn && config.rope.theta <= 1.0F) {
    return fail(ErrorKind::kInvalid,
                "{}: base of the rotary embedding: {}; valid: above 1, since YaRN divides by its "
                "logarithm",
                source, config.rope.theta);
  }
  if (config.head_dim % 2 != 0) {
    return fail(ErrorKind::kUnsupported,
                "{}: head size: {}; valid: an even number, since rotary embedding turns pairs",
                source, config.head_dim);
  }
  return {};
}

}  // namespace dovetail::load
