// Llama 1 to 3.3 and what is shaped like them: SmolLM2, TinyLlama, Yi, Granite's older ones,
// InternLM3.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

void read_llama(Fields& fields, ModelConfig& config) {
  // Mixtral has no architecture of its own in GGUF files.
  if (has_experts(fields)) {
    config.family = "mixtral";
    return kMixtral.read(fields, config);
  }
  const std::uint32_t layers = read_sizes(fields, config);
  AttentionConfig attention = read_heads(fields, config);
  const bool biased = fields.flag({"", "attention_bias"}).value_or(false);
  attention.bias = biased || fields.has_tensor("blk.0.attn_q.bias");
  attention.output_bias = biased || (fields.gguf() && fields.has_tensor("blk.0.attn_output.bias"));
  MlpConfig mlp = read_mlp(fields);
  mlp.bias = fields.gguf() ? fields.has_tensor("blk.0.ffn_up.bias")
                           : fields.flag({"", "mlp_bias"}).value_or(false);
  if (fields.gguf()) {
    attention.window = read_window(fields).value_or(0);
  } else if (const auto window = read_window(fields)) {
    fields.reject({"", "sliding_window"}, std::to_string(*window), "null for model_type llama");
  } else {
    read_uniform_window(fields, layers, false);
  }
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .interleaved_in_gguf = true}, config)};
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  config.layers.assign(layers, plain_layer(norm, attention, mlp));
}

// A flag by the name of published files, or as transformers writes it.
bool either(Fields& fields, std::string_view published, std::string_view written) {
  const auto flag = fields.flag({"", published});
  const auto other = fields.flag({"", written});
  return flag.value_or(other.value_or(false));
}

void read_internlm3(Fields& fields, ModelConfig& config) {
  fields.suppose("num_key_value_heads", 2);
  const std::uint32_t layers = read_sizes(fields, config);
  AttentionConfig attention = read_heads(fields, config, 128);
  MlpConfig mlp = read_mlp(fields);
  mlp.bias = either(fields, "bias", "mlp_bias");
  attention.bias = attention.output_bias = either(fields, "qkv_bias", "attention_bias");
  if (attention.bias != mlp.bias) {
    fields.reject({"", "qkv_bias"}, attention.bias ? "true" : "false",
                  "the same as bias, which is that of the other products");
  }
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  config.layers.assign(layers, plain_layer(norm, attention, mlp));
}

}  // namespace

constinit const Reader kInternLm3 = {read_internlm3};
constinit const Reader kLlama = {read_llama};

}  // namespace dovetail::families
