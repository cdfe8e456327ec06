#pragma once

#include <cstdint>
#include <string>

#include "families/common.h"
#include "families/names.h"

namespace dovetail::families {

// What Gemma 1 to 4 have in common, and the names of 2 to 4.

inline constexpr Rename kGemmaHfNames[] = {
    {"model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm"},
    {"model.layers.*.pre_feedforward_layernorm", "blk.*.ffn_norm"},
    {"model.layers.*.post_feedforward_layernorm", "blk.*.post_ffw_norm"},
};

// The norm of this family, whose weights a folder stores less by one.
NormConfig read_gemma_norm(Fields& fields);

// GeGLU.
load::Activation read_gemma_activation(Fields& fields);
MlpConfig read_gemma_mlp(Fields& fields);

// What embeddings are multiplied with, or rows of another table that are `size` long.
float gemma_embedding_scale(const Fields& fields, const ModelConfig& config);
float gemma_row_scale(const Fields& fields, const std::string& table, std::uint32_t size);

// The scale of the products of queries and keys. GGUF files of the largest models (`largest`
// layers) imply another.
float read_gemma_scale(Fields& fields, const ModelConfig& config, const AttentionConfig& attention,
                       std::uint32_t layers, std::uint32_t largest);

// Norms before and behind both halves of a layer.
LayerConfig sandwich_layer(const NormConfig& norm, const AttentionConfig& attention,
                           const MlpConfig& mlp);

}  // namespace dovetail::families
