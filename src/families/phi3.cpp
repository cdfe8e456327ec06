// Phi-3, Phi-4 and Phi-4-mini: Llama whose queries, keys and values are one tensor, and so are gate
// and up; the smaller ones turn a part of each head, and those of long contexts have LongRoPE.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kPhi3Names[] = {
    {"model.layers.*.self_attn.qkv_proj", "blk.*.attn_qkv"},
    {"model.layers.*.mlp.gate_up_proj", "blk.*.ffn_up"},
};

void read_phi3(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.window = read_uniform_window(fields, layers, true);
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .may_be_partial = true}, config)};
  config.layers.assign(layers, plain_layer(norm, attention, read_mlp(fields)));
}

}  // namespace

constinit const Reader kPhi3 = {read_phi3, kPhi3Names};

}  // namespace dovetail::families
