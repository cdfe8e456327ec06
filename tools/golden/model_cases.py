"""Configurations of the models that make_models.py writes: CASES, by the names of their folders."""

COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 192,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": True,
    "initializer_range": 0.02,
}
LLAMA = COMMON | {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "mlp_bias": False,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
MISTRAL = COMMON | {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "head_dim": 32,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
QWEN2 = COMMON | {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "max_position_embeddings": 256,
    "max_window_layers": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "sliding_window": 16,  # named and off, as in the published configs
    "use_sliding_window": False,
    "tie_word_embeddings": True,
}
QWEN3 = COMMON | {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 32,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "sliding_window": None,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
}

QWEN3_MOE = COMMON | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "max_position_embeddings": 256,
    "mlp_only_layers": [],
    "rms_norm_eps": 1e-6,
    "sliding_window": None,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
}
MIXTRAL = COMMON | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
}

# Older spelling: rope_scaling, rope_theta, torch_dtype; newer: rope_parameters, dtype, and
# num_local_experts in place of num_experts.
CASES = {
    "llama2-tiny": LLAMA
    | {
        "num_key_value_heads": 4,
        "intermediate_size": 160,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "torch_dtype": "float32",
    },
    "llama3-tiny": LLAMA
    | {
        "num_hidden_layers": 3,
        "tie_word_embeddings": True,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "factor": 4.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 64,
            "rope_type": "llama3",
        },
        "torch_dtype": "float32",
    },
    "llama-linear-tiny": LLAMA
    | {
        "rope_theta": 10000.0,
        "rope_scaling": {"type": "linear", "factor": 4.0},
        "torch_dtype": "float32",
    },
    "llama-yarn-tiny": LLAMA
    | {
        "max_position_embeddings": 128,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 32,
        },
        "dtype": "float32",
    },
    "mistral-tiny": MISTRAL | {"sliding_window": 16, "torch_dtype": "float32"},
    "mistral-f16-tiny": MISTRAL | {"sliding_window": None, "torch_dtype": "float16"},
    "qwen2-tiny": QWEN2 | {"num_hidden_layers": 3, "torch_dtype": "float32"},
    "qwen2-bf16-tiny": QWEN2 | {"torch_dtype": "bfloat16"},
    "qwen3-tiny": QWEN3
    | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "dtype": "float32",
    },
    "qwen3-yarn-tiny": QWEN3
    | {
        "max_position_embeddings": 128,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
            "attention_factor": 1.25,
        },
        "torch_dtype": "float32",
    },
    "qwen3-moe-tiny": QWEN3_MOE
    | {
        "head_dim": 32,
        "moe_intermediate_size": 16,
        "norm_topk_prob": True,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "rope_theta": 1000000.0,
        "torch_dtype": "float32",
    },
    "qwen3-moe-raw-tiny": QWEN3_MOE
    | {
        "moe_intermediate_size": 24,
        "norm_topk_prob": False,
        "num_local_experts": 6,
        "num_experts_per_tok": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "dtype": "float32",
    },
    "mixtral-tiny": MIXTRAL
    | {
        "intermediate_size": 32,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "torch_dtype": "float32",
    },
}
SHARDED = {"qwen3-tiny"}

