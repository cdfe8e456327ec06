// Falcon-H1: attention and Mamba-2 beside each other in every layer, and factors for what each
// product gives (https://arxiv.org/abs/2507.22448). A GGUF file's weights have them in them.

#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

#include "families/common.h"
#include "families/families.h"
#include "families/mamba.h"
#include "families/rope.h"
#include "load/json_fields.h"

namespace dovetail::families {
namespace {

using nlohmann::json;

float read_multiplier(Fields& fields, std::string_view name) {
  return fields.number({"", name}, 1e-9F, load::kLargestFactor).value_or(1.0F);
}

template <std::size_t N>
std::array<float, N> read_multipliers(Fields& fields, std::string_view name) {
  std::array<float, N> out;
  out.fill(1.0F);
  const json* given = fields.member(name);
  if (given == nullptr) return out;
  bool valid = given->is_array() && given->size() == N;
  for (std::size_t i = 0; valid && i < N; ++i) {
    const json& number = (*given)[i];
    valid = number.is_number() && number.get<double>() >= 1e-9 &&
            number.get<double>() <= load::kLargestFactor;
    if (valid) out[i] = number.get<float>();
  }
  if (!valid)
    fields.reject({"", name}, given->dump(), fmt::format("a list of {} numbers above 0", N));
  return out;
}

// Sizes as Granite's but for mamba_d_ssm, which is what the heads are all together.
load::MambaConfig read_falcon_mixer(Fields& fields, const NormConfig& norm,
                                    const ModelConfig& config) {
  MambaSizes usual = {.heads = 128, .state_dim = 256};
  constexpr Key kInner = {"", "mamba_d_ssm"};
  const std::uint32_t inner = fields.is_null(kInner)
                                  ? 0
                                  : fields.count(kInner, 1, load::kLargestIntermediateSize)
                                        .value_or(fields.gguf() ? 0 : 1024);
  usual.inner = inner;
  NormConfig of_mixer = norm;
  const bool normed = fields.gguf() ? fields.has_tensor("blk.0.ssm_norm.weight")
                                    : fields.flag({"", "mamba_rms_norm"}).value_or(false);
  if (!normed) of_mixer = {};
  load::MambaConfig mamba = read_mamba(fields, of_mixer, config.hidden_size, usual, 0);
  const bool first = fields.flag({"", "mamba_norm_before_gate"}).value_or(true);
  mamba.norm_first = normed && first && !fields.gguf();
  if (fields.gguf()) return mamba;
  const auto factors = read_multipliers<5>(fields, "ssm_multipliers");
  const float in = read_multiplier(fields, "ssm_in_multiplier");
  mamba.gate_scale = in * factors[0];
  mamba.input_scale = in * factors[1];
  mamba.write_scale = in * factors[2];
  mamba.read_scale = in * factors[3];
  mamba.step_scale = in * factors[4];
  return mamba;
}

void read_falcon_h1(Fields& fields, ModelConfig& config) {
  if (!fields.gguf()) {
    fields.suppose("vocab_size", 128000);
    fields.suppose("hidden_size", 4096);
    fields.suppose("intermediate_size", 14336);
    fields.suppose("num_hidden_layers", 32);
    fields.suppose("num_attention_heads", 32);
    fields.suppose("num_key_value_heads", 8);
    fields.suppose("max_position_embeddings", 8192);
    must_be(fields, "projectors_bias", false);
  }
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  LayerConfig layer = plain_layer(norm, attention, MlpConfig());
  layer.beside = read_falcon_mixer(fields, norm, config);
  MlpConfig mlp = read_mlp(fields);
  if (!fields.gguf()) {
    config.embedding_scale = read_multiplier(fields, "embedding_multiplier");
    config.logit_scale = read_multiplier(fields, "lm_head_multiplier");
    // Queries and keys have the first factor each, and scores are of both.
    const float in = read_multiplier(fields, "attention_in_multiplier");
    attention.scale *= in * in * read_multiplier(fields, "key_multiplier");
    layer.mixer_norms.scale = in * read_multiplier(fields, "attention_out_multiplier");
    layer.beside_scale = read_multiplier(fields, "ssm_out_multiplier");
    const auto factors = read_multipliers<2>(fields, "mlp_multipliers");
    mlp.gate_scale = factors[0];
    layer.mlp_norms.scale = factors[1];
  }
  layer.mixer = attention;
  layer.mlp = mlp;
  config.layers.assign(layers, layer);
}

constexpr Rename kFalconH1Names[] = {
    {"model.final_layernorm", "output_norm"},
    {"model.layers.*.pre_ff_layernorm", "blk.*.ffn_norm"},
    {"model.layers.*.feed_forward.gate_proj", "blk.*.ffn_gate"},
    {"model.layers.*.feed_forward.up_proj", "blk.*.ffn_up"},
    {"model.layers.*.feed_forward.down_proj", "blk.*.ffn_down"},
    {"model.layers.*.mamba.in_proj", "blk.*.ssm_in"},
    {"model.layers.*.mamba.conv1d", "blk.*.ssm_conv1d"},
    {"model.layers.*.mamba.dt_bias", "blk.*.ssm_dt.bias"},
    {"model.layers.*.mamba.A_log", "blk.*.ssm_a_log"},
    {"model.layers.*.mamba.D", "blk.*.ssm_d"},
    {"model.layers.*.mamba.norm", "blk.*.ssm_norm"},
    {"model.layers.*.mamba.out_proj", "blk.*.ssm_out"},
};

// Files have one norm's name without its ending.
constexpr Rename kFalconH1GgufNames[] = {
    {"blk.*.ffn_norm.weight", "blk.*.ffn_norm.weight"},
    {"blk.*.ffn_norm", "blk.*.ffn_norm.weight"},
};

}  // namespace

constinit const Reader kFalconH1 = {.read = read_falcon_h1,
                                    .hf_names = kFalconH1Names,
                                    .gguf_names = kFalconH1GgufNames,
                                    .adapt = flatten_mamba};

}  // namespace dovetail::families
