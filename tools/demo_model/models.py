"""The models by name: what they are made of, their config.json, their fields in GGUF."""

from dataclasses import dataclass
from typing import Any, Callable

import deepseek
import formats
import llama
import naming
import naming_deepseek
import problems

TOKENS = {
    "bos_token_id": problems.BOS,
    "eos_token_id": problems.EOS,
    "pad_token_id": problems.PAD,
}


def llama_config(shape):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_epsilon,
        "rope_theta": shape.rope_base,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        **TOKENS,
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "bfloat16",
    }


def llama_shape(config):
    return llama.Shape(
        vocab=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_width=config["head_dim"],
        inner=config["intermediate_size"],
        context=config["max_position_embeddings"],
        rope_base=config["rope_theta"],
        norm_epsilon=config["rms_norm_eps"],
    )


def llama_gguf_fields(shape):
    u32, f32 = formats.U32, formats.F32
    return {
        "vocab_size": (u32, shape.vocab),
        "context_length": (u32, shape.context),
        "embedding_length": (u32, shape.width),
        "block_count": (u32, shape.layers),
        "feed_forward_length": (u32, shape.inner),
        "attention.head_count": (u32, shape.heads),
        "attention.head_count_kv": (u32, shape.kv_heads),
        "attention.key_length": (u32, shape.head_width),
        "attention.value_length": (u32, shape.head_width),
        "attention.layer_norm_rms_epsilon": (f32, shape.norm_epsilon),
        "rope.dimension_count": (u32, shape.head_width),
        "rope.freq_base": (f32, shape.rope_base),
    }


def deepseek_config(shape):
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "moe_intermediate_size": shape.expert_inner,
        "num_hidden_layers": shape.layers,
        "num_nextn_predict_layers": 1,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "q_lora_rank": shape.q_latent,
        "kv_lora_rank": shape.kv_latent,
        "qk_nope_head_dim": shape.plain,
        "qk_rope_head_dim": shape.rotated,
        "v_head_dim": shape.value,
        "n_routed_experts": shape.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": shape.chosen,
        "first_k_dense_replace": shape.dense_layers,
        "moe_layer_freq": 1,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": shape.expert_scale,
        "hidden_act": "silu",
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_epsilon,
        "rope_theta": shape.rope_base,
        "rope_scaling": None,
        "rope_interleave": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        **TOKENS,
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "bfloat16",
    }


def deepseek_shape(config):
    return deepseek.Shape(
        vocab=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        dense_layers=config["first_k_dense_replace"],
        heads=config["num_attention_heads"],
        q_latent=config["q_lora_rank"],
        kv_latent=config["kv_lora_rank"],
        plain=config["qk_nope_head_dim"],
        rotated=config["qk_rope_head_dim"],
        value=config["v_head_dim"],
        inner=config["intermediate_size"],
        experts=config["n_routed_experts"],
        chosen=config["num_experts_per_tok"],
        expert_inner=config["moe_intermediate_size"],
        expert_scale=config["routed_scaling_factor"],
        context=config["max_position_embeddings"],
        rope_base=config["rope_theta"],
        norm_epsilon=config["rms_norm_eps"],
    )


def deepseek_gguf_fields(shape):
    """One key-value head: what attention reads of a position is its latent and the rotated key."""
    u32, f32 = formats.U32, formats.F32
    return {
        "vocab_size": (u32, shape.vocab),
        "context_length": (u32, shape.context),
        "embedding_length": (u32, shape.width),
        "block_count": (u32, shape.layers),
        "leading_dense_block_count": (u32, shape.dense_layers),
        "feed_forward_length": (u32, shape.inner),
        "expert_feed_forward_length": (u32, shape.expert_inner),
        "expert_count": (u32, shape.experts),
        "expert_used_count": (u32, shape.chosen),
        "expert_shared_count": (u32, 1),
        "expert_gating_func": (u32, 2),  # the sigmoid
        "expert_weights_norm": (formats.BOOL, True),
        "expert_weights_scale": (f32, shape.expert_scale),
        "attention.head_count": (u32, shape.heads),
        "attention.head_count_kv": (u32, 1),
        "attention.q_lora_rank": (u32, shape.q_latent),
        "attention.kv_lora_rank": (u32, shape.kv_latent),
        "attention.key_length": (u32, shape.kv_latent + shape.rotated),
        "attention.value_length": (u32, shape.kv_latent),
        "attention.key_length_mla": (u32, shape.plain + shape.rotated),
        "attention.value_length_mla": (u32, shape.value),
        "attention.layer_norm_rms_epsilon": (f32, shape.norm_epsilon),
        "rope.dimension_count": (u32, shape.rotated),
        "rope.freq_base": (f32, shape.rope_base),
    }


@dataclass(frozen=True)
class Kind:
    model: Callable[[Any], Any]  # from a shape
    shape: Callable[..., Any]
    config: Callable[[Any], dict]  # of a shape
    shape_of: Callable[[dict], Any]  # from a config
    gguf_architecture: str
    gguf_fields: Callable[[Any], dict]  # of a shape, without the architecture before each key
    naming: Any  # the module that names its tensors in GGUF

    def fresh(self):
        return self.model(self.shape())


MODELS = {
    "demo-arith": Kind(llama.Llama, llama.Shape, llama_config, llama_shape,
                       "llama", llama_gguf_fields, naming),
    "demo-mla": Kind(deepseek.DeepSeek, deepseek.Shape, deepseek_config, deepseek_shape,
                     "deepseek2", deepseek_gguf_fields, naming_deepseek),
}
BY_TYPE = {"llama": "demo-arith", "deepseek_v3": "demo-mla"}  # config.json's model_type