# Families of later days, small enough for their number; each has every kind of its layers.
SMALL = COMMON | {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "vocab_size": 128,
}
SLIDING_AND_FULL = ["sliding_attention", "full_attention", "sliding_attention"]
GEMMA = SMALL | {
    "attention_bias": False,
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 24,
    "rms_norm_eps": 1e-6,
    "sliding_window": 16,
    "tie_word_embeddings": True,
    "torch_dtype": "float16",
}
del GEMMA["hidden_act"]
# Three layers of four have a gated delta rule in place of attention.
HYBRID = SMALL | {
    "attention_bias": False,
    "full_attention_interval": 4,
    "head_dim": 32,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 16,
    "num_hidden_layers": 4,
    "tie_word_embeddings": False,
}
# The smallest part for pictures.
VISION = {
    "depth": 1,
    "hidden_size": 8,
    "in_channels": 3,
    "intermediate_size": 8,
    "num_heads": 1,
    "out_hidden_size": 32,
    "patch_size": 2,
    "spatial_merge_size": 1,
    "temporal_patch_size": 1,
}
SEEN = {"deepstack_visual_indexes": [0], "num_position_embeddings": 4}
TEXT = {name: value for name, value in SMALL.items() if name != "tie_word_embeddings"} | {
    "attention_bias": False,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {
        "mrope_interleaved": True,
        "mrope_section": [4, 2, 2],
        "rope_type": "default",
    },
    "rope_theta": 10000.0,
}
SEEN_BY_GLM = TEXT | {
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-5,
    "rope_scaling": {"mrope_section": [2, 1, 1], "type": "default"},
}
del SEEN_BY_GLM["head_dim"], SEEN_BY_GLM["attention_bias"]
CASES |= {
    "smollm3-tiny": SMALL
    | {
        "architectures": ["SmolLM3ForCausalLM"],
        "model_type": "smollm3",
        "no_rope_layers": [1, 0, 1],
        "pad_token_id": 0,
        "rope_theta": 10000.0,
        "sliding_window": None,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
    },
    "gemma3-tiny": GEMMA
    | {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "rope_theta": 100000.0,
        "rope_local_base_freq": 1000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "sliding_window_pattern": 2,
    },
    "olmo2-tiny": SMALL
    | {
        "architectures": ["Olmo2ForCausalLM"],
        "model_type": "olmo2",
        "num_hidden_layers": 2,
        "rope_theta": 10000.0,
        "torch_dtype": "float16",
    },
    "olmo3-tiny": SMALL
    | {
        "architectures": ["Olmo3ForCausalLM"],
        "model_type": "olmo3",
        "layer_types": SLIDING_AND_FULL,
        "sliding_window": 16,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 32,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0},
        },
        "dtype": "float16",
    },
    "phi3-tiny": SMALL
    | {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 1,
        "original_max_position_embeddings": 256,
        "pad_token_id": 0,
        "partial_rotary_factor": 0.5,
        "rope_theta": 10000.0,
        "sliding_window": 24,
        "torch_dtype": "float16",
    },
    "granite-tiny": SMALL
    | {
        "architectures": ["GraniteForCausalLM"],
        "model_type": "granite",
        "attention_bias": False,
        "attention_multiplier": 0.2,
        "embedding_multiplier": 3.0,
        "logits_scaling": 2.0,
        "mlp_bias": False,
        "num_hidden_layers": 2,
        "residual_multiplier": 0.5,
        "rope_theta": 10000.0,
        "torch_dtype": "float16",
    },
    "ministral3-tiny": SMALL
    | {
        "architectures": ["Ministral3ForCausalLM"],
        "model_type": "ministral3",
        "head_dim": 16,
        "num_hidden_layers": 2,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 16,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1,
        },
        "sliding_window": None,
        "dtype": "float16",
    },
    "gemma2-tiny": GEMMA
    | {
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 6.0,
        "rope_theta": 10000.0,
    },
    "glm4-tiny": SMALL
    | {
        "architectures": ["Glm4ForCausalLM"],
        "model_type": "glm4",
        "attention_bias": True,
        "head_dim": 16,
        "num_hidden_layers": 2,
        "pad_token_id": 0,
        "partial_rotary_factor": 0.5,
        "rope_theta": 10000.0,
        "torch_dtype": "float16",
    },
    "seed-oss-tiny": SMALL
    | {
        "architectures": ["SeedOssForCausalLM"],
        "model_type": "seed_oss",
        "attention_bias": True,
        "attention_out_bias": True,
        "head_dim": 16,
        "mlp_bias": False,
        "num_hidden_layers": 2,
        "rope_theta": 10000.0,
        "torch_dtype": "float16",
    },
    "exaone4-tiny": SMALL
    | {
        "architectures": ["Exaone4ForCausalLM"],
        "model_type": "exaone4",
        "layer_types": SLIDING_AND_FULL,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "factor": 4.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 64,
            "rope_type": "llama3",
        },
        "sliding_window": 16,
        "sliding_window_pattern": 4,
        "torch_dtype": "float16",
    },
    "gpt-oss-tiny": SMALL
    | {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "attention_bias": True,
        "head_dim": 16,
        "hidden_size": 64,
        "intermediate_size": 32,
        "layer_types": SLIDING_AND_FULL[:2],
        "num_experts_per_tok": 2,
        "num_hidden_layers": 2,
        "num_local_experts": 4,
        "pad_token_id": 0,
        "quantization_config": {"quant_method": "mxfp4"},
        "rope_theta": 10000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "beta_fast": 4.0,
            "beta_slow": 0.5,
            "truncate": False,
            "original_max_position_embeddings": 32,
        },
        "sliding_window": 16,
        "swiglu_limit": 7.0,
        "torch_dtype": "float16",
    },
    "ministral-tiny": SMALL
    | {
        "architectures": ["MinistralForCausalLM"],
        "model_type": "ministral",
        "head_dim": 16,
        "layer_types": SLIDING_AND_FULL[::-1][1:],
        "num_hidden_layers": 2,
        "rope_theta": 10000.0,
        "sliding_window": 16,
        "torch_dtype": "float16",
    },
    "qwen3-5-tiny": HYBRID
    | {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [2, 1, 1],
        },
        "dtype": "float16",
    },
    "qwen3-next-tiny": HYBRID
    | {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 24,
        "norm_topk_prob": True,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "partial_rotary_factor": 0.5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "shared_expert_intermediate_size": 40,
        "torch_dtype": "float16",
    },
}

