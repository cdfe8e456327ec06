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
from model_cases import BY_PLACE, CASES, SHARDED

SEED = 20260305
GREEDY = 16
MARGIN = 4e-3  # least gap of the two best logits, far above the error of any float32 order of sums
ROUTER_MARGIN = 1e-3  # least gap of the logits of the last expert that is used and the next one
INDEX_MARGIN = 1e-4  # the same of an indexer's scores, as a share of the largest
TRIES = 2000  # prompts that are drawn until one is clear
LENGTHS = (1, 7, 40, 100)
POSITIONS = {1: (0,), 7: (3, 6), 40: (15, 16, 17, 39), 100: (31, 32, 63, 64, 99)}


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
        if config.model_type.startswith("granitemoe") and config.model_type != "granitemoe_swa":
            for ending, published in PUBLISHED.items():
                if name.endswith(f"block_sparse_moe.{ending}"):
                    name = name.removesuffix(ending) + published
        if config.model_type in ("gpt_oss", "mistral4", "granitemoe_swa", "qwen3_5_moe_text", "gemma4_text", "gemma4_unified_text"):
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
        if config.model_type == "kimi_linear":
            name = name.replace(".forget_gate.", ".")
            if ".mlp." in name and ".mlp.down" not in name and ".mlp.gate_" not in name and ".mlp.up" not in name:
                name = name.replace(".mlp.", ".block_sparse_moe.")
            if name.endswith(".conv1d.weight"):
                for part in "qkv":
                    yield name.replace("conv1d", f"{part}_conv1d"), (shape[0] // 3, *shape[1:])
                continue
        numbered = mixtral or config.model_type in ("lfm2_moe", "kimi_linear")
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
        elif name.endswith(("mamba.A_log", "mixer.A_log", "self_attn.A_log")):  # states of some tokens and of many
            values = values - 1
        elif name.endswith("act_fn.beta"):
            values = 0.5 + 0.1 * values
        elif name.endswith("act_fn.eps"):
            values = np.full(shape, -1e-6)
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
    if model.config.model_type == "afmoe":
        layers = [layer.mlp for layer in model.model.layers if hasattr(layer.mlp, "expert_bias")]
        routers = [
            logits.sigmoid() + layer.expert_bias
            for logits, layer in zip(routers, layers, strict=True)
        ]
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
        transformers.Glm4vForConditionalGeneration,
        transformers.Glm4vMoeForConditionalGeneration,
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
