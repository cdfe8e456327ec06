"""Random tiny configurations of each family, of settings that its published models vary.

A family is a function from a generator to a config.json as it was first published: rope_scaling beside
rope_theta, no null where it can be left out. fuzz_families.py spells some of them otherwise.
"""

import model_cases


def some(r, **choices):
    return {key: r.choice(values) for key, values in choices.items()}


def odds(r, chance, **settings):
    return settings if r.random() < chance else {}


def shape(r):
    """Sizes that all have; a head is hidden_size / heads unless something says another size."""
    heads = r.choice([2, 3, 4, 6, 8])
    return {
        "hidden_size": heads * r.choice([8, 12, 16, 24] if heads < 6 else [8, 12, 16]),
        "num_attention_heads": heads,
        "num_key_value_heads": r.choice([n for n in range(1, heads + 1) if heads % n == 0]),
        "num_hidden_layers": r.randint(2, 5),
        "intermediate_size": r.choice([32, 64, 96, 100, r.randint(20, 130)]),
        "vocab_size": r.randint(60, 300),
        "hidden_act": "silu",
        "bos_token_id": 1,
        "pad_token_id": 0,
        "eos_token_id": r.choice([2, [2, 3]]),
        "max_position_embeddings": r.choice([128, 256, 1000]),
        "rms_norm_eps": r.choice([1e-5, 1e-6, 1e-3]),
        "tie_word_embeddings": r.random() < 0.5,
        "rope_theta": r.choice([10000, 10000.0, 500000.0, 1e6, 123.0]),
    }


