#include "families/names.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace dovetail::families {
namespace {

constexpr Rename kCommonRenames[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"model.layers.*.input_layernorm", "blk.*.attn_norm"},
    {"model.layers.*.self_attn.q_proj", "blk.*.attn_q"},
    {"model.layers.*.self_attn.k_proj", "blk.*.attn_k"},
    {"model.layers.*.self_attn.v_proj", "blk.*.attn_v"},
    {"model.layers.*.self_attn.o_proj", "blk.*.attn_output"},
    {"model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm"},
    {"model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm"},
    {"model.layers.*.self_attn.q_a_proj", "blk.*.attn_q_a"},
    {"model.layers.*.self_attn.q_a_layernorm", "blk.*.attn_q_a_norm"},
    {"model.layers.*.self_attn.q_b_proj", "blk.*.attn_q_b"},
    {"model.layers.*.self_attn.kv_a_proj_with_mqa", "blk.*.attn_kv_a_mqa"},
    {"model.layers.*.self_attn.kv_a_layernorm", "blk.*.attn_kv_a_norm"},
    {"model.layers.*.self_attn.kv_b_proj", "blk.*.attn_kv_b"},
    {"model.layers.*.post_attention_layernorm", "blk.*.ffn_norm"},
    {"model.layers.*.mlp.gate_proj", "blk.*.ffn_gate"},
    {"model.layers.*.mlp.up_proj", "blk.*.ffn_up"},
    {"model.layers.*.mlp.down_proj", "blk.*.ffn_down"},
    {"model.layers.*.mlp.gate", "blk.*.ffn_gate_inp"},
    {"model.layers.*.mlp.gate.e_score_correction_bias", "blk.*.exp_probs_b.bias"},
    {"model.layers.*.mlp.shared_experts.gate_proj", "blk.*.ffn_gate_shexp"},
    {"model.layers.*.mlp.shared_experts.up_proj", "blk.*.ffn_up_shexp"},
    {"model.layers.*.mlp.shared_experts.down_proj", "blk.*.ffn_down_shexp"},
    {"model.layers.*.mlp.shared_expert.gate_proj", "blk.*.ffn_gate_shexp"},
    {"model.layers.*.mlp.shared_expert.up_proj", "blk.*.ffn_up_shexp"},
    {"model.layers.*.mlp.shared_expert.down_proj", "blk.*.ffn_down_shexp"},
    {"model.layers.*.mlp.shared_expert_gate", "blk.*.ffn_gate_inp_shexp"},
    {"model.layers.*.mlp.experts.*.gate_proj", "blk.*.ffn_gate.*"},
    {"model.layers.*.mlp.experts.*.up_proj", "blk.*.ffn_up.*"},
    {"model.layers.*.mlp.experts.*.down_proj", "blk.*.ffn_down.*"},
    {"modules.*.linear", "dense.*"},
    // Of the layers that draft tokens.
    {"model.layers.*.embed_tokens", "blk.*.nextn.embed_tokens"},
    {"model.layers.*.enorm", "blk.*.nextn.enorm"},
    {"model.layers.*.hnorm", "blk.*.nextn.hnorm"},
    {"model.layers.*.eh_proj", "blk.*.nextn.eh_proj"},
    {"model.layers.*.shared_head.norm", "blk.*.nextn.shared_head_norm"},
    {"model.layers.*.shared_head.head", "blk.*.nextn.shared_head_head"},
    {"model.layers.*.mlp.experts.gate_up_proj", "blk.*.ffn_gate_up_exps.weight"},
    {"model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps.weight"},
};

// One spelling for each number, so that no two tensors get one name.
bool is_number(std::string_view text) {
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && !text.empty() && (text.size() == 1 || text.front() != '0');
}

// Whether the text is the pattern with numbers in place of its stars; those numbers.
bool matches(std::string_view text, std::string_view pattern,
             std::vector<std::string_view>& numbers) {
  numbers.clear();
  for (;;) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return text == pattern;
    if (!text.starts_with(pattern.substr(0, star))) return false;
    text.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    const std::size_t end = std::min(text.find('.'), text.size());
    if (!is_number(text.substr(0, end))) return false;
    numbers.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string with_numbers(std::string_view pattern, std::span<const std::string_view> numbers) {
  std::string out;
  std::size_t next = 0;
  for (const char c : pattern) {
    if (c == '*') {
      out += numbers[next++];
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

constinit const Names kCommonHfNames = kCommonRenames;

std::optional<std::string> rename(std::string_view stored, Names names) {
  std::string_view ending;
  for (const std::string_view known : {std::string_view(".weight"), std::string_view(".bias")}) {
    if (stored.ends_with(known)) ending = known;
  }
  const std::string_view stem = stored.substr(0, stored.size() - ending.size());
  std::vector<std::string_view> numbers;
  for (const Rename& row : names) {
    if (matches(stored, row.stored, numbers)) return with_numbers(row.name, numbers);
    if (!ending.empty() && matches(stem, row.stored, numbers)) {
      return fmt::format("{}{}", with_numbers(row.name, numbers), ending);
    }
  }
  return std::nullopt;
}

}  // namespace dovetail::families
