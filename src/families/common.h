#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "families/fields.h"
#include "load/limits.h"
#include "load/model_config.h"

namespace dovetail::families {

using load::AttentionConfig;
using load::ExpertsConfig;
using load::LayerConfig;
using load::MlpConfig;
using load::ModelConfig;
using load::NormConfig;
using load::RopeConfig;

// Readers of what the configurations of decoders have in common. What differs from family to family
// is an argument, and where it is a number it holds for a config.json that does not give it.

// Vocabulary, hidden size, context and whether the head is tied. The number of layers.
std::uint32_t read_sizes(Fields& fields, ModelConfig& config, bool usually_tied = false);

// Heads and their size, and the scale that follows from it. Without a number for `head_dim`, or
// where a config.json says null, the heads share the hidden size. `kv_heads`: as the family has
// read them, 0: it has not.
AttentionConfig read_heads(Fields& fields, const ModelConfig& config, std::uint32_t head_dim = 0,
                           std::uint32_t kv_heads = 0);

// For each layer of a GGUF file whether it has attention, by its number of heads for keys, of which
// there is one but for zeros; that number.
struct AttendingLayers {
  std::vector<bool> attends;
  std::uint32_t kv_heads = 0;  // 0: the layers are alike, and all have attention
};
AttendingLayers read_attending_layers(Fields& fields, std::uint32_t layers);

// layer_types of config.json: for each layer whether it is called `name`; the others are
// full_attention. Nothing where there is none, or it is wrong; `valid` is what it may hold.
std::optional<std::vector<bool>> read_layer_types(Fields& fields, std::uint32_t layers,
                                                  std::string_view name, std::string_view valid);

NormConfig read_rms_norm(Fields& fields, float epsilon);

MlpConfig read_mlp(Fields& fields);

// The experts of a layer. `count` is the field that the family's own config.json files have; newer
// versions of transformers write the other one of num_experts and num_local_experts. `gating` is
// the number that GGUF files give the family's kind of gate, and `kind` its name.
struct ExpertFields {
  std::string_view count = "num_experts";
  Key size = {"expert_feed_forward_length", "moe_intermediate_size"};
  std::uint32_t gating = 1;
  std::string_view kind = "softmax";
};
ExpertsConfig read_experts(Fields& fields, const ExpertFields& names = {});
bool has_experts(Fields& fields);

// Takes the layers that draft tokens, which follow the others, off the `layers` of a GGUF file.
void drop_draft_layers(Fields& fields, std::uint32_t& layers, ModelConfig& config);
// The first of them, which is such a layer, if the file has what stands before and behind it.
void read_draft_layer(Fields& fields, const LayerConfig& layer, ModelConfig& config);

// A layer of norms before attention and feed-forward and nothing else.
LayerConfig plain_layer(const NormConfig& norm, const AttentionConfig& attention,
                        const MlpConfig& mlp);
LayerConfig plain_layer(const NormConfig& norm, const AttentionConfig& attention,
                        const ExpertsConfig& experts);

// How an embedder's hidden rows become one, where a GGUF file says so.
void read_pooling(Fields& fields, ModelConfig& config);

// Refuses a field of a config.json that says anything but this.
void must_be(Fields& fields, std::string_view hf, bool valid);
void must_say(Fields& fields, std::string_view hf, std::string_view valid);

// Refuses what a configuration says, changes results and was not asked for by the family.
void refuse_the_rest(Fields& fields);

}  // namespace dovetail::families
