#!/usr/bin/env python3
"""Writes a GGUF file with the layer sizes of a published model and random weights, to measure speed with.

usage: random_gguf.py SHAPE FILE [--layers N]

Matrices are Q8_0, norms and routers F32; there is no tokenizer. Of the layers as many as are asked for, the dense one
first. Needs Python alone.
"""

import argparse
import array
import math
import pathlib
import random
import struct
import sys

U32, F32, STRING = 4, 6, 8
TYPE_F32, TYPE_Q8_0 = 0, 8
ALIGNMENT = 32
BLOCK, BLOCK_BYTES = 32, 34
PIECE = 1 << 14  # blocks that are drawn; a matrix is these, again and again


class Shape:
    """What a row of SHAPES gives: fields, and tensors (name, size of each dimension, the one in memory first)."""

    def __init__(self, layers, fields, layer, ends):
        self.layers, self.fields, self.layer, self.ends = layers, fields, layer, ends


def v2_lite_layer(number):
    """DeepSeek-V2-Lite: latents of 512 + 64, 16 heads; 64 experts of which a token uses 6, and two for all."""
    block = f"blk.{number}."
    tensors = [
        ("attn_norm.weight", (2048,)),
        ("attn_q.weight", (2048, 16 * 192)),
        ("attn_kv_a_mqa.weight", (2048, 576)),
        ("attn_kv_a_norm.weight", (512,)),
        ("attn_k_b.weight", (128, 512, 16)),
        ("attn_v_b.weight", (512, 128, 16)),
        ("attn_output.weight", (16 * 128, 2048)),
        ("ffn_norm.weight", (2048,)),
    ]
    if number == 0:
        tensors += [(f"ffn_{part}.weight", (2048, 10944)) for part in ("gate", "up")]
        tensors += [("ffn_down.weight", (10944, 2048))]
    else:
        tensors += [("ffn_gate_inp.weight", (2048, 64))]
        tensors += [(f"ffn_{part}_exps.weight", (2048, 1408, 64)) for part in ("gate", "up")]
        tensors += [("ffn_down_exps.weight", (1408, 2048, 64))]
        tensors += [(f"ffn_{part}_shexp.weight", (2048, 2816)) for part in ("gate", "up")]
        tensors += [("ffn_down_shexp.weight", (2816, 2048))]
    return [(block + name, sizes) for name, sizes in tensors]


def qwen3_layer(number):
    """Qwen3-0.6B: 16 heads of 128 over 8 of keys, norms of both."""
    block = f"blk.{number}."
    tensors = [
        ("attn_norm.weight", (1024,)),
        ("attn_q.weight", (1024, 2048)),
        ("attn_k.weight", (1024, 1024)),
        ("attn_v.weight", (1024, 1024)),
        ("attn_q_norm.weight", (128,)),
        ("attn_k_norm.weight", (128,)),
        ("attn_output.weight", (2048, 1024)),
        ("ffn_norm.weight", (1024,)),
        ("ffn_gate.weight", (1024, 3072)),
        ("ffn_up.weight", (1024, 3072)),
        ("ffn_down.weight", (3072, 1024)),
    ]
    return [(block + name, sizes) for name, sizes in tensors]


