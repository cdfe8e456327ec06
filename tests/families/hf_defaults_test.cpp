// What a config.json leaves out, or says as another version of transformers does, means what
// transformers takes it for.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "families/golden_folder.h"
#include "families/open_model.h"
#include "families/read_config.h"
#include "load/expect_error.h"
#include "load/safetensors_builder.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;
using nlohmann::json;

void expect_same(const ModelConfig& got, const ModelConfig& wanted) {
  EXPECT_EQ(got.layers, wanted.layers);
  EXPECT_EQ(got.ropes, wanted.ropes);
  EXPECT_EQ(got.vocab_size, wanted.vocab_size);
  EXPECT_EQ(got.layer_inputs, wanted.layer_inputs);
  EXPECT_EQ(got.draft_layers, wanted.draft_layers);
  EXPECT_EQ(got.tied_embeddings, wanted.tied_embeddings);
}

// Two changes of a golden's configuration (RFC 7396: a null takes a field away) that come to one.
struct Same {
  std::string name;
  std::string golden;
  std::string change;
  std::string other;
};

class HfDefaults : public testing::TestWithParam<Same> {};

TEST_P(HfDefaults, AreThoseOfTransformers) {
  json configs[] = {golden_config(GetParam().golden), golden_config(GetParam().golden)};
  configs[0].merge_patch(json::parse(GetParam().change));
  configs[1].merge_patch(json::parse(GetParam().other));
  const auto got = read_hf_config(configs[0].dump(), "config.json");
  const auto wanted = read_hf_config(configs[1].dump(), "config.json");
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_TRUE(wanted) << wanted.error().message;
  expect_same(*got, *wanted);
}

constexpr const char* kWindow = R"({"sliding_window": null})";
constexpr const char* kWindow4096 = R"({"sliding_window": 4096})";

