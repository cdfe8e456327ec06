// Qwen3-Next and Qwen3.5 to 3.8, with and without experts: gated DeltaNet in three of four layers,
// attention with an output gate and a rotation of a part of each head in the fourth.

#include <fmt/core.h>

#include <algorithm>

#include "families/common.h"
#include "families/delta.h"
#include "families/families.h"
#include "families/qwen.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

ExpertsConfig read_shared_experts(Fields& fields) {
  ExpertsConfig experts = read_experts(fields);
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(true);
  experts.shared_size =
      fields
          .count({"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}, 1,
                 load::kLargestIntermediateSize)
          .value_or(0);
  experts.shared_gated = experts.shared_size > 0;
  refuse_dense_layers(fields);
  return experts;
}

void read_hybrid(Fields& fields, ModelConfig& config, bool experts, bool tiled) {
  std::uint32_t layers = read_sizes(fields, config);
  drop_draft_layers(fields, layers, config);
  // In a folder its tensors say whether there is one, since few configurations do.
  const std::uint32_t declared =
      fields.count({"", "mtp_num_hidden_layers"}, 0, load::kMostLayers).value_or(0);
  const bool stored = fields.described()
                          ? declared > 0
                          : fields.has_tensor(fmt::format("blk.{}.nextn.eh_proj.weight", layers));
  if (!fields.gguf() && stored) config.draft_layers = 1;
  NormConfig norm = read_rms_norm(fields, 1e-6F);
  const float epsilon = norm.epsilon;
  // Converters add it to all but DeltaNet's own norm.
  if (!fields.gguf()) norm.offset = 1.0F;
  AttentionConfig attention = read_heads(fields, config, 256);
  attention.gate = load::AttentionGate::kWithQueries;
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  // Sections are for pictures: the positions of text are alike in all of them.
  fields.ask({"rope.dimension_sections", ""});
  config.ropes = {read_rope(
      fields, {.head_dim = attention.head_dim, .partial = 0.25F, .may_be_partial = true}, config)};
  load::DeltaConfig delta = read_delta(fields, epsilon);
  delta.tiled = tiled && fields.gguf();
  const std::vector<bool> recurrent = read_delta_layers(fields, layers);
  const auto first = std::find(recurrent.begin(), recurrent.end(), true) - recurrent.begin();
  delta.grouped_input = fields.has_tensor(fmt::format("blk.{}.ssm_in.weight", first));
  delta.grouped_rates = fields.has_tensor(fmt::format("blk.{}.ssm_ba.weight", first));
  LayerConfig layer = experts ? plain_layer(norm, attention, read_shared_experts(fields))
                              : plain_layer(norm, attention, read_mlp(fields));
  for (const bool has_delta : recurrent) {
    if (has_delta) {
      layer.mixer = delta;
    } else {
      layer.mixer = attention;
    }
    config.layers.push_back(layer);
  }
  // Published models have none with embeddings of its own.
  if (!fields.flag({"", "mtp_use_dedicated_embeddings"}).value_or(false)) {
    layer.mixer = attention;
    read_draft_layer(fields, layer, config);
  }
  config.output_norm = norm;
}

void read_qwen3_next(Fields& fields, ModelConfig& config) {
  read_hybrid(fields, config, true, false);
}
void read_qwen3_5(Fields& fields, ModelConfig& config) { read_hybrid(fields, config, false, true); }
void read_qwen3_5_moe(Fields& fields, ModelConfig& config) {
  read_hybrid(fields, config, true, true);
}

// Of the layers that draft tokens (multi-token prediction) the first is run.
std::string draft_name(std::string stored, std::uint32_t layers) {
  constexpr std::string_view kPart = "mtp.", kLayer = "mtp.layers.0.";
  const std::string_view name = stored;
  std::string_view rest;
  if (name.starts_with(kLayer)) {
    rest = name.substr(kLayer.size());
  } else if (name == "mtp.fc.weight" || name == "mtp.norm.weight" ||
             name == "mtp.pre_fc_norm_embedding.weight" ||
             name == "mtp.pre_fc_norm_hidden.weight") {
    rest = name.substr(kPart.size());
  } else {
    return stored;
  }
  return fmt::format("model.layers.{}.{}", layers, rest);
}

// Pictures are not for this program, nor are further layers that draft tokens.
constexpr std::string_view kNextSpare[] = {"mtp.", "model.visual."};

}  // namespace

constinit const Reader kQwen3Next = {.read = read_qwen3_next,
                                     .hf_names = kDeltaHfNames,
                                     .gguf_names = kDeltaGgufNames,
                                     .spare = kNextSpare,
                                     .draft_name = draft_name};
constinit const Reader kQwen3_5 = {.read = read_qwen3_5,
                                   .hf_names = kDeltaHfNames,
                                   .gguf_names = kDeltaGgufNames,
                                   .spare = kNextSpare,
                                   .draft_name = draft_name};
constinit const Reader kQwen3_5Moe = {.read = read_qwen3_5_moe,
                                      .hf_names = kDeltaHfNames,
                                      .gguf_names = kDeltaGgufNames,
                                      .spare = kNextSpare,
                                      .draft_name = draft_name};

}  // namespace dovetail::families
