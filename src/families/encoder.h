#pragma once

#include <cstdint>
#include <string_view>

#include "families/common.h"

namespace dovetail::families {

// What encoders have in common: hidden rows and no logits, attention in both directions, and, where
// nothing says otherwise, the mean of the rows.

// Vocabulary, hidden size and context of an encoder. The number of layers.
std::uint32_t read_encoder_sizes(Fields& fields, ModelConfig& config);

// Heads that see what follows them, too, without a rotation.
AttentionConfig read_encoder_heads(Fields& fields, const ModelConfig& config);

// LayerNorm; `epsilon` is the field of a config.json, and what it is there where it is missing.
NormConfig read_layer_norm(Fields& fields, std::string_view field, float epsilon);

// GELU in either form, or SiLU, by the names of transformers; `otherwise` where nothing is said.
load::Activation read_activation(Fields& fields, Key key, std::string_view otherwise);

// A layer with a norm after each sum, as the first encoders have them.
LayerConfig post_norm_layer(const NormConfig& norm, const AttentionConfig& attention,
                            const MlpConfig& mlp);

// A window of `size` positions in all, half of them on either side, as AttentionConfig counts it.
std::uint32_t window_of_both_sides(std::uint32_t size);

}  // namespace dovetail::families