const Same kSame[] = {
    {"WindowOfMistral", "mistral-tiny", kWindow, kWindow4096},
    {"WindowOfMinistral", "ministral-tiny", kWindow, kWindow4096},
    {"WindowOfExaone4", "exaone4-tiny", kWindow, kWindow4096},
    {"WindowOfOlmo3", "olmo3-tiny", kWindow, kWindow4096},
    {"WindowOfGptOss", "gpt-oss-f16-tiny", kWindow, R"({"sliding_window": 128})"},
    {"WindowOfQwen2", "qwen2-window-tiny", kWindow, kWindow4096},
    {"WindowOfQwen3", "qwen3-window-tiny", kWindow, kWindow4096},
    {"WindowOfQwen3Moe", "qwen3-moe-tiny",
     R"({"use_sliding_window": true, "max_window_layers": null, "sliding_window": null})",
     R"({"use_sliding_window": true, "max_window_layers": null, "sliding_window": 4096})"},
    {"UsualOfStarcoder2", "starcoder2-tiny",
     R"({"hidden_act": null, "norm_epsilon": null, "norm_type": null, "mlp_type": null,
         "num_key_value_heads": null, "rope_theta": null, "sliding_window": null,
         "tie_word_embeddings": null, "use_bias": null})",
     "{}"},
    {"UsualOfApertus", "apertus-tiny",
     R"({"rope_scaling": null, "rope_theta": null, "qk_norm": null, "post_norm": null,
         "hidden_act": null, "rms_norm_eps": null, "attention_bias": null})",
     R"({"rope_theta": 12000000.0,
         "rope_scaling": {"factor": 8.0, "original_max_position_embeddings": 8192}})"},
    {"UsualOfArcee", "arcee-tiny",
     R"({"hidden_act": null, "rms_norm_eps": null, "mlp_bias": null, "attention_bias": null,
         "num_key_value_heads": null, "head_dim": null, "rope_theta": null})",
     R"({"num_key_value_heads": 4, "head_dim": 8})"},
    {"UsualOfGemma", "gemma-tiny",
     R"({"hidden_act": null, "head_dim": null, "rope_theta": null, "rope_scaling": null,
         "num_key_value_heads": null, "num_attention_heads": 16, "rms_norm_eps": null,
         "tie_word_embeddings": null})",
     R"({"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
         "head_dim": 256, "num_key_value_heads": 16, "num_attention_heads": 16})"},
    // As published: google/gemma-3-4b-it and the larger ones.
    {"SizesOfGemma3", "gemma3-tiny",
     R"({"vocab_size": null, "max_position_embeddings": null, "num_attention_heads": null,
         "num_key_value_heads": null})",
     R"({"vocab_size": 262208, "max_position_embeddings": 131072, "num_attention_heads": 8,
         "num_key_value_heads": 4})"},
    {"MambaOfGranite", "granite-h-tiny",
     R"({"mamba_d_conv": null, "mamba_conv_bias": null, "mamba_n_groups": null,
         "mamba_d_head": "auto", "mamba_expand": null, "mamba_d_state": null})",
     R"({"mamba_d_state": 256})"},
    {"NewKindsOfGranite", "granite-h-tiny",
     R"({"layer_types": ["linear_attention", "linear_attention", "full_attention",
                         "linear_attention"]})",
     "{}"},
    {"KindsOfNemotron", "nemotron-h-tiny",
     R"({"hybrid_override_pattern": null, "num_hidden_layers": null,
         "layers_block_type": ["mamba", "mlp", "attention", "linear_attention", "mlp"]})",
     "{}"},
    {"NoKindsOfNemotron", "nemotron-h-moe-tiny",
     R"({"hybrid_override_pattern": null, "num_hidden_layers": null})",
     R"({"hybrid_override_pattern": "ME*-", "num_hidden_layers": 4})"},
    {"SizesOfNemotron", "nemotron-h-moe-tiny",
     R"({"conv_kernel": null, "use_conv_bias": null, "ssm_state_size": null, "n_groups": null,
         "mamba_num_heads": null, "mamba_head_dim": null, "head_dim": null,
         "moe_intermediate_size": null, "moe_shared_expert_intermediate_size": null,
         "num_experts_per_tok": null, "norm_topk_prob": null, "routed_scaling_factor": null})",
     R"({"conv_kernel": 4, "use_conv_bias": true, "ssm_state_size": 128, "n_groups": 8,
         "mamba_num_heads": 128, "mamba_head_dim": 64, "head_dim": 128,
         "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688,
         "num_experts_per_tok": 2, "norm_topk_prob": true, "routed_scaling_factor": 1.0})"},
    {"OlderNamesOfNemotron", "nemotron-h-tiny",
     R"({"n_groups": 1, "mamba_n_groups": 4, "mamba_d_conv": 3, "mamba_conv_bias": false})",
     R"({"n_groups": 4, "conv_kernel": 3, "use_conv_bias": false})"},
    {"InfinityAsAnObject", "nemotron-h-tiny",
     R"({"time_step_limit": [0.0, {"__float__": "Infinity"}]})", "{}"},
    {"FactorsOfFalcon", "falcon-h1-tiny",
     R"({"ssm_multipliers": null, "mlp_multipliers": null, "key_multiplier": null,
         "ssm_in_multiplier": null, "attention_in_multiplier": null})",
     R"({"ssm_multipliers": [1, 1, 1, 1, 1], "mlp_multipliers": [1.0, 1.0], "key_multiplier": 1,
         "ssm_in_multiplier": 1.0, "attention_in_multiplier": 1.0})"},
    {"SizesOfFalcon", "falcon-h1-normed-tiny",
     R"({"mamba_d_ssm": null, "mamba_n_heads": 64, "mamba_d_head": "auto", "mamba_rms_norm": null,
         "mamba_norm_before_gate": null})",
     R"({"mamba_d_ssm": 1024, "mamba_n_heads": 64, "mamba_d_head": 16, "mamba_rms_norm": false})"},
    {"NormOfFalcon", "falcon-h1-normed-tiny", R"({"mamba_norm_before_gate": null})",
     R"({"mamba_norm_before_gate": true})"},
    {"SizesOfGemma4", "gemma4-tiny",
     R"({"vocab_size": null, "max_position_embeddings": null, "num_attention_heads": null,
         "num_key_value_heads": null, "hidden_size": null, "intermediate_size": null,
         "head_dim": null, "global_head_dim": null, "sliding_window": null,
         "num_kv_shared_layers": null, "final_logit_softcapping": null})",
     R"({"vocab_size": 262144, "max_position_embeddings": 131072, "num_attention_heads": 8,
         "num_key_value_heads": 4, "hidden_size": 2304, "intermediate_size": 9216,
         "head_dim": 256, "global_head_dim": 512, "sliding_window": 512,
         "num_kv_shared_layers": 0})"},
    {"LayersOfGemma4", "gemma4-tiny",
     R"({"layer_types": null, "num_hidden_layers": 8, "attention_k_eq_v": null,
         "use_bidirectional_attention": "vision"})",
     R"({"layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
                         "sliding_attention", "sliding_attention", "full_attention",
                         "sliding_attention", "sliding_attention"],
         "num_hidden_layers": 8, "attention_k_eq_v": false, "num_global_key_value_heads": 2})"},
    {"HeadsOfGemma4", "gemma4-tiny",
     R"({"global_head_dim": null, "num_global_key_value_heads": null,
         "per_layer_config": {"1": {"head_dim": 16, "num_key_value_heads": 1},
                              "3": {"head_dim": 16, "num_key_value_heads": 1}}})",
     "{}"},
    {"RopeOfGemma4", "gemma4-tiny", R"({"rope_parameters": null})",
     R"({"rope_parameters": {
          "full_attention": {"rope_theta": 1000000, "rope_type": "proportional",
                             "partial_rotary_factor": 0.25},
          "sliding_attention": {"rope_theta": 10000, "rope_type": "default"}}})"},
    {"InputsOfGemma4", "gemma4-ple-tiny",
     R"({"hidden_size_per_layer_input": null, "vocab_size": 262144,
         "vocab_size_per_layer_input": null})",
     R"({"hidden_size_per_layer_input": 256, "vocab_size": 262144,
         "vocab_size_per_layer_input": 262144})"},
    {"ExpertsOfGemma4", "gemma4-moe-tiny", R"({"enable_moe_block": null})",
     R"({"enable_moe_block": false})"},
    {"UnifiedGemma4", "gemma4-tiny",
     R"({"model_type": "gemma4_unified_text", "architectures": ["Gemma4UnifiedForCausalLM"],
         "hidden_size_per_layer_input": null, "sliding_window": null})",
     R"({"sliding_window": 1024})"},
    // As transformers 5 writes them, who leaves first_k_dense_replace out.
    {"DenseLayersByKind", "glm4-moe-lite-tiny",
     R"({"first_k_dense_replace": null, "mlp_layer_types": ["dense", "sparse"]})", "{}"},
    {"DenseLayersByKindFirst", "deepseek-v32-tiny",
     R"({"first_k_dense_replace": 1, "mlp_layer_types": ["dense", "dense"]})",
     R"({"first_k_dense_replace": 2})"},
    {"DenseLayersOfGlm", "glm4-moe-lite-tiny", R"({"first_k_dense_replace": null})", "{}"},
    {"ExpertsOfGlm", "glm4-moe-lite-tiny",
     R"({"routed_scaling_factor": null, "n_shared_experts": null, "norm_topk_prob": null})", "{}"},
    {"LayersOfGlm4Moe", "glm4-moe-tiny",
     R"({"first_k_dense_replace": null, "n_shared_experts": null, "norm_topk_prob": null,
         "n_group": null, "topk_group": null, "num_nextn_predict_layers": null})",
     "{}"},
    {"PlainHeadsOfGlm4Moe", "glm4-moe-tiny",
     R"({"attention_bias": null, "use_qk_norm": null, "partial_rotary_factor": null})",
     R"({"attention_bias": false, "use_qk_norm": false, "partial_rotary_factor": 0.5})"},
    {"UsualOfGlm5", "glm5-tiny",
     R"({"n_shared_experts": null, "n_group": null, "topk_group": null, "norm_topk_prob": null,
         "routed_scaling_factor": null, "rms_norm_eps": null, "rope_interleave": null,
         "indexer_rope_interleave": null, "scoring_func": null, "topk_method": null,
         "index_topk_freq": 1})",
     R"({"indexer_types": ["full", "full"], "index_topk_freq": 4, "rms_norm_eps": 1e-5})"},
    {"PatternOfGlm5", "glm5-tiny", R"({"index_topk_pattern": "FF", "index_topk_freq": 4})", "{}"},
    {"UsualOfSolarOpen", "solar-open-tiny",
     R"({"attention_bias": null, "first_k_dense_replace": null, "n_shared_experts": null,
         "n_group": null, "topk_group": null, "norm_topk_prob": null, "rms_norm_eps": null,
         "partial_rotary_factor": null, "rope_theta": null, "use_qk_norm": null})",
     "{}"},
    {"UsualOfExaoneMoe", "exaone-moe-tiny",
     R"({"first_k_dense_replace": null, "num_shared_experts": null, "n_group": null,
         "topk_group": null, "norm_topk_prob": null, "routed_scaling_factor": null,
         "rms_norm_eps": null, "scoring_func": null, "topk_method": null, "layer_types": null,
         "sliding_window_pattern": 2, "sliding_window": null})",
     R"({"sliding_window": 4096})"},
    {"LayersOfExaoneMoe", "exaone-moe-tiny",
     R"({"first_k_dense_replace": null, "mlp_layer_types": ["dense", "dense", "sparse"]})",
     R"({"first_k_dense_replace": 2})"},
    {"UsualOfInternLm3", "internlm3-tiny",
     R"({"head_dim": null, "qkv_bias": null, "bias": null, "num_key_value_heads": null})",
     R"({"head_dim": 128, "qkv_bias": false, "bias": false, "num_key_value_heads": 2})"},
    {"BiasesOfInternLm3", "internlm3-tiny",
     R"({"qkv_bias": null, "bias": null, "attention_bias": true, "mlp_bias": true,
         "architectures": ["LlamaForCausalLM"]})",
     R"({"qkv_bias": true, "bias": true})"},
    {"UsualOfStableLm", "stablelm-tiny",
     R"({"layer_norm_eps": null, "partial_rotary_factor": null, "qk_layernorm": null,
         "rope_theta": null, "use_parallel_residual": null, "use_qkv_bias": null})",
     R"({"use_qkv_bias": false})"},
    {"UsualOfGlm4vMoe", "glm4v-moe-tiny",
     R"({"text_config": {"attention_bias": null, "first_k_dense_replace": null,
                         "n_shared_experts": null, "n_group": null, "topk_group": null,
                         "norm_topk_prob": null, "partial_rotary_factor": null,
                         "rms_norm_eps": null}})",
     "{}"},
    {"UsualOfGlm4v", "glm4v-tiny",
     R"({"text_config": {"attention_bias": null, "rms_norm_eps": null, "rope_theta": null,
                         "partial_rotary_factor": null}})",
     R"({"text_config": {"partial_rotary_factor": 1.0}})"},
    {"HeadsOfMinimaxM2", "minimax-m2-tiny", R"({"rotary_dim": null, "rope_theta": null})",
     R"({"rotary_dim": null, "partial_rotary_factor": 1.0, "rope_theta": 5000000})"},
    {"RopeOfMinimaxM2", "minimax-m2-tiny",
     R"({"rotary_dim": null, "rope_theta": null,
         "rope_parameters": {"rope_theta": 10000, "partial_rotary_factor": 0.5}})",
     "{}"},
    {"UsualOfLfm3", "lfm3-tiny",
     R"({"use_attention_gate": null, "use_sandwich_norm": null, "conv_L_cache": null,
         "rope_parameters": null, "sliding_window": null, "layer_types": null})",
     R"({"sliding_window": 256,
         "layer_types": ["conv", "conv", "full_attention", "conv"],
         "rope_parameters": {"full_attention": {"rope_theta": 1000000},
                             "sliding_attention": {"rope_theta": 10000}}})"},
    {"UsualOfGraniteSwa", "granite-swa-tiny",
     R"({"layer_types": null, "layer_rope_theta": null, "sliding_window": null})",
     R"({"layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                         "sliding_attention"],
         "layer_rope_theta": [10000, 10000, 10000, 10000], "sliding_window": 128})"},
    {"HeadsOfErnie", "ernie4-5-tiny",
     R"({"rope_theta": null, "use_bias": null, "rms_norm_eps": null})",
     R"({"rope_theta": 500000})"},
    {"ExpertsOfErnie", "ernie4-5-moe-tiny",
     R"({"moe_num_shared_experts": null, "moe_layer_start_index": null, "moe_layer_end_index": null,
         "moe_layer_interval": null})",
     R"({"moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_norm_min": 1e-12})"},
    {"SecondLayersOfErnie", "ernie4-5-moe-tiny",
     R"({"moe_layer_start_index": 0, "moe_layer_interval": 2})",
     R"({"moe_layer_start_index": 1, "moe_layer_end_index": 1})"},
    {"ExpertsOfOlmoe", "olmoe-tiny", R"({"norm_topk_prob": null})", "{}"},
    {"HeadsOfQwen2Moe", "qwen2-moe-tiny",
     R"({"qkv_bias": null, "norm_topk_prob": null, "sliding_window": 0})", "{}"},
    {"LayersOfKimiLinear", "kimi-linear-tiny",
     R"({"linear_attn_config": null, "linear_head_dim": 12, "linear_num_heads": 4,
         "layer_types": ["linear_attention", "linear_attention", "full_attention",
                         "linear_attention"]})",
     R"({"linear_attn_config": {"head_dim": 12, "num_heads": 4, "full_attn_layers": [3],
                                "kda_layers": [1, 2, 4]}})"},
    {"ExpertsOfKimiLinear", "kimi-linear-tiny",
     R"({"num_experts": null, "num_local_experts": 12, "moe_renormalize": null,
         "num_shared_experts": null, "num_expert_group": null, "topk_group": null,
         "routed_scaling_factor": null, "first_k_dense_replace": null})",
     "{}"},
    {"ExpertsOfDots", "dots1-tiny",
     R"({"scoring_func": null, "n_group": null, "topk_group": null, "max_window_layers": null})",
     R"({"scoring_func": "noaux_tc"})"},
    {"ExpertsOfHunyuan", "hunyuan-moe-tiny",
     R"({"moe_topk": 3, "moe_intermediate_size": null, "num_shared_expert": null})", "{}"},
    {"StretchOfHunyuan", "hunyuan-tiny", R"({"rope_scaling": {"alpha": null}})",
     R"({"rope_scaling": null})"},
    {"SectionsOfQwen2Vl", "qwen2-5-vl-tiny", R"({"rope_scaling": null})", "{}"},
    {"UsualOfQwen2Vl", "qwen2-5-vl-tiny", R"({"rope_theta": null, "rms_norm_eps": null})",
     R"({"rope_theta": 1000000, "rms_norm_eps": 1e-5})"},
    {"ExpertsOfDeepseekV2", "deepseek-v2-tiny",
     R"({"topk_method": null, "n_shared_experts": null, "n_group": null, "topk_group": null})",
     R"({"topk_method": "greedy", "n_shared_experts": 2})"},
    {"ExpertsOfDeepseekV3", "deepseek-v3-tiny",
     R"({"n_routed_experts": 16, "routed_scaling_factor": null, "n_group": null,
         "topk_group": null, "n_shared_experts": null, "norm_topk_prob": null,
         "num_nextn_predict_layers": null})",
     R"({"n_routed_experts": 16, "routed_scaling_factor": 2.5, "n_group": 8, "topk_group": 4,
         "n_shared_experts": 1, "norm_topk_prob": true, "num_nextn_predict_layers": 1})"},
    {"DenseLayersOfDeepseekV3", "deepseek-v3-tiny",
     R"({"num_hidden_layers": 4, "first_k_dense_replace": null})",
     R"({"num_hidden_layers": 4, "first_k_dense_replace": 3})"},
    {"ExpertsOfMistral4", "mistral4-tiny", R"({"norm_topk_prob": null, "n_group": null})", "{}"},
    {"WholeHeadsOfMistral4", "mistral4-tiny",
     R"({"rope_parameters": {"partial_rotary_factor": 0.5}})", "{}"},
    {"DynamicWithinItsContext", "llama2-tiny",
     R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})", "{}"},
    {"OldNameOfLongRope", "phi3-longrope-tiny",
     R"({"rope_scaling": {"type": "su", "rope_type": "longrope"}})", "{}"},
    {"ThetaOfOlmo3", "olmo3-tiny", R"({"rope_parameters": null})",
     R"({"rope_parameters": null, "rope_theta": 500000})"},
    {"RopeOfGptOss", "gpt-oss-f16-tiny", R"({"rope_scaling": null})",
     R"({"rope_scaling": {"factor": 32, "beta_fast": 32, "beta_slow": 1,
         "original_max_position_embeddings": 4096}})"},
};