SHAPES = {
    "qwen3-0.6b": Shape(
        28,
        {
            "general.architecture": "qwen3",
            "qwen3.context_length": 40960,
            "qwen3.embedding_length": 1024,
            "qwen3.feed_forward_length": 3072,
            "qwen3.vocab_size": 151936,
            "qwen3.attention.head_count": 16,
            "qwen3.attention.head_count_kv": 8,
            "qwen3.attention.key_length": 128,
            "qwen3.attention.value_length": 128,
            "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
            "qwen3.rope.freq_base": 1e6,
        },
        qwen3_layer,
        [("token_embd.weight", (1024, 151936)), ("output_norm.weight", (1024,))],
    ),
    "v2-lite": Shape(
        27,
        {
            "general.architecture": "deepseek2",
            "deepseek2.context_length": 163840,
            "deepseek2.embedding_length": 2048,
            "deepseek2.feed_forward_length": 10944,
            "deepseek2.vocab_size": 102400,
            "deepseek2.leading_dense_block_count": 1,
            "deepseek2.attention.head_count": 16,
            "deepseek2.attention.head_count_kv": 1,
            "deepseek2.attention.kv_lora_rank": 512,
            "deepseek2.attention.key_length": 576,
            "deepseek2.attention.value_length": 512,
            "deepseek2.attention.key_length_mla": 192,
            "deepseek2.attention.value_length_mla": 128,
            "deepseek2.attention.layer_norm_rms_epsilon": 1e-6,
            "deepseek2.rope.dimension_count": 64,
            "deepseek2.rope.freq_base": 1e4,
            "deepseek2.rope.scaling.type": "yarn",
            "deepseek2.rope.scaling.factor": 40.0,
            "deepseek2.rope.scaling.original_context_length": 4096,
            "deepseek2.rope.scaling.yarn_log_multiplier": 0.0707,
            "deepseek2.expert_count": 64,
            "deepseek2.expert_used_count": 6,
            "deepseek2.expert_shared_count": 2,
            "deepseek2.expert_feed_forward_length": 1408,
            "deepseek2.expert_weights_scale": 1.0,
            "deepseek2.expert_gating_func": 1,
        },
        v2_lite_layer,
        [("token_embd.weight", (2048, 102400)), ("output_norm.weight", (2048,)), ("output.weight", (2048, 102400))],
    ),
}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def field(key, value):
    kinds = {str: (STRING, text), int: (U32, lambda number: struct.pack("<I", number))}
    kind, pack = kinds.get(type(value), (F32, lambda number: struct.pack("<f", number)))
    return text(key) + struct.pack("<I", kind) + pack(value)


def type_of(name, sizes):
    return TYPE_F32 if len(sizes) == 1 or name.endswith("ffn_gate_inp.weight") else TYPE_Q8_0


def bytes_of(name, sizes):
    count = math.prod(sizes)
    return count * 4 if type_of(name, sizes) == TYPE_F32 else count // BLOCK * BLOCK_BYTES


def piece(draw, width):
    """Blocks of whole numbers, with the scale that keeps the length of what a row is multiplied with."""
    scale = struct.pack("<e", math.sqrt(3.0 / width) / 127)
    return b"".join(scale + draw.randbytes(BLOCK) for _ in range(PIECE))


def write_tensor(file, draw, name, sizes):
    size = bytes_of(name, sizes)
    if type_of(name, sizes) == TYPE_F32:
        count = math.prod(sizes)
        ones = len(sizes) == 1
        values = (1.0 if ones else draw.gauss(0, sizes[0] ** -0.5) for _ in range(count))
        file.write(array.array("f", values).tobytes())
    else:
        blocks = piece(draw, sizes[0])
        for _ in range(size // len(blocks)):
            file.write(blocks)
        file.write(blocks[: size % len(blocks)])
    file.write(bytes(-size % ALIGNMENT))


def write(path, shape, layers):
    fields = shape.fields | {
        f"{shape.fields['general.architecture']}.block_count": layers,
        "tokenizer.ggml.model": "none",
    }
    tensors = shape.ends + [each for number in range(layers) for each in shape.layer(number)]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(fields))
    head += b"".join(field(key, value) for key, value in fields.items())
    offset = 0
    for name, sizes in tensors:
        head += text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        head += struct.pack("<IQ", type_of(name, sizes), offset)
        offset += bytes_of(name, sizes)
        offset += -offset % ALIGNMENT
    draw = random.Random(1)
    unfinished = path.with_suffix(".unfinished")
    with open(unfinished, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for name, sizes in tensors:
            write_tensor(file, draw, name, sizes)
    unfinished.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--layers", type=int)
    given = parser.parse_args()
    shape = SHAPES[given.shape]
    layers = given.layers or shape.layers
    if not 1 <= layers <= shape.layers:
        sys.exit(f"random_gguf: --layers: {layers}, expected 1 to {shape.layers}")
    given.file.parent.mkdir(parents=True, exist_ok=True)
    write(given.file, shape, layers)


if __name__ == "__main__":
    main()
