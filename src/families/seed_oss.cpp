// Seed-OSS: Llama with biases of queries, keys and values, and perhaps of the output.

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

constexpr Rename kSeedOssGgufNames[] = {
    {"blk.*.post_attention_norm", "blk.*.ffn_norm"},
};

void read_seed_oss(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.bias = fields.gguf() ? fields.has_tensor("blk.0.attn_q.bias")
                                 : fields.flag({"", "attention_bias"}).value_or(true);
  attention.output_bias = fields.gguf() ? fields.has_tensor("blk.0.attn_output.bias")
                                        : fields.flag({"", "attention_out_bias"}).value_or(false);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  MlpConfig mlp = read_mlp(fields);
  mlp.bias = fields.flag({"", "mlp_bias"}).value_or(false);
  config.layers.assign(layers, plain_layer(norm, attention, mlp));
}

}  // namespace

constinit const Reader kSeedOss = {read_seed_oss, {}, kSeedOssGgufNames};

}  // namespace dovetail::families
