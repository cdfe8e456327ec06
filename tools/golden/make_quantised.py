#!/usr/bin/env python3
"""Writes tests/golden/quantised: tiny folders of quantised safetensors, each with golden.json:

  rows    {tensor: {row: floats}}: some rows of each quantised weight, float32 in hexadecimal
  factors {tensor: factor}: what the rows are multiplied by, where a weight has a scale of its own
  prompt  token ids
  logits  the row of logits that follows the last of them, by reference.py in float64

The whole numbers, scales and zero points are drawn at random; from them come the weights, by the
formula of each format, and the tensors, packed as the format's specification says: AutoAWQ's and
AutoGPTQ's packing of linear layers, compressed-tensors' pack_to_int32, DeepSeek's and OCP's FP8 and
MX formats, NVIDIA's NVFP4. Needs numpy only:

    python3 -m venv VENV && VENV/bin/pip install numpy
    VENV/bin/python tools/golden/make_quantised.py
"""

import json
import pathlib
import shutil

import numpy as np

import deepseek_attention
import reference
from reference import read_e4m3, spread

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "quantised"
SEED = 20261125
HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 128, 256, 4, 2, 32, 48
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
# Mistral's own folders, whose text is a part of them.
MISTRAL_ROPE = {
    "factor": 16.0,
    "llama_4_scaling_beta": 0.1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 8,
    "rope_theta": 10000.0,
    "rope_type": "yarn",
    "type": "yarn",
}
MINISTRAL3 = {name: value for name, value in CONFIG.items() if name != "rope_theta"} | {
    "model_type": "ministral3",
    "rope_parameters": MISTRAL_ROPE | {"beta_fast": 32.0, "beta_slow": 1.0},
}
EXPERTS, RANK, NOPE, TURNING = 4, 128, 32, 32
MISTRAL4 = MINISTRAL3 | {
    "first_k_dense_replace": 0,
    "head_dim": NOPE + TURNING,
    "kv_lora_rank": RANK,
    "model_type": "mistral4",
    "moe_intermediate_size": 128,
    "n_group": 1,
    "n_routed_experts": EXPERTS,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 2,
    "num_key_value_heads": HEADS,
    "q_lora_rank": RANK,
    "qk_head_dim": NOPE + TURNING,
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": TURNING,
    "rope_interleave": True,
    "routed_scaling_factor": 1.0,
    "topk_group": 1,
    "v_head_dim": 32,
}
LAYER = "model.layers.0."
LINEARS = {
    "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
    "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}


LATENT_LINEARS = {
    "self_attn.q_a_proj": (RANK, HIDDEN),
    "self_attn.q_b_proj": (HEADS * (NOPE + TURNING), RANK),
    "self_attn.kv_a_proj_with_mqa": (RANK + TURNING, HIDDEN),
    "self_attn.kv_b_proj": (HEADS * (NOPE + 32), RANK),
    "self_attn.o_proj": (HIDDEN, HEADS * 32),
    "mlp.shared_experts.gate_proj": (128, HIDDEN),
    "mlp.shared_experts.up_proj": (128, HIDDEN),
    "mlp.shared_experts.down_proj": (HIDDEN, 128),
    "mlp.experts.gate_up_proj": (EXPERTS, 256, HIDDEN),
    "mlp.experts.down_proj": (EXPERTS, HIDDEN, 128),
}


class Tensors:
    """Tensors on their way into a safetensors file."""

    def __init__(self):
        self.header, self.data = {}, b""

    def add(self, name, dtype, array):
        raw = np.ascontiguousarray(array).tobytes()
        place = [len(self.data), len(self.data) + len(raw)]
        self.header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": place}
        self.data += raw

    def write(self, path):
        header = json.dumps(self.header).encode()
        header += b" " * (-len(header) % 8)
        path.write_bytes(len(header).to_bytes(8, "little") + header + self.data)


def bf16(values):
    """The bits, cut off, and the float32 that they are."""
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def scales(random, shape, size, dtype):
    """As stored, and as float32."""
    values = (size * random.uniform(0.5, 1.5, shape)).astype(np.float32)
    if dtype == "F16":
        half = values.astype(np.float16)
        return half, half.astype(np.float32)
    if dtype == "BF16":
        return bf16(values)
    return values, values


def words(codes, order=range(8)):
    """Codes of four bits along the last axis into words of 32: of each eight, order[i] as the i-th."""
    eight = codes.astype(np.uint32).reshape(*codes.shape[:-1], -1, 8)
    out = np.zeros(eight.shape[:-1], np.uint32)
    for place, which in enumerate(order):
        out |= eight[..., which] << np.uint32(4 * place)
    return out.view(np.int32)


def groups_of_columns(name, columns, group):
    """Which group each column is in where columns were quantised in an order of their own.

    What reads the same input was mostly quantised in the same order, and need not be: here q_proj,
    k_proj and v_proj have one, gate_proj and up_proj one each, as the lengths of their names go.
    """
    groups = np.arange(columns, dtype=np.int32) // group
    return np.random.default_rng(len(name)).permutation(groups)


def pack_quantized(group, symmetric, dtype, bits=4, ordered=False):
    def make(random, shape, name, tensors):
        count = shape[1] // group
        most = 1 << bits
        codes = random.integers(0, most, shape)
        stored, scale = scales(random, (shape[0], count), 0.8 / most, dtype)
        zero = np.full((shape[0], count), most // 2)
        if not symmetric:
            zero = random.integers(0, 16, zero.shape)
            tensors.add(name + ".weight_zero_point", "I32", words(zero.T).T)
        packed = words(codes) if bits == 4 else codes.astype(np.uint8).view(np.int32)
        tensors.add(name + ".weight_packed", "I32", packed)
        tensors.add(name + ".weight_scale", dtype, stored)
        tensors.add(name + ".weight_shape", "I64", np.array(shape, np.int64))
        if ordered:
            groups = groups_of_columns(name, shape[1], group)
            tensors.add(name + ".weight_g_idx", "I32", groups)
            return scale[:, groups] * (codes - zero[:, groups])
        return spread(scale, shape, (1, group)) * (codes - spread(zero, shape, (1, group)))

    return make


def int_quantized(random, shape, name, tensors):
    codes = random.integers(-128, 128, shape).astype(np.int8)
    stored, scale = scales(random, (shape[0], 1), 0.003, "BF16")
    tensors.add(name + ".weight", "I8", codes)
    tensors.add(name + ".weight_scale", "BF16", stored)
    return scale * codes


def fp8(ending, dtype, block=None):
    """Scales for blocks of rows and columns, for rows, or, of o_proj, for all."""

    def make(random, shape, name, tensors):
        codes = random.integers(0, 256, shape)
        codes = np.where((codes & 127) == 127, 0, codes)  # no NaN
        one = block is None and name.endswith("o_proj")
        rows, columns = block or (shape[0] if one else 1, shape[1])
        grid = (-(-shape[0] // rows), -(-shape[1] // columns))
        stored, scale = scales(random, grid, 0.004, dtype)
        tensors.add(name + ".weight", "F8_E4M3", codes.astype(np.uint8))
        tensors.add(name + ending, dtype, stored.reshape(1) if one else stored)
        if block is None:
            tensors.add(name + ".input_scale", "F32", np.array([0.5], np.float32))
        return spread(scale, shape, (rows, columns)) * read_e4m3(codes)

    return make


def fp8_static(random, shape, name, tensors):
    """Mistral's: a scale for all, or for all of an expert, and one of activations beside each."""
    codes = random.integers(0, 256, shape)
    codes = np.where((codes & 127) == 127, 0, codes)  # no NaN
    each = (shape[0], 1, 1) if len(shape) == 3 else ()
    stored, scale = scales(random, each, 0.004, "BF16")
    ending, dot = ("", "_") if each else (".weight", ".weight_")
    tensors.add(name + ending, "F8_E4M3", codes.astype(np.uint8))
    tensors.add(f"{name}{dot}scale_inv", "BF16", stored.reshape(each))
    reach = bf16(np.full(each[:1], 0.5))[0]
    tensors.add(name + ("_" if each else ".") + "activation_scale", "BF16", reach.reshape(each[:1]))
    return scale.reshape(each) * read_e4m3(codes)


def awq(group):
    def make(random, shape, name, tensors):
        count = shape[1] // group
        codes = random.integers(0, 16, shape)
        zero = random.integers(0, 16, (shape[0], count))
        stored, scale = scales(random, (shape[0], count), 0.05, "F16")
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        tensors.add(name + ".qweight", "I32", words(codes.T, order))
        tensors.add(name + ".qzeros", "I32", words(zero.T, order))
        tensors.add(name + ".scales", "F16", stored.T)
        return spread(scale, shape, (1, group)) * (codes - spread(zero, shape, (1, group)))

    return make


def gptq(group, version, bits=4, ordered=False):
    """Zero points are stored less by one in the first version; weights of 8 bits are symmetric."""

    def pack(codes):
        return words(codes) if bits == 4 else codes.astype(np.uint8).view(np.int32)

    def make(random, shape, name, tensors):
        width = shape[1] if group == -1 else group
        count = shape[1] // width
        codes = random.integers(0, 1 << bits, shape)
        less = 1 if version == 1 else 0
        if bits == 4:
            zero = random.integers(less, 16 + less, (shape[0], count))
        else:
            zero = np.full((shape[0], count), 128)
        stored, scale = scales(random, (shape[0], count), 0.8 / (1 << bits), "F16")
        groups = np.arange(shape[1], dtype=np.int32) // width
        if ordered:
            groups = groups_of_columns(name, shape[1], width)
        tensors.add(name + ".qweight", "I32", pack(codes).T)
        tensors.add(name + ".qzeros", "I32", pack(np.ascontiguousarray((zero - less).T)))
        tensors.add(name + ".scales", "F16", stored.T)
        tensors.add(name + ".g_idx", "I32", groups)
        tensors.add(name + ".bias", "F16", np.zeros(shape[0], np.float16))
        return scale[:, groups] * (codes - zero[:, groups])

    return make


def fp8_whole(random, shape, name, tensors):
    """ModelOpt's FP8: a number for all of a weight, and one of activations."""
    codes = random.integers(0, 256, shape)
    codes = np.where((codes & 127) == 127, 0, codes)  # no NaN
    _, scale = scales(random, (), 0.004, "F32")
    tensors.add(name + ".weight", "F8_E4M3", codes.astype(np.uint8))
    tensors.add(name + ".weight_scale", "F32", np.float32(scale).reshape(()))
    tensors.add(name + ".input_scale", "F32", np.float32(0.5).reshape(()))
    return np.float32(scale) * read_e4m3(codes)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def nvfp4(modelopt):
    """Rows without the scale of the whole weight, and this: what is stored or, of
    compressed-tensors, its inverse."""

    def make(random, shape, name, tensors):
        codes = random.integers(0, 16, shape)
        groups = random.integers(0x48, 0x61, (shape[0], shape[1] // 16))  # 4 to 36
        whole = np.float32(random.uniform(250, 700))
        factor = np.float32(1) / whole
        pairs = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
        tensors.add(name + (".weight" if modelopt else ".weight_packed"), "U8", pairs)
        tensors.add(name + ".weight_scale", "F8_E4M3", groups.astype(np.uint8))
        if modelopt:
            tensors.add(name + ".weight_scale_2", "F32", factor.reshape(()))
            tensors.add(name + ".input_scale", "F32", np.float32(0.5).reshape(()))
        else:
            tensors.add(name + ".weight_global_scale", "F32", whole.reshape(1))
            tensors.add(name + ".input_global_scale", "F32", np.full(1, 2, np.float32))
        numbers = np.where(codes & 8, -1, 1) * E2M1[codes & 7]
        return spread(read_e4m3(groups), shape, (1, 16)) * numbers, factor

    return make


def mxfp4(random, shape, name, tensors):
    codes = random.integers(0, 16, shape)
    exponent = random.integers(120, 125, (shape[0], shape[1] // 32))
    pairs = codes[:, ::2] | codes[:, 1::2] << 4
    tensors.add(name + ".weight_packed", "U8", pairs.astype(np.uint8))
    tensors.add(name + ".weight_scale", "U8", exponent.astype(np.uint8))
    numbers = np.where(codes & 8, -1, 1) * E2M1[codes & 7]
    return spread(np.exp2(exponent - 127.0), shape, (1, 32)) * numbers


def compressed(form, **weights):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "sparsity_config": {},
    }


def int4(symmetric, group):
    return compressed(
        "pack-quantized",
        num_bits=4,
        type="int",
        symmetric=symmetric,
        strategy="group",
        group_size=group,
    )


STATIC = {
    "quant_method": "fp8",
    "activation_scheme": "static",
    "dequantize": False,
    "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"],
    "weight_block_size": None,
}


def expert_blocks(random, shape, name, tensors):
    """The same experts with a scale for 128 x 128 numbers, as transformers quantises by default."""
    if len(shape) < 3:
        return fp8(".weight_scale_inv", "F32", (128, 128))(random, shape, name, tensors)
    codes = random.integers(0, 256, shape)
    codes = np.where((codes & 127) == 127, 0, codes)
    grid = (shape[0], shape[1] // 128, shape[2] // 128)
    stored, scale = scales(random, grid, 0.004, "F32")
    tensors.add(name, "F8_E4M3", codes.astype(np.uint8))
    tensors.add(name + "_scale_inv", "F32", stored)
    return scale.repeat(128, 1).repeat(128, 2) * read_e4m3(codes)


def modelopt(algorithm):
    return {
        "quant_method": "modelopt",
        "quant_algo": algorithm,
        "ignore": ["lm_head"],
        "producer": {"name": "modelopt", "version": "0.39.0"},
    }


class Llama:
    """What is stored of a model, and its logits."""

    config, linears, others, before = CONFIG, LINEARS, {}, "model."

    def logits(self, weights, prompt):
        return reference.forward(self.config, weights, prompt)


class Ministral3(Llama):
    config, before = MINISTRAL3, "language_model.model."


class Mistral4(Llama):
    config, linears, before = MISTRAL4, LATENT_LINEARS, "language_model.model."
    others = {
        LAYER + "self_attn.q_a_layernorm": (RANK,),
        LAYER + "self_attn.kv_a_layernorm": (RANK,),
        LAYER + "mlp.gate": (EXPERTS, HIDDEN),
    }

    def logits(self, weights, prompt):
        model = deepseek_attention.Model(self.config, weights)
        logits = model.logits(prompt)
        assert model.gap > 1e-3, model.gap
        return logits


class PlainMistral4(Mistral4):
    before = "model."


class OneByOne(PlainMistral4):
    """Each expert in tensors of its own, as V3 and ModelOpt have them."""

    linears = {
        name: shape for name, shape in LATENT_LINEARS.items() if ".experts." not in name
    } | {
        f"mlp.experts.{expert}.{part}_proj": (128, HIDDEN)
        for expert in range(EXPERTS)
        for part in ("gate", "up", "down")
    }


def published(model, quantisation):
    """config.json: the text's alone, or within that of a model that takes pictures too."""
    if model.before == "model.":
        names = {"mistral4": ["Mistral4ForCausalLM"]}
        architectures = names.get(model.config["model_type"], model.config["architectures"])
        return model.config | {
            "architectures": architectures,
            "quantization_config": quantisation,
        }
    text = {name: value for name, value in model.config.items() if name != "architectures"}
    return {
        "architectures": ["Mistral3ForConditionalGeneration"],
        "model_type": "mistral3",
        "quantization_config": quantisation,
        "text_config": text,
        "vision_config": {"model_type": "pixtral"},
    }


# A new case goes to the end: a place is a part of the seed.
CASES = {
    "pack-int4-32": (int4(True, 32), pack_quantized(32, True, "BF16")),
    "pack-int4-128-zeros": (int4(False, 128), pack_quantized(128, False, "F16")),
    "pack-int8-64": (
        compressed("pack-quantized", num_bits=8, type="int", strategy="group", group_size=64),
        pack_quantized(64, True, "BF16", bits=8),
    ),
    "int8": (
        compressed("int-quantized", num_bits=8, type="int", strategy="channel"),
        int_quantized,
    ),
    "float8": (
        compressed("float-quantized", num_bits=8, type="float", strategy="channel"),
        fp8(".weight_scale", "BF16"),
    ),
    "pack-mxfp4": (
        compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32),
        mxfp4,
    ),
    "awq-64": (
        {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "GEMM", "zero_point": True},
        awq(64),
    ),
    "awq-128": (
        {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"},
        awq(128),
    ),
    "gptq-128": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
        gptq(128, 1),
    ),
    "gptq-v2-rows": (
        {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": -1,
            "desc_act": True,
            "checkpoint_format": "gptq_v2",
        },
        gptq(-1, 2),
    ),
    "fp8": (
        {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
        },
        fp8(".weight_scale_inv", "F32", (128, 128)),
    ),
    "fp8-static": (STATIC, fp8_static, Ministral3()),
    "fp8-static-experts": (STATIC, fp8_static, Mistral4()),
    "fp8-block-experts": (
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
        expert_blocks,
        PlainMistral4(),
    ),
    "gptq-32-ordered": (
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False},
        gptq(32, 1, ordered=True),
    ),
    "gptq-int8-64-ordered": (
        {"quant_method": "gptq", "bits": 8, "group_size": 64, "desc_act": True, "sym": True},
        gptq(64, 1, bits=8, ordered=True),
    ),
    "gptq-int8-rows": (
        {"quant_method": "gptq", "bits": 8, "group_size": -1, "checkpoint_format": "gptq_v2"},
        gptq(-1, 2, bits=8),
    ),
    "pack-int4-64-ordered": (
        int4(False, 64),
        pack_quantized(64, False, "BF16", ordered=True),
    ),
    "pack-int8-32-ordered": (
        compressed("pack-quantized", num_bits=8, type="int", strategy="group", group_size=32),
        pack_quantized(32, True, "F16", bits=8, ordered=True),
    ),
    "pack-nvfp4": (
        compressed(
            "nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16
        ),
        nvfp4(False),
    ),
    "modelopt-nvfp4-experts": (modelopt("NVFP4"), nvfp4(True), OneByOne()),
    "modelopt-fp8": (modelopt("FP8"), fp8_whole),
}


def rows_of(random, linear, values):
    """Some rows of a weight; of those of experts, by the names that each would have by itself."""
    if values.ndim == 3:
        rows = {}
        for expert in (0, 1, len(values) - 1):
            for part, half in zip(("gate_proj", "up_proj"), np.split(values[expert], 2)):
                one = f"{LAYER}mlp.experts.{expert}.{part}"
                if linear.endswith("down_proj"):
                    one, half = f"{LAYER}mlp.experts.{expert}.down_proj", values[expert]
                rows |= rows_of(random, one, half)
        return rows
    return {
        linear
        + ".weight": {
            str(row): values[row].tobytes().hex()
            for row in sorted({0, 9, int(random.integers(len(values))), len(values) - 1})
        }
    }


def make_case(number, name, quantisation, make, model=Llama()):
    random = np.random.default_rng([SEED, number])
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tensors, weights, rows, factors = Tensors(), {}, {}, {}

    def stored(tensor):
        return model.before.removesuffix("model.") + tensor

    for tensor, shape in {
        "model.embed_tokens": (VOCABULARY, HIDDEN),
        "lm_head": (VOCABULARY, HIDDEN),
        "model.norm": (HIDDEN,),
        LAYER + "input_layernorm": (HIDDEN,),
        LAYER + "post_attention_layernorm": (HIDDEN,),
        **model.others,
    }.items():
        mean, deviation = (1, 0.2) if "norm" in tensor else (0, 0.3)
        bits, values = bf16(random.normal(mean, deviation, shape))
        tensors.add(stored(tensor) + ".weight", "BF16", bits)
        weights[tensor + ".weight"] = values
    if model.before != "model.":
        bits, _ = bf16(random.normal(0, 0.3, (8, 8)))
        tensors.add("vision_tower.transformer.layers.0.attention.q_proj.weight", "BF16", bits)
    for linear, shape in model.linears.items():
        linear = LAYER + linear
        values = make(random, shape, stored(linear), tensors)
        if isinstance(values, tuple):
            values, factors[linear + ".weight"] = values
        values = values.astype(np.float32)
        weights[linear if values.ndim == 3 else linear + ".weight"] = values
        if ".experts.2." not in linear:  # three of them tell
            rows |= rows_of(random, linear, values)
    tensors.write(folder / "model.safetensors")
    config = published(model, quantisation)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    prompt = random.integers(0, VOCABULARY, 20).tolist()
    wide = {tensor: values.astype(np.float64) for tensor, values in weights.items()}
    for tensor, factor in factors.items():
        wide[tensor] *= np.float64(factor)
    logits = model.logits(wide, prompt)[-1].astype(np.float32)
    golden = {"rows": rows, "prompt": prompt, "logits": [float(str(x)) for x in logits]}
    if factors:
        golden["factors"] = {tensor: float(factor) for tensor, factor in factors.items()}
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


def main():
    for number, (name, case) in enumerate(CASES.items()):
        make_case(number, name, *case)
        size = sum(path.stat().st_size for path in (FOLDER / name).iterdir())
        print(f"{name}: {size // 1024} KiB")


if __name__ == "__main__":
    main()
