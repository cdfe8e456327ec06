#pragma once

#include <cstdint>
#include <vector>

#include "families/fields.h"
#include "families/names.h"
#include "load/model_config.h"

namespace dovetail::families {

// Gated DeltaNet, as Qwen3-Next and Qwen3.5 have it.
load::DeltaConfig read_delta(Fields& fields, float epsilon);

// For each layer whether it has DeltaNet in place of attention: as the configuration's list says,
// else all but every so many of them.
std::vector<bool> read_delta_layers(Fields& fields, std::uint32_t layers);

// Names of DeltaNet's tensors in Hugging Face's checkpoints of both families.
inline constexpr Rename kDeltaHfNames[] = {
    {"model.layers.*.linear_attn.in_proj_qkvz", "blk.*.ssm_in"},
    {"model.layers.*.linear_attn.in_proj_ba", "blk.*.ssm_ba"},
    {"model.layers.*.linear_attn.in_proj_qkv", "blk.*.attn_qkv"},
    {"model.layers.*.linear_attn.in_proj_z", "blk.*.attn_gate"},
    {"model.layers.*.linear_attn.in_proj_b", "blk.*.ssm_beta"},
    {"model.layers.*.linear_attn.in_proj_a", "blk.*.ssm_alpha"},
    {"model.layers.*.linear_attn.conv1d", "blk.*.ssm_conv1d"},
    {"model.layers.*.linear_attn.dt_bias", "blk.*.ssm_dt.bias"},
    {"model.layers.*.linear_attn.A_log", "blk.*.ssm_a_log"},
    {"model.layers.*.linear_attn.norm", "blk.*.ssm_norm"},
    {"model.layers.*.linear_attn.out_proj", "blk.*.ssm_out"},
    // Of the layer that drafts tokens.
    {"model.layers.*.fc", "blk.*.nextn.eh_proj"},
    {"model.layers.*.pre_fc_norm_embedding", "blk.*.nextn.enorm"},
    {"model.layers.*.pre_fc_norm_hidden", "blk.*.nextn.hnorm"},
    {"model.layers.*.norm", "blk.*.nextn.shared_head_norm"},
};

// What their GGUF files call otherwise.
inline constexpr Rename kDeltaGgufNames[] = {
    {"blk.*.post_attention_norm", "blk.*.ffn_norm"},
};

}  // namespace dovetail::families
