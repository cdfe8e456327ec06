"""Writes tests/golden/models/deepseek-v4-tiny; with --stored deepseek-v4-fp4-tiny, and with --demo
models/demo-v4-tiny.

All are random models by the published names of tensors and fields. Of the second each number is
stored as the published models store it; in the others what those have in FP8 and FP4 is BF16. The
goldens are those of deepseek_v4.py in float64, in the form of make_models.py; there is also
  drafts   for each prompt the ids that the layer which drafts picks one after the other, each from
           its own streams of the one before; the first is that of `draft`
Prompts are drawn token by token: one is taken only if no
rounding can turn what the experts' router and the indexer choose for it. Needs numpy only:

    /tmp/golden/bin/python tools/golden/make_v4.py
    /tmp/golden/bin/python tools/golden/make_v4.py --stored
    /tmp/golden/bin/python tools/golden/make_v4.py --demo
"""

import json
import pathlib
import shutil
import sys

import numpy as np

import deepseek_v4
import reference
from make_quantised import Tensors, bf16
from reference import read_e4m3, spread

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = 20261129
GREEDY = 16
DRAFTS = 4
MARGIN = 4e-3  # least gap of the two best logits
CHOICE_MARGIN = 1.1e-3  # of the scores of experts; of entries, as a share of the largest score
POSITIONS = {
    1: (0,),
    7: (2, 3, 6),
    40: (15, 16, 39),
    100: (63, 64, 67, 99),
    130: (126, 127, 128, 129),
    300: (126, 127, 128, 254, 255, 256, 299),
}

TINY = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "compress_ratios": [0, 4, 128, 4, 128, 0],
    "compress_rope_theta": 160000,
    "eos_token_id": 1,
    "hc_eps": 1e-2,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 3,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 64,
    "index_head_dim": 32,
    "index_n_heads": 4,
    "index_topk": 16,
    "initializer_range": 0.02,
    "max_position_embeddings": 4096,
    "model_type": "deepseek_v4",
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 4,
    "num_experts_per_tok": 2,
    "num_hash_layers": 2,
    "num_hidden_layers": 5,
    "num_key_value_heads": 1,
    "num_nextn_predict_layers": 1,
    "o_groups": 2,
    "o_lora_rank": 16,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 32,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 16,
        "original_max_position_embeddings": 256,
        "type": "yarn",
    },
    "rope_theta": 10000,
    "routed_scaling_factor": 1.5,
    "scoring_func": "sqrtsoftplus",
    "sliding_window": 128,
    "swiglu_limit": 2.0,
    "tie_word_embeddings": False,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 256,
}

# Wide enough for blocks of 128 columns, in two layers and the one that drafts.
STORED = TINY | {
    "compress_ratios": [0, 4, 0],
    "expert_dtype": "fp4",
    "hc_mult": 2,
    "hidden_size": 128,
    "moe_intermediate_size": 128,
    "n_routed_experts": 4,
    "num_hash_layers": 1,
    "num_hidden_layers": 2,
    "o_lora_rank": 128,
    "q_lora_rank": 128,
    "quantization_config": {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "scale_fmt": "ue8m0",
        "weight_block_size": [128, 128],
    },
    "vocab_size": 128,
}
FP8 = ("attn.wq_a", "attn.wq_b", "attn.wkv", "attn.wo_a", "attn.wo_b", "indexer.wq_b")
FP8 += ("e_proj", "h_proj", *(f"shared_experts.w{part}" for part in (1, 2, 3)))

# As published where the tiny one is not, so that tests with either see a fixed number.
DEMO = TINY | {
    "bos_token_id": 256,
    "eos_token_id": 257,
    "hc_eps": 1e-6,
    "hc_sinkhorn_iters": 20,
    "pad_token_id": 258,
    "swiglu_limit": 10.0,
    "vocab_size": 288,
}


