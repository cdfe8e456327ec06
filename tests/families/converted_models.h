#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "families/gguf_converter.h"

namespace dovetail::families {

inline void set_granite(GgufBuilder& b, const std::string& p) {
  b.set_f32(p + "attention.scale", 0.2F);
  b.set_f32(p + "embedding_scale", 3.0F);
  b.set_f32(p + "logit_scale", 2.0F);
  b.set_f32(p + "residual_scale", 0.5F);
}

inline void set_experts(GgufBuilder& b, const std::string& p, std::uint32_t size) {
  b.set_u32(p + "expert_count", 8);
  b.set_u32(p + "expert_used_count", 3);
  b.set_u32(p + "expert_feed_forward_length", size);
}

inline void set_sections(GgufBuilder& b, const std::string& p) {
  b.set_numbers<std::int32_t>(p + "rope.dimension_sections", GgufType::kInt32, {4, 2, 2, 0});
}

inline void set_mamba(GgufBuilder& b, const std::string& p, std::uint32_t heads,
                      std::uint32_t groups, std::uint32_t state, std::uint32_t inner = 64) {
  b.set_u32(p + "ssm.conv_kernel", 4);
  b.set_u32(p + "ssm.state_size", state);
  b.set_u32(p + "ssm.group_count", groups);
  b.set_u32(p + "ssm.inner_size", inner);
  b.set_u32(p + "ssm.time_step_rank", heads);
}

// Every other layer slides, and the others have heads of 16 of which a quarter turns.
inline void set_gemma4(GgufBuilder& b, const std::string& p, std::uint32_t layers,
                       std::uint32_t sharing, std::uint32_t input) {
  std::vector<std::uint8_t> slides;
  for (std::uint32_t i = 0; i < layers; ++i) slides.push_back(i % 2 == 0 ? 1 : 0);
  b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool, slides);
  b.set_u32(p + "attention.sliding_window", 16);
  b.set_u32(p + "attention.shared_kv_layers", sharing);
  b.set_u32(p + "embedding_length_per_layer_input", input);
  b.set_u32(p + "attention.key_length", 16);
  b.set_u32(p + "attention.value_length", 16);
  b.set_u32(p + "attention.key_length_swa", 8);
  b.set_u32(p + "attention.value_length_swa", 8);
  b.set_u32(p + "rope.dimension_count", 16);
  b.set_u32(p + "rope.dimension_count_swa", 8);
  b.set_f32(p + "rope.freq_base_swa", 1000.0F);
  b.set_f32(p + "final_logit_softcapping", 6.0F);
  add_floats(b, "rope_freqs.weight", {1.0F, 1.0F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F});
}

