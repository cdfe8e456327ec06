#include "load/tensor_binding.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <variant>

#include "load/tensor_picker.h"

namespace dovetail::load {
namespace {

class Binder {
 public:
  // With `type_of` nothing is stored, and all that is called for is taken to be there.
  Binder(const ModelConfig& config, const StoredTensors& stored, std::string_view source,
         const TypeOfTensor* type_of = nullptr)
      : config_(config), pick_(stored, source, type_of) {}

  Result<std::unordered_map<std::string, TensorView>> bind() {
    const std::size_t hidden = config_.hidden_size;
    pick_.table("token_embd.weight", config_.vocab_size, hidden);
    if (config_.learned_positions) {
      const std::size_t positions = std::size_t{config_.max_context} + config_.position_offset;
      pick_.table("position_embd.weight", positions, hidden);
    }
    if (config_.token_types)
      pick_.table("token_types.weight", pick_.rows_of("token_types.weight"), hidden);
    norm(config_.embedding_norm, "token_embd_norm", hidden);
    norm(config_.output_norm, "output_norm", hidden);
    bind_stream_head("output_hc");
    if (const std::size_t all = config_.layer_inputs.size * config_.layers.size(); all > 0) {
      pick_.table("per_layer_token_embd.weight", config_.vocab_size, all);
      pick_.matrix("per_layer_model_proj.weight", all, hidden);
      norm(config_.layer_inputs.norm, "per_layer_proj_norm", config_.layer_inputs.size);
    }
    if (config_.has_logits && !config_.tied_embeddings)
      pick_.matrix("output.weight", config_.vocab_size, hidden);
    for (std::uint32_t layer = 0; layer < config_.layers.size() && !pick_.error(); ++layer)
      bind(config_.layers[layer], fmt::format("blk.{}.", layer));
    if (config_.draft_layer && !pick_.error()) bind_draft_layer(hidden);
    bind_head();
    pick_.check_left_over([this](const std::string& name, const StoredTensor& tensor) {
      return is_harmless(name, tensor);
    });
    if (pick_.error()) return fail(*pick_.error());
    return pick_.take();
  }