INSTANTIATE_TEST_SUITE_P(All, HfDefaults, testing::ValuesIn(kSame),
                         [](const auto& run) { return run.param.name; });

TEST(HfDefaultErrors, NameTheField) {
  struct Row {
    const char* golden;
    const char* change;
    const char* message;
  };
  for (const Row& row : {
           Row{"glm4-moe-lite-tiny", R"({"mlp_layer_types": ["sparse", "dense"]})",
               "mlp_layer_types: an array of 2; valid: a list of 2, 'dense' and from some layer"},
           Row{"glm4-moe-lite-tiny", R"({"mlp_layer_types": ["dense"]})", "mlp_layer_types: an a"},
           Row{"glm4-moe-lite-tiny", R"({"mlp_layer_types": 3})", "mlp_layer_types: 3; valid: "},
           Row{"minimax-m2-tiny", R"({"use_qk_norm": false})", "use_qk_norm: false; valid: true"},
           Row{"minimax-m2-tiny", R"({"use_routing_bias": false})", "use_routing_bias: false; v"},
           Row{"minimax-m2-tiny", R"({"qk_norm_type": "per_head"})",
               "qk_norm_type: 'per_head'; valid: 'per_layer'"},
           Row{"minimax-m2-tiny", R"({"scoring_func": "softmax"})", "scoring_func: 'softmax'; va"},
           Row{"minimax-m2-tiny", R"({"shared_intermediate_size": 24})",
               "shared_intermediate_size: 24; valid: 0"},
           Row{"minimax-m2-tiny", R"({"attn_type_list": [1, 0]})", "attn_type_list: an array of 2"},
           Row{"minimax-m2-tiny", R"({"rotary_dim": 18})",
               "rotary_dim: 18; valid: at most the head size 16"},
           Row{"minimax-m2-tiny", R"({"rotary_dim": 7})", "partial_rotary_factor: 0.4375; valid: "},
           Row{"lfm3-tiny", R"({"layer_types": ["conv", "conv", "conv", "mamba"]})",
               "layer_types: an array of 4; valid: a list of 4 of conv, full_attention and"},
           Row{"lfm3-tiny", R"({"layer_types": ["conv", "conv", "conv", "conv"]})",
               "layer_types: an array of 4; valid: a list of 4 of conv, full_attention and"},
           Row{"lfm3-tiny", R"({"conv_bias": true})", "conv_bias: true; valid: false"},
           Row{"granite-swa-tiny", R"({"layer_rope_theta": [1, 2, 3]})",
               "layer_rope_theta: an array of 3; valid: a list of 4 numbers, each 0 or from 1 to"},
           Row{"granite-swa-tiny", R"({"layer_rope_theta": [0.5, 0, 0, 0]})",
               "layer_rope_theta: an array of 4; valid: a list of 4 numbers"},
           Row{"olmoe-tiny", R"({"clip_qkv": 8.0})", "clip_qkv: 8; valid: absent"},
           Row{"ernie4-5-moe-tiny", R"({"moe_norm_min": 0.5})",
               "moe_norm_min: 0.5; valid: at most"},
           Row{"qwen2-moe-tiny", R"({"use_sliding_window": true})",
               "use_sliding_window: true; valid: false, or layer_types beside it"},
           Row{"hunyuan-moe-tiny", R"({"moe_topk": [3, 2]})",
               "moe_topk: an array of 2; valid: one number of 1 to"},
           Row{"starcoder2-tiny", R"({"hidden_act": "relu"})", "hidden_act: 'relu'; valid: 'gelu'"},
           Row{"starcoder2-tiny", R"({"norm_type": "rms_norm"})",
               "norm_type: 'rms_norm'; valid: 'layer_norm'"},
           Row{"starcoder2-tiny", R"({"mlp_type": "gated"})", "mlp_type: 'gated'; valid: 'default"},
           Row{"apertus-tiny", R"({"hidden_act": "silu"})", "hidden_act: 'silu'; valid: 'xielu'"},
           Row{"apertus-tiny", R"({"qk_norm": false})", "qk_norm: false; valid: true"},
           Row{"apertus-tiny", R"({"post_norm": true})", "post_norm: true; valid: false"},
           Row{"apertus-tiny", R"({"mlp_bias": true})", "mlp_bias: true; valid: false"},
           Row{"apertus-tiny", R"({"rope_scaling": null})",
               "rope_theta: 10000; valid: 12000000, or a rope_scaling beside it"},
           Row{"arcee-tiny", R"({"hidden_act": "silu"})", "hidden_act: 'silu'; valid: 'relu2'"},
           Row{"gemma-tiny", R"({"hidden_act": "silu"})",
               "hidden_act: 'silu'; valid: 'gelu', 'gelu_pytorch_tanh'"},
           Row{"gemma-tiny", R"({"hidden_activation": "relu"})", "hidden_activation: 'relu'; val"},
           Row{"gemma-tiny", R"({"attention_bias": true})", "attention_bias: true; valid: false"},
           Row{"gemma-tiny", R"({"use_bidirectional_attention": true})",
               "use_bidirectional_attention: true; valid: false"},
           Row{"hunyuan-moe-tiny", R"({"use_cla": true})", "use_cla: true; valid: false"},
           Row{"hunyuan-moe-tiny", R"({"attention_bias": true})",
               "attention_bias: true; valid: fal"},
           Row{"glm4-moe-tiny", R"({"moe_layer_freq": 2})", "moe_layer_freq: 2; valid: 1"},
           Row{"glm5-tiny", R"({"indexer_types": ["full", "shared"]})",
               "indexer_types: an array of 2; valid: an indexer in every layer"},
           Row{"glm5-tiny", R"({"index_topk_pattern": "FS"})",
               "index_topk_pattern: 'FS'; valid: an indexer in every layer"},
           Row{"glm5-tiny", R"({"index_topk_freq": 4})", "index_topk_freq: 4; valid: 1"},
           Row{"glm5-tiny", R"({"indexer_rope_interleave": false})",
               "indexer_rope_interleave: false; valid: true"},
           Row{"kimi-linear-tiny", R"({"num_experts": null})",
               "num_experts: missing; valid: the number of experts"},
           Row{"kimi-linear-tiny", R"({"mla_use_nope": false})", "mla_use_nope: false; valid: tr"},
           Row{"kimi-linear-tiny", R"({"linear_attn_config": 3})",
               "linear_attn_config: 3; valid: an object"},
           Row{"kimi-linear-tiny",
               R"({"linear_attn_config": {"full_attn_layers": [9], "kda_layers": [1, 2]}})",
               "linear_attn_config: full_attn_layers: an array of 1; valid: a list of numbers of"},
           Row{"kimi-linear-tiny",
               R"({"linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1, 2]}})",
               "linear_attn_config: too few layers; valid: lists that have all 4 layers"},
           Row{"solar-open-tiny", R"({"first_k_dense_replace": 1})",
               "first_k_dense_replace: 1; valid: 0"},
           Row{"solar-open-tiny", R"({"use_qk_norm": true})", "use_qk_norm: true; valid: false"},
           Row{"internlm3-tiny", R"({"qkv_bias": true})", "qkv_bias: true; valid: the same as"},
           Row{"stablelm-tiny", R"({"qk_layernorm": true})", "qk_layernorm: true; valid: false"},
           Row{"stablelm-tiny", R"({"partial_rotary_factor": 0.125})",
               "partial_rotary_factor: 0.125; valid: an even number of the 8 elements"},
           Row{"exaone-moe-tiny", R"({"mlp_layer_types": ["sparse", "dense", "sparse"]})",
               "mlp_layer_types: an array of 3; valid: a list of 3, 'dense' and from some layer"},
           Row{"exaone-moe-tiny", R"({"layer_types": null})",
               "sliding_window_pattern: 'LGL'; valid: "},
           Row{"glm4v-tiny", R"({"text_config": {"attention_bias": false}})",
               "text_config.attention_bias: false; valid: true"},
           Row{"glm4v-moe-tiny", R"({"text_config": {"use_qk_norm": true}})",
               "text_config.use_qk_norm: true; valid: false"},
           Row{"gemma4-tiny", R"({"use_bidirectional_attention": "all"})",
               "use_bidirectional_attention: 'all'; valid: null or 'vision'"},
           Row{"gemma4-tiny", R"({"attention_bias": true})", "attention_bias: true; valid: false"},
           Row{"gemma4-tiny", R"({"hidden_activation": "silu"})", "hidden_activation: 'silu'; val"},
           Row{"gemma4-tiny", R"({"num_kv_shared_layers": 3})",
               "num_kv_shared_layers: 3; valid: fewer: no layer before has keys and values for "
               "layer 1, which does not slide"},
           Row{"gemma4-tiny", R"({"num_kv_shared_layers": 4})", "num_kv_shared_layers: 4; valid"},
           Row{"gemma4-tiny", R"({"global_head_dim": 514})", "global_head_dim: 514; valid"},
           Row{"gemma4-tiny", R"({"per_layer_config": 3})", "per_layer_config: 3; valid: an obje"},
           Row{"gemma4-tiny", R"({"per_layer_config": {"4": {"head_dim": 16}}})",
               "per_layer_config: 1 members, 0 of them objects of layers; valid: objects by the "
               "numbers of the 4 layers"},
           Row{"gemma4-tiny", R"({"per_layer_config": {"1": {"head_dim": 16, "window": 3}}})",
               "per_layer_config.1.window: 3; valid: absent"},
           Row{"gemma4-tiny", R"({"per_layer_config": {"1": {"head_dim": 16}}})",
               "per_layer_config: head_dim 16 and 8; valid: the same for all layers that slide"},
           Row{"gemma4-ple-tiny", R"({"vocab_size_per_layer_input": 64})",
               "vocab_size_per_layer_input: 64; valid: the vocab_size 128"},
           Row{"gemma4-ple-tiny", R"({"hidden_size_per_layer_input": 200000})",
               "inputs of all layers beside the residual: 1200000; valid: 0 to 1048576 elements"},
           Row{"gemma4-moe-tiny", R"({"top_k_experts": 7})", "experts used by a token: 7; valid"},
           Row{"gemma4-moe-tiny", R"({"top_k_experts": null})", "top_k_experts: missing; valid"},
           Row{"mistral4-tiny", R"({"n_group": 4})", "n_group: 4; valid: 1"},
           Row{"mistral4-tiny", R"({"rope_parameters": {"partial_rotary_factor": 0.25}})",
               "rope_parameters.partial_rotary_factor: 0.25; valid: 1"},
           Row{"gpt-oss-f16-tiny", R"({"swiglu_alpha": 1.5})", "swiglu_alpha: 1.5; valid: 1.702"},
       }) {
    json config = golden_config(row.golden);
    config.merge_patch(json::parse(row.change));
    expect_error(read_hf_config(config.dump(), "config.json"), "config.json: ", row.message);
  }
}

