// SmolLM3: Llama without positions in every fourth layer (NoPE, https://arxiv.org/abs/2501.18795).

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

void read_smollm3(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config, true);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  config.ropes = {read_rope(
      fields, {.head_dim = attention.head_dim, .theta = 2e6F, .interleaved_in_gguf = true},
      config)};
  if (uses_sliding_window(fields)) {
    fields.reject({"", "use_sliding_window"}, "true", "false");
  }
  const std::uint32_t interval =
      fields.count({"", "no_rope_layer_interval"}, 1, load::kMostLayers).value_or(4);
  // 1 for a layer that has positions.
  const std::vector<bool> turns = fields.flags({"", "no_rope_layers"}, layers);
  const MlpConfig mlp = read_mlp(fields);
  for (std::uint32_t i = 0; i < layers; ++i) {
    const bool turn = i < turns.size() ? turns[i] : (i + 1) % interval != 0;
    attention.rope = turn ? 0 : -1;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
}

}  // namespace

constinit const Reader kSmolLm3 = {read_smollm3};

}  // namespace dovetail::families
