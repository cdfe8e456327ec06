// GLM-4-0414 and the text of GLM-4.1V: norms before and behind both halves of a layer, half of each
// head turns in pairs of neighbours, biases of queries, keys and values, gate and up in one tensor.

#include "families/families.h"
#include "families/gemma.h"
#include "families/qwen.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kGlm4Names[] = {
    {"model.layers.*.post_self_attn_layernorm", "blk.*.post_attention_norm"},
    {"model.layers.*.post_mlp_layernorm", "blk.*.post_ffw_norm"},
    {"model.layers.*.mlp.gate_up_proj", "blk.*.ffn_up"},
};

// Files with sections for pictures have the matrices in another order: pairs are not neighbours.
bool has_sections(Fields& fields) {
  constexpr Key kSections = {"rope.dimension_sections", ""};
  if (!fields.gguf() || !fields.has(kSections)) return false;
  const std::vector<std::uint32_t> sections = fields.counts(kSections, 4, load::kLargestHeadDim);
  return sections.size() > 1 && sections[0] > 0 && sections[1] > 0;
}

// What a config.json means where it does not say it.
struct UsualOfGlm4 {
  float epsilon = 1.5625e-7F;
  std::uint32_t head_dim = 128;  // 0: heads share the hidden size
  float partial = 0.5F;
};

void read_layers_of_glm4(Fields& fields, const UsualOfGlm4& usual, ModelConfig& config) {
  fields.suppose("num_key_value_heads", 2);
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, usual.epsilon);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, usual.head_dim);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_q.bias") ||
                                       fields.has_tensor("blk.0.attn_qkv.bias")
                                 : fields.flag({"", "attention_bias"}).value_or(true);
  config.ropes = {read_rope(fields,
                            {.head_dim = attention.head_dim,
                             .interleaved_in_gguf = !has_sections(fields),
                             .interleaved_in_hf = true,
                             .partial = usual.partial,
                             .may_be_partial = true},
                            config)};
  config.layers.assign(layers, sandwich_layer(norm, attention, read_mlp(fields)));
}

void read_glm4(Fields& fields, ModelConfig& config) { read_layers_of_glm4(fields, {}, config); }

void read_glm4v(Fields& fields, ModelConfig& config) {
  must_be(fields, "attention_bias", true);
  read_layers_of_glm4(fields, {.epsilon = 1e-5F, .head_dim = 0, .partial = 1.0F}, config);
}

}  // namespace

constinit const Reader kGlm4 = {read_glm4, kGlm4Names};
// Configurations that have the text's fields at their top have tensors of either kind of names.
constinit const Reader kGlm4v = {.read = read_glm4v,
                                 .hf_names = kGlm4Names,
                                 .spare = kQwenPictures,
                                 .base = "model.language_model."};

}  // namespace dovetail::families