// Granite's models for code are of Llama's class, with biases.
TEST(HfLlama, MayHaveBiases) {
  for (const bool attends : {false, true}) {
    for (const bool feeds : {false, true}) {
      HfBuilder files = golden_folder("llama2-tiny");
      files.config["attention_bias"] = attends;
      files.config["mlp_bias"] = feeds;
      const auto weights = files.weights.tensors;
      for (const auto& tensor : weights) {
        const bool attention = tensor.name.find("self_attn.") != std::string::npos;
        const bool mlp = tensor.name.find("mlp.") != std::string::npos;
        if (!(attention && attends) && !(mlp && feeds)) continue;
        const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
        files.weights.add(stem + ".bias", {tensor.shape.front()});
      }
      const test::TempFolder folder(test::kInMemory);
      files.write(folder);
      const auto model = open_model(folder.path());
      ASSERT_TRUE(model) << model.error().message;
      for (const LayerConfig& layer : (*model)->config.layers) {
        EXPECT_EQ(layer.attention()->bias, attends);
        EXPECT_EQ(layer.attention()->output_bias, attends);
        EXPECT_EQ(std::get<MlpConfig>(layer.mlp).bias, feeds);
      }
      EXPECT_EQ((*model)->tensors.contains("blk.1.attn_output.bias"), attends);
      EXPECT_EQ((*model)->tensors.contains("blk.1.ffn_down.bias"), feeds);
    }
  }
}

