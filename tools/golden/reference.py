"""A second opinion on the golden models: their forward pass in numpy, float64 throughout.

Run alone it checks the committed cases of families that it knows: the logits and greedy ids must
agree, and they must stop agreeing once a feature of the model (rope scaling, window, q/k norms,
...) is taken away, so that a runtime which forgets the feature cannot pass. Needs numpy only.
"""

import json
import math
import pathlib
import sys

import numpy as np

MODELS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "models"


def read_e4m3(bits):
    exponent, fraction = bits >> 3 & 15, bits & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    return np.where(bits & 128, -size, size).astype(np.float32)


def spread(values, shape, block):
    """A value for each block of rows and columns, for each element."""
    return values.repeat(block[0], 0).repeat(block[1], 1)[: shape[0], : shape[1]]


def load_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin : 8 + size + end]
        if entry["dtype"] == "BF16":  # the upper half of a float32
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        elif entry["dtype"] == "F8_E4M3":
            values = read_e4m3(np.frombuffer(raw, np.uint8).astype(int))
        elif entry["dtype"] == "F8_E8M0":
            values = np.exp2(np.frombuffer(raw, np.uint8) - 127.0)
        else:
            kinds = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "I8": "i1"}
            values = np.frombuffer(raw, kinds[entry["dtype"]])
        tensors[name] = values.astype(np.float64).reshape(entry["shape"])
    return tensors


