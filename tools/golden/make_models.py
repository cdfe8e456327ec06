"""Writes tiny random models in the Hugging Face layout, with logits from transformers in float32.

Each case is a folder under tests/golden/models with config.json, the weights, and golden.json:
  prompts  token ids
  logits   [{prompt, position, row}]: the whole row of logits that follows that position
  greedy   for each prompt the ids which the largest logit picks, one after the other
  draft    (models with a layer that drafts) for each prompt the three ids which that layer's largest
           logit picks, one after the other, to follow the first greedy id; deepseek_attention.py
           computes them, in float64, and qwen_draft.py those of Qwen's
The weights come from numpy's generator, so they do not depend on the version of torch. The goldens
are computed after reading the folder back, with 16-bit weights widened to float32 first.
"""

import copy
import json
import pathlib
import shutil
import sys
import tempfile
import zlib

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, DeepseekV3Config

import deepseek_attention
import qwen_draft
import reference

SEED = 20260305
GREEDY = 16
MARGIN = 4e-3  # least gap of the two best logits, far above the error of any float32 order of sums
ROUTER_MARGIN = 1e-3  # least gap of the logits of the last expert that is used and the next one
INDEX_MARGIN = 1e-4  # the same of an indexer's scores, as a share of the largest
TRIES = 2000  # prompts that are drawn until one is clear
LENGTHS = (1, 7, 40, 100)
POSITIONS = {1: (0,), 7: (3, 6), 40: (15, 16, 17, 39), 100: (31, 32, 63, 64, 99)}

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
        "moe_layer_end_index": 1,
        "moe_layer_interval": 1,
        "moe_layer_start_index": 1,
        "moe_num_experts": 8,
        "moe_num_shared_experts": 2,
        "num_hidden_layers": 2,
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


def seed_of(name):
    number = list(CASES).index(name)
    return [SEED, number if number < BY_PLACE else zlib.crc32(name.encode())]


PUBLISHED = {
    "experts.gate_up_proj": "input_linear.weight",
    "experts.down_proj": "output_linear.weight",
    "router.weight": "router.layer.weight",
}


def drafting_layers(config):
    """How many layers follow the last one that transformers reads, to draft tokens."""
    return getattr(config, "num_nextn_predict_layers", 0) or 0


def mtp_shapes(config):
    """Shapes of Qwen's layer that drafts, by its published names."""
    one, size = copy.deepcopy(config), config.hidden_size
    one.num_hidden_layers, one.layer_types = 1, ["full_attention"]
    for name, tensor in without_quantization(one).state_dict().items():
        if name.startswith("model.layers."):
            yield name.replace("model.", "mtp.", 1), tuple(tensor.shape)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        yield f"mtp.{name}.weight", (size,)
    yield "mtp.fc.weight", (size, 2 * size)


def own_shapes(config):
    """Shapes by the names that transformers has, and those of the layers that draft."""
    longer = copy.deepcopy(config)
    if drafting_layers(config) > 0:
        longer.num_hidden_layers += drafting_layers(config)
    if config.model_type == "deepseek_v32":  # lists that it makes when it is read
        for kinds in (longer.mlp_layer_types, longer.layer_types):
            kinds += kinds[-1:] * drafting_layers(config)
    for name, tensor in without_quantization(longer).state_dict().items():
        yield name, tuple(tensor.shape)
    layers = config.get_text_config().num_hidden_layers
    for layer in range(layers, layers + drafting_layers(config)):
        base, size = f"model.layers.{layer}.", config.hidden_size
        for name in ("embed_tokens", "shared_head.head"):
            yield f"{base}{name}.weight", (config.vocab_size, size)
        for name in ("enorm", "hnorm", "shared_head.norm"):
            yield f"{base}{name}.weight", (size,)
        yield f"{base}eh_proj.weight", (size, 2 * size)
    if config.model_type in qwen_draft.FAMILIES:
        yield from mtp_shapes(config)