auto& tensor_of(HfBuilder& files, const std::string& name) {
  return *std::ranges::find(files.weights.tensors, name, [](const auto& one) { return one.name; });
}

// A head that is stored is the model's, unless it is the embeddings once more.
TEST(HfHead, IsTiedAsTransformersTiesIt) {
  enum class Head : std::uint8_t { kNone, kSame, kOther };
  struct Row {
    Head head;
    json inside, outside;  // null: says nothing
    bool wrapped, tied;
  };
  for (const Row& row :
       {Row{Head::kNone, true, {}, false, true}, Row{Head::kSame, true, {}, false, true},
        Row{Head::kOther, true, {}, false, false}, Row{Head::kOther, false, {}, false, false},
        Row{Head::kSame, false, {}, false, false}, Row{Head::kNone, {}, true, true, true},
        Row{Head::kNone, false, true, true, true}, Row{Head::kNone, true, false, true, true},
        Row{Head::kNone, false, {}, true, true}, Row{Head::kOther, {}, true, true, false},
        Row{Head::kSame, false, true, true, true}}) {
    SCOPED_TRACE(
        fmt::format("{} {} {}", static_cast<int>(row.head), row.inside.dump(), row.outside.dump()));
    HfBuilder files = golden_folder("mistral-tiny");
    json& text = files.config;
    text.merge_patch({{"tie_word_embeddings", row.inside}});
    auto& head = tensor_of(files, "lm_head.weight");
    if (row.head == Head::kSame) head.data = tensor_of(files, "model.embed_tokens.weight").data;
    if (row.head == Head::kNone) head.name = "rotary_emb.inv_freq";
    if (row.wrapped) {
      text.erase("architectures");
      text = {{"model_type", "mistral3"}, {"text_config", text}};
      text.merge_patch({{"tie_word_embeddings", row.outside}});
      for (auto& tensor : files.weights.tensors) tensor.name.insert(0, "language_model.");
    }
    const test::TempFolder folder(test::kInMemory);
    files.write(folder);
    const auto model = open_model(folder.path());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->config.tied_embeddings, row.tied);
    EXPECT_EQ((*model)->tensors.contains("output.weight"), !row.tied);
  }
}