def scaled(weight, scale):
    """DeepSeek-V4's: pairs of E2M1 with a scale for 32 columns, or E4M3 with one for 128 x 128."""
    if scale.shape == (weight.shape[0], weight.shape[1] // 16):
        pairs = weight.astype(np.int8).view(np.uint8)
        codes = np.stack((pairs & 15, pairs >> 4), -1).reshape(len(pairs), -1)
        values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
        numbers = np.where(codes & 8, -1, 1) * values[codes & 7]
        return spread(scale, numbers.shape, (1, 32)) * numbers
    return spread(scale, weight.shape, (128, 128)) * weight


def load_model(folder):
    config = json.loads((folder / "config.json").read_text())
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights |= load_safetensors(path)
    for name in [name for name in weights if name.endswith(".scale")]:
        weight = name.removesuffix("scale") + "weight"
        if weight not in weights:  # Gemma 4's routers have a scale by itself
            continue
        weights[weight] = scaled(weights[weight], weights.pop(name))
    return config, weights


def rope(config):
    """The rope parameters in the newer spelling, whichever the config uses."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    parameters.setdefault("rope_theta", config.get("rope_theta", 10000.0))
    parameters.setdefault("rope_type", parameters.pop("type", "default"))
    return parameters


def mscale(factor, weight):
    """What YaRN multiplies with; latent attention has it once more in its scale."""
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def query_scale(config, positions):
    """What Ministral 3 and Mistral 4 multiply the query of a position with."""
    parameters = rope(config)
    beta = parameters.get("llama_4_scaling_beta", 0)
    original = parameters.get("original_max_position_embeddings", 1)
    return 1 + beta * np.log(1 + np.floor(np.arange(positions) / original))


def rope_frequencies(config, head_dim):
    """Angle per position of each dimension pair, and the factor on cos and sin."""
    parameters = rope(config)
    kind, theta = parameters["rope_type"], parameters["rope_theta"]
    pair = np.arange(head_dim // 2)
    plain = theta ** (-2.0 * pair / head_dim)
    if kind == "default":
        return plain, 1.0
    factor = parameters["factor"]
    if kind == "linear":
        return plain / factor, 1.0
    original = parameters["original_max_position_embeddings"]
    if kind == "llama3":
        turns = original * plain / (2 * math.pi)  # turns within the original context
        low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
        keep = np.clip((turns - low) / (high - low), 0, 1)
        return plain * (keep + (1 - keep) / factor), 1.0
    if kind == "yarn":

        def pair_that_turns(count):
            return head_dim * math.log(original / (count * 2 * math.pi)) / (2 * math.log(theta))

        low = max(math.floor(pair_that_turns(parameters.get("beta_fast", 32))), 0)
        high = min(math.ceil(pair_that_turns(parameters.get("beta_slow", 1))), head_dim - 1)
        keep = 1 - np.clip((pair - low) / max(high - low, 0.001), 0, 1)
        scale = parameters.get("attention_factor") or mscale(factor, parameters.get("mscale", 1))
        scale /= mscale(factor, parameters.get("mscale_all_dim", 0))
        return plain * (keep + (1 - keep) / factor), scale
    raise ValueError(f"rope_type {kind}")


def rms_norm(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def rotate(x, cos, sin):
    """x: [heads, positions, head_dim], its halves being the two parts of each pair."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def window_of(config):
    if config["model_type"] in ("mistral", "mixtral"):
        return config.get("sliding_window")
    return None  # Qwen configs name a window too, and switch it off with use_sliding_window


def expert_weights(config, logits):
    """[positions, experts]: the weight of each expert that a position uses, 0 for the others."""
    chance = np.exp(logits - logits.max(-1, keepdims=True))
    chance /= chance.sum(-1, keepdims=True)
    order = np.argsort(-logits, -1, kind="stable")[:, : config["num_experts_per_tok"]]
    used = np.zeros_like(chance)
    np.put_along_axis(used, order, np.take_along_axis(chance, order, -1), -1)
    if config.get("norm_topk_prob", config["model_type"] == "mixtral"):
        used /= used.sum(-1, keepdims=True)
    return used


def forward(config, weights, ids):
    """Logits [positions, vocab]."""
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    epsilon = config["rms_norm_eps"]
    count = len(ids)

    frequency, scale = rope_frequencies(config, head_dim)
    angle = np.arange(count)[:, None] * frequency
    cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
    distance = np.arange(count)[:, None] - np.arange(count)
    visible = distance >= 0
    if window_of(config):
        visible &= distance < window_of(config)

    def linear(x, name):
        return x @ weights[name + ".weight"].T + weights.get(name + ".bias", 0.0)

    x = weights["model.embed_tokens.weight"][list(ids)]
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}."
        h = rms_norm(x, weights[base + "input_layernorm.weight"], epsilon)

        def split(name, parts):
            return linear(h, base + name).reshape(count, parts, head_dim).transpose(1, 0, 2)

        q, k = split("self_attn.q_proj", heads), split("self_attn.k_proj", kv_heads)
        v = split("self_attn.v_proj", kv_heads)
        if base + "self_attn.q_norm.weight" in weights:
            q = rms_norm(q, weights[base + "self_attn.q_norm.weight"], epsilon)
            k = rms_norm(k, weights[base + "self_attn.k_norm.weight"], epsilon)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        q = q * query_scale(config, count)[:, None]
        k, v = (np.repeat(t, heads // kv_heads, axis=0) for t in (k, v))
        score = q @ k.transpose(0, 2, 1) / math.sqrt(head_dim)
        score = np.where(visible, score, -np.inf)
        chance = np.exp(score - score.max(-1, keepdims=True))
        chance /= chance.sum(-1, keepdims=True)
        mixed = (chance @ v).transpose(1, 0, 2).reshape(count, heads * head_dim)
        x = x + linear(mixed, base + "self_attn.o_proj")

        h = rms_norm(x, weights[base + "post_attention_layernorm.weight"], epsilon)

        def feed_forward(gate_name, up_name, down_name):
            gate = linear(h, base + gate_name)
            return linear(gate / (1 + np.exp(-gate)) * linear(h, base + up_name), base + down_name)

        if "num_experts_per_tok" not in config:
            x = x + feed_forward("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
            continue
        mixtral = config["model_type"] == "mixtral"
        block = "block_sparse_moe." if mixtral else "mlp."
        parts = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
        used = expert_weights(config, linear(h, base + block + "gate"))
        for expert in range(used.shape[1]):
            names = [f"{block}experts.{expert}.{part}" for part in parts]
            x = x + used[:, expert : expert + 1] * feed_forward(*names)
    x = rms_norm(x, weights["model.norm.weight"], epsilon)
    head = "model.embed_tokens" if config.get("tie_word_embeddings") else "lm_head"
    return linear(x, head)


def relative_error(row, wanted):
    return float(np.abs(row - wanted).max() / np.abs(wanted).max())


def worst_error(config, weights, golden):
    logits = [forward(config, weights, ids) for ids in golden["prompts"]]
    return max(
        relative_error(logits[e["prompt"]][e["position"]], np.array(e["row"]))
        for e in golden["logits"]
    )


def greedy(config, weights, ids, count):
    ids = list(ids)
    for _ in range(count):
        ids.append(int(forward(config, weights, ids)[-1].argmax()))
    return ids[-count:]


def mutilations(config, weights):
    """The model with one feature taken away each: (what, config, weights)."""

    def without(*endings):
        return {n: w for n, w in weights.items() if not n.endswith(endings)}

    parameters = rope(config)
    if parameters["rope_type"] != "default":
        plain = {"rope_type": "default", "rope_theta": parameters["rope_theta"]}
        yield "rope scaling", config | {"rope_parameters": plain}, weights
    if "llama_4_scaling_beta" in parameters:
        flat = parameters | {"llama_4_scaling_beta": 0}
        yield "scaling of queries", config | {"rope_parameters": flat}, weights
    elif parameters["rope_type"] == "yarn":
        flat = parameters | {"attention_factor": 1.0}
        yield "attention factor", config | {"rope_parameters": flat}, weights
    usual = parameters | {"beta_fast": 32, "beta_slow": 1}
    if parameters.keys() & {"beta_fast", "beta_slow"} and usual != parameters:
        yield "betas", config | {"rope_parameters": usual}, weights
    theta = parameters | {"rope_theta": 20000.0}
    yield "rope theta", config | {"rope_parameters": theta}, weights
    if window_of(config):
        yield "window", config | {"sliding_window": None}, weights
        off_by_one = config["sliding_window"] + 1
        yield "window's exact edge", config | {"sliding_window": off_by_one}, weights
    elif config.get("sliding_window"):
        unwanted = {"model_type": "mistral"}
        yield "the window being off", config | unwanted, weights
    if any(name.endswith("q_norm.weight") for name in weights):
        yield "q/k norms", config, without("q_norm.weight", "k_norm.weight")
    if any(name.endswith(".bias") for name in weights):
        yield "biases", config, without(".bias")
    if "num_experts_per_tok" in config:
        norm = config.get("norm_topk_prob", config["model_type"] == "mixtral")
        what = "dividing experts' weights by their sum" if norm else "experts' weights as they are"
        yield what, config | {"norm_topk_prob": not norm}, weights
        used = config["num_experts_per_tok"]
        yield "a token's last expert", config | {"num_experts_per_tok": used - 1}, weights
        yield "exactly so many experts", config | {"num_experts_per_tok": used + 1}, weights


# The families that forward() knows; the others have one opinion, that of transformers.
KNOWN = {"llama", "ministral3", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"}


def main():
    failed = False
    for folder in sorted(path for path in MODELS.iterdir() if path.is_dir()):
        if json.loads((folder / "config.json").read_text())["model_type"] not in KNOWN:
            continue
        config, weights = load_model(folder)
        if config.get("use_sliding_window"):
            continue  # Qwen's, of some layers
        golden = json.loads((folder / "golden.json").read_text())
        error = worst_error(config, weights, golden)
        same = all(
            greedy(config, weights, ids, len(ids_after)) == ids_after
            for ids, ids_after in zip(golden["prompts"], golden["greedy"])
        )
        ok = error < 1e-5 and same
        print(f"{folder.name}: error {error:.1e}, greedy {'same' if same else 'DIFFERS'}")
        for what, other_config, other_weights in mutilations(config, weights):
            missed = worst_error(other_config, other_weights, golden)
            print(f"  without {what}: error {missed:.1e}")
            ok &= missed > 1e-3
        failed |= not ok
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