def published_shapes(config):
    """Shapes by the names that published models have: a tensor for each matrix of each expert."""
    for name, shape in own_shapes(config):
        if config.model_type == "nemotron_h":
            name = name.replace("model.", "backbone.", 1)
        mixtral = config.model_type in ("mixtral", "minimax_m2")
        if mixtral:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        if config.model_type.startswith("granitemoe"):
            for ending, published in PUBLISHED.items():
                if name.endswith(f"block_sparse_moe.{ending}"):
                    name = name.removesuffix(ending) + published
        if config.model_type in ("gpt_oss", "mistral4", "qwen3_5_moe_text", "gemma4_text", "gemma4_unified_text"):
            yield name, shape
            continue
        if config.model_type == "qwen3_vl_moe" and ".experts." in name:
            yield name, (shape[0], shape[2], shape[1])
            continue
        if config.model_type == "ernie4_5_moe":
            name = name.replace(".gate.moe_statics.", ".moe_statics.")
        if config.model_type == "qwen2_5_vl":
            name = name.replace("model.visual.", "visual.")
            name = name.replace("model.language_model.", "model.")
        numbered = mixtral or config.model_type == "lfm2_moe"
        if name.endswith("experts.gate_up_proj"):
            count, rows, columns = shape
            parts = {"w1" if numbered else "gate_proj": (rows // 2, columns)}
            parts |= {"w3" if numbered else "up_proj": (rows // 2, columns)}
        elif name.endswith("experts.up_proj") and len(shape) == 3:
            count = shape[0]
            parts = {"up_proj": shape[1:]}
        elif name.endswith("experts.down_proj") and len(shape) == 3:
            count = shape[0]
            parts = {"w2" if numbered else "down_proj": shape[1:]}
        else:
            yield name, shape
            continue
        for expert in range(count):
            for part, of_one in parts.items():
                yield f"{name.rpartition('.')[0]}.{expert}.{part}.weight", of_one


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def mxfp4_weights(random, shape):
    """Random blocks of codes and scales of a parameter of gpt-oss, and what they stand for.

    The shape is that of the parameter: experts, columns, rows; blocks lie along the columns.
    """
    experts, columns, rows = shape
    codes = random.integers(0, 256, (experts, rows, columns // 32, 16), np.uint8)
    scales = random.integers(122, 125, (experts, rows, columns // 32), np.uint8)
    nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(experts, rows, columns // 32, 32)
    values = np.where(nibbles & 8, -1, 1) * E2M1[nibbles & 7]
    values = values * np.exp2(scales.astype(np.float32) - 127)[..., None]
    values = values.reshape(experts, rows, columns).transpose(0, 2, 1)
    return torch.tensor(codes), torch.tensor(scales), torch.tensor(values, dtype=torch.float32)


SCALES = ("layer_scalar", "router.scale", "per_expert_scale")  # of Gemma 4, about 1
KEPT_WIDE = "e_score_correction_bias"  # float32 in published models of 16 bits


def adds_one(config):
    return config.model_type.startswith("gemma") and not config.model_type.startswith("gemma4")


def random_weights(config, seed):
    """Weights by their published names, wide enough that the logits are far from uniform."""
    random = np.random.default_rng(seed)
    weights = {}
    packed = hasattr(config, "quantization_config")
    for name, shape in published_shapes(config):
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if packed and ".experts." in name and "bias" not in name:
            blocks, scales, weights[name] = mxfp4_weights(random, shape)
            weights |= {name + "_blocks": blocks, name + "_scales": scales}
            continue
        values = random.standard_normal(shape)
        if "norm" in name:
            # Gemma's weights lack the one that its norms added up to Gemma 3.
            values = 0.2 * values + (0 if adds_one(config) else 1)
        elif name.endswith(SCALES):
            values = 0.2 * values + 1
        elif name.endswith(KEPT_WIDE):
            values = 0.2 * values
        elif name.endswith("A_log"):  # states of some tokens and of many
            values = values - 1
        elif name.endswith(".D"):
            values = 0.5 * values + 1
        else:
            values = values * (0.5 if name.endswith(("bias", "sinks")) else 0.25)
        weights[name] = torch.tensor(values, dtype=torch.float32)
    # The layers that draft come with copies of the model's own.
    for layer in range(drafting_layers(config)):
        base = f"model.layers.{config.num_hidden_layers + layer}."
        weights[base + "embed_tokens.weight"] = weights["model.embed_tokens.weight"].clone()
        weights[base + "shared_head.head.weight"] = weights["lm_head.weight"].clone()
    return weights


def write_weights(folder, weights, dtype, shards):
    def stored(name, tensor):
        same = tensor.dtype == torch.uint8 or name.endswith((KEPT_WIDE, "expert_bias"))
        return (tensor if same else tensor.to(dtype)).contiguous()

    weights = {
        name: stored(name, tensor)
        for name, tensor in weights.items()
        if name + "_blocks" not in weights
    }
    if shards == 1:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = list(weights)
    place = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[len(names) * shard // shards : len(names) * (shard + 1) // shards]
        save_file({n: weights[n] for n in part}, folder / file, metadata={"format": "pt"})
        place |= dict.fromkeys(part, file)
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(place.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


@torch.no_grad()
def logits_of(model, ids):
    return model(torch.tensor([ids])).logits[0].numpy()


def greedy(model, prompt):
    """The ids picked, and the smallest gap between the two best logits on the way."""
    ids, margin = list(prompt), np.inf
    for _ in range(GREEDY):
        row = logits_of(model, ids)[-1]
        second, best = np.sort(row)[-2:]
        margin = min(margin, float(best - second))
        ids.append(int(row.argmax()))
    return ids[-GREEDY:], margin


@torch.no_grad()
def router_margin(model, ids):
    """The smallest gap between the experts that a token uses and those that it does not."""
    text = model.config.get_text_config()
    used = getattr(text, "num_experts_per_tok", 0) or getattr(text, "top_k_experts", 0)
    used = used[0] if isinstance(used, list) else used
    if not used:
        return np.inf
    routers = model(torch.tensor([ids]), output_router_logits=True).router_logits
    if hasattr(model.config, "n_routed_experts"):
        config = model.config.to_dict()
        parts = [getattr(layer, "mlp", None) or layer.mixer for layer in model.model.layers]
        gates = [part.gate for part in parts if hasattr(part, "gate")]
        if not gates:
            return np.inf
        biases = [gate.state_dict().get(KEPT_WIDE) for gate in gates]
        biases = [None if bias is None else bias.numpy() for bias in biases]
        return min(
            deepseek_attention.route(config, logits.numpy(), bias)[1]
            for logits, bias in zip(routers, biases, strict=True)
        )
    if model.config.model_type == "ernie4_5_moe":
        gates = [layer.mlp.gate for layer in model.model.layers if hasattr(layer.mlp, "gate")]
        biases = [gate.moe_statics.e_score_correction_bias.squeeze() for gate in gates]
        routers = [logits.softmax(-1) + bias for logits, bias in zip(routers, biases, strict=True)]
    if model.config.model_type == "minimax_m2":
        biases = [layer.mlp.e_score_correction_bias for layer in model.model.layers]
        routers = [logits.sigmoid() + bias for logits, bias in zip(routers, biases, strict=True)]
    if model.config.model_type == "lfm2_moe":
        layers = [layer.feed_forward for layer in model.model.layers]
        biases = [layer.expert_bias for layer in layers if hasattr(layer, "expert_bias")]
        routers = [logits.sigmoid() + bias for logits, bias in zip(routers, biases, strict=True)]
    if model.config.model_type == "gemma4_text":  # which gives probabilities
        routers = [chances.log() for chances in routers]
    ranked = [np.sort(logits.numpy())[:, ::-1] for logits in routers]
    return min(float((layer[:, used - 1] - layer[:, used]).min()) for layer in ranked)


@torch.no_grad()
def hidden_of(model, ids):
    """The rows after the last norm."""
    return model.model(torch.tensor([ids])).last_hidden_state[0].double().numpy()


def draft(folder, model, prompt, following):
    """What is drafted after `following`, and whether no rounding can turn it."""
    config, weights = reference.load_model(folder)
    if config["model_type"] in qwen_draft.FAMILIES:
        plain = qwen_draft.Layer(config, weights)
        rows = plain.draft(hidden_of(model, prompt), prompt, following)
    else:
        plain = deepseek_attention.model_of(config, weights)
        rows = plain.draft(prompt, following)
    ids = [int(row.argmax()) for row in rows]
    gaps = [np.diff(np.sort(row)[-2:])[0] for row in rows]
    clear = plain.gap > ROUTER_MARGIN and getattr(plain, "index_gap", np.inf) > INDEX_MARGIN
    return ids, min(gaps) > MARGIN and clear


def picks_clearly(folder, ids):
    """Whether no rounding can turn what the indexers of a model pick."""
    config, weights = reference.load_model(folder)
    if "index_topk" not in config:
        return True
    plain = deepseek_attention.Model(config, weights)
    plain.hidden(ids)
    return plain.index_gap > INDEX_MARGIN


def pick_prompt(model, random, vocab, length, accept):
    """A random prompt whose greedy continuation no rounding can turn, and which is accepted."""
    for _ in range(TRIES):
        prompt = random.integers(3, vocab, length).tolist()
        ids, margin = greedy(model, prompt)
        clear = margin > MARGIN and router_margin(model, prompt + ids) > ROUTER_MARGIN
        if clear and accept(prompt, ids):
            return prompt, ids
    sys.exit(f"no prompt of length {length} with a clear greedy continuation")


def shortest(row):
    """The shortest decimals that read back as these float32."""
    return [float(str(value)) for value in row]


def bailing_as_glm(config):
    """What transformers has of Ling's layers, and its tensors by Ling's names."""
    names = {"n_routed_experts": "num_experts", "n_shared_experts": "num_shared_experts"}
    stand_in = config | {new: config[own] for new, own in names.items()}
    stand_in |= {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe"}
    stand_in["attention_bias"] = False

    def named(weights):
        out = {}
        for name, tensor in weights.items():
            if ".self_attn.q_proj." in name:
                parts = [weights[name.replace("q_proj", part)] for part in ("k_proj", "v_proj")]
                tensor = torch.cat([tensor, *parts])
            elif ".self_attn.k_proj." in name or ".self_attn.v_proj." in name:
                continue
            for ours, theirs in {
                "embed_tokens": "word_embeddings",
                "self_attn.q_proj": "attention.query_key_value",
                "self_attn.q_norm": "attention.query_layernorm",
                "self_attn.k_norm": "attention.key_layernorm",
                "self_attn.o_proj": "attention.dense",
                KEPT_WIDE: "expert_bias",
            }.items():
                name = name.replace(ours, theirs)
            out[name] = tensor
        return out

    return stand_in, named


def minicpm_as_granite(config):
    """The same of MiniCPM's."""
    stand_in = config | {
        "architectures": ["GraniteForCausalLM"],
        "model_type": "granite",
        "attention_multiplier": (config["hidden_size"] // config["num_attention_heads"]) ** -0.5,
        "embedding_multiplier": config["scale_emb"],
        "logits_scaling": config["hidden_size"] / config["dim_model_base"],
        "residual_multiplier": config["scale_depth"] / config["num_hidden_layers"] ** 0.5,
    }
    return stand_in, lambda weights: weights


STAND_INS = {"bailing_moe_v2": bailing_as_glm, "minicpm": minicpm_as_granite}


def read_config(folder, config):
    if config["model_type"] != "kimi_k2":
        return AutoConfig.from_pretrained(folder)
    # transformers knows it by its architecture only, and finds experts by the type of the model.
    parsed = DeepseekV3Config.from_pretrained(folder)
    parsed.model_type = "deepseek_v3"
    return parsed


def read_model(folder, config, weights):
    """The folder in float32. Eager attention is the plain one; it honours the window."""
    if not hasattr(config, "quantization_config"):
        model, found = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
        )
        if found["missing_keys"]:  # transformers would draw them at random
            sys.exit(f"{folder.name}: {found['missing_keys']} not read")
        return model
    # transformers unpacks MXFP4 to bfloat16 only.
    model = without_quantization(config, attn_implementation="eager")
    weights = {n: w.to(torch.float16).float() for n, w in weights.items() if w.dtype != torch.uint8}
    model.load_state_dict(weights)
    return model


def without_quantization(config, **options):
    plain = copy.deepcopy(config)
    if hasattr(plain, "quantization_config"):
        del plain.quantization_config
    return AutoModelForCausalLM.from_config(plain, dtype=torch.float32, **options)


def make_case(name, config):
    folder = reference.MODELS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")

    text = config.get("text_config", config)
    dtype = getattr(torch, text.get("dtype") or text["torch_dtype"])
    if config["model_type"] in STAND_INS:
        stand_in, named = STAND_INS[config["model_type"]](config)
        with tempfile.TemporaryDirectory() as place:
            other = pathlib.Path(place)
            (other / "config.json").write_text(json.dumps(stand_in))
            parsed = read_config(other, stand_in)
            weights = random_weights(parsed, seed_of(name))
            write_weights(other, weights, dtype, 1)
            model = read_model(other, parsed, weights).eval()
        write_weights(folder, named(weights), dtype, 1)
    else:
        parsed = read_config(folder, config)
        weights = random_weights(parsed, seed_of(name))
        write_weights(folder, weights, dtype, 2 if name in SHARDED else 1)
        model = read_model(folder, parsed, weights).eval()
    random = np.random.default_rng([*seed_of(name), 1])
    golden = {"prompts": [], "logits": [], "greedy": []}
    drafts = drafting_layers(parsed) > 0 or parsed.model_type in qwen_draft.FAMILIES

    def accept(prompt, ids):
        clear = picks_clearly(folder, prompt + ids)
        return clear and (not drafts or draft(folder, model, prompt, ids[0])[1])

    for index, length in enumerate(LENGTHS):
        prompt, ids = pick_prompt(model, random, text["vocab_size"], length, accept)
        logits = logits_of(model, prompt)
        golden["prompts"].append(prompt)
        golden["greedy"].append(ids)
        for position in POSITIONS[length]:
            row = shortest(logits[position])
            golden["logits"].append({"prompt": index, "position": position, "row": row})
    if drafts:
        pairs = zip(golden["prompts"], golden["greedy"])
        golden["draft"] = [draft(folder, model, prompt, ids[0])[0] for prompt, ids in pairs]
    text = json.dumps(golden, separators=(",", ":")).replace("{", "\n{")
    (folder / "golden.json").write_text(text.strip() + "\n")
    return folder


def know_all():
    """Models of text that transformers lists with those that see alone."""
    for kind in (
        transformers.Mistral4ForCausalLM,
        transformers.Qwen2_5_VLForConditionalGeneration,
        transformers.Qwen3VLForConditionalGeneration,
        transformers.Qwen3VLMoeForConditionalGeneration,
    ):
        AutoModelForCausalLM.register(kind.config_class, kind, exist_ok=True)


def main():
    """All cases, or those that the arguments name."""
    know_all()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    for name, config in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        folder = make_case(name, config)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{name}: {size // 1024} KiB", flush=True)


if __name__ == "__main__":
    main()
