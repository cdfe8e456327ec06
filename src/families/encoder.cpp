#include "families/encoder.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "load/quote.h"

namespace dovetail::families {
namespace {

struct ActivationName {
  std::string_view name;
  load::Activation activation;
};
constexpr ActivationName kActivations[] = {{"gelu", load::Activation::kGelu},
                                           {"gelu_new", load::Activation::kGeluTanh},
                                           {"gelu_pytorch_tanh", load::Activation::kGeluTanh},
                                           {"silu", load::Activation::kSilu}};

}  // namespace

std::uint32_t read_encoder_sizes(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  config.has_logits = config.tied_embeddings = false;
  config.pooling = load::Pooling::kMean;
  fields.ask({"attention.causal", ""});
  return layers;
}

AttentionConfig read_encoder_heads(Fields& fields, const ModelConfig& config) {
  AttentionConfig attention = read_heads(fields, config);
  attention.causal = false;
  attention.rope = -1;
  return attention;
}

NormConfig read_layer_norm(Fields& fields, std::string_view field, float epsilon) {
  NormConfig norm;
  norm.kind = load::NormKind::kLayer;
  norm.bias = true;
  norm.epsilon =
      fields.number({"attention.layer_norm_epsilon", field}, 0.0F, 1.0F).value_or(epsilon);
  return norm;
}

load::Activation read_activation(Fields& fields, Key key, std::string_view otherwise) {
  const std::string name = fields.text(key).value_or(std::string(otherwise));
  const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const ActivationName& row) { return row.name == name; });
  if (known != std::end(kActivations)) return known->activation;
  fields.reject(key, load::quote(name), "'gelu', 'gelu_new', 'gelu_pytorch_tanh', 'silu'");
  return load::Activation::kGelu;
}

LayerConfig post_norm_layer(const NormConfig& norm, const AttentionConfig& attention,
                            const MlpConfig& mlp) {
  LayerConfig layer;
  layer.mixer = attention;
  layer.mixer_norms.after = norm;
  layer.mlp = mlp;
  layer.mlp_norms.after = norm;
  return layer;
}

std::uint32_t window_of_both_sides(std::uint32_t size) { return size == 0 ? 0 : size / 2 + 1; }

}  // namespace dovetail::families