# Of these, a place is a part of the seed; of the others, their name is.
BY_PLACE = len(CASES)
GRANITE = SMALL | {
    "attention_bias": False,
    "attention_multiplier": 0.2,
    "embedding_multiplier": 3.0,
    "intermediate_size": 24,
    "logits_scaling": 2.0,
    "num_hidden_layers": 2,
    "residual_multiplier": 0.5,
    "rope_theta": 10000.0,
    "torch_dtype": "float16",
}
COHERE = SMALL | {
    "attention_bias": False,
    "layer_norm_eps": 1e-5,
    "logit_scale": 0.5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float16",
}
del COHERE["rms_norm_eps"]
CASES |= {
    "qwen2-window-tiny": SMALL
    | {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "max_window_layers": 1,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "sliding_window": 16,
        "use_sliding_window": True,
        "torch_dtype": "float16",
    },
    "qwen3-window-tiny": SMALL
    | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "head_dim": 16,
        "layer_types": SLIDING_AND_FULL,
        "max_window_layers": 3,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "sliding_window": 16,
        "use_sliding_window": True,
        "dtype": "float16",
    },
    # transformers takes the factors for longer contexts from 33 tokens on.
    "phi3-longrope-tiny": SMALL
    | {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 1,
        "original_max_position_embeddings": 32,
        "pad_token_id": 0,
        "partial_rotary_factor": 0.75,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "longrope",
            "long_factor": [1.0, 1.5, 2.25, 3.5, 5.0, 8.0],
            "short_factor": [1.0, 1.0, 1.125, 1.25, 1.5, 1.75],
        },
        "sliding_window": None,
        "torch_dtype": "float16",
    },
    "cohere-tiny": COHERE
    | {
        "architectures": ["CohereForCausalLM"],
        "model_type": "cohere",
        "model_max_length": 512,
        "num_hidden_layers": 2,
        "use_qk_norm": False,
    },
    "cohere2-tiny": COHERE
    | {
        "architectures": ["Cohere2ForCausalLM"],
        "model_type": "cohere2",
        "num_hidden_layers": 4,
        "rotary_pct": 1.0,
        "sliding_window": 16,
        "sliding_window_pattern": 4,
    },
    "granite-moe-tiny": GRANITE
    | {
        "architectures": ["GraniteMoeSharedForCausalLM"],
        "model_type": "granitemoeshared",
        "num_experts_per_tok": 2,
        "num_local_experts": 4,
        "shared_intermediate_size": 40,
    },
    "granite-hybrid-tiny": GRANITE
    | {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "intermediate_size": 40,
        "layer_types": ["attention"] * 2,
        "mamba_chunk_size": 256,
        "mamba_conv_bias": True,
        "mamba_d_conv": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 16,
        "mamba_expand": 2,
        "mamba_n_groups": 1,
        "mamba_n_heads": 4,
        "num_experts_per_tok": 0,
        "num_local_experts": 0,
        "position_embedding_type": "rope",
        "shared_intermediate_size": 40,
    },
    "qwen3-5-moe-tiny": HYBRID
    | {
        "architectures": ["Qwen3_5MoeForCausalLM"],
        "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": 24,
        "mtp_num_hidden_layers": 1,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
            "mrope_section": [2, 1, 1],
        },
        "shared_expert_intermediate_size": 40,
        "dtype": "float16",
    },
    "gpt-oss-f16-tiny": {
        key: value
        for key, value in CASES["gpt-oss-tiny"].items()
        if key not in ("hidden_size", "quantization_config")
    }
    | {"hidden_size": 32, "intermediate_size": 24},
    "lfm2-tiny": SMALL
    | {
        "architectures": ["Lfm2ForCausalLM"],
        "model_type": "lfm2",
        "block_auto_adjust_ff_dim": True,
        "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 16,
        "conv_L_cache": 3,
        "conv_bias": False,
        "full_attn_idxs": [1],
        "intermediate_size": 60,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_embedding": True,
        "torch_dtype": "float16",
    },
    "lfm2-moe-tiny": SMALL
    | {
        "architectures": ["Lfm2MoeForCausalLM"],
        "model_type": "lfm2_moe",
        "conv_L_cache": 3,
        "conv_bias": False,
        "layer_types": ["conv", "full_attention", "conv"],
        "moe_intermediate_size": 24,
        "norm_eps": 1e-5,
        "norm_topk_prob": True,
        "num_dense_layers": 1,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "rope_theta": 10000.0,
        "routed_scaling_factor": 1.0,
        "tie_embedding": True,
        "use_expert_bias": True,
        "torch_dtype": "float16",
    },
}
# Latent attention, with the keys of the published configs. q_a_layernorm and kv_a_layernorm have an
# epsilon of 1e-6 whatever rms_norm_eps is.
LATENT = SMALL | {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "moe_intermediate_size": 8,
    "n_routed_experts": 12,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 3,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
DEEPSEEK = LATENT | {
    "aux_loss_alpha": 0.001,
    "moe_layer_freq": 1,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "seq_aux": True,
}
DEEPSEEK_YARN = {
    "beta_fast": 2,
    "beta_slow": 0.1,
    "factor": 8,
    "original_max_position_embeddings": 32,
    "type": "yarn",
}
SIGMOID = {"scoring_func": "sigmoid", "topk_method": "noaux_tc"}


def remote_code(kind):
    config, model = f"configuration_deepseek.{kind}Config", f"modeling_deepseek.{kind}"
    names = {"AutoConfig": config, "AutoModel": f"{model}Model"}
    return {"auto_map": names | {"AutoModelForCausalLM": f"{model}ForCausalLM"}}


CASES |= {
    "deepseek-v2-lite-tiny": DEEPSEEK
    | remote_code("DeepseekV2")
    | {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "n_group": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "norm_topk_prob": False,
        "num_hidden_layers": 3,
        "q_lora_rank": None,
        "qk_rope_head_dim": 16,
        "rope_scaling": DEEPSEEK_YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
        "routed_scaling_factor": 1.0,
        "scoring_func": "softmax",
        "topk_group": 1,
        "topk_method": "greedy",
        "torch_dtype": "float16",
    },
    # Published models have one number for mscale and mscale_all_dim. Here they differ, so that the
    # factor on cos and sin is not 1.
    "deepseek-v2-tiny": DEEPSEEK
    | remote_code("DeepseekV2")
    | {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "n_group": 4,
        "norm_topk_prob": False,
        "rope_scaling": DEEPSEEK_YARN | {"mscale": 1.0, "mscale_all_dim": 0.707},
        "routed_scaling_factor": 4.0,
        "scoring_func": "softmax",
        "topk_group": 2,
        "topk_method": "group_limited_greedy",
        "torch_dtype": "bfloat16",
    },
    # Of such sizes that each part of the layer that drafts shows in the drafts of the four prompts.
    "deepseek-v3-tiny": DEEPSEEK
    | remote_code("DeepseekV3")
    | SIGMOID
    | {
        "architectures": ["DeepseekV3ForCausalLM"],
        "ep_size": 1,
        "intermediate_size": 24,
        "model_type": "deepseek_v3",
        "n_group": 4,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_nextn_predict_layers": 1,
        "q_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 16,
        "rope_scaling": DEEPSEEK_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
        "routed_scaling_factor": 2.5,
        "topk_group": 2,
        "torch_dtype": "bfloat16",
        "v_head_dim": 12,
    },
    # One number for both betas, as published: frequencies are whole up to a pair, divided after it.
    "kimi-k2-tiny": DEEPSEEK
    | remote_code("DeepseekV3")
    | SIGMOID
    | {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        "n_group": 1,
        "n_routed_experts": 8,
        "num_hidden_layers": 3,
        "num_nextn_predict_layers": 0,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 16,
        "rope_scaling": DEEPSEEK_YARN
        | {"beta_fast": 1.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0},
        "rope_theta": 50000.0,
        "routed_scaling_factor": 2.827,
        "topk_group": 1,
        "torch_dtype": "float16",
    },
    "glm4-moe-lite-tiny": LATENT
    | {
        "architectures": ["Glm4MoeLiteForCausalLM"],
        "model_type": "glm4_moe_lite",
        "n_group": 1,
        "n_routed_experts": 8,
        "num_nextn_predict_layers": 0,
        "pad_token_id": 0,
        "partial_rotary_factor": 1.0,
        "qk_nope_head_dim": 24,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "routed_scaling_factor": 1.8,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "v_head_dim": 32,
        "dtype": "bfloat16",
    },
    "mistral4-tiny": LATENT
    | {
        "architectures": ["Mistral4ForCausalLM"],
        "first_k_dense_replace": 0,
        "model_type": "mistral4",
        "n_group": 1,
        "n_routed_experts": 8,
        "pad_token_id": 0,
        "qk_nope_head_dim": 8,
        "rms_norm_eps": 1e-6,
        "rope_interleave": True,
        "rope_parameters": DEEPSEEK_YARN
        | {
            "llama_4_scaling_beta": 0.1,
            "max_position_embeddings": 256,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "rope_theta": 10000.0,
            "rope_type": "yarn",
        },
        "routed_scaling_factor": 1.0,
        "topk_group": 1,
        "dtype": "float16",
    },
    # Of 40 and 100 positions 8 are picked; float16, so that no kernel rounds what is compared.
    "deepseek-v32-tiny": DEEPSEEK
    | SIGMOID
    | {
        "architectures": ["DeepseekV32ForCausalLM"],
        "ep_size": 1,
        "index_head_dim": 24,
        "index_n_heads": 6,
        "index_topk": 8,
        "intermediate_size": 24,
        "model_type": "deepseek_v32",
        "n_group": 4,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_nextn_predict_layers": 1,
        "q_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 16,
        "rope_scaling": DEEPSEEK_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
        "routed_scaling_factor": 2.5,
        "topk_group": 2,
        "torch_dtype": "float16",
        "v_head_dim": 12,
    },
    "ernie4-5-tiny": SMALL
    | {
        "architectures": ["Ernie4_5ForCausalLM"],
        "model_type": "ernie4_5",
        "head_dim": 16,
        "num_hidden_layers": 2,
        "pad_token_id": 0,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "use_bias": False,
        "torch_dtype": "float16",
    },
    "ernie4-5-moe-tiny": SMALL
    | {
        "architectures": ["Ernie4_5_MoeForCausalLM"],
        "model_type": "ernie4_5_moe",
        "head_dim": 16,
        "moe_intermediate_size": 12,
        "moe_k": 3,
        "moe_layer_end_index": 2,
        "moe_layer_interval": 1,
        "moe_layer_start_index": 2,
        "moe_num_experts": 8,
        "moe_num_shared_experts": 2,
        "num_hidden_layers": 3,
        "pad_token_id": 0,
        "rope_theta": 10000.0,
        "use_bias": False,
        "torch_dtype": "float16",
    },
    "olmoe-tiny": SMALL
    | {
        "architectures": ["OlmoeForCausalLM"],
        "model_type": "olmoe",
        "clip_qkv": None,
        "intermediate_size": 12,
        "norm_topk_prob": False,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 2,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "torch_dtype": "float16",
    },
    "qwen2-moe-tiny": SMALL
    | {
        "architectures": ["Qwen2MoeForCausalLM"],
        "model_type": "qwen2_moe",
        "decoder_sparse_step": 1,
        "max_window_layers": 2,
        "moe_intermediate_size": 12,
        "norm_topk_prob": False,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "shared_expert_intermediate_size": 24,
        "sliding_window": 16,
        "use_sliding_window": False,
        "torch_dtype": "float16",
    },
    "dots1-tiny": SMALL
    | {
        "architectures": ["Dots1ForCausalLM"],
        "model_type": "dots1",
        "attention_bias": False,
        "first_k_dense_replace": 1,
        "head_dim": 16,
        "max_window_layers": 2,
        "moe_intermediate_size": 12,
        "n_group": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "norm_topk_prob": True,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 2,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "sliding_window": None,
        "topk_group": 1,
        "torch_dtype": "float16",
    },
    "hunyuan-tiny": SMALL
    | {
        "architectures": ["HunYuanDenseV1ForCausalLM"],
        "model_type": "hunyuan_v1_dense",
        "attention_bias": False,
        "head_dim": 16,
        "num_hidden_layers": 2,
        "rope_scaling": {"alpha": 50.0, "factor": 1.0, "type": "dynamic"},
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "use_qk_norm": True,
        "torch_dtype": "float16",
    },
    "hunyuan-moe-tiny": SMALL
    | {
        "architectures": ["HunYuanMoEV1ForCausalLM"],
        "model_type": "hunyuan_v1_moe",
        "attention_bias": False,
        "head_dim": 16,
        "intermediate_size": 24,
        "moe_intermediate_size": [24, 24],
        "moe_topk": [3, 3],
        "num_experts": 8,
        "num_hidden_layers": 2,
        "num_shared_expert": [1, 1],
        "rope_scaling": {"alpha": 50.0, "factor": 1.0, "type": "dynamic"},
        "rope_theta": 10000.0,
        "use_qk_norm": True,
        "torch_dtype": "float16",
    },
    # Models of text and pictures, of which the text is read.
    "qwen2-5-vl-tiny": SMALL
    | {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "max_window_layers": 2,
        "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6,
        "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]},
        "rope_theta": 10000.0,
        "sliding_window": 16,
        "use_sliding_window": False,
        "vision_config": VISION | {"model_type": "qwen2_5_vl", "fullatt_block_indexes": [0]},
        "torch_dtype": "float16",
    },
    "qwen3-vl-tiny": {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": TEXT | {"model_type": "qwen3_vl_text", "dtype": "float16"},
        "tie_word_embeddings": False,
        "vision_config": VISION | SEEN | {"model_type": "qwen3_vl"},
    },
    "qwen3-vl-moe-tiny": {
        "architectures": ["Qwen3VLMoeForConditionalGeneration"],
        "model_type": "qwen3_vl_moe",
        "text_config": TEXT
        | {
            "model_type": "qwen3_vl_moe_text",
            "decoder_sparse_step": 1,
            "dtype": "float16",
            "mlp_only_layers": [],
            "moe_intermediate_size": 12,
            "norm_topk_prob": True,
            "num_experts": 8,
            "num_experts_per_tok": 3,
        },
        "tie_word_embeddings": False,
        "vision_config": VISION | SEEN | {"model_type": "qwen3_vl_moe"},
    },
    "glm4v-tiny": {
        "architectures": ["Glm4vForConditionalGeneration"],
        "model_type": "glm4v",
        "text_config": SEEN_BY_GLM | {"model_type": "glm4v_text", "attention_bias": True, "dtype": "float16"},
        "tie_word_embeddings": False,
        "vision_config": VISION | {"model_type": "glm4v_vision", "image_size": 4},
    },
    "glm4v-moe-tiny": {
        "architectures": ["Glm4vMoeForConditionalGeneration"],
        "model_type": "glm4v_moe",
        "text_config": SEEN_BY_GLM
        | {
            "model_type": "glm4v_moe_text",
            "attention_bias": True,
            "dtype": "float16",
            "first_k_dense_replace": 1,
            "head_dim": 16,
            "moe_intermediate_size": 12,
            "n_group": 1,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 3,
            "routed_scaling_factor": 2.5,
            "topk_group": 1,
        },
        "tie_word_embeddings": False,
        "vision_config": VISION | {"model_type": "glm4v_moe_vision", "image_size": 4},
    },
    # Each layer's positions have a base of their own, or there are none.
    "granite-swa-tiny": GRANITE
    | {
        "architectures": ["GraniteSWAForCausalLM"],
        "model_type": "granite_swa",
        "layer_rope_theta": [0, 10000.0, 0, 500.0],
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "num_hidden_layers": 4,
        "rope_theta": 10000.0,
        "sliding_window": 16,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
    },
    "granite-swa-moe-tiny": GRANITE
    | {
        "architectures": ["GraniteMoeSWAForCausalLM"],
        "model_type": "granitemoe_swa",
        "intermediate_size": 24,
        "layer_types": ["full_attention", "sliding_attention"],
        "num_experts_per_tok": 2,
        "num_hidden_layers": 2,
        "num_local_experts": 4,
        "rope_theta": 10000.0,
        "shared_intermediate_size": 24,
        "sliding_window": 16,
        "torch_dtype": "float16",
    },
    "lfm3-tiny": SMALL
    | {
        "architectures": ["Lfm3ForCausalLM"],
        "model_type": "lfm3",
        "conv_L_cache": 7,
        "conv_bias": False,
        "head_dim": 16,
        "layer_types": ["conv", "full_attention", "sliding_attention", "conv"],
        "norm_eps": 1e-5,
        "num_hidden_layers": 4,
        "pad_token_id": 0,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
        },
        "sliding_window": 16,
        "tie_word_embeddings": True,
        "use_attention_gate": True,
        "use_sandwich_norm": True,
        "dtype": "float16",
    },
    "afmoe-tiny": SMALL
    | {
        "architectures": ["AfmoeForCausalLM"],
        "model_type": "afmoe",
        "attention_bias": False,
        "global_attn_every_n_layers": 4,
        "head_dim": 16,
        "moe_intermediate_size": 12,
        "mup_enabled": True,
        "num_dense_layers": 1,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 4,
        "num_shared_experts": 1,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "route_norm": True,
        "route_scale": 2.5,
        "score_func": "sigmoid",
        "sliding_window": 16,
        "torch_dtype": "float16",
    },
    "youtu-tiny": SMALL
    | {
        "architectures": ["YoutuForCausalLM"],
        "model_type": "youtu",
        "kv_lora_rank": 16,
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "q_lora_rank": 24,
        "qk_nope_head_dim": 12,
        "qk_rope_head_dim": 8,
        "rope_interleave": True,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "v_head_dim": 12,
        "torch_dtype": "float16",
    },
    "mellum-tiny": SMALL
    | {
        "architectures": ["MellumForCausalLM"],
        "model_type": "mellum",
        "attention_bias": False,
        "head_dim": 16,
        "layer_types": SLIDING_AND_FULL,
        "mlp_layer_types": ["sparse"] * 3,
        "moe_intermediate_size": 12,
        "norm_topk_prob": True,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 32,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
        },
        "sliding_window": 16,
        "dtype": "float16",
    },
    # Of makers whose own code transformers has not: what it has of the same layers stands in.
    "bailing-moe-tiny": SMALL
    | {
        "architectures": ["BailingMoeV2ForCausalLM"],
        "model_type": "bailing_moe_v2",
        "first_k_dense_replace": 1,
        "head_dim": 16,
        "moe_intermediate_size": 12,
        "moe_router_enable_expert_bias": True,
        "moe_shared_expert_intermediate_size": 12,
        "n_group": 4,
        "norm_topk_prob": True,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 2,
        "num_nextn_predict_layers": 0,
        "num_shared_experts": 1,
        "partial_rotary_factor": 0.5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "routed_scaling_factor": 2.5,
        "score_function": "sigmoid",
        "topk_group": 2,
        "use_bias": False,
        "use_qk_norm": True,
        "use_qkv_bias": False,
        "torch_dtype": "float16",
    },
    "minicpm-tiny": SMALL
    | {
        "architectures": ["MiniCPMForCausalLM"],
        "model_type": "minicpm",
        "dim_model_base": 16,
        "num_hidden_layers": 2,
        "rope_theta": 10000.0,
        "scale_depth": 1.4,
        "scale_emb": 3,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
    },
    # A quarter of each head turns, so that no other half of a head may pass for it.
    "glm4-moe-tiny": SMALL
    | {
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
        "attention_bias": True,
        "first_k_dense_replace": 1,
        "head_dim": 16,
        "moe_intermediate_size": 12,
        "n_group": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 2,
        "num_nextn_predict_layers": 1,
        "pad_token_id": 0,
        "partial_rotary_factor": 0.25,
        "rope_scaling": None,
        "rope_theta": 10000,
        "routed_scaling_factor": 2.5,
        "topk_group": 1,
        "use_qk_norm": True,
        "dtype": "float16",
    },
    "solar-open-tiny": SMALL
    | {
        "architectures": ["SolarOpenForCausalLM"],
        "model_type": "solar_open",
        "attention_bias": False,
        "first_k_dense_replace": 0,
        "head_dim": 16,
        "moe_intermediate_size": 12,
        "n_group": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 2,
        "partial_rotary_factor": 1.0,
        "rope_scaling": {"factor": 2.0, "original_max_position_embeddings": 64, "type": "yarn"},
        "rope_theta": 1000000,
        "routed_scaling_factor": 2.5,
        "topk_group": 1,
        "use_qk_norm": False,
        "dtype": "float16",
    },
    "exaone-moe-tiny": SMALL
    | {
        "architectures": ["ExaoneMoEForCausalLM"],
        "model_type": "exaone_moe",
        "first_k_dense_replace": 1,
        "head_dim": 16,
        "layer_types": SLIDING_AND_FULL,
        "moe_intermediate_size": 12,
        "n_group": 1,
        "norm_topk_prob": True,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "num_shared_experts": 1,
        "rope_theta": 10000,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "sliding_window": 16,
        "sliding_window_pattern": "LGL",
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "dtype": "float16",
    },
    "internlm3-tiny": SMALL
    | {
        "architectures": ["InternLM3ForCausalLM"],
        "model_type": "internlm3",
        "bias": False,
        "head_dim": 16,
        "num_hidden_layers": 2,
        "qkv_bias": False,
        "rope_scaling": {"factor": 6.0, "rope_type": "dynamic"},
        "rope_theta": 50000,
        "torch_dtype": "float16",
    },
    "stablelm-tiny": {name: value for name, value in SMALL.items() if name != "rms_norm_eps"}
    | {
        "architectures": ["StableLmForCausalLM"],
        "model_type": "stablelm",
        "layer_norm_eps": 1e-5,
        "num_hidden_layers": 2,
        "partial_rotary_factor": 0.25,
        "qk_layernorm": False,
        "rope_theta": 10000,
        "use_parallel_residual": False,
        "use_qkv_bias": True,
        "torch_dtype": "float16",
    },
    "stablelm-parallel-tiny": {name: value for name, value in SMALL.items() if name != "rms_norm_eps"}
    | {
        "architectures": ["StableLmForCausalLM"],
        "model_type": "stablelm",
        "layer_norm_eps": 1e-5,
        "num_hidden_layers": 2,
        "partial_rotary_factor": 0.5,
        "rope_theta": 10000,
        "use_parallel_residual": True,
        "use_qkv_bias": False,
        "torch_dtype": "float16",
    },
    "glm5-tiny": LATENT
    | {
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        "index_head_dim": 24,
        "index_n_heads": 6,
        "index_topk": 8,
        "indexer_rope_interleave": True,
        "intermediate_size": 24,
        "n_group": 1,
        "n_routed_experts": 8,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_nextn_predict_layers": 0,
        "q_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 16,
        "rms_norm_eps": 1e-6,
        "rope_interleave": True,
        "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "dtype": "float16",
        "v_head_dim": 12,
    },
    "minimax-m2-tiny": SMALL
    | {
        "architectures": ["MiniMaxM2ForCausalLM"],
        "model_type": "minimax_m2",
        "attn_type_list": [1, 1],
        "head_dim": 16,
        "intermediate_size": 24,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 2,
        "num_local_experts": 8,
        "qk_norm_type": "per_layer",
        "rope_theta": 10000,
        "rotary_dim": 8,
        "scoring_func": "sigmoid",
        "shared_intermediate_size": 0,
        "use_qk_norm": True,
        "use_routing_bias": True,
        "dtype": "float16",
    },
}
GRANITE_H = GRANITE | {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "init_method": "mup",
    "mamba_chunk_size": 256,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 20,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 4,
    "mamba_proj_bias": False,
    "normalization_function": "rmsnorm",
    "position_embedding_type": "nope",
    "rope_scaling": None,
    "shared_intermediate_size": 40,
    "tie_word_embeddings": True,
}
CASES |= {
    "granite-h-tiny": GRANITE_H
    | {
        "intermediate_size": 40,
        "layer_types": ["mamba", "mamba", "attention", "mamba"],
        "num_experts_per_tok": 0,
        "num_hidden_layers": 4,
        "num_local_experts": 0,
        "torch_dtype": "float32",  # converters round rates to 16 bits where the folder has them
    },
    "granite-h-moe-tiny": GRANITE_H
    | {
        "layer_types": ["mamba", "attention", "mamba"],
        "mamba_d_head": 8,
        "mamba_d_state": 16,
        "mamba_n_groups": 2,
        "mamba_n_heads": 8,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 3,
        "num_local_experts": 4,
    },
}
NEMOTRON_H = SMALL | {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "attention_bias": False,
    "chunk_size": 128,
    "conv_kernel": 4,
    "expand": 2,
    "head_dim": 16,
    "layer_norm_epsilon": 1e-5,
    "mamba_head_dim": 16,
    "mamba_hidden_act": "silu",
    "mamba_num_heads": 4,
    "mamba_proj_bias": False,
    "mlp_bias": False,
    "mlp_hidden_act": "relu2",
    "n_groups": 2,
    "residual_in_fp32": False,
    "ssm_state_size": 20,
    "time_step_floor": 0.0001,
    "time_step_limit": [0.0, float("inf")],  # as published: Infinity, which is no JSON
    "time_step_max": 0.1,
    "time_step_min": 0.001,
    "use_bias": False,
    "use_conv_bias": True,
}
CASES |= {
    "nemotron-h-tiny": NEMOTRON_H
    | {
        "hybrid_override_pattern": "M-*M-",
        "num_hidden_layers": 5,
        "torch_dtype": "float32",
    },
    "nemotron-h-moe-tiny": NEMOTRON_H
    | {
        "hybrid_override_pattern": "ME*EM",
        "mamba_head_dim": 8,
        "mamba_num_heads": 8,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 40,
        "n_group": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_experts_per_tok": 3,
        "num_hidden_layers": 5,
        "routed_scaling_factor": 2.5,
        "topk_group": 1,
        "torch_dtype": "float16",
    },
}
FALCON_H1 = SMALL | {
    "architectures": ["FalconH1ForCausalLM"],
    "model_type": "falcon_h1",
    "attention_bias": False,
    "attention_in_multiplier": 0.9,
    "attention_out_multiplier": 0.8,
    "embedding_multiplier": 2.0,
    "head_dim": 16,
    "key_multiplier": 0.55555555,
    "lm_head_multiplier": 0.5,
    "mamba_chunk_size": 256,
    "mamba_conv_bias": True,
    "mamba_d_conv": 4,
    "mamba_d_head": 16,
    "mamba_d_ssm": 48,
    "mamba_d_state": 20,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 3,
    "mamba_norm_before_gate": False,
    "mamba_proj_bias": False,
    "mamba_rms_norm": False,
    "mlp_bias": False,
    "mlp_multipliers": [0.6, 0.8],
    "num_hidden_layers": 2,
    "projectors_bias": False,
    "rope_scaling": None,
    "rope_theta": 10000,
    "ssm_in_multiplier": 0.6,
    "ssm_multipliers": [0.7, 0.8, 0.9, 1.1, 1.2],
    "ssm_out_multiplier": 0.5,
    "torch_dtype": "float32",
}
CASES |= {
    "falcon-h1-tiny": FALCON_H1,
    "falcon-h1-normed-tiny": FALCON_H1
    | {
        "mamba_d_ssm": 64,
        "mamba_d_state": 16,
        "mamba_n_groups": 2,
        "mamba_n_heads": 4,
        "mamba_rms_norm": True,
        "torch_dtype": "float16",
    },
}
for case in ("nemotron-h-tiny", "nemotron-h-moe-tiny"):
    for unknown in ("hidden_act", "rms_norm_eps"):
        del CASES[case][unknown]