 private:
  void bind_draft_layer(std::size_t hidden) {
    const std::string prefix = config_.draft_prefix();
    if (config_.hyper.streams > 1) {
      pick_.matrix(prefix + "nextn.e_proj.weight", hidden, hidden);
      pick_.matrix(prefix + "nextn.h_proj.weight", hidden, hidden);
      bind_stream_head(prefix + "nextn.hc_head");
    } else {
      pick_.matrix(prefix + "nextn.eh_proj.weight", hidden, 2 * hidden);
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
    pick_.table(name + ".fn", weights, row);
    pick_.vector(name + ".base", weights);
    pick_.vector(name + ".scale", scales);
  }

  void bind_head() {
    std::size_t width = config_.hidden_size;
    for (const HeadConfig& part : config_.head) {
      pick_.product(part.name, {part.size, width}, part.bias);
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
    if (layer.beside) bind(*layer.beside, prefix);
    norm(layer.mlp_norms.before, prefix + (layer.mixes() ? "ffn_norm" : "attn_norm"), hidden);
    norm(layer.mlp_norms.behind, prefix + "post_ffw_norm", hidden);
    norm(layer.mlp_norms.after, prefix + "layer_output_norm", hidden);
    std::visit([&](const auto& mlp) { bind(mlp, prefix); }, layer.mlp);
    if (const std::size_t size = config_.layer_inputs.size; size > 0) {
      pick_.matrix(prefix + "inp_gate.weight", size, hidden);
      pick_.matrix(prefix + "proj.weight", hidden, size);
      norm(config_.layer_inputs.norm, prefix + "post_norm", hidden);
    }
    if (layer.scaled) pick_.vector(prefix + "layer_output_scale.weight", 1);
  }

  static void bind(std::monostate /*none*/, const std::string& /*prefix*/) {}

  void bind(const AttentionConfig& attention, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t query = std::size_t{attention.heads} * attention.head_dim;
    const std::size_t key = std::size_t{attention.kv_heads} * attention.head_dim;
    const std::size_t query_rows = attention.query_rows();
    const bool shares = attention.shares >= 0;
    const std::string fused = prefix + "attn_qkv";
    const std::size_t all = query_rows + 2 * key;
    pick_.product(prefix + "attn_q", {query_rows, hidden}, attention.bias, {fused, all, 0});
    if (!shares)
      pick_.product(prefix + "attn_k", {key, hidden}, attention.bias, {fused, all, query_rows});
    if (!shares && !attention.values_of_keys)
      pick_.product(prefix + "attn_v", {key, hidden}, attention.bias,
                    {fused, all, query_rows + key});
    pick_.product(prefix + "attn_output", {hidden, query}, attention.output_bias);
    if (const std::size_t gates = attention.gate_rows(); gates > 0)
      pick_.matrix(prefix + "attn_gate.weight", gates, hidden);
    if (attention.sinks) pick_.vector(prefix + "attn_sinks.weight", attention.heads);
    const bool by_row = attention.query_key_norm == QueryKeyNorm::kRow;
    if (attention.query_key_norm != QueryKeyNorm::kNone) {
      norm(attention.norm, prefix + "attn_q_norm", by_row ? query : attention.head_dim);
      if (!shares) norm(attention.norm, prefix + "attn_k_norm", by_row ? key : attention.head_dim);
    }
  }

  void bind(const LatentConfig& latent, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t heads = latent.heads;
    const std::size_t query = heads * latent.head_dim();
    if (latent.query_rank == 0) {
      pick_.matrix(prefix + "attn_q.weight", query, hidden);
    } else {
      pick_.matrix(prefix + "attn_q_a.weight", latent.query_rank, hidden);
      norm(latent.norm, prefix + "attn_q_a_norm", latent.query_rank);
      pick_.matrix(prefix + "attn_q_b.weight", query, latent.query_rank);
    }
    pick_.matrix(prefix + "attn_kv_a_mqa.weight", latent.cached_dim(), hidden);
    norm(latent.norm, prefix + "attn_kv_a_norm", latent.latent_dim);
    if (latent.split) {
      pick_.stack(prefix + "attn_k_b.weight", heads, latent.latent_dim, latent.key_dim);
      pick_.stack(prefix + "attn_v_b.weight", heads, latent.value_dim, latent.latent_dim);
    } else {
      pick_.matrix(prefix + "attn_kv_b.weight", heads * (latent.key_dim + latent.value_dim),
                   latent.latent_dim);
    }
    pick_.matrix(prefix + "attn_output.weight", hidden, heads * latent.value_dim);
    if (latent.index_heads == 0) return;
    const std::size_t index = std::size_t{latent.index_heads} * latent.index_dim;
    pick_.matrix(prefix + "indexer.attn_q_b.weight", index, latent.query_rank);
    pick_.matrix(prefix + "indexer.attn_k.weight", latent.index_dim, hidden);
    norm(latent.index_norm, prefix + "indexer.k_norm", latent.index_dim);
    pick_.matrix(prefix + "indexer.proj.weight", latent.index_heads, hidden);
  }

  void bind(const CompressedConfig& config, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t dim = config.head_dim;
    const std::size_t query = config.heads * dim;
    pick_.matrix(prefix + "attn_q_a.weight", config.query_rank, hidden);
    norm(config.norm, prefix + "attn_q_a_norm", config.query_rank);
    pick_.matrix(prefix + "attn_q_b.weight", query, config.query_rank);
    pick_.matrix(prefix + "attn_kv.weight", dim, hidden);
    norm(config.norm, prefix + "attn_kv_norm", dim);
    pick_.vector(prefix + "attn_sinks.weight", config.heads);
    const std::size_t ranks = std::size_t{config.groups} * config.group_rank;
    pick_.matrix(prefix + "attn_output_a.weight", ranks, query / config.groups);
    pick_.matrix(prefix + "attn_output.weight", hidden, ranks);
    if (config.ratio == 0) return;
    bind_compressor(config, prefix + "compress", dim);
    if (config.index_heads == 0) return;
    const std::size_t index = config.index_dim;
    pick_.matrix(prefix + "indexer.attn_q_b.weight", config.index_heads * index, config.query_rank);
    pick_.matrix(prefix + "indexer.proj.weight", config.index_heads, hidden);
    bind_compressor(config, prefix + "indexer.compress", index);
  }

  void bind_compressor(const CompressedConfig& config, const std::string& name, std::size_t dim) {
    const std::size_t channels = config.halves() * dim;
    pick_.matrix(name + "_kv.weight", channels, config_.hidden_size);
    pick_.matrix(name + "_gate.weight", channels, config_.hidden_size);
    pick_.table(name + "_ape.weight", config.ratio, channels);
    pick_.check_plain(name + "_ape.weight");
    norm(config.norm, name + "_norm", dim);
  }

  void bind(const DeltaConfig& delta, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    if (delta.grouped_input) {
      pick_.matrix(prefix + "ssm_in.weight", delta.channels() + delta.value_size(), hidden);
    } else {
      pick_.matrix(prefix + "attn_qkv.weight", delta.channels(), hidden);
      pick_.matrix(prefix + "attn_gate.weight", delta.value_size(), hidden);
    }
    if (delta.grouped_rates) {
      pick_.matrix(prefix + "ssm_ba.weight", std::size_t{2} * delta.value_heads, hidden);
    } else {
      pick_.matrix(prefix + "ssm_beta.weight", delta.value_heads, hidden);
      pick_.matrix(prefix + "ssm_alpha.weight", delta.value_heads, hidden);
    }
    pick_.table(prefix + "ssm_conv1d.weight", delta.channels(), delta.convolution);
    pick_.vector(prefix + "ssm_dt.bias", delta.value_heads);
    pick_.vector(prefix + (delta.log_rates ? "ssm_a_log" : "ssm_a"), delta.value_heads);
    pick_.vector(prefix + "ssm_norm.weight", delta.value_dim);
    pick_.matrix(prefix + "ssm_out.weight", hidden, delta.value_size());
  }

  void bind(const KimiDeltaConfig& delta, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t size = delta.size();
    for (const char* part : {"q", "k", "v"}) {
      pick_.matrix(prefix + "attn_" + part + ".weight", size, hidden);
      pick_.table(prefix + "ssm_conv1d_" + part + ".weight", size, delta.convolution);
    }
    pick_.matrix(prefix + "ssm_beta.weight", delta.heads, hidden);
    for (const char* low_rank : {"ssm_f", "ssm_g"}) {
      pick_.matrix(prefix + low_rank + "_a.weight", delta.head_dim, hidden);
      pick_.matrix(prefix + low_rank + "_b.weight", size, delta.head_dim);
    }
    pick_.vector(prefix + "ssm_dt.bias", size);
    pick_.vector(prefix + (delta.log_rates ? "ssm_a_log" : "ssm_a"), delta.heads);
    pick_.vector(prefix + "ssm_norm.weight", delta.head_dim);
    pick_.matrix(prefix + "attn_output.weight", hidden, size);
  }

  void bind(const MambaConfig& mamba, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    pick_.matrix(prefix + "ssm_in.weight", mamba.input_size(), hidden);
    pick_.table(prefix + "ssm_conv1d.weight", mamba.channels(), mamba.convolution);
    if (mamba.convolution_bias) pick_.vector(prefix + "ssm_conv1d.bias", mamba.channels());
    pick_.vector(prefix + "ssm_dt.bias", mamba.heads);
    pick_.vector(prefix + (mamba.log_rates ? "ssm_a_log" : "ssm_a"), mamba.heads);
    pick_.vector(prefix + "ssm_d", mamba.heads);
    norm(mamba.norm, prefix + "ssm_norm", mamba.inner_size());
    pick_.matrix(prefix + "ssm_out.weight", hidden, mamba.inner_size());
  }

  void bind(const ShortConvConfig& convolution, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::size_t channels = convolution.channels;
    pick_.matrix(prefix + "shortconv.in_proj.weight", 3 * channels, hidden);
    pick_.table(prefix + "shortconv.conv.weight", channels, convolution.convolution);
    pick_.matrix(prefix + "shortconv.out_proj.weight", hidden, channels);
  }

  void bind(const MlpConfig& mlp, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    const std::string up = prefix + "ffn_up";
    if (!mlp.gated) {
      pick_.product(up, {mlp.size, hidden}, mlp.bias);
    } else if (pick_.has(prefix + "ffn_gate.weight") || !pick_.has(up + ".weight") ||
               pick_.rows_of(up + ".weight") != 2 * std::size_t{mlp.size}) {
      pick_.product(prefix + "ffn_gate", {mlp.size, hidden}, mlp.bias);
      pick_.product(up, {mlp.size, hidden}, mlp.bias);
    } else {
      // The gate's rows come first.
      const std::size_t both = 2 * std::size_t{mlp.size};
      pick_.slice(prefix + "ffn_gate", ".weight", {mlp.size, hidden}, {up, both, 0});
      pick_.slice(up, ".weight", {mlp.size, hidden}, {up, both, mlp.size});
      if (mlp.bias) pick_.slice(prefix + "ffn_gate", ".bias", {mlp.size, 1}, {up, both, 0});
      if (mlp.bias) pick_.slice(up, ".bias", {mlp.size, 1}, {up, both, mlp.size});
    }
    pick_.product(prefix + "ffn_down", {hidden, mlp.size}, mlp.bias);
  }

  void bind(const ExpertsConfig& experts, const std::string& prefix) {
    const std::size_t hidden = config_.hidden_size;
    pick_.product(prefix + "ffn_gate_inp", {experts.count, hidden}, experts.bias);
    if (experts.picks_biased) pick_.vector(prefix + "exp_probs_b.bias", experts.count);
    if (experts.scaled) pick_.vector(prefix + "exp_scales.weight", experts.count);
    if (experts.by_token)
      pick_.token_experts(prefix + "ffn_token_experts.weight", config_.vocab_size, experts.used,
                          experts.count);
    const std::size_t size = experts.size;
    const std::string fused = prefix + "ffn_gate_up_exps";
    if (experts.gated) {
      pick_.experts(prefix + "ffn_gate", experts.count, experts.bias, {size, hidden},
                    {fused, 2 * size, 0});
      pick_.experts(prefix + "ffn_up", experts.count, experts.bias, {size, hidden},
                    {fused, 2 * size, size});
    } else {
      pick_.experts(prefix + "ffn_up", experts.count, experts.bias, {size, hidden});
    }
    pick_.experts(prefix + "ffn_down", experts.count, experts.bias, {hidden, size});
    if (experts.shared_size == 0) return;
    const std::size_t shared = experts.shared_size;
    if (experts.apart) {
      norm(experts.apart, prefix + "ffn_gate_inp_norm", hidden);
      norm(experts.apart, prefix + "pre_ffw_norm_2", hidden);
      norm(experts.apart, prefix + "post_ffw_norm_1", hidden);
      norm(experts.apart, prefix + "post_ffw_norm_2", hidden);
      MlpConfig beside;
      beside.size = experts.shared_size;
      return bind(beside, prefix);
    }
    const std::string both = prefix + "ffn_gate_up_shexp";
    if (experts.gated) {
      pick_.product(prefix + "ffn_gate_shexp", {shared, hidden}, false, {both, 2 * shared, 0});
      pick_.product(prefix + "ffn_up_shexp", {shared, hidden}, false, {both, 2 * shared, shared});
    } else {
      pick_.matrix(prefix + "ffn_up_shexp.weight", shared, hidden);
    }
    pick_.matrix(prefix + "ffn_down_shexp.weight", hidden, shared);
    if (experts.shared_gated) pick_.matrix(prefix + "ffn_gate_inp_shexp.weight", 1, hidden);
  }

  void norm(const NormConfig& config, const std::string& name, std::size_t elements) {
    if (!config) return;
    pick_.vector(name + ".weight", elements);
    if (config.bias) pick_.vector(name + ".bias", elements);
  }

  bool is_harmless(const std::string& name, const StoredTensor& tensor) const {
    if (tensor.spare || name.starts_with(kSparePrefix) || is_of_draft_layer(name)) return true;
    // Frequencies come from the configuration, and a tied head from the embedding, whether or not
    // a checkpoint spells them out as well.
    return name == "rope_freqs.weight" || name.starts_with("rope_factors_") ||
           name.ends_with("rotary_emb.inv_freq") ||
           (config_.tied_embeddings && name == "output.weight") || is_of_shared_keys(name) ||
           is_of_activation(name);
  }

  // What an activation has learned is in the configuration.
  bool is_of_activation(std::string_view name) const {
    const auto layer = layer_of(name);
    if (!layer || *layer >= config_.layers.size()) return false;
    const MlpConfig* mlp = config_.layers[*layer].dense();
    return mlp != nullptr && mlp->xielu && name.find(".xielu.") != std::string_view::npos;
  }

  // Keys and values of a layer that has another one's: checkpoints have them, too.
  bool is_of_shared_keys(std::string_view name) const {
    const auto layer = layer_of(name);
    if (!layer || *layer >= config_.layers.size()) return false;
    const AttentionConfig* attention = config_.layers[*layer].attention();
    if (attention == nullptr || attention->shares < 0) return false;
    const std::string_view part = name.substr(name.find('.', kLayer.size()) + 1);
    return part == "attn_k.weight" || part == "attn_v.weight" || part == "attn_k_norm.weight";
  }

  // Layers behind the last, of which the configuration says that they draft tokens.
  bool is_of_draft_layer(std::string_view name) const {
    const auto layer = layer_of(name);
    const std::size_t layers = config_.layers.size();
    return layer && *layer >= layers && *layer < layers + config_.draft_layers;
  }

  static std::optional<std::uint32_t> layer_of(std::string_view name) {
    if (!name.starts_with(kLayer)) return std::nullopt;
    std::uint32_t layer = 0;
    const char* digits = name.data() + kLayer.size();
    if (std::from_chars(digits, name.data() + name.size(), layer).ec != std::errc())
      return std::nullopt;
    return layer;
  }

  static constexpr std::string_view kLayer = "blk.";

  const ModelConfig& config_;
  TensorPicker pick_;
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
