// Qwen3, with and without pictures: Llama with a norm of each head's query and key.

#include <fmt/core.h>

#include <string>
#include <vector>

#include "families/common.h"
#include "families/families.h"
#include "families/qwen.h"
#include "families/ranker.h"
#include "families/rope.h"

namespace dovetail::families {
namespace {

// Qwen3-Reranker, which says yes or no: a converter leaves the rows of these two as the head.
void read_yes_and_no(Fields& fields, ModelConfig& config) {
  read_rank_head_of_gguf(fields, config);
  if (config.score == load::Score::kNone) return;
  config.score = load::Score::kShareOfTwo;
  config.pooling = load::Pooling::kLast;
  constexpr Key kLabels = {"classifier.output_labels", ""};
  if (!fields.has(kLabels)) return;
  const std::vector<std::string> labels =
      fields.of_gguf().strings(fields.gguf_key("classifier.output_labels"));
  if (labels != std::vector<std::string>{"yes", "no"})
    fields.reject(kLabels, fmt::format("{} labels", labels.size()), "yes and no");
}

void read_layers_of_qwen3(Fields& fields, float theta, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  AttentionConfig attention = read_heads(fields, config, 128);
  attention.bias = fields.gguf() && fields.has_tensor("blk.0.attn_q.bias");
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim, .theta = theta}, config)};
  config.output_norm = norm;
  const MlpConfig mlp = read_mlp(fields);
  for (const std::uint32_t window : read_qwen_windows(fields, layers)) {
    attention.window = window;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
}

void read_qwen3(Fields& fields, ModelConfig& config) {
  read_layers_of_qwen3(fields, 10000.0F, config);
  if (fields.gguf()) read_yes_and_no(fields, config);
}

void read_qwen3_vl(Fields& fields, ModelConfig& config) {
  read_qwen_sections(fields);
  fields.suppose("num_key_value_heads", 32);
  read_layers_of_qwen3(fields, 500000.0F, config);
}

}  // namespace

constinit const Reader kQwen3 = {read_qwen3};
constinit const Reader kQwen3Vl = {.read = read_qwen3_vl, .spare = kQwenPictures};

}  // namespace dovetail::families
