// Ministral 3 and Mistral 3, text only: Mistral whose queries grow with their position, as Llama
// 4's do.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

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
  const Temperature temperature = read_temperature(fields, config.ropes.front());
  attention.temperature = temperature.scale;
  attention.temperature_context = temperature.context;
  config.layers.assign(layers, plain_layer(norm, attention, read_mlp(fields)));
}

}  // namespace

constinit const Reader kMinistral3 = {read_ministral3};

}  // namespace dovetail::families
