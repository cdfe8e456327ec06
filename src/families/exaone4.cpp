// EXAONE 4: norms behind both halves of a layer and none before, norms of heads; in the large one
// three of four layers slide, and the others have no positions.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kExaone4Names[] = {
    {"model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm"},
    {"model.layers.*.post_feedforward_layernorm", "blk.*.post_ffw_norm"},
};

void read_exaone4(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  const std::uint32_t window = read_window(fields, 4096).value_or(0);
  const std::vector<bool> slides = read_sliding_layers(fields, layers, window == 0 ? 0 : 4);
  LayerConfig layer;
  layer.mixer_norms.behind = norm;
  layer.mlp_norms.behind = norm;
  layer.mlp = read_mlp(fields);
  for (const bool slide : slides) {
    if (slide && window == 0) {
      fields.reject({"", "sliding_window"}, "missing", "a number of positions for sliding layers",
                    ErrorKind::kInvalid);
    }
    attention.window = slide ? window : 0;
    attention.rope = slide || window == 0 ? 0 : -1;
    layer.mixer = attention;
    config.layers.push_back(layer);
  }
}

}  // namespace

constinit const Reader kExaone4 = {read_exaone4, kExaone4Names};

}  // namespace dovetail::families
