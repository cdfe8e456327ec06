"""How GGUF names and lays out the tensors that Hugging Face's LlamaForCausalLM names."""

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
OUTSIDE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}


def gguf_name(name):
    if name in OUTSIDE:
        return OUTSIDE[name]
    layer, part = name[len("model.layers.") : -len(".weight")].split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.weight"


def heads_rotated(name, shape):
    """The number of heads in a projection to which RoPE is applied; 0 for every other tensor."""
    if name.endswith("q_proj.weight"):
        return shape.heads
    return shape.kv_heads if name.endswith("k_proj.weight") else 0


def interleaved(matrix, heads):
    """Rows of each head from (first halves, second halves) to (pair, pair, ...)."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, -1, columns).swapaxes(1, 2).reshape(rows, columns)


def halved(matrix, heads):
    """The inverse of interleaved()."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, -1, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def to_gguf(tensors, shape):
    result = {}
    for name, values in tensors.items():
        heads = heads_rotated(name, shape)
        result[gguf_name(name)] = interleaved(values, heads) if heads else values
    return result


def from_gguf(tensors, names, shape):
    """The tensors of a GGUF file under the given Hugging Face names and in their layout."""
    result = {}
    for name in names:
        values, heads = tensors[gguf_name(name)], heads_rotated(name, shape)
        result[name] = halved(values, heads) if heads else values
    return result
