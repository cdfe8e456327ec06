// Qwen2 and Qwen2.5, with and without pictures, with and without experts: Llama with biases of
// queries, keys and values.

#include "families/common.h"
#include "families/families.h"
#include "families/qwen.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

// Where a config.json says nothing: the theta of its positions, from which layer on layers slide if
// they do at all, and what norms add.
struct UsualOfQwen2 {
  float theta = 10000.0F;
  std::uint32_t full = 28;
  float epsilon = 1e-6F;
};

template <class Mlp>
void read_layers_of_qwen2(Fields& fields, const UsualOfQwen2& usual, const Mlp& mlp,
                          ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.flag({"", "qkv_bias"}).value_or(true);
  config.ropes = {
      read_rope(fields, {.head_dim = attention.head_dim, .theta = usual.theta}, config)};
  const NormConfig norm = read_rms_norm(fields, usual.epsilon);
  config.output_norm = norm;
  for (const std::uint32_t window : read_qwen_windows(fields, layers, usual.full)) {
    attention.window = window;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
}

void read_qwen2(Fields& fields, ModelConfig& config) {
  read_layers_of_qwen2(fields, {}, read_mlp(fields), config);
}

void read_qwen2_vl(Fields& fields, ModelConfig& config) {
  read_qwen_sections(fields);
  fields.suppose("num_key_value_heads", 8);
  const UsualOfQwen2 usual = {.theta = 1e6F, .full = 80, .epsilon = 1e-5F};
  read_layers_of_qwen2(fields, usual, read_mlp(fields), config);
}

void read_qwen2_moe(Fields& fields, ModelConfig& config) {
  ExpertsConfig experts = read_experts(fields);
  experts.normalized = fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(false);
  experts.shared_size = fields.required_count(
      {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}, 1,
      load::kLargestIntermediateSize);
  experts.shared_gated = true;
  refuse_dense_layers(fields);
  // transformers lets every other layer slide then, which no published model does.
  constexpr Key kSlides = {"", "use_sliding_window"};
  if (fields.flag(kSlides).value_or(false) && fields.member("layer_types") == nullptr)
    fields.reject(kSlides, "true", "false, or layer_types beside it");
  read_layers_of_qwen2(fields, {}, experts, config);
}

}  // namespace

constinit const Reader kQwen2 = {read_qwen2};
constinit const Reader kQwen2Vl = {.read = read_qwen2_vl, .spare = kQwenPictures};
constinit const Reader kQwen2Moe = {read_qwen2_moe};

}  // namespace dovetail::families
