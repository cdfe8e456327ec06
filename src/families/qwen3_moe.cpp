// Qwen3 MoE and Qwen3 Coder, and Qwen3-VL of their kind: Qwen3 with experts in every layer.

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "families/common.h"
#include "families/families.h"
#include "families/qwen.h"
#include "families/rope.h"
#include "families/turned_experts.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

bool slides(Fields& fields) {
  if (!uses_sliding_window(fields, kQwenWindow)) return false;
  // Old versions of transformers keep so many layers from sliding, newer ones let all slide.
  constexpr Key kFull = {"", "max_window_layers"};
  const auto full = fields.count(kFull, 0, load::kLargestContext);
  if (full.value_or(0) != 0) {
    fields.reject(kFull, fmt::format("{}", *full), "0 or absent where use_sliding_window is true");
  }
  return true;
}

void read_layers_of_qwen3_moe(Fields& fields, const ExpertsConfig& experts, float theta,
                              ModelConfig& config) {
  refuse_dense_layers(fields);
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = fields.gguf() && fields.has_tensor("blk.0.attn_q.bias");
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  attention.window = read_uniform_window(fields, layers, slides(fields), kQwenWindow);
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim, .theta = theta}, config)};
  config.output_norm = norm;
  config.layers.assign(layers, plain_layer(norm, attention, experts));
}

void read_qwen3_moe(Fields& fields, ModelConfig& config) {
  ExpertsConfig experts = read_experts(fields);
  // transformers takes them as they are where nothing is said, llama.cpp divides them.
  experts.normalized =
      fields.flag({"expert_weights_norm", "norm_topk_prob"}).value_or(fields.gguf());
  read_layers_of_qwen3_moe(fields, experts, 10000.0F, config);
}

// transformers divides weights of experts whatever a config.json says.
void read_qwen3_vl_moe(Fields& fields, ModelConfig& config) {
  read_qwen_sections(fields);
  fields.suppose("num_key_value_heads", 16);
  ExpertsConfig experts = read_experts(fields);
  experts.normalized = fields.flag({"expert_weights_norm", ""}).value_or(true);
  read_layers_of_qwen3_moe(fields, experts, 500000.0F, config);
}

constexpr std::string_view kGateUp = "ffn_gate_up_of_folder", kDown = "ffn_down_of_folder";
constexpr Rename kQwen3VlMoeNames[] = {
    {"model.layers.*.mlp.experts.gate_up_proj", "blk.*.ffn_gate_up_of_folder"},
    {"model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_of_folder"},
};

// Published folders have the experts of a layer a column after another, and what transformers
// writes has them a row after another. No sizes fit both.
bool by_columns(const load::StoredTensor& gate_up, const load::StoredTensor& down) {
  const auto &both = gate_up.shape, &one = down.shape;
  return both.size() == 3 && one.size() == 3 && both[2] == 2 * one[1] && both[1] == one[2];
}

Status turn_experts(load::StoredTensors& tensors, Owned& /*owned*/) {
  std::vector<std::string> layers;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with("blk.") && name.ends_with(kGateUp))
      layers.push_back(name.substr(0, name.size() - kGateUp.size()));
  }
  for (const std::string& layer : layers) {
    auto gate_up = tensors.extract(layer + std::string(kGateUp));
    auto down = tensors.extract(layer + std::string(kDown));
    if (down && by_columns(gate_up.mapped(), down.mapped())) {
      if (auto status = turn(gate_up.mapped()); !status) return status;
      if (auto status = turn(down.mapped()); !status) return status;
    }
    gate_up.key() = layer + "ffn_gate_up_exps.weight";
    tensors.insert(std::move(gate_up));
    if (!down) continue;
    down.key() = layer + "ffn_down_exps.weight";
    tensors.insert(std::move(down));
  }
  return {};
}

}  // namespace

constinit const Reader kQwen3Moe = {read_qwen3_moe};
constinit const Reader kQwen3VlMoe = {.read = read_qwen3_vl_moe,
                                      .hf_names = kQwen3VlMoeNames,
                                      .spare = kQwenPictures,
                                      .adapt = turn_experts};

}  // namespace dovetail::families
