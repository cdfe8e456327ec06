// EXAONE 4: norms behind both halves of a layer and none before, norms of heads; in the large one
// three of four layers slide, and the others have no positions. K-EXAONE: the same attention, norms
// before both halves, and behind a few dense layers experts as DeepSeek-V3 has them.

#include "families/common.h"
#include "families/families.h"
#include "families/grouped_experts.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kExaone4Names[] = {
    {"model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm"},
    {"model.layers.*.post_feedforward_layernorm", "blk.*.post_ffw_norm"},
};

// The attention of each layer: where some slide, those alone have positions.
std::vector<AttentionConfig> read_attention(Fields& fields, const NormConfig& norm,
                                            std::uint32_t layers, ModelConfig& config) {
  AttentionConfig attention = read_heads(fields, config);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  const std::uint32_t window = read_window(fields, 4096).value_or(0);
  std::vector<AttentionConfig> out;
  for (const bool slide : read_sliding_layers(fields, layers, window == 0 ? 0 : 4)) {
    if (slide && window == 0) {
      fields.reject({"", "sliding_window"}, "missing", "a number of positions for sliding layers",
                    ErrorKind::kInvalid);
    }
    attention.window = slide ? window : 0;
    attention.rope = slide || window == 0 ? 0 : -1;
    out.push_back(attention);
  }
  return out;
}

void read_exaone4(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  LayerConfig layer;
  layer.mixer_norms.behind = norm;
  layer.mlp_norms.behind = norm;
  layer.mlp = read_mlp(fields);
  for (const AttentionConfig& attention : read_attention(fields, norm, layers, config)) {
    layer.mixer = attention;
    config.layers.push_back(layer);
  }
}

// As published; transformers writes the name that others have.
constexpr Rename kExaoneMoeNames[] = {
    {"model.layers.*.mlp.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
};
constexpr std::string_view kExaoneMoeDrafts[] = {"mtp."};

void read_exaone_moe(Fields& fields, ModelConfig& config) {
  fields.spell("n_routed_experts", "num_experts");
  fields.spell("n_shared_experts", "num_shared_experts");
  std::uint32_t layers = read_sizes(fields, config);
  drop_draft_layers(fields, layers, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  const std::vector<AttentionConfig> attention = read_attention(fields, norm, layers, config);
  read_grouped_layers(fields, plain_layer(norm, AttentionConfig(), MlpConfig()), layers, config);
  for (std::size_t i = 0; i < attention.size(); ++i) config.layers[i].mixer = attention[i];
  // transformers has none, so that there is nothing to hold it to.
  config.draft_layer.reset();
}

}  // namespace

constinit const Reader kExaone4 = {read_exaone4, kExaone4Names};
constinit const Reader kExaoneMoe = {
    .read = read_exaone_moe, .hf_names = kExaoneMoeNames, .spare = kExaoneMoeDrafts};

}  // namespace dovetail::families
