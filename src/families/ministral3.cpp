// Ministral 3 and Mistral 3, text only: Mistral whose queries grow with their position, as Llama
// 4's do.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

// llama_4_scaling_beta within rope_parameters, beside the context that it counts in.
void read_temperature(Fields& fields, const RopeConfig& rope, AttentionConfig& attention) {
  constexpr Key kScale = {"attention.temperature_scale", "rope_parameters"};
  if (fields.gguf()) {
    attention.temperature = fields.number(kScale, 0.0F, load::kLargestFactor).value_or(0.0F);
  } else if (const nlohmann::json* rope_fields = fields.member(kScale.hf);
             rope_fields != nullptr && rope_fields->is_object()) {
    load::JsonFields inner(*rope_fields, fields.file(), "rope_parameters.");
    attention.temperature =
        inner.optional_float("llama_4_scaling_beta", 0.0F, load::kLargestFactor).value_or(0.0F);
    fields.take_failure(inner.status());
  }
  if (attention.temperature == 0.0F) return;
  attention.temperature_context = rope.original_context;
  if (rope.original_context == 0) {
    fields.reject(kScale, fmt::format("{}", attention.temperature),
                  "0 without the context that rope scaling was made from");
  }
}

void read_ministral3(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.window = read_uniform_window(fields, layers, true);
  if (!fields.gguf() && !fields.has({"", "rope_parameters"})) {
    fields.reject({"", "rope_parameters"}, "missing", "an object", ErrorKind::kInvalid);
  }
  config.ropes = {read_rope(
      fields, {.head_dim = attention.head_dim, .theta = 1e6F, .interleaved_in_gguf = true},
      config)};
  read_temperature(fields, config.ropes.front(), attention);
  config.layers.assign(layers, plain_layer(norm, attention, read_mlp(fields)));
}

}  // namespace

constinit const Reader kMinistral3 = {read_ministral3};

}  // namespace dovetail::families
