#include "load/hf_names.h"

#include <fmt/format.h>

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
});

template <std::size_t N>
std::string_view look_up(const std::array<Pair, N>& names, std::string_view name) {
  const auto* found = std::find_if(names.begin(), names.end(),
                                   [&](const Pair& pair) { return pair.first == name; });
  return found == names.end() ? std::string_view() : found->second;
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
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const std::string_view layer = rest.substr(0, dot);
  const bool digits =
      std::all_of(layer.begin(), layer.end(), [](char c) { return c >= '0' && c <= '9'; });
  // One spelling for each layer, so that no two tensors get one name.
  if (!digits || (layer.size() > 1 && layer.front() == '0')) return std::nullopt;
  const std::string_view found = look_up(kLayerNames, rest.substr(dot + 1));
  if (found.empty()) return std::nullopt;
  return fmt::format("blk.{}.{}", layer, found);
}

}  // namespace dovetail::load