def head_dim(r, c):
    return {"head_dim": r.choice([c["hidden_size"] // c["num_attention_heads"], 8, 16, 20, 32])}


def scaling(r, kinds):
    """What scales positions, with what its kind may have beside a factor; or None."""
    kind = r.choice(kinds)
    if kind is None:
        return None
    if kind in ("linear", "dynamic"):
        return {"rope_type": kind} | some(r, factor=[2, 4.0, 8.0, 1.5])
    s = {"rope_type": kind} | some(r, factor=[2.0, 4.0, 8, 32.0], original_max_position_embeddings=[16, 32, 64])
    if kind == "llama3":
        return s | some(r, low_freq_factor=[1, 1.0, 2.0], high_freq_factor=[4.0, 8])
    options = some(r, beta_fast=[32, 16.0, 4.0], beta_slow=[1, 0.5], attention_factor=[0.8, 1.25])
    options["truncate"] = r.random() < 0.5
    for key, value in options.items():
        s |= odds(r, 0.35, **{key: value})
    s |= odds(r, 0.3, **some(r, mscale=[1.0, 0.707], mscale_all_dim=[1.0, 0.707]))
    return s | odds(r, 0.1, mscale=1.0) | odds(r, 0.1, mscale_all_dim=1.0)


def plain(r, *kinds, own_heads=True):
    c = shape(r)
    if own_heads and r.random() < 0.6:
        c |= head_dim(r, c)
    return c | {"rope_scaling": scaling(r, [None, None, *kinds])}


SCALED = ("linear", "llama3", "yarn")
WINDOWS = [4, 16, 33]


def mixed(r, c, kind, other="full_attention"):
    """A kind for each layer, one at least of the other."""
    kinds = [r.choice([kind, other]) for _ in range(c["num_hidden_layers"])]
    kinds[r.randrange(len(kinds))] = other
    return {"layer_types": kinds}


def sliding(r, c, chance=0.5, **otherwise):
    return mixed(r, c, "sliding_attention") if r.random() < chance else some(r, **otherwise)


def experts(r, count="num_experts"):
    number = r.randint(3, 9)
    return {count: number, "num_experts_per_tok": r.randint(1, min(4, number))}


def llama(r):
    c = plain(r, *SCALED, "dynamic")
    return c | some(r, attention_bias=[False, False, True], mlp_bias=[False, False, True], pretraining_tp=[1, 2])


def mistral(r):
    return plain(r, *SCALED) | some(r, sliding_window=[None, *WINDOWS])


def ministral(r):
    c = plain(r, *SCALED) | some(r, sliding_window=WINDOWS)
    return c | head_dim(r, c) | sliding(r, c, 0.7)


def ministral3(r):
    c = mistral(r)
    del c["rope_scaling"], c["rope_theta"]
    rope = scaling(r, ["yarn"]) | {"type": "yarn", "rope_theta": 1e4} | some(r, llama_4_scaling_beta=[0.1, 0.3])
    return c | head_dim(r, c) | {"rope_parameters": rope}


def mixtral(r):
    return mistral(r) | experts(r, "num_local_experts")


def qwen2(r):
    c = plain(r, *SCALED, own_heads=False) | some(r, use_sliding_window=[False, True], sliding_window=[None, 8, 16])
    c["max_window_layers"] = r.choice([0, 1, c["num_hidden_layers"], 28])
    return c | (sliding(r, c, 0.3) if c["use_sliding_window"] and c["sliding_window"] else {})


def qwen3(r):
    c = qwen2(r)
    return c | head_dim(r, c) | {"attention_bias": False}


def qwen2_moe(r):
    c = qwen2(r) | {"use_sliding_window": False} | experts(r)
    c |= some(r, moe_intermediate_size=[16, 24], shared_expert_intermediate_size=[24, 40])
    return c | some(r, norm_topk_prob=[False, True], qkv_bias=[False, True], mlp_only_layers=[[]], decoder_sparse_step=[1])


def sections(r, c):
    """Of pictures: text has one number for all of them."""
    size = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"]) // 2
    first, second = size // 4, size // 8
    return {"rope_scaling": {"rope_type": "default", "mrope_section": [size - first - second, first, second]}}


def qwen2_5_vl_text(r):
    c = qwen2(r)
    return modern(c | sections(r, c))


def qwen3_vl_text(r):
    c = plain(r) | some(r, head_dim=[16, 32])
    return modern(c | sections(r, c))


def qwen3_vl_moe_text(r):
    return qwen3_vl_text(r) | experts(r) | some(r, moe_intermediate_size=[16, 24], norm_topk_prob=[True])


def qwen3_moe(r):
    c = qwen3(r) | experts(r, r.choice(["num_experts", "num_local_experts"]))
    c |= some(r, moe_intermediate_size=[16, 24, 40], norm_topk_prob=[False, True], mlp_only_layers=[[]])
    c.pop("layer_types", None)
    return c | {"decoder_sparse_step": 1} | ({"max_window_layers": 0} if c["use_sliding_window"] else {})


def hybrid(r):
    c = plain(r, "yarn", own_heads=False) | some(r, head_dim=[16, 32, 48], partial_rotary_factor=[0.25, 0.5, 1.0])
    if not c["rope_scaling"] and r.random() < 0.5:  # of pictures: text has one number for all sections
        c["rope_scaling"] = {"rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    keys = r.choice([1, 2, 3])
    c |= {"linear_num_key_heads": keys, "linear_num_value_heads": keys * r.choice([1, 2, 3])}
    c |= some(r, linear_key_head_dim=[8, 16], linear_value_head_dim=[8, 16, 24], linear_conv_kernel_dim=[2, 4])
    if r.random() < 0.5:
        return c | mixed(r, c, "linear_attention")
    return c | some(r, num_hidden_layers=[4, 5])  # every fourth layer attends


def shared_experts(r):
    return experts(r) | some(r, moe_intermediate_size=[16, 20], shared_expert_intermediate_size=[24])


def qwen3_next(r):
    c = hybrid(r) | shared_experts(r) | some(r, norm_topk_prob=[False, True])
    return c | {"decoder_sparse_step": 1, "mlp_only_layers": []}


def qwen3_5_text(r):
    return modern(hybrid(r))


def qwen3_5_moe_text(r):
    c = modern(hybrid(r)) | shared_experts(r)
    del c["intermediate_size"]
    return c


def gemma(r):
    c = plain(r, *SCALED) | head_dim(r, {"hidden_size": 16, "num_attention_heads": 1})
    c |= some(r, hidden_act=["gelu", "gelu_pytorch_tanh"], rope_theta=[10000.0])
    c |= odds(r, 0.3, hidden_activation="gelu_pytorch_tanh")
    return c | {"tie_word_embeddings": True} | some(r, use_bidirectional_attention=[None, False])


def gemma2(r):
    c = plain(r, "linear", own_heads=False)
    del c["hidden_act"]
    c |= head_dim(r, c) | {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
    c |= some(r, query_pre_attn_scalar=[16, 24, 256], sliding_window=WINDOWS, final_logit_softcapping=[3.0, None])
    return c | some(r, attn_logit_softcapping=[2.0, 50.0, None]) | sliding(r, c, 0.2)


def gemma3_text(r):
    c = gemma2(r) | some(r, rope_local_base_freq=[1000.0, 10000.0], final_logit_softcapping=[None, 4.0])
    c |= {"attn_logit_softcapping": None}
    return c if "layer_types" in c else c | some(r, sliding_window_pattern=[2, 3, 6])


def gemma4_unified_text(r):
    c = shape(r) | some(r, head_dim=[8, 16, 20, 32], sliding_window=WINDOWS, final_logit_softcapping=[None, 4.0])
    del c["hidden_act"], c["rope_theta"]
    c |= {"hidden_activation": "gelu_pytorch_tanh"} | odds(r, 0.9, **some(r, global_head_dim=[8, 16, 24, 64]))
    c |= odds(r, 0.7, **mixed(r, c, "sliding_attention"))
    c |= odds(r, 0.7, **some(r, attention_k_eq_v=[False, True]))
    c |= odds(r, 0.7, num_global_key_value_heads=c["num_attention_heads"] if r.random() < 0.3 else 1)
    c |= odds(r, 0.5, **some(r, use_bidirectional_attention=[None, "vision"]))
    whole = {"rope_type": "proportional"} | some(r, rope_theta=[1e6, 1000.0, 123.0])
    whole |= odds(r, 0.8, **some(r, partial_rotary_factor=[0.25, 0.5, 1.0])) | odds(r, 0.2, factor=8.0)
    sliding = {"rope_type": "default"} | some(r, rope_theta=[10000.0, 50.0])
    return c | odds(r, 0.8, rope_parameters={"full_attention": whole, "sliding_attention": sliding})


def gemma4_text(r):
    c = gemma4_unified_text(r) | {"vocab_size_per_layer_input": r.randint(60, 300)}
    c |= {"vocab_size": c["vocab_size_per_layer_input"]} | some(r, hidden_size_per_layer_input=[0, 0, 8, 12, 20])
    if r.random() < 0.4:
        c |= {"enable_moe_block": True, "moe_intermediate_size": r.choice([16, 24, 40])}
        c |= {"num_experts": r.randint(3, 9), "top_k_experts": r.randint(1, 3)}
    layers = c["num_hidden_layers"]
    kinds = c.get("layer_types") or ["sliding_attention"] * layers
    kinds = [*kinds[:-1], "full_attention"]
    enough = [own for own in range(1, layers) if set(kinds[:own]) == set(kinds)]
    if enough and c["hidden_size_per_layer_input"]:  # without, transformers cannot cut its rows
        c |= {"num_kv_shared_layers": layers - r.choice(enough)} | some(r, use_double_wide_mlp=[False, True])
    return c


def smollm3(r):
    c = plain(r, "yarn", "linear", own_heads=False) | some(r, no_rope_layer_interval=[2, 3, 4])
    c |= {"use_sliding_window": False, "sliding_window": None}
    return c | odds(r, 0.5, no_rope_layers=[r.randint(0, 1) for _ in range(c["num_hidden_layers"])])


def olmo2(r):
    return plain(r, *SCALED, own_heads=False)


def olmo3(r):
    c = plain(r, "yarn", own_heads=False) | some(r, sliding_window=WINDOWS, rope_theta=[500000])
    (c["rope_scaling"] or {}).pop("truncate", None)  # which transformers leaves unread for one of two
    return c | sliding(r, c)


def phi3(r):
    c = plain(r, own_heads=False) | some(r, sliding_window=[None, 16, 33], original_max_position_embeddings=[128])
    size = c["hidden_size"] // c["num_attention_heads"]
    c["partial_rotary_factor"] = r.choice([part for part in (1.0, 0.5, 0.75) if size * part % 2 == 0])
    if r.random() < 0.6:
        pairs = int(size * c["partial_rotary_factor"]) // 2
        c |= some(r, original_max_position_embeddings=[16, 128], max_position_embeddings=[256])
        lists = [[round(r.uniform(1, 9), 2) for _ in range(pairs)] for _ in range(2)]
        c["rope_scaling"] = some(r, type=["longrope", "su"]) | dict(zip(("short_factor", "long_factor"), lists))
        if c["rope_scaling"]["type"] == "su":  # where transformers 5 looks for it alone
            c["rope_scaling"]["original_max_position_embeddings"] = c["original_max_position_embeddings"]
    return c


def starcoder2(r):
    c = plain(r, *SCALED) | some(r, sliding_window=[None, *WINDOWS], use_bias=[True, True, False])
    c |= some(r, hidden_act=["gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu", "gelu_new"])
    return c | {"norm_epsilon": c.pop("rms_norm_eps")}


def arcee(r):
    c = plain(r, *SCALED) | {"hidden_act": "relu2"}
    return c | some(r, attention_bias=[False, False, True], mlp_bias=[False, False, True])


def apertus(r):
    c = plain(r, *SCALED) | {"hidden_act": "xielu"} | some(r, attention_bias=[False, False, True])
    if r.random() < 0.3:  # llama3, of a base of its own
        del c["rope_scaling"], c["rope_theta"]
    elif not c["rope_scaling"]:
        c = modern(c)
    return c | odds(r, 0.5, qk_norm=True, post_norm=False, mlp_bias=False)


def granite(r):
    c = plain(r, *SCALED, own_heads=False) | some(r, attention_multiplier=[0.1, 0.25], residual_multiplier=[0.22, 1.0])
    return c | some(r, embedding_multiplier=[12.0, 2, 1.5], logits_scaling=[8.0, 2, 0.5])


def granitemoe(r):
    return granite(r) | experts(r, "num_local_experts")


def granitemoeshared(r):
    return granitemoe(r) | some(r, shared_intermediate_size=[24, 40])


def mamba(r, inner, heads="mamba_n_heads", head_dim="mamba_d_head"):
    """Of heads that are so wide all together."""
    count = r.choice([n for n in (1, 2, 3, 4, 6, 8, 12, 16) if inner % n == 0 and inner // n <= 128])
    c = {heads: count, head_dim: inner // count} | some(r, mamba_d_state=[8, 12, 16, 33], mamba_d_conv=[2, 3, 4])
    c["mamba_n_groups"] = r.choice([n for n in (1, 2, 3, 4, 8) if count % n == 0])
    return c | {"mamba_conv_bias": r.random() < 0.7, "mamba_chunk_size": r.choice([4, 16, 256])}


def swash(r, c):
    """Most layers slide; in each there may be other positions, or none."""
    c |= {"rope_scaling": None} | some(r, sliding_window=WINDOWS) | sliding(r, c, 0.6)
    return c | odds(r, 0.5, layer_rope_theta=[r.choice([0, 500.0, 10000]) for _ in range(c["num_hidden_layers"])])


def granite_swa(r):
    return swash(r, granite(r))


def granitemoe_swa(r):
    return swash(r, granitemoeshared(r))


def granitemoehybrid(r):
    c = granitemoeshared(r) | odds(r, 0.5, num_local_experts=0, num_experts_per_tok=0)
    c |= some(r, position_embedding_type=["rope", "nope", None], mamba_expand=[1, 2, 3])
    c |= mamba(r, c["mamba_expand"] * c["hidden_size"]) | odds(r, 0.3, mamba_d_head="auto")
    kinds = r.choice([["attention"], ["attention", "mamba"], ["mamba"]])
    c["layer_types"] = [r.choice(kinds) for _ in range(c["num_hidden_layers"])]
    c["layer_types"][r.randrange(c["num_hidden_layers"])] = "attention"
    return c | odds(r, 0.3, time_step_limit=[0.0, float("inf")])


def falcon_h1(r):
    c = plain(r, *SCALED) | {"mamba_d_ssm": r.choice([None, 32, 48, 96]), "mamba_expand": r.choice([1, 2])}
    c |= mamba(r, c["mamba_d_ssm"] or c["mamba_expand"] * c["hidden_size"])
    c |= {"mamba_rms_norm": r.random() < 0.5, "mamba_norm_before_gate": r.random() < 0.5}
    for name in ("attention_in", "attention_out", "key", "ssm_in", "ssm_out", "lm_head", "embedding"):
        c[f"{name}_multiplier"] = round(r.uniform(0.5, 1.5), 3)
    c["ssm_multipliers"] = [round(r.uniform(0.5, 1.5), 3) for _ in range(5)]
    c["mlp_multipliers"] = [round(r.uniform(0.5, 1.5), 3) for _ in range(2)]
    for key, value in list(c.items()):
        if key.endswith(("_multiplier", "_multipliers")) and r.random() < 0.15:
            del c[key]
    return c | odds(r, 0.2, mamba_d_head="auto")


def nemotron_h(r):
    c = plain(r) | {"layer_norm_epsilon": r.choice([1e-5, 1e-6, 1e-3]), "tie_word_embeddings": False}
    for unknown in ("hidden_act", "rms_norm_eps", "rope_theta", "rope_scaling"):
        c.pop(unknown, None)
    inner = r.choice([32, 48, 64, 96])
    ours = mamba(r, inner, "mamba_num_heads", "mamba_head_dim")
    names = {"mamba_d_state": "ssm_state_size", "mamba_d_conv": "conv_kernel", "mamba_n_groups": "n_groups"}
    names |= {"mamba_conv_bias": "use_conv_bias", "mamba_chunk_size": "chunk_size"}
    c |= {names.get(key, key): value for key, value in ours.items()}
    kinds = r.choice([["M", "*", "-"], ["M", "E"], ["M", "*", "-", "E"], ["-", "*"]])
    letters = [r.choice(kinds) for _ in range(c["num_hidden_layers"] + 2)]
    letters[r.randrange(len(letters))] = "*"
    c |= {"num_hidden_layers": len(letters), "hybrid_override_pattern": "".join(letters)}
    if "E" in letters:
        groups = r.choice([1, 1, 2, 4])
        c |= {"n_routed_experts": 4 * groups * r.choice([1, 2]), "num_experts_per_tok": r.choice([1, 2, 3])}
        c |= {"n_group": groups, "topk_group": r.randint(1, groups), "n_shared_experts": 1}
        c |= some(r, moe_intermediate_size=[8, 24], moe_shared_expert_intermediate_size=[16, 40])
        c |= some(r, norm_topk_prob=[True, False], routed_scaling_factor=[1.0, 2.5])
    if r.random() < 0.4:
        words = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
        c["layers_block_type"] = [words[letter] for letter in letters]
        del c["hybrid_override_pattern"]
    return c | {"mlp_hidden_act": "relu2"} | odds(r, 0.3, time_step_limit=[0.0, float("inf")])


def cohere(r):
    c = plain(r, "linear", own_heads=False) | {"tie_word_embeddings": True, "use_qk_norm": False}
    return c | {"layer_norm_eps": c.pop("rms_norm_eps")} | some(r, logit_scale=[0.0625, 0.25, 0.8333])


def cohere2(r):
    c = cohere(r) | some(r, sliding_window=WINDOWS, rotary_pct=[1.0])
    return c | sliding(r, c, sliding_window_pattern=[2, 3, 4])


def lfm2(r):
    c = plain(r, own_heads=False) | some(r, conv_L_cache=[2, 3, 4], block_multiple_of=[8, 16, 256])
    c |= {"norm_eps": c.pop("rms_norm_eps"), "conv_bias": False}
    c |= some(r, block_auto_adjust_ff_dim=[False, True], block_ffn_dim_multiplier=[1.0, 1.3, 1])
    del c["hidden_act"]
    if r.random() < 0.5:
        c |= mixed(r, c, "conv")
    else:
        c |= odds(r, 0.7, full_attn_idxs=sorted(r.sample(range(c["num_hidden_layers"]), 2)))
    if r.random() < 0.5:
        c["tie_embedding"] = c.pop("tie_word_embeddings")
    return c | odds(r, 0.5, block_ff_dim=c["intermediate_size"])


def lfm3(r):
    c = plain(r) | head_dim(r, {"hidden_size": 16, "num_attention_heads": 1})
    del c["hidden_act"]
    c |= {"norm_eps": c.pop("rms_norm_eps"), "conv_bias": False} | some(r, conv_L_cache=[3, 7], sliding_window=WINDOWS)
    c |= some(r, use_attention_gate=[False, True], use_sandwich_norm=[False, True])
    del c["rope_scaling"], c["rope_theta"]
    full = {"rope_type": "proportional", "rope_theta": 10000.0} | some(r, partial_rotary_factor=[0.5, 1.0])
    kinds = ["conv", "sliding_attention", "full_attention"]
    kinds += [r.choice(kinds) for _ in range(c["num_hidden_layers"])]
    local = {"rope_type": "default", "rope_theta": 1000.0}
    c |= odds(r, 0.8, rope_parameters={"full_attention": full, "sliding_attention": local})
    return c | {"num_hidden_layers": len(kinds), "layer_types": kinds}


def lfm2_moe(r):
    c = {k: v for k, v in lfm2(r).items() if not k.startswith("block_") and k != "full_attn_idxs"}
    c |= experts(r) | some(r, norm_topk_prob=[False, True], use_expert_bias=[False, True], num_dense_layers=[0, 1, 2])
    return c | {"moe_intermediate_size": 24, "routed_scaling_factor": 1.0} | mixed(r, c, "conv")


def glm4(r):
    c = plain(r, "yarn") | some(r, attention_bias=[False, True], partial_rotary_factor=[0.5, 1.0])
    return c | some(r, head_dim=[8, 16, 32])


def glm4_moe(r):
    c = plain(r, "yarn") | some(r, attention_bias=[False, True], use_qk_norm=[False, True], head_dim=[8, 16, 32])
    c |= some(r, partial_rotary_factor=[0.5, 1.0], first_k_dense_replace=[0, 1], norm_topk_prob=[False, True])
    c |= some(r, routed_scaling_factor=[1.0, 2.5], n_shared_experts=[1, 2], num_nextn_predict_layers=[0, 1])
    groups, size = r.choice([1, 2, 4]), r.choice([2, 3, 4])
    c |= {"n_group": groups, "topk_group": r.randint(1, groups), "n_routed_experts": groups * size}
    c |= {"moe_intermediate_size": 24, "num_experts_per_tok": r.randint(1, c["topk_group"] * size)}
    return c | {"tie_word_embeddings": False}


def part_of_sections(r, c):
    """Sections of the part of a head that turns."""
    size = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    c["partial_rotary_factor"] = r.choice([part for part in (0.25, 0.5, 1.0) if size * part % 2 == 0])
    pairs = int(size * c["partial_rotary_factor"]) // 2
    first = r.randint(0, pairs)
    second = r.randint(0, pairs - first)
    return {"rope_scaling": {"rope_type": "default", "mrope_section": [first, second, pairs - first - second]}}


def glm4v_text(r):
    c = plain(r, own_heads=False)
    return modern(c | part_of_sections(r, c))


def glm4v_moe_text(r):
    c = glm4_moe(r) | some(r, attention_bias=[False, True])
    del c["use_qk_norm"], c["num_nextn_predict_layers"]
    return modern(c | part_of_sections(r, c))


def solar_open(r):
    c = glm4_moe(r) | {"first_k_dense_replace": 0, "partial_rotary_factor": 1.0}
    del c["use_qk_norm"], c["num_nextn_predict_layers"]
    return c


def minimax_m2(r):
    c = plain(r, "yarn") | experts(r, "num_local_experts") | some(r, head_dim=[16, 32]) | odds(r, 0.7, rotary_dim=8)
    c.pop("norm_topk_prob", None)
    c.pop("moe_intermediate_size", None)
    return c | some(r, use_qk_norm=[True], use_routing_bias=[True], qk_norm_type=["per_layer"])


def ernie4_5(r):
    return plain(r, *SCALED) | head_dim(r, {"hidden_size": 16, "num_attention_heads": 1}) | some(r, use_bias=[False, True])


def ernie4_5_moe(r):
    c = ernie4_5(r) | {"use_bias": False, "moe_intermediate_size": 24}
    e = experts(r, "moe_num_experts")
    c["moe_k"] = e.pop("num_experts_per_tok")
    c |= e
    c |= some(r, moe_num_shared_experts=[0, 1, 2], moe_layer_interval=[1, 2], moe_layer_start_index=[0, 1])
    return c | some(r, moe_layer_end_index=[-1, c["num_hidden_layers"] - 1, 1])


def olmoe(r):
    c = plain(r, *SCALED, own_heads=False) | experts(r)
    return c | some(r, norm_topk_prob=[False, True], clip_qkv=[None], intermediate_size=[16, 24])


def dots1(r):
    c = plain(r, "yarn") | some(r, head_dim=[16, 32], first_k_dense_replace=[0, 1], norm_topk_prob=[False, True])
    c |= some(r, routed_scaling_factor=[1.0, 2.5], n_shared_experts=[1, 2], sliding_window=[None, *WINDOWS])
    groups, size = r.choice([1, 2, 4]), r.choice([2, 3, 4])
    c |= {"n_group": groups, "topk_group": r.randint(1, groups), "n_routed_experts": groups * size}
    c |= {"moe_intermediate_size": 24, "num_experts_per_tok": r.randint(1, c["topk_group"] * size)}
    return c | some(r, max_window_layers=[0, 1, 62], scoring_func=["noaux_tc", "sigmoid"])


def afmoe(r):
    c = plain(r, "yarn", own_heads=False) | experts(r) | some(r, head_dim=[16, 32], sliding_window=WINDOWS)
    c |= some(r, moe_intermediate_size=[16, 24], num_shared_experts=[1, 2], num_dense_layers=[0, 1], route_norm=[True])
    c |= some(r, route_scale=[1.0, 2.5], mup_enabled=[False, True])
    return c | sliding(r, c, global_attn_every_n_layers=[2, 3, 4])


def mellum(r):
    c = modern(plain(r, "yarn", own_heads=False) | experts(r), by_layer=True) | some(r, head_dim=[16, 32])
    c |= some(r, sliding_window=WINDOWS, moe_intermediate_size=[16, 24], norm_topk_prob=[False, True])
    c |= odds(r, 0.3, mlp_layer_types=[r.choice(["dense", "sparse"]) for _ in range(c["num_hidden_layers"])])
    return c | mixed(r, c, "sliding_attention")


def youtu(r):
    c = {k: v for k, v in latent(r).items() if not k.startswith(("moe_", "n_", "num_experts"))}
    return c | {"pad_token_id": None}  # whose row transformers makes zeros


def kimi_linear(r):
    c = {k: v for k, v in latent(r).items() if not k.startswith("rope_")} | some(r, q_lora_rank=[None, 16])
    layers = c["num_hidden_layers"]
    one = r.randrange(layers)
    full = [i + 1 for i in range(layers) if i == one or r.random() < 0.3]
    c["tie_word_embeddings"] = False
    heads = {"num_heads": r.choice([1, 3, 4]), "head_dim": r.choice([8, 12, 20]), "short_conv_kernel_size": r.choice([2, 4])}
    kinds = {"full_attn_layers": full, "kda_layers": [i + 1 for i in range(layers) if i + 1 not in full]}
    if r.random() < 0.7:  # as published
        c = {model_cases.OTHERWISE.get(field, field): value for field, value in c.items()}
        c |= {"linear_attn_config": heads | kinds, "num_expert_group": c.pop("n_group"), "pad_token_id": 0}
        return c | odds(r, 0.5, mla_use_nope=True, moe_router_activation_func="sigmoid", moe_layer_freq=1)
    c["num_local_experts"] = c.pop("n_routed_experts")
    c |= {f"linear_{name}": heads[name] for name in ("num_heads", "head_dim")} | {"pad_token_id": 0}
    c["layer_types"] = ["full_attention" if i + 1 in full else "linear_attention" for i in range(layers)]
    return c | {"linear_conv_kernel_dim": heads["short_conv_kernel_size"]}


def hunyuan_v1_dense(r):
    c = plain(r, "linear") | {"use_qk_norm": True}
    if r.random() < 0.5:
        c["rope_scaling"] = {"rope_type": "dynamic", "factor": 1.0} | some(r, alpha=[50.0, 1000.0])
    return c if "head_dim" in c else c | head_dim(r, c)


def hunyuan_v1_moe(r):
    c = hunyuan_v1_dense(r)
    layers, size = c["num_hidden_layers"], c["intermediate_size"]
    e = experts(r)
    used = e.pop("num_experts_per_tok")
    c |= e | {"moe_topk": r.choice([used, [used] * layers])}
    return c | odds(r, 0.5, moe_intermediate_size=[size] * layers, num_shared_expert=[1] * layers)


def seed_oss(r):
    c = plain(r, *SCALED)
    flags = dict.fromkeys(("attention_bias", "attention_out_bias", "mlp_bias"), [False, True])
    return c | head_dim(r, c) | some(r, **flags)


def exaone4(r):
    c = plain(r, *SCALED) | some(r, sliding_window=[None, 4, 16])
    if not c["sliding_window"]:
        return c | {"layer_types": ["full_attention"] * c["num_hidden_layers"]}
    return c | sliding(r, c, sliding_window_pattern=[2, 3, 4])


def exaone_moe(r):
    c = plain(r, *SCALED) | some(r, sliding_window=[4, 16], moe_intermediate_size=[16, 24], num_shared_experts=[1, 2])
    groups, size = r.choice([1, 2, 4]), r.choice([2, 3, 4])
    c |= {"n_group": groups, "topk_group": r.randint(1, groups), "num_experts": groups * size}
    c |= {"num_experts_per_tok": r.randint(1, c["topk_group"] * size)} | some(r, norm_topk_prob=[False, True])
    c |= some(r, first_k_dense_replace=[0, 1], routed_scaling_factor=[1.0, 2.5], scoring_func=["sigmoid"])
    return c | sliding(r, c, sliding_window_pattern=[2, 3, 4])


def internlm3(r):
    c = plain(r, *SCALED, "dynamic")
    bias = r.random() < 0.4
    names = r.choice([("qkv_bias", "bias"), ("attention_bias", "mlp_bias")])
    return c | dict.fromkeys(names, bias)


def stablelm(r):
    c = plain(r, "yarn", "linear", own_heads=False) | some(r, layer_norm_eps=[1e-5, 1e-3])
    del c["rms_norm_eps"]
    c |= {"hidden_size": c["num_attention_heads"] * r.choice([8, 16, 24])}
    c |= some(r, partial_rotary_factor=[0.25, 0.5, 1.0])
    return c | some(r, use_qkv_bias=[False, True], use_parallel_residual=[False, True], qk_layernorm=[False])


def gpt_oss(r):
    c = plain(r, "yarn") | experts(r, "num_local_experts") | some(r, sliding_window=[4, 16])
    return c | head_dim(r, c) | some(r, swiglu_limit=[7.0], attention_bias=[False, True]) | sliding(r, c)


def latent(r):
    c = shape(r)
    c |= some(r, kv_lora_rank=[16, 24], q_lora_rank=[16, 24], qk_nope_head_dim=[8, 16], v_head_dim=[8, 12, 32])
    c |= some(r, first_k_dense_replace=[0, 1], n_shared_experts=[1, 2], norm_topk_prob=[False, True])
    c |= some(r, routed_scaling_factor=[1.0, 2.5], n_group=[1, 2, 4], moe_intermediate_size=[24])
    groups, size = c["n_group"], r.choice([2, 3, 4])
    c |= {"n_routed_experts": groups * size, "topk_group": r.randint(1, groups), "qk_rope_head_dim": 8}
    c |= {"num_experts_per_tok": r.randint(1, c["topk_group"] * size), "attention_bias": False}
    return c | {"num_key_value_heads": c["num_attention_heads"], "rope_scaling": scaling(r, [None, "yarn", "yarn"])}


def deepseek_v2(r):
    c = latent(r) | some(r, q_lora_rank=[None, 16]) | {"scoring_func": "softmax", "norm_topk_prob": False}
    return c | {"topk_method": "group_limited_greedy" if c["n_group"] > 1 else "greedy", "moe_layer_freq": 1}


def deepseek_v3(r):
    c = latent(r) | model_cases.SIGMOID | {"tie_word_embeddings": False, "moe_layer_freq": 1}
    return c | some(r, num_nextn_predict_layers=[0, 1]) | odds(r, 0.2, rope_interleave=r.random() < 0.5)


def deepseek_v32(r):
    c = deepseek_v3(r) | some(r, index_head_dim=[16, 24], index_topk=[8])
    c.pop("rope_interleave", None)
    return c | some(r, index_n_heads=[16, 24])  # of few heads many scores are equal, at zero


def glm_moe_dsa(r):
    c = deepseek_v32(r) | odds(r, 0.5, index_topk_freq=1) | odds(r, 0.3, indexer_rope_interleave=True)
    c.pop("num_nextn_predict_layers")
    return c | odds(r, 0.3, indexer_types=["full"] * c["num_hidden_layers"])


def glm4_moe_lite(r):
    return latent(r) | {"topk_method": "noaux_tc", "first_k_dense_replace": 1} | odds(r, 0.3, rope_interleave=True)


def mistral4(r):
    c = latent(r) | {"n_group": 1, "topk_group": 1, "rope_parameters": ministral3(r)["rope_parameters"]}
    del c["rope_scaling"], c["rope_theta"]
    return c | {"num_experts_per_tok": r.randint(1, c["n_routed_experts"])} | some(r, first_k_dense_replace=[0, 1])


def bert(r):
    c = shape(r)
    for key in ("num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings"):
        del c[key]
    c |= some(r, hidden_act=["gelu", "gelu", "gelu_new", "silu"], layer_norm_eps=[1e-12, 1e-5, 1e-3])
    return c | {"type_vocab_size": 2, "position_embedding_type": "absolute"}


def xlm_roberta(r):
    return bert(r) | some(r, pad_token_id=[0, 1], type_vocab_size=[1])


def nomic_bert(r):
    rope = {"rope_type": "default"} | some(r, rope_theta=[1000.0, 10000.0])
    return bert(r) | {"hidden_act": "silu", "eos_token_id": 2, "rope_parameters": rope}


def modernbert(r):
    c = bert(r) | {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    del c["position_embedding_type"], c["layer_norm_eps"], c["type_vocab_size"]
    c |= some(r, norm_eps=[1e-5, 1e-3], local_attention=[8, 16, 128]) | {"hidden_activation": c.pop("hidden_act")}
    if r.random() < 0.5:
        thetas = c.pop("global_rope_theta"), c.pop("local_rope_theta")
        ropes = ({"rope_type": "default", "rope_theta": theta} for theta in thetas)
        c["rope_parameters"] = dict(zip(("full_attention", "sliding_attention"), ropes))
    c |= some(r, **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias"), [False, True]))
    return c | sliding(r, c, 0.4, global_attn_every_n_layers=[2, 3])


def gemma_embedding(r):
    return gemma3_text(r) | some(r, use_bidirectional_attention=[False, True], final_logit_softcapping=[None])


def modern(c, by_layer=False):
    """The same as transformers 5 spells it."""
    rope = (c.pop("rope_scaling", None) or {"rope_type": "default"}) | {"rope_theta": c.pop("rope_theta", 1e4)}
    if "partial_rotary_factor" in c:
        rope["partial_rotary_factor"] = c.pop("partial_rotary_factor")
    if by_layer:
        local = {"rope_type": "default", "rope_theta": c.pop("rope_local_base_freq", 500000)}
        rope = {"full_attention": rope, "sliding_attention": local}
    return c | {"rope_parameters": rope}


DECODERS = {f.__name__: f for f in (
    llama, mistral, ministral, ministral3, mixtral, qwen2, qwen3, qwen3_moe, qwen3_next, qwen3_5_text,
    qwen3_5_moe_text, gemma, gemma2, gemma3_text, gemma4_text, gemma4_unified_text, smollm3, olmo2, olmo3, phi3, starcoder2, arcee, apertus, granite, granitemoe, granitemoeshared,
    granitemoehybrid, nemotron_h, falcon_h1, cohere, cohere2, lfm2, lfm2_moe, lfm3, granite_swa, granitemoe_swa, glm4, glm4_moe, minimax_m2, ernie4_5,
    ernie4_5_moe, olmoe, qwen2_moe, dots1, afmoe, mellum, youtu, kimi_linear, hunyuan_v1_dense, hunyuan_v1_moe, seed_oss, exaone4, gpt_oss, deepseek_v2, deepseek_v3,
    deepseek_v32, glm4_moe_lite, mistral4, glm_moe_dsa, solar_open, exaone_moe, internlm3, stablelm)}  # fmt: skip
# Of models that take pictures alone.
TEXTS = {f.__name__: f for f in (
    qwen2_5_vl_text, qwen3_vl_text, qwen3_vl_moe_text, glm4v_text, glm4v_moe_text)}  # fmt: skip
# Of a model without a head: how transformers calls it, its class, and what its rows are pooled to.
ENCODERS = {
    "bert": (bert, "bert", "BertModel", "mean"),
    "xlm_roberta": (xlm_roberta, "xlm-roberta", "XLMRobertaModel", "mean"),
    "nomic_bert": (nomic_bert, "nomic_bert", "NomicBertModel", "mean"),
    "modernbert": (modernbert, "modernbert", "ModernBertModel", "first"),
    "gemma_embedding": (gemma_embedding, "gemma3_text", "Gemma3TextModel", "mean"),
    "qwen3_model": (qwen3, "qwen3", "Qwen3Model", "last"),
    "qwen2_model": (qwen2, "qwen2", "Qwen2Model", "last"),
    "mistral_model": (mistral, "mistral", "MistralModel", "last"),
    "gemma2_model": (gemma2, "gemma2", "Gemma2Model", "last"),
    "llama_model": (llama, "llama", "LlamaModel", "last"),
}
# Of models that take pictures, too: their texts, and what looks at pictures.
WRAPPERS = {
    "gemma3": (["gemma3_text"], "siglip_vision_model"),
    "gemma4": (["gemma4_text"], "gemma4_vision"),
    "mistral3": (["mistral", "ministral3", "mistral4"], "pixtral"),
    "qwen3_5": (["qwen3_5_text"], "qwen3_5_vision"),
    "qwen3_5_moe": (["qwen3_5_moe_text"], "qwen3_5_moe_vision"),
    "aya_vision": (["cohere2"], "siglip_vision_model"),
    "cohere2_vision": (["cohere2"], "siglip_vision_model"),
    "exaone4_5": (["exaone4"], "exaone4_5_vision"),
    "idefics3": (["llama"], "idefics3_vision"),
    "internvl": (["qwen2", "qwen3", "qwen3_moe", "llama"], "internvl_vision"),
    "lfm2_vl": (["lfm2"], "siglip2_vision_model"),
    "lfm3_vl": (["lfm3"], "lfm3_vl_vision"),
    "llava": (["llama", "mistral", "qwen2"], "clip_vision_model"),
    "smolvlm": (["llama"], "smolvlm_vision"),
    "glm4v": (["glm4v_text"], "glm4v_vision"),
    "glm4v_moe": (["glm4v_moe_text"], "glm4v_moe_vision"),
    "glm46v": (["glm4v_text", "glm4v_moe_text"], "glm4v_vision"),
    "qwen2_5_vl": (["qwen2_5_vl_text"], "qwen2_5_vl_vision"),
    "qwen3_vl": (["qwen3_vl_text"], "qwen3_vl_vision"),
    "qwen3_vl_moe": (["qwen3_vl_moe_text"], "qwen3_vl_moe_vision"),
}