# Layers that do not slide have larger heads, of which a quarter turns.
GEMMA4 = GEMMA | {
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "attention_k_eq_v": True,
    "enable_moe_block": False,
    "final_logit_softcapping": 6.0,
    "global_head_dim": 16,
    "head_dim": 8,
    "hidden_size_per_layer_input": 0,
    "num_global_key_value_heads": 1,
    "num_kv_shared_layers": 0,
    "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 100000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0},
    },
    "vocab_size_per_layer_input": 128,
}
del GEMMA4["query_pre_attn_scalar"]
CASES |= {
    "gemma4-tiny": GEMMA4
    | {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4},
    "gemma4-moe-tiny": GEMMA4
    | {
        "enable_moe_block": True,
        "layer_types": ["sliding_attention", "full_attention"],
        "moe_intermediate_size": 24,
        "num_experts": 6,
        "num_hidden_layers": 2,
        "top_k_experts": 3,
    },
    # The last three layers have the keys and values of layers 1 and 2.
    "gemma4-ple-tiny": GEMMA4
    | {
        "attention_k_eq_v": False,
        "hidden_size_per_layer_input": 12,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "num_hidden_layers": 6,
        "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True,
    },
}
del CASES["lfm2-tiny"]["rms_norm_eps"]
del CASES["lfm2-moe-tiny"]["rms_norm_eps"]
del CASES["qwen3-5-moe-tiny"]["intermediate_size"]
