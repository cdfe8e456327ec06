// What the layers of a model compute, in the words of its blocks.

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "cli/model_report.h"

namespace dovetail::cli {
namespace {

std::string_view scaling_name(load::RopeScaling scaling) {
  switch (scaling) {
    case load::RopeScaling::kNone:
      return "none";
    case load::RopeScaling::kLinear:
      return "linear";
    case load::RopeScaling::kLlama3:
      return "llama3";
    case load::RopeScaling::kYarn:
      return "yarn";
    case load::RopeScaling::kLongRope:
      return "longrope";
  }
  return "unknown";
}

std::string_view activation_name(load::Activation activation, bool gated) {
  switch (activation) {
    case load::Activation::kSilu:
      return gated ? "SwiGLU" : "SiLU";
    case load::Activation::kGeluTanh:
      return gated ? "GeGLU (tanh)" : "GELU (tanh)";
    case load::Activation::kGelu:
      return gated ? "GeGLU" : "GELU";
    case load::Activation::kRelu2:
      return gated ? "ReGLU (squared)" : "squared ReLU";
    case load::Activation::kClampedSwiglu:
      return "clamped SwiGLU";
  }
  return "unknown";
}

std::string rope_text(const load::RopeConfig& rope) {
  std::string text = fmt::format("rope theta {}", rope.theta);
  if (rope.dims != 0) text += fmt::format(" of {} elements", rope.dims);
  if (rope.scaling == load::RopeScaling::kLongRope) {
    return text + fmt::format(", longrope beyond {} positions", rope.original_context);
  }
  const auto turning = std::count_if(rope.frequency_divisors.begin(), rope.frequency_divisors.end(),
                                     [](float divisor) { return divisor < load::kDivisorOfNone; });
  if (const std::size_t all = rope.frequency_divisors.size();
      static_cast<std::size_t>(turning) < all)
    return text + fmt::format(", {} of {} pairs turn", turning, all);
  if (!rope.frequency_divisors.empty()) return text + ", divisors of its frequencies in the file";
  if (rope.scaling == load::RopeScaling::kNone) return text;
  return text + fmt::format(", {} scaling by {}", scaling_name(rope.scaling), rope.factor);
}

void add(std::string& text, bool there, std::string_view what) {
  if (!there) return;
  text += ", ";
  text += what;
}

std::string attention_text(const load::AttentionConfig& attention,
                           const load::ModelConfig& config) {
  std::string text = fmt::format("attention: {} heads of {}, {} for keys and values",
                                 attention.heads, attention.head_dim, attention.kv_heads);
  if (attention.window > 0) text += fmt::format(", sliding window {}", attention.window);
  add(text, !attention.causal, "both directions");
  add(text, attention.query_key_norm == load::QueryKeyNorm::kHead, "heads normed");
  add(text, attention.query_key_norm == load::QueryKeyNorm::kTurnedHead, "turned heads normed");
  add(text, attention.query_key_norm == load::QueryKeyNorm::kRow, "queries and keys normed");
  add(text, attention.bias, "biases");
  add(text, attention.sinks, "sinks");
  add(text, attention.gate == load::AttentionGate::kHeads, "a gate for each head");
  add(text,
      attention.gate != load::AttentionGate::kNone && attention.gate != load::AttentionGate::kHeads,
      "output gate");
  if (attention.softcap != 0.0F) text += fmt::format(", capped at {}", attention.softcap);
  add(text, attention.temperature != 0.0F, "temperature by position");
  add(text, attention.values_of_keys, "values of the keys' matrix");
  add(text, static_cast<bool>(attention.value_norm), "values normed");
  if (attention.shares >= 0) text += fmt::format(", keys and values of layer {}", attention.shares);
  if (attention.rope < 0) return text + ", no positions";
  return text + ", " + rope_text(config.ropes[static_cast<std::size_t>(attention.rope)]);
}

Json attention_json(const load::AttentionConfig& attention, const load::ModelConfig& config) {
  Json json = {{"heads", attention.heads},
               {"kv_heads", attention.kv_heads},
               {"head_dim", attention.head_dim},
               {"sliding_window", attention.window}};
  if (attention.rope >= 0) {
    const load::RopeConfig& rope = config.ropes[static_cast<std::size_t>(attention.rope)];
    json["rope_theta"] = rope.theta;
    json["rope_scaling"] = scaling_name(rope.scaling);
  }
  return json;
}

std::string latent_text(const load::LatentConfig& latent, const load::ModelConfig& config) {
  std::string text = fmt::format(
      "latent attention: {} heads of {} + {}, values of {}, latents of {} + {} in the cache",
      latent.heads, latent.key_dim, latent.rope_dim, latent.value_dim, latent.latent_dim,
      latent.rope_dim);
  if (latent.query_rank > 0) text += fmt::format(", queries of rank {}", latent.query_rank);
  if (latent.index_heads > 0) {
    text += fmt::format(", {} positions picked by {} heads of {}", latent.index_top,
                        latent.index_heads, latent.index_dim);
  }
  if (latent.rope < 0) return text + ", no positions";
  return text + ", " + rope_text(config.ropes[static_cast<std::size_t>(latent.rope)]);
}

Json latent_json(const load::LatentConfig& latent, const load::ModelConfig& config) {
  Json json = {{"heads", latent.heads},
               {"head_dim", latent.head_dim()},
               {"value_dim", latent.value_dim},
               {"latent_dim", latent.latent_dim},
               {"rope_dim", latent.rope_dim},
               {"query_rank", latent.query_rank},
               {"index_heads", latent.index_heads},
               {"index_top", latent.index_top}};
  if (latent.rope >= 0) {
    const load::RopeConfig& rope = config.ropes[static_cast<std::size_t>(latent.rope)];
    json["rope_theta"] = rope.theta;
    json["rope_scaling"] = scaling_name(rope.scaling);
  }
  return json;
}

std::string compressed_text(const load::CompressedConfig& mixer, const load::ModelConfig& config) {
  std::string text = fmt::format("attention of one row for all: {} heads of {}, window {}, sinks",
                                 mixer.heads, mixer.head_dim, mixer.window);
  if (mixer.ratio > 0) {
    text += fmt::format(", an entry for {} positions", mixer.ratio);
    add(text, mixer.overlaps, "overlapping");
  }
  if (mixer.index_heads > 0) {
    text += fmt::format(", {} of them picked by {} heads of {}", mixer.index_top, mixer.index_heads,
                        mixer.index_dim);
  }
  text += fmt::format(", outputs in {} groups of rank {}, queries of rank {}", mixer.groups,
                      mixer.group_rank, mixer.query_rank);
  return text + ", " + rope_text(config.ropes[static_cast<std::size_t>(mixer.rope)]);
}

Json compressed_json(const load::CompressedConfig& mixer, const load::ModelConfig& config) {
  const load::RopeConfig& rope = config.ropes[static_cast<std::size_t>(mixer.rope)];
  return {{"heads", mixer.heads},
          {"head_dim", mixer.head_dim},
          {"sliding_window", mixer.window},
          {"compress_ratio", mixer.ratio},
          {"index_heads", mixer.index_heads},
          {"index_top", mixer.index_top},
          {"query_rank", mixer.query_rank},
          {"rope_theta", rope.theta},
          {"rope_scaling", scaling_name(rope.scaling)}};
}

std::string delta_text(const load::DeltaConfig& delta) {
  return fmt::format("gated delta rule: {} heads of {}, {} of {} for keys, convolution of {}",
                     delta.value_heads, delta.value_dim, delta.key_heads, delta.key_dim,
                     delta.convolution);
}

std::string kimi_delta_text(const load::KimiDeltaConfig& delta) {
  return fmt::format("Kimi Delta Attention: {} heads of {}, convolution of {}", delta.heads,
                     delta.head_dim, delta.convolution);
}

std::string mamba_text(const load::MambaConfig& mamba) {
  return fmt::format("Mamba-2: {} heads of {}, states of {}, {} groups, convolution of {}",
                     mamba.heads, mamba.head_dim, mamba.state_dim, mamba.groups, mamba.convolution);
}

std::string experts_text(const load::ExpertsConfig& experts) {
  std::string text =
      fmt::format("{} experts of {}, {} used by a token, {}", experts.count, experts.size,
                  experts.used, activation_name(experts.activation, experts.gated));
  if (experts.groups > 1)
    text += fmt::format(", of {} of {} groups", experts.groups_used, experts.groups);
  add(text, experts.by_token, "chosen by the token's number");
  if (experts.limit > 0.0F) text += fmt::format(", within {}", experts.limit);
  if (experts.shared_size > 0) {
    text += fmt::format(", {} of {}",
                        experts.apart ? "a dense feed-forward beside them" : "a shared one",
                        experts.shared_size);
  }
  return text;
}

LayerKind describe(const load::LayerConfig& layer, const load::ModelConfig& config) {
  LayerKind kind;
  if (const load::AttentionConfig* attention = layer.attention()) {
    kind.text = attention_text(*attention, config);
    kind.json = attention_json(*attention, config);
  } else if (const load::LatentConfig* latent = layer.latent()) {
    kind.text = latent_text(*latent, config);
    kind.json = latent_json(*latent, config);
  } else if (const load::CompressedConfig* compressed = layer.compressed()) {
    kind.text = compressed_text(*compressed, config);
    kind.json = compressed_json(*compressed, config);
  } else if (const load::DeltaConfig* delta = layer.delta()) {
    kind.text = delta_text(*delta);
  } else if (layer.kimi_delta() != nullptr) {
    kind.text = kimi_delta_text(*layer.kimi_delta());
  } else if (layer.mamba() != nullptr) {
    kind.text = mamba_text(*layer.mamba());
  } else if (const load::ShortConvConfig* convolution = layer.short_conv()) {
    kind.text = fmt::format("gated convolution: {} channels, {} positions", convolution->channels,
                            convolution->convolution);
  }
  if (layer.beside) kind.text += "; beside it " + mamba_text(*layer.beside);
  const bool alone = layer.dense() == nullptr && layer.experts() == nullptr;
  if (!kind.text.empty() && !alone) kind.text += layer.parallel ? "; beside it " : "; ";
  if (const load::MlpConfig* mlp = layer.dense()) {
    kind.text += fmt::format(
        "{} of {}", mlp->xielu ? "xIELU" : activation_name(mlp->activation, mlp->gated), mlp->size);
    kind.json["intermediate_size"] = mlp->size;
  } else if (const load::ExpertsConfig* experts = layer.experts()) {
    kind.text += experts_text(*experts);
    kind.json["intermediate_size"] = experts->size;
    kind.json["experts"] = experts->count;
    kind.json["experts_used"] = experts->used;
  }
  if (config.layer_inputs.size > 0)
    kind.text += fmt::format("; {} inputs by the token", config.layer_inputs.size);
  return kind;
}

// Layers are of one kind whatever their activations have learned.
load::LayerConfig untaught(load::LayerConfig layer) {
  auto* mlp = std::get_if<load::MlpConfig>(&layer.mlp);
  if (mlp != nullptr && mlp->xielu) mlp->xielu.emplace();
  return layer;
}

}  // namespace

std::vector<LayerKind> layer_kinds(const load::ModelConfig& config) {
  std::vector<LayerKind> kinds;
  std::vector<load::LayerConfig> known;
  for (const load::LayerConfig& layer : config.layers) {
    const load::LayerConfig plain = untaught(layer);
    const auto found = std::find(known.begin(), known.end(), plain);
    const auto index = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(plain);
      kinds.push_back(describe(layer, config));
    }
    ++kinds[index].layers;
  }
  for (LayerKind& kind : kinds) kind.json["layers"] = kind.layers;
  return kinds;
}

LayerKind draft_kind(const load::ModelConfig& config) {
  if (!config.draft_layer) return {};
  LayerKind kind = describe(*config.draft_layer, config);
  kind.layers = 1;
  return kind;
}

}  // namespace dovetail::cli
