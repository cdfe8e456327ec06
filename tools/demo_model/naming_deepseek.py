"""How GGUF (llama.cpp's architecture deepseek2) names and lays out the tensors that Hugging Face's
DeepseekV3ForCausalLM names. It has no place for the drafting layer.

The latent's projection is two tensors: keys, transposed so that they apply to the query, and
values. An expert tensor of a layer holds all of its experts."""

import numpy as np

NAMES = {
    "self_attn.q_a_proj.weight": "attn_q_a.weight",
    "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
    "self_attn.q_b_proj.weight": "attn_q_b.weight",
    "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
    "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
}
OUTSIDE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
LATENT = "self_attn.kv_b_proj.weight"
EXPERT_NAMES = {
    "gate_proj": "ffn_gate_exps",
    "up_proj": "ffn_up_exps",
    "down_proj": "ffn_down_exps",
}


def to_gguf(tensors, shape):
    result = {gguf: tensors[name] for name, gguf in OUTSIDE.items()}
    for number in range(shape.layers):
        layer, block = f"model.layers.{number}.", f"blk.{number}."
        for name, gguf in NAMES.items():
            if layer + name in tensors:
                result[block + gguf] = tensors[layer + name]
        latent = tensors[layer + LATENT].reshape(shape.heads, -1, shape.kv_latent)
        keys, values = np.split(latent, [shape.plain], axis=1)
        result[block + "attn_k_b.weight"] = np.ascontiguousarray(keys.swapaxes(1, 2))
        result[block + "attn_v_b.weight"] = np.ascontiguousarray(values)
        if number >= shape.dense_layers:
            for part, gguf in EXPERT_NAMES.items():
                result[f"{block}{gguf}.weight"] = np.stack(
                    [tensors[f"{layer}mlp.experts.{each}.{part}.weight"]
                     for each in range(shape.experts)])
    return result


def from_gguf(tensors, names, shape):
    """The tensors of a GGUF file under the given Hugging Face names and in their layout, but none
    of the drafting layer."""
    result = {}
    for name in names:
        if name in OUTSIDE:
            result[name] = tensors[OUTSIDE[name]]
            continue
        layer, part = name[len("model.layers.") :].split(".", 1)
        block = f"blk.{layer}."
        if int(layer) >= shape.layers:
            continue
        if part in NAMES:
            result[name] = tensors[block + NAMES[part]]
        elif part == LATENT:
            keys = tensors[block + "attn_k_b.weight"].swapaxes(1, 2)
            both = np.concatenate((keys, tensors[block + "attn_v_b.weight"]), axis=1)
            result[name] = both.reshape(-1, shape.kv_latent)
        else:
            _, _, number, projection, _ = part.split(".")  # mlp.experts.E.gate_proj.weight
            stacked = tensors[f"{block}{EXPERT_NAMES[projection]}.weight"]
            result[name] = stacked[int(number)]
    return result