inline const Converted kConverted[] = {
    {"afmoe-tiny", "afmoe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
       b.set_u32(p + "attention.sliding_window", 16);
     }},
    {"bailing-moe-tiny",
     "bailingmoe2",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "rope.dimension_count", 8);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_group_count", 4);
       b.set_u32(p + "expert_group_used_count", 2);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_shared_feed_forward_length", 12);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     },
     {},
     true},
    {"mellum-tiny", "mellum",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
       b.set_f32(p + "rope.freq_base_swa", 1000.0F);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
     }},
    {"minicpm-tiny",
     "minicpm",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "embedding_scale", 3.0F);
       b.set_f32(p + "residual_scale", 1.4F / std::sqrt(2.0F));
       b.set_f32(p + "logit_scale", 2.0F);
     },
     {},
     false,
     true},
    {"dots1-tiny", "dots1",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_shared_count", 2);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     }},
    {"ernie4-5-moe-tiny",
     "ernie4_5-moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "leading_dense_block_count", 2);
       b.set_u32(p + "interleave_moe_layer_step", 1);
       b.set_u32(p + "expert_shared_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
     },
     {},
     false,
     true},
    {"ernie4-5-tiny",
     "ernie4_5",
     [](GgufBuilder& /*b*/, const std::string& /*p*/) {},
     {},
     false,
     true},
    {"granite-swa-moe-tiny",
     "granite_swa",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool, {0, 1});
     },
     {},
     false,
     true},
    {"hunyuan-moe-tiny", "hunyuan-moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 24);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
       b.set_string(p + "rope.scaling.type", "none");
       b.set_f32(p + "rope.scaling.factor", 1.0F);
     }},
    {"hunyuan-tiny", "hunyuan-dense",
     [](GgufBuilder& b, const std::string& p) {
       b.set_string(p + "rope.scaling.type", "none");
       b.set_f32(p + "rope.scaling.factor", 1.0F);
     }},
    {"olmoe-tiny", "olmoe",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
     }},
    {"qwen2-5-vl-tiny", "qwen2vl", set_sections},
    {"qwen2-moe-tiny", "qwen2moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "expert_shared_feed_forward_length", 24);
     }},
    {"qwen3-vl-moe-tiny", "qwen3vlmoe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       set_sections(b, p);
       b.set_u32(p + "n_deepstack_layers", 1);
     }},
    {"qwen3-vl-tiny", "qwen3vl",
     [](GgufBuilder& b, const std::string& p) {
       set_sections(b, p);
       b.set_u32(p + "n_deepstack_layers", 1);
     }},
    {"cohere-tiny",
     "command-r",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "logit_scale", 0.5F);
       b.set_string(p + "rope.scaling.type", "none");
     },
     {},
     false,
     true},
    {"cohere2-tiny",
     "cohere2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "logit_scale", 0.5F);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_u32(p + "rope.dimension_count", 8);
     },
     {},
     false,
     true},
    {"exaone4-tiny", "exaone4",
     [](GgufBuilder& b, const std::string& p) {
       b.add_tensor("rope_freqs.weight", kernels::DataType::kF32, {4});
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_u32(p + "attention.sliding_window_pattern", 2);
     }},
    {"exaone-moe-tiny", "exaone-moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_shared_feed_forward_length", 12);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
       b.set_u32(p + "nextn_predict_layers", 0);
       b.set_string(p + "rope.scaling.type", "none");
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
     }},
    {"stablelm-tiny", "stablelm",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 2);
       b.set_bool(p + "use_parallel_residual", false);
     }},
    {"stablelm-parallel-tiny", "stablelm",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 4);
       b.set_bool(p + "use_parallel_residual", true);
     }},
    {"falcon-h1-tiny",
     "falcon-h1",
     [](GgufBuilder& b, const std::string& p) { set_mamba(b, p, 3, 1, 20, 48); },
     {{"ffn_norm.weight", "ffn_norm"}}},
    {"falcon-h1-normed-tiny",
     "falcon-h1",
     [](GgufBuilder& b, const std::string& p) { set_mamba(b, p, 4, 2, 16); },
     {{"ffn_norm.weight", "ffn_norm"}}},
    {"apertus-tiny", "apertus",
     [](GgufBuilder& b, const std::string& /*p*/) {
       b.add_tensor("rope_freqs.weight", kernels::DataType::kF32, {4});
       const auto set = [&](const char* key, float first, float second) {
         b.set_numbers<float>(key, GgufType::kFloat32, {first, second});
       };
       set("xielu.alpha_p", -0.0164031982421875F, -0.1964111328125F);
       set("xielu.alpha_n", -0.26318359375F, 0.184326171875F);
       set("xielu.beta", 0.490966796875F, 0.50830078125F);
       set("xielu.eps", -1.0132789611816406e-06F, -1.0132789611816406e-06F);
     }},
    {"arcee-tiny",
     "arcee",
     [](GgufBuilder& b, const std::string& p) {
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
     },
     {},
     false,
     true},
    {"starcoder2-tiny", "starcoder2", [](GgufBuilder& /*b*/, const std::string& /*p*/) {}},
    {"starcoder2-window-tiny", "starcoder2",
     [](GgufBuilder& b, const std::string& p) { b.set_u32(p + "attention.sliding_window", 16); }},
    {"gemma-tiny", "gemma", [](GgufBuilder& /*b*/, const std::string& /*p*/) {}},
    {"gemma2-tiny", "gemma2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_f32(p + "attn_logit_softcapping", 2.0F);
       b.set_f32(p + "final_logit_softcapping", 6.0F);
       b.set_f32(p + "attention.scale", 1.0F / std::sqrt(24.0F));
     }},
    {"gemma3-tiny", "gemma3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
       b.set_f32(p + "rope.freq_base_swa", 1000.0F);
       b.set_string(p + "rope.scaling.type", "linear");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_f32(p + "attention.scale", 1.0F / std::sqrt(24.0F));
     }},
    {"gemma4-tiny", "gemma4",
     [](GgufBuilder& b, const std::string& p) {
       set_gemma4(b, p, 4, 0, 0);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {2, 1, 2, 1});
     }},
    {"gemma4-moe-tiny",
     "gemma4",
     [](GgufBuilder& b, const std::string& p) {
       set_gemma4(b, p, 2, 0, 0);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {2, 1});
       b.set_u32(p + "feed_forward_length", 48);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_count", 6);
       b.set_u32(p + "expert_used_count", 3);
     },
     {{"ffn_gate_inp_norm.weight", "ffn_gate_inp.scale"},
      {"exp_scales.weight", "ffn_down_exps.scale"}}},
    {"gemma4-ple-tiny", "gemma4",
     [](GgufBuilder& b, const std::string& p) {
       set_gemma4(b, p, 6, 3, 12);
       b.set_numbers<std::int32_t>(p + "feed_forward_length", GgufType::kInt32,
                                   {48, 48, 48, 96, 96, 96});
     }},
    {"glm4-tiny",
     "glm4",
     [](GgufBuilder& b, const std::string& p) { b.set_u32(p + "rope.dimension_count", 8); },
     {},
     true,
     true},
    {"glm4-moe-tiny",
     "glm4moe",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 4);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
       b.set_u32(p + "expert_group_count", 1);
       b.set_u32(p + "expert_group_used_count", 1);
       b.set_u32(p + "expert_feed_forward_length", 12);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     },
     {{"ffn_norm", "post_attention_norm"}}},
    {"glm4v-tiny",
     "glm4",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 8);
       set_sections(b, p);
     },
     {},
     true},
    {"glm4v-moe-tiny",
     "glm4moe",
     [](GgufBuilder& b, const std::string& p) {
       set_experts(b, p, 12);
       set_sections(b, p);
       b.set_u32(p + "rope.dimension_count", 8);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_gating_func", 2);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     },
     {{"ffn_norm", "post_attention_norm"}}},
    {"gpt-oss-tiny",
     "gpt-oss",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_feed_forward_length", 32);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
       b.set_f32(p + "rope.scaling.yarn_beta_fast", 4.0F);
       b.set_f32(p + "rope.scaling.yarn_beta_slow", 0.5F);
     },
     {{"ffn_norm", "post_attention_norm"}}},
    {"gpt-oss-f16-tiny",
     "gpt-oss",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 4.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
       b.set_f32(p + "rope.scaling.yarn_beta_fast", 4.0F);
       b.set_f32(p + "rope.scaling.yarn_beta_slow", 0.5F);
     },
     {{"ffn_norm", "post_attention_norm"}}},
    {"granite-hybrid-tiny",
     "granite",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       b.set_u32(p + "expert_count", 0);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
     },
     {},
     false,
     true},
    {"granite-h-tiny",
     "granitehybrid",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       set_mamba(b, p, 4, 1, 20);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 0, 2, 0});
     },
     {},
     false,
     true},
    {"granite-h-moe-tiny",
     "granitehybrid",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       set_mamba(b, p, 8, 2, 16);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 2, 0});
     },
     {},
     false,
     true},
    {"granite-moe-tiny",
     "granitemoe",
     [](GgufBuilder& b, const std::string& p) {
       set_granite(b, p);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
     },
     {},
     false,
     true},
    {"granite-tiny", "granite", set_granite, {}, false, true},
    {"nemotron-h-tiny", "nemotron_h",
     [](GgufBuilder& b, const std::string& p) {
       set_mamba(b, p, 4, 2, 20);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32,
                                   {0, 0, 2, 0, 0});
       b.set_numbers<std::int32_t>(p + "feed_forward_length", GgufType::kInt32, {0, 48, 0, 0, 48});
     }},
    {"nemotron-h-moe-tiny", "nemotron_h_moe",
     [](GgufBuilder& b, const std::string& p) {
       set_mamba(b, p, 8, 2, 20);
       b.set_bool(p + "rope.scaling.finetuned", false);
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32,
                                   {0, 0, 2, 0, 0});
       b.set_numbers<std::int32_t>(p + "feed_forward_length", GgufType::kInt32, {0, 24, 0, 24, 0});
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
       b.set_u32(p + "expert_group_count", 1);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_shared_count", 1);
       b.set_u32(p + "expert_shared_feed_forward_length", 40);
       b.set_bool(p + "expert_weights_norm", true);
       b.set_f32(p + "expert_weights_scale", 2.5F);
     }},
    {"minimax-m2-tiny", "minimax-m2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 8);
       b.set_u32(p + "expert_count", 8);
       b.set_u32(p + "expert_used_count", 3);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_gating_func", 2);
     }},
    {"lfm2-moe-tiny",
     "lfm2moe",
     [](GgufBuilder& b, const std::string& p) {
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 2, 0});
       b.set_u32(p + "shortconv.l_cache", 3);
       b.set_u32(p + "leading_dense_block_count", 1);
       b.set_u32(p + "expert_count", 4);
       b.set_u32(p + "expert_used_count", 2);
       b.set_u32(p + "expert_feed_forward_length", 24);
       b.set_u32(p + "expert_gating_func", 2);
     },
     {{"output_norm", "token_embd_norm"}}},
    {"lfm2-tiny",
     "lfm2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_numbers<std::int32_t>(p + "attention.head_count_kv", GgufType::kInt32, {0, 2, 0});
       b.set_u32(p + "shortconv.l_cache", 3);
     },
     {{"output_norm", "token_embd_norm"}}},
    {"ministral3-tiny",
     "mistral3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_f32(p + "attention.temperature_scale", 0.1F);
       b.set_string(p + "rope.scaling.type", "yarn");
       b.set_f32(p + "rope.scaling.factor", 8.0F);
       b.set_u32(p + "rope.scaling.original_context_length", 16);
       b.set_f32(p + "rope.scaling.yarn_log_multiplier", 1.0F);
     },
     {},
     false,
     true},
    {"olmo2-tiny", "olmo2", [](GgufBuilder&, const std::string&) {}},
    {"phi3-longrope-tiny",
     "phi3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 12);
       b.set_u32(p + "rope.scaling.original_context_length", 32);
       b.set_f32(p + "rope.scaling.attn_factor",
                 static_cast<float>(std::sqrt(1.0 + std::log(8.0) / std::log(32.0))));
       add_floats(b, "rope_factors_long.weight", {1.0F, 1.5F, 2.25F, 3.5F, 5.0F, 8.0F});
       add_floats(b, "rope_factors_short.weight", {1.0F, 1.0F, 1.125F, 1.25F, 1.5F, 1.75F});
     },
     {},
     true},
    {"phi3-tiny",
     "phi3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "rope.dimension_count", 8);
       b.set_u32(p + "attention.sliding_window", 24);
     },
     {},
     true},
    {"qwen2-window-tiny", "qwen2",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {0, 1, 1});
     }},
    {"qwen3-window-tiny", "qwen3",
     [](GgufBuilder& b, const std::string& p) {
       b.set_u32(p + "attention.sliding_window", 16);
       b.set_numbers<std::uint8_t>(p + "attention.sliding_window_pattern", GgufType::kBool,
                                   {1, 0, 1});
     }},
    {"seed-oss-tiny",
     "seed_oss",
     [](GgufBuilder&, const std::string&) {},
     {{"ffn_norm", "post_attention_norm"}}},
};

}  // namespace dovetail::families