// As embedders are published: e5-mistral, bge-multilingual-gemma2.
TEST(HfHead, IsNotThereWithTheClassWithoutOne) {
  for (const auto& [golden, name] :
       {std::pair{"mistral-tiny", "MistralModel"}, std::pair{"gemma2-tiny", "Gemma2Model"},
        std::pair{"qwen2-tiny", "Qwen2Model"}}) {
    SCOPED_TRACE(name);
    HfBuilder files = golden_folder(golden);
    files.config["architectures"] = {name};
    std::erase_if(files.weights.tensors,
                  [](const auto& one) { return one.name == "lm_head.weight"; });
    for (auto& tensor : files.weights.tensors) tensor.name.erase(0, std::size("model.") - 1);
    const test::TempFolder folder(test::kInMemory);
    files.write(folder);
    const auto model = open_model(folder.path());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_FALSE((*model)->config.has_logits);
    EXPECT_FALSE((*model)->config.tied_embeddings);
    const auto whole = read_hf_config(golden_config(golden).dump(), "config.json");
    EXPECT_EQ((*model)->config.layers, whole->layers);
  }
}

// How DeltaNet's tensors lie is asked of a layer that has it.
TEST(HfHybrid, MayBeginWithAttention) {
  HfBuilder files = golden_folder("qwen3-next-tiny");
  json& types = files.config["layer_types"];
  std::swap(types.front(), types.back());
  for (auto& tensor : files.weights.tensors) {
    const std::string first = "model.layers.0.", last = "model.layers.3.";
    for (const auto& [from, to] : {std::pair{first, last}, std::pair{last, first}}) {
      if (!tensor.name.starts_with(from)) continue;
      tensor.name = to + tensor.name.substr(from.size());
      break;
    }
  }
  const test::TempFolder folder(test::kInMemory);
  files.write(folder);
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_NE((*model)->config.layers[0].attention(), nullptr);
  EXPECT_TRUE((*model)->config.layers[1].delta()->grouped_input);
}

}  // namespace
}  // namespace dovetail::families
