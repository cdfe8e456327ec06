#include "load/hf_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dovetail::load {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr auto kModelNames = std::to_array<Pair>({
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
});

constexpr auto kLayerNames = std::to_array<Pair>({
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight"},
});

// What stands before the number of an expert, and what behind it.
struct ExpertName {
  std::string_view before;
  std::string_view behind;
  std::string_view gguf;
};

constexpr auto kExpertNames = std::to_array<ExpertName>({
    {"mlp.experts.", ".gate_proj.weight", "ffn_gate"},
    {"mlp.experts.", ".up_proj.weight", "ffn_up"},
    {"mlp.experts.", ".down_proj.weight", "ffn_down"},
    {"block_sparse_moe.experts.", ".w1.weight", "ffn_gate"},
    {"block_sparse_moe.experts.", ".w3.weight", "ffn_up"},
    {"block_sparse_moe.experts.", ".w2.weight", "ffn_down"},
});

template <std::size_t N>
std::string_view look_up(const std::array<Pair, N>& names, std::string_view name) {
  const auto* found = std::find_if(names.begin(), names.end(),
                                   [&](const Pair& pair) { return pair.first == name; });
  return found == names.end() ? std::string_view() : found->second;
}

// One spelling for each number, so that no two tensors get one name.
bool is_number(std::string_view text) {
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && !text.empty() && (text.size() == 1 || text.front() != '0');
}

// "mlp.experts.5.up_proj.weight" is "ffn_up.5.weight"; "" for what is no expert's.
std::string expert_name_of(std::string_view name) {
  for (const ExpertName& known : kExpertNames) {
    if (name.size() < known.before.size() + known.behind.size() ||
        !name.starts_with(known.before) || !name.ends_with(known.behind)) {
      continue;
    }
    name.remove_prefix(known.before.size());
    name.remove_suffix(known.behind.size());
    return is_number(name) ? fmt::format("{}.{}.weight", known.gguf, name) : std::string();
  }
  return {};
}

}  // namespace

std::optional<std::string> gguf_name_of(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) {
    const std::string_view found = look_up(kModelNames, name);
    if (found.empty()) return std::nullopt;
    return std::string(found);
  }
  const std::string_view rest = name.substr(kLayers.size());
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view layer = rest.substr(0, dot);
  if (!is_number(layer)) return std::nullopt;
  const std::string_view part = rest.substr(dot + 1);
  std::string found(look_up(kLayerNames, part));
  if (found.empty()) found = expert_name_of(part);
  if (found.empty()) return std::nullopt;
  return fmt::format("blk.{}.{}", layer, found);
}

}  // namespace dovetail::load
