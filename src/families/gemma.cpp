#include "families/gemma.h"

#include <bit>
#include <cmath>

#include "load/quote.h"

namespace dovetail::families {
namespace {

float rounded_to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7FFFU + ((bits >> 16U) & 1U);
  return std::bit_cast<float>(bits & 0xFFFF0000U);
}

}  // namespace

NormConfig read_gemma_norm(Fields& fields) {
  NormConfig norm = read_rms_norm(fields, 1e-6F);
  // Converters add the one.
  if (!fields.gguf()) norm.offset = 1.0F;
  return norm;
}

load::Activation read_gemma_activation(Fields& fields) {
  // hidden_act stands in old files and is not heeded by transformers either.
  fields.text({"", "hidden_act"});
  constexpr Key kActivation = {"", "hidden_activation"};
  const auto activation = fields.text(kActivation);
  if (activation && *activation != "gelu_pytorch_tanh") {
    fields.reject(kActivation, load::quote(*activation), "'gelu_pytorch_tanh'");
  }
  return load::Activation::kGeluTanh;
}

MlpConfig read_gemma_mlp(Fields& fields) {
  MlpConfig mlp = read_mlp(fields);
  mlp.activation = read_gemma_activation(fields);
  return mlp;
}

float gemma_embedding_scale(const Fields& fields, const ModelConfig& config) {
  return gemma_row_scale(fields, "token_embd.weight", config.hidden_size);
}

float gemma_row_scale(const Fields& fields, const std::string& table, std::uint32_t size) {
  const float scale = std::sqrt(static_cast<float>(size));
  // transformers rounds it to the type of the embedding, llama.cpp does not.
  const load::StoredTensor* embedding = fields.tensor(table);
  const bool rounds =
      !fields.gguf() && embedding != nullptr && embedding->type == kernels::DataType::kBF16;
  return rounds ? rounded_to_bf16(scale) : scale;
}

float read_gemma_scale(Fields& fields, const ModelConfig& config, const AttentionConfig& attention,
                       std::uint32_t layers, std::uint32_t largest) {
  const auto given = fields.number({"attention.scale", ""}, 1e-6F, load::kLargestFactor);
  if (given) return *given;
  float size = 256.0F;
  if (!fields.gguf()) {
    size = fields.number({"", "query_pre_attn_scalar"}, 1e-6F, load::kLargestFactor).value_or(size);
  } else if (layers == largest && attention.heads != 0) {
    size = static_cast<float>(config.hidden_size) / static_cast<float>(attention.heads);
  } else {
    size = static_cast<float>(attention.head_dim);
  }
  return 1.0F / std::sqrt(size);
}

LayerConfig sandwich_layer(const NormConfig& norm, const AttentionConfig& attention,
                           const MlpConfig& mlp) {
  LayerConfig out = plain_layer(norm, attention, mlp);
  out.mixer_norms.behind = norm;
  out.mlp_norms.behind = norm;
  return out;
}

}  // namespace dovetail::families