def shapes(config):
    """Every tensor by its published name."""
    hidden, head, heads = config["hidden_size"], config["head_dim"], config["num_attention_heads"]
    rank, streams = config["q_lora_rank"], config["hc_mult"]
    groups, narrow = config["o_groups"], config["o_lora_rank"]

    def compressor(base, ratio, size):
        width = size * (2 if ratio == 4 else 1)
        yield base + "ape", (ratio, width)
        yield base + "norm.weight", (size,)
        yield base + "wgate.weight", (width, hidden)
        yield base + "wkv.weight", (width, hidden)

    def connection(base, count, scales):
        yield base + "base", (count,)
        yield base + "fn", (count, streams * hidden)
        yield base + "scale", (scales,)

    def expert(base):
        inner = config["moe_intermediate_size"]
        yield base + ".w1.weight", (inner, hidden)
        yield base + ".w2.weight", (hidden, inner)
        yield base + ".w3.weight", (inner, hidden)

    def layer(base, number):
        ratio = config["compress_ratios"][number]
        yield base + "attn.attn_sink", (heads,)
        if ratio > 0:
            yield from compressor(base + "attn.compressor.", ratio, head)
        if ratio == 4:
            index = config["index_n_heads"], config["index_head_dim"]
            yield from compressor(base + "attn.indexer.compressor.", ratio, index[1])
            yield base + "attn.indexer.weights_proj.weight", (index[0], hidden)
            yield base + "attn.indexer.wq_b.weight", (index[0] * index[1], rank)
        yield base + "attn.kv_norm.weight", (head,)
        yield base + "attn.q_norm.weight", (rank,)
        yield base + "attn.wkv.weight", (head, hidden)
        yield base + "attn.wo_a.weight", (groups * narrow, heads * head // groups)
        yield base + "attn.wo_b.weight", (hidden, groups * narrow)
        yield base + "attn.wq_a.weight", (rank, hidden)
        yield base + "attn.wq_b.weight", (heads * head, rank)
        yield base + "attn_norm.weight", (hidden,)
        for number_of_expert in range(config["n_routed_experts"]):
            yield from expert(f"{base}ffn.experts.{number_of_expert}")
        if number < config["num_hash_layers"]:
            yield base + "ffn.gate.tid2eid", (config["vocab_size"], config["num_experts_per_tok"])
        else:
            yield base + "ffn.gate.bias", (config["n_routed_experts"],)
        yield base + "ffn.gate.weight", (config["n_routed_experts"], hidden)
        yield from expert(base + "ffn.shared_experts")
        yield base + "ffn_norm.weight", (hidden,)
        for part in ("attn", "ffn"):
            yield from connection(f"{base}hc_{part}_", (2 + streams) * streams, 3)

    yield "embed.weight", (config["vocab_size"], hidden)
    yield from connection("hc_head_", streams, 1)
    yield "head.weight", (config["vocab_size"], hidden)
    for number in range(config["num_hidden_layers"]):
        yield from layer(f"layers.{number}.", number)
    yield from layer("mtp.0.", config["num_hidden_layers"])
    for name in ("e_proj", "h_proj"):
        yield f"mtp.0.{name}.weight", (hidden, hidden)
    for name in ("enorm", "hnorm", "norm"):
        yield f"mtp.0.{name}.weight", (hidden,)
    yield from connection("mtp.0.hc_head_", streams, 1)
    yield "norm.weight", (hidden,)


def draw(random, config, name, shape):
    """Values that make every feature count, wide enough that attention is sharp."""
    if name.endswith("tid2eid"):
        experts = np.tile(np.arange(config["n_routed_experts"]), (shape[0], 1))
        return random.permuted(experts, axis=1)[:, : shape[1]]
    values = random.standard_normal(shape)
    if name.endswith(("kv_norm.weight", "attn.compressor.norm.weight")):
        return 2 + 0.4 * values
    if "norm" in name:
        return 1 + 0.2 * values
    if name == "embed.weight" or name.endswith("ape"):
        return values
    for ending, mean, width in (
        ("attn_sink", 2, 1),
        ("gate.bias", 0, 0.2),
        ("_scale", 0.3, 0.1),
        ("_base", 0, 0.5),
    ):
        if name.endswith(ending):
            return mean + width * values
    return 0.25 * values


def nearest(values, table):
    """The place in the ascending table of the number nearest to each value."""
    above = np.clip(np.searchsorted(table, values), 1, len(table) - 1)
    return above - (values - table[above - 1] < table[above] - values)


def scaled(random, values, block, most, table):
    """Codes of a sign and a place in the table, exponents of E8M0, and what both are together.

    Blocks of rows and columns are made larger or smaller by powers of two, so that scales differ.
    """
    grid = tuple(-(-size // one) for size, one in zip(values.shape, block))
    values = values * spread(np.exp2(random.integers(-2, 2, grid)), values.shape, block)
    rows = range(0, values.shape[0], block[0])
    largest = np.maximum.reduceat(np.abs(values), rows, 0)
    largest = np.maximum.reduceat(largest, range(0, values.shape[1], block[1]), 1)
    power = np.ceil(np.log2(largest / most))
    scale = spread(np.exp2(power), values.shape, block)
    codes = nearest(np.abs(values) / scale, table)
    numbers = np.where(values < 0, -1, 1) * table[codes] * scale
    return codes + np.where(values < 0, len(table), 0), (power + 127).astype(np.uint8), numbers


def add_fp8(random, tensors, name, values):
    """E4M3, of which the code of all ones is none, and a scale for 128 x 128 elements."""
    table = read_e4m3(np.arange(127)).astype(np.float64)
    codes, exponents, numbers = scaled(random, values, (128, 128), 448, table)
    codes = np.where(codes < 127, codes, codes - 127 + 128)
    tensors.add(name + ".weight", "F8_E4M3", codes.astype(np.uint8))
    tensors.add(name + ".scale", "F8_E8M0", exponents)
    return numbers


def add_fp4(random, tensors, name, values):
    """E2M1, two to a byte, the first in the low bits, and a scale for 32 elements of a row."""
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes, exponents, numbers = scaled(random, values, (1, 32), 6, table)
    pairs = codes[:, ::2] | codes[:, 1::2] << 4
    tensors.add(name + ".weight", "I8", pairs.astype(np.uint8).view(np.int8))
    tensors.add(name + ".scale", "F8_E8M0", exponents)
    return numbers


def write_weights(folder, config, seed):
    """Returns the numbers that are stored."""
    random, tensors, weights = np.random.default_rng(seed), Tensors(), {}
    wide = ("ape", "attn_sink", "gate.bias", "_base", "_fn", "_scale")
    for name, shape in sorted(shapes(config)):
        values, stem = draw(random, config, name, shape), name.removesuffix(".weight")
        if name.endswith("tid2eid"):
            tensors.add(name, "I64", values.astype("<i8"))
        elif name.endswith(wide):
            values = values.astype("<f4")
            tensors.add(name, "F32", values)
        elif "expert_dtype" in config and ".ffn.experts." in name:
            values = add_fp4(random, tensors, stem, values)
        elif "expert_dtype" in config and stem.endswith(FP8):
            values = add_fp8(random, tensors, stem, values)
        else:
            bits, values = bf16(values)
            tensors.add(name, "BF16", bits)
        weights[name] = values
    tensors.header["__metadata__"] = {"format": "pt"}
    tensors.write(folder / "model.safetensors")
    return weights


def write_config(folder, config):
    text = json.dumps(config, indent=2, sort_keys=True)
    (folder / "config.json").write_text(text + "\n")


class Search:
    """A prompt that grows by a token at a time, and can be taken back to any length."""

    def __init__(self, model, random):
        self.model, self.random = model, random
        self.ids, self.after = [], [(None, None, None)]  # states, and the last token's streams

    def extend(self, token):
        """Whether that token is clear; only then it is there."""
        model = self.model
        model.gap = model.entry_gap = np.inf
        state, drafted, streams = self.after[-1]
        if streams is not None:
            _, drafted = model.read_draft(streams, [token], drafted)
        streams, state = model.read([token], state)
        if min(model.gap, model.entry_gap) <= CHOICE_MARGIN:
            return False
        self.ids.append(token)
        self.after.append((state, drafted, streams))
        return True

    def shorten(self, length):
        del self.ids[length:], self.after[length + 1 :]

    def best(self, row):
        second, best = np.sort(row)[-2:]
        return int(row.argmax()) if best - second > MARGIN else None

    def greedy(self):
        """The ids that follow and the drafted ones, or None if some choice is not clear."""
        length = len(self.ids)
        _, drafted, streams = self.after[-1]
        found = []
        while len(found) < GREEDY:
            token = self.best(self.model.head(self.after[-1][2])[0])
            if token is None or not self.extend(token):
                break
            found.append(token)
        self.shorten(length)
        if len(found) < GREEDY:
            return None
        self.model.gap = np.inf
        drafts, token = [], found[0]
        while len(drafts) < DRAFTS:
            streams, drafted = self.model.read_draft(streams, [token], drafted)
            token = self.best(self.model.head(streams, "mtp.0.")[0])
            if token is None or self.model.gap <= CHOICE_MARGIN:
                return None
            drafts.append(token)
        return found, drafts

    def prompt(self, length):
        vocabulary = self.model.config["vocab_size"]
        for _ in range(20000):
            while len(self.ids) < length:
                self.extend(int(self.random.integers(3, vocabulary)))
            found = self.greedy()
            if found:
                return list(self.ids), *found
            self.shorten(max(length - int(self.random.integers(1, 6)), 0))
        sys.exit(f"no prompt of length {length} whose choices are clear")


def make_golden(name, config, seed, lengths):
    folder = reference.MODELS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_config(folder, config)
    weights = write_weights(folder, config, [SEED, seed])
    golden = {"prompts": [], "logits": [], "greedy": [], "draft": [], "drafts": []}
    for index, length in enumerate(lengths):
        positions = POSITIONS[length]
        random = np.random.default_rng([SEED, seed + 1, index])
        search = Search(deepseek_v4.Model(config, weights), random)
        prompt, after, drafts = search.prompt(length)
        golden["prompts"].append(prompt)
        golden["greedy"].append(after)
        golden["draft"].append(drafts[0])
        golden["drafts"].append(drafts)
        logits = deepseek_v4.Model(config, weights).logits(prompt).astype(np.float32)
        for position in positions:
            row = [float(str(value)) for value in logits[position]]
            golden["logits"].append({"prompt": index, "position": position, "row": row})
        print(f"a prompt of {length} tokens", flush=True)
    text = json.dumps(golden, separators=(",", ":")).replace("{", "\n{")
    (folder / "golden.json").write_text(text.strip() + "\n")
    return folder


DEMO_README = """# demo-v4-tiny

A random model in the architecture of DeepSeek-V4: it has learned nothing, and what it says means
nothing. With it tests can run that architecture with a tokenizer and a chat template: layers that
see a window only, layers with entries of 4 tokens of which an indexer chooses, layers with entries
of 128 tokens, several streams in place of one hidden row, experts by a table of tokens and by
score, and a layer that drafts tokens.

`model.safetensors` has the published names (`layers.0.attn.wq_a.weight`); tensors that the
published models have in FP8 and FP4 are BF16 here.

{parameters:,} parameters: {layers} layers and the one that drafts (`compress_ratios`
{ratios}), width {hidden}, {streams} streams, {heads} heads of {head} dimensions, window
{window}; {experts} experts of {inner} ({used} for a token, by a table in the first {hashed} layers)
and one shared expert; context {context}. Vocabulary, text and chat template are those of
`demo-arith`: see the README there.

Made by `tools/golden/make_v4.py --demo`.

Licence: Apache-2.0.
"""


def make_demo():
    folder = ROOT / "models" / "demo-v4-tiny"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_config(folder, DEMO)
    write_weights(folder, DEMO, [SEED, 2])
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models" / "demo-arith" / name, folder / name)
    text = DEMO_README.format(
        parameters=sum(int(np.prod(s)) for n, s in shapes(DEMO) if not n.endswith("tid2eid")),
        layers=DEMO["num_hidden_layers"],
        ratios=DEMO["compress_ratios"],
        hidden=DEMO["hidden_size"],
        streams=DEMO["hc_mult"],
        heads=DEMO["num_attention_heads"],
        head=DEMO["head_dim"],
        window=DEMO["sliding_window"],
        experts=DEMO["n_routed_experts"],
        inner=DEMO["moe_intermediate_size"],
        used=DEMO["num_experts_per_tok"],
        hashed=DEMO["num_hash_layers"],
        context=DEMO["max_position_embeddings"],
    )
    (folder / "README.md").write_text(text)
    return folder


def main():
    if sys.argv[1:] == ["--demo"]:
        folder = make_demo()
    elif sys.argv[1:] == ["--stored"]:
        folder = make_golden("deepseek-v4-fp4-tiny", STORED, 3, [1, 7, 40, 100])
    else:
        folder = make_golden("deepseek-v4-tiny", TINY, 0, POSITIONS)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder.name}: {size // 1024} KiB", flush=True)


if __name__ == "__main__":
    main()
