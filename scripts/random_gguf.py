#!/usr/bin/env python3
"""Writes a GGUF file with the layer sizes of a published model and random weights, to measure speed with.

usage: random_gguf.py SHAPE FILE [--layers N] [--type q8_0|q4_0|f32]

Matrices have the type that is asked for (Q8_0), norms and routers are F32; the tokenizer knows bytes, and as many
tokens beside them as the vocabulary has. Of the layers as many as are asked for, the dense one first. llama.cpp takes a
file of DeepSeek-V2-Lite's family with all 27 layers only. Needs Python alone, and little memory.
"""

import argparse
import array
import math
import pathlib
import random
import struct
import sys

U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9
ALIGNMENT = 32
BLOCK = 32  # weights
# Blocks that are drawn; a matrix is these, again and again. A prime, so that its rows begin at different ones.
PIECE = 16381
# Of a tokenizer's tokens: text of its own, and what no text has.
NORMAL, UNUSED = 1, 5


class WeightType:
    """How blocks of a matrix are stored: whole numbers of `bits` bits from -largest to largest, behind a scale; or
    floats. `valid` is what becomes of a drawn byte: the lowest number, which has no opposite, is 0."""

    def __init__(self, number, bits, largest, valid):
        self.number, self.bits, self.largest, self.valid = number, bits, largest, bytes(map(valid, range(256)))

    def block_bytes(self):
        return 4 * BLOCK if self.bits == 32 else 2 + BLOCK * self.bits // 8

    def block(self, draw, scale):
        if self.bits == 32:
            numbers = draw.randbytes(BLOCK).translate(self.valid)
            return array.array("f", (scale * (byte - 128) for byte in numbers)).tobytes()
        return struct.pack("<e", scale) + draw.randbytes(BLOCK * self.bits // 8).translate(self.valid)


TYPES = {
    "f32": WeightType(0, 32, 127, lambda byte: byte or 128),
    "q4_0": WeightType(2, 4, 7, lambda byte: (byte >> 4 or 8) << 4 | (byte & 15 or 8)),
    "q8_0": WeightType(8, 8, 127, lambda byte: 0 if byte == 128 else byte),
}


class Array(list):
    """A field's values, of which there is one at least, all of a kind."""


class Shape:
    """What a row of SHAPES gives: fields, those that are functions of the number of layers, too; and tensors (name,
    size of each dimension, the one in memory first)."""

    def __init__(self, layers, fields, layer, ends):
        self.layers, self.fields, self.layer, self.ends = layers, fields, layer, ends


def latent_shape(vocabulary, hidden, heads, nope, rope, value, latent, dense, experts, used, shared, expert):
    """Latent attention, queries without one of their own; a dense layer, then experts, `shared` of them for all."""

    def layer(number):
        tensors = [
            ("attn_norm.weight", (hidden,)),
            ("attn_q.weight", (hidden, heads * (nope + rope))),
            ("attn_kv_a_mqa.weight", (hidden, latent + rope)),
            ("attn_kv_a_norm.weight", (latent,)),
            ("attn_k_b.weight", (nope, latent, heads)),
            ("attn_v_b.weight", (latent, value, heads)),
            ("attn_output.weight", (heads * value, hidden)),
            ("ffn_norm.weight", (hidden,)),
        ]
        if number == 0:
            tensors += [(f"ffn_{part}.weight", (hidden, dense)) for part in ("gate", "up")]
            tensors += [("ffn_down.weight", (dense, hidden))]
        else:
            tensors += [("ffn_gate_inp.weight", (hidden, experts))]
            tensors += [(f"ffn_{part}_exps.weight", (hidden, expert, experts)) for part in ("gate", "up")]
            tensors += [("ffn_down_exps.weight", (expert, hidden, experts))]
            tensors += [(f"ffn_{part}_shexp.weight", (hidden, shared * expert)) for part in ("gate", "up")]
            tensors += [("ffn_down_shexp.weight", (shared * expert, hidden))]
        return [(f"blk.{number}.{name}", sizes) for name, sizes in tensors]

    fields = {
        "general.architecture": "deepseek2",
        "deepseek2.context_length": 163840,
        "deepseek2.embedding_length": hidden,
        "deepseek2.feed_forward_length": dense,
        "deepseek2.vocab_size": vocabulary,
        "deepseek2.leading_dense_block_count": 1,
        "deepseek2.attention.head_count": heads,
        "deepseek2.attention.head_count_kv": 1,
        "deepseek2.attention.kv_lora_rank": latent,
        "deepseek2.attention.key_length": latent + rope,
        "deepseek2.attention.value_length": latent,
        "deepseek2.attention.key_length_mla": nope + rope,
        "deepseek2.attention.value_length_mla": value,
        "deepseek2.attention.layer_norm_rms_epsilon": 1e-6,
        "deepseek2.rope.dimension_count": rope,
        "deepseek2.rope.freq_base": 1e4,
        "deepseek2.rope.scaling.type": "yarn",
        "deepseek2.rope.scaling.factor": 40.0,
        "deepseek2.rope.scaling.original_context_length": 4096,
        "deepseek2.rope.scaling.yarn_log_multiplier": 0.0707,
        "deepseek2.expert_count": experts,
        "deepseek2.expert_used_count": used,
        "deepseek2.expert_shared_count": shared,
        "deepseek2.expert_feed_forward_length": expert,
        "deepseek2.expert_weights_scale": 1.0,
        "deepseek2.expert_gating_func": 1,
    }
    ends = [
        ("token_embd.weight", (hidden, vocabulary)),
        ("output_norm.weight", (hidden,)),
        ("output.weight", (hidden, vocabulary)),
    ]
    return Shape(27, fields, layer, ends)


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


def v4_shape(layers, ratios):
    """Attention and hyper-connections of DeepSeek-V4-Flash; a token uses 6 of 8 experts, where Flash has 256; a small
    vocabulary. Layers take their compression from `ratios` in turns: 0 (a window alone), 4 or 128."""
    hidden, heads, dim, rank, experts, expert, vocabulary, streams = 4096, 64, 512, 1024, 8, 2048, 4096, 4
    output_groups, output_rank, index_heads, index_dim = 8, 1024, 64, 128

    def compressor(name, ratio, size):
        channels = size * (2 if ratio == 4 else 1)
        return [
            (f"{name}_compressor_kv.weight", (hidden, channels)),
            (f"{name}_compressor_gate.weight", (hidden, channels)),
            (f"{name}_compressor_ape.weight", (channels, ratio)),
            (f"{name}_compressor_norm.weight", (size,)),
        ]

    def mixed_streams(name, outputs, scales):
        return [
            (f"{name}_fn.weight", (streams * hidden, outputs)),
            (f"{name}_base.weight", (outputs,)),
            (f"{name}_scale.weight", (scales,)),
        ]

    def layer(number):
        ratio = ratios[number % len(ratios)]
        tensors = [
            ("attn_norm.weight", (hidden,)),
            ("attn_q_a.weight", (hidden, rank)),
            ("attn_q_a_norm.weight", (rank,)),
            ("attn_q_b.weight", (rank, heads * dim)),
            ("attn_kv.weight", (hidden, dim)),
            ("attn_kv_a_norm.weight", (dim,)),
            ("attn_sinks.weight", (heads,)),
            ("attn_output_a.weight", (heads * dim // output_groups, output_groups * output_rank)),
            ("attn_output_b.weight", (output_groups * output_rank, hidden)),
        ]
        tensors += compressor("attn", ratio, dim) if ratio > 0 else []
        if ratio == 4:
            tensors += [
                ("indexer.attn_q_b.weight", (rank, index_heads * index_dim)),
                ("indexer.proj.weight", (hidden, index_heads)),
            ]
            tensors += compressor("indexer", ratio, index_dim)
        tensors += [("ffn_norm.weight", (hidden,)), ("ffn_gate_inp.weight", (hidden, experts)),
                    ("exp_probs_b.bias", (experts,))]
        for kind, shape in (("exps", (experts,)), ("shexp", ())):
            tensors += [(f"ffn_{part}_{kind}.weight", (hidden, expert, *shape)) for part in ("gate", "up")]
            tensors += [(f"ffn_down_{kind}.weight", (expert, hidden, *shape))]
        for part in ("attn", "ffn"):
            tensors += mixed_streams(f"hc_{part}", (2 + streams) * streams, 3)
        return [(f"blk.{number}.{name}", sizes) for name, sizes in tensors]

    fields = {
        "general.architecture": "deepseek4",
        "deepseek4.context_length": 1048576,
        "deepseek4.embedding_length": hidden,
        "deepseek4.vocab_size": vocabulary,
        "deepseek4.attention.head_count": heads,
        "deepseek4.attention.head_count_kv": 1,
        "deepseek4.attention.key_length": dim,
        "deepseek4.attention.value_length": dim,
        "deepseek4.attention.q_lora_rank": rank,
        "deepseek4.attention.sliding_window": 128,
        "deepseek4.attention.output_group_count": output_groups,
        "deepseek4.attention.output_lora_rank": output_rank,
        "deepseek4.attention.indexer.head_count": index_heads,
        "deepseek4.attention.indexer.key_length": index_dim,
        "deepseek4.attention.indexer.top_k": 512,
        "deepseek4.attention.compress_ratios": lambda count: Array(ratios[i % len(ratios)] for i in range(count)),
        "deepseek4.attention.compress_rope_freq_base": 160000.0,
        "deepseek4.attention.layer_norm_rms_epsilon": 1e-6,
        "deepseek4.rope.dimension_count": 64,
        "deepseek4.rope.freq_base": 1e4,
        "deepseek4.rope.scaling.type": "yarn",
        "deepseek4.rope.scaling.factor": 16.0,
        "deepseek4.rope.scaling.original_context_length": 65536,
        "deepseek4.expert_count": experts,
        "deepseek4.expert_used_count": 6,
        "deepseek4.expert_shared_count": 1,
        "deepseek4.expert_feed_forward_length": expert,
        "deepseek4.expert_gating_func": 4,
        "deepseek4.expert_weights_scale": 1.5,
        "deepseek4.hyper_connection.count": streams,
        "deepseek4.hyper_connection.sinkhorn_iterations": 20,
        "deepseek4.hyper_connection.epsilon": 1e-6,
    }
    ends = [
        ("token_embd.weight", (hidden, vocabulary)),
        ("output_norm.weight", (hidden,)),
        ("output.weight", (hidden, vocabulary)),
    ]
    return Shape(layers, fields, layer, ends + mixed_streams("output_hc", streams, 1))


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
    "v2-lite": latent_shape(
        vocabulary=102400, hidden=2048, heads=16, nope=128, rope=64, value=128, latent=512, dense=10944,
        experts=64, used=6, shared=2, expert=1408,
    ),
    # As many layers and ways in all as it has, narrow: what other programs compute is compared with.
    "v2-lite-narrow": latent_shape(
        vocabulary=1024, hidden=256, heads=4, nope=64, rope=32, value=64, latent=128, dense=512,
        experts=16, used=3, shared=2, expert=128,
    ),
    # The first layers; and layers of one kind alone, to see what each costs.
    "v4-flash": v4_shape(6, [0, 0, 4, 128, 4, 128]),
    "v4-flash-window": v4_shape(2, [0]),
    "v4-flash-4": v4_shape(2, [4]),
    "v4-flash-128": v4_shape(2, [128]),
}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


KINDS = {
    str: (STRING, text),
    int: (U32, lambda number: struct.pack("<I", number)),
    float: (F32, lambda number: struct.pack("<f", number)),
}


def packed(value):
    """(kind, bytes)"""
    if not isinstance(value, Array):
        kind, pack = KINDS[type(value)]
        return kind, pack(value)
    items = [packed(each) for each in value]
    # Types of tokens are signed, in all files that there are.
    kind = I32 if items[0][0] == U32 else items[0][0]
    return ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(data for _, data in items)


def field(key, value):
    kind, data = packed(value)
    return text(key) + struct.pack("<I", kind) + data


def tokenizer(vocabulary):
    """Fields of a tokenizer whose texts are bytes; GPT-2's names for these, and a pair, since there must be one."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    names = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    tokens = [names[byte] for byte in range(256)] + ["th"]
    kinds = [NORMAL] * len(tokens) + [UNUSED] * (vocabulary - len(tokens))
    tokens += [f"<unused{number}>" for number in range(vocabulary - len(tokens))]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": Array(tokens),
        "tokenizer.ggml.token_type": Array(kinds),
        "tokenizer.ggml.merges": Array(["t h"]),
        "tokenizer.ggml.bos_token_id": vocabulary - 2,
        "tokenizer.ggml.eos_token_id": vocabulary - 1,
    }


def is_small(name):
    """Matrices that stay floats: they are small, and each weight is drawn."""
    return name.endswith(("ffn_gate_inp.weight", "_fn.weight", "_ape.weight"))


def type_of(name, sizes, matrices):
    return TYPES["f32"] if len(sizes) == 1 or is_small(name) else matrices


def bytes_of(sizes, stored):
    # Rows are whole blocks, but where each weight is by itself.
    return math.prod(sizes) * stored.block_bytes() // BLOCK


def tensor_pieces(draw, name, sizes, stored):
    """Bytes of a tensor, little at a time: ones of a norm; else what was drawn, again and again where it is large."""
    count = math.prod(sizes)
    if len(sizes) == 1:
        yield array.array("f", [1.0] * count).tobytes()
    elif is_small(name):
        yield array.array("f", (draw.gauss(0, sizes[0] ** -0.5) for _ in range(count))).tobytes()
    else:
        # Keeps the length of what a row is multiplied with.
        scale = math.sqrt(3.0 / sizes[0]) / stored.largest
        left = bytes_of(sizes, stored)
        blocks = b"".join(stored.block(draw, scale) for _ in range(min(PIECE, left // stored.block_bytes())))
        for at in range(0, left, len(blocks)):
            yield blocks[: left - at]


def write(path, shape, layers, matrices):
    family = shape.fields["general.architecture"]
    fields = {key: value(layers) if callable(value) else value for key, value in shape.fields.items()}
    fields |= {f"{family}.block_count": layers} | tokenizer(shape.fields[f"{family}.vocab_size"])
    tensors = shape.ends + [each for number in range(layers) for each in shape.layer(number)]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(fields))
    head += b"".join(field(key, value) for key, value in fields.items())
    offset = 0
    for name, sizes in tensors:
        stored = type_of(name, sizes, matrices)
        head += text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        head += struct.pack("<IQ", stored.number, offset)
        offset += bytes_of(sizes, stored)
        offset += -offset % ALIGNMENT
    draw = random.Random(1)
    unfinished = path.with_suffix(".unfinished")
    with open(unfinished, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for name, sizes in tensors:
            stored = type_of(name, sizes, matrices)
            for piece in tensor_pieces(draw, name, sizes, stored):
                file.write(piece)
            file.write(bytes(-bytes_of(sizes, stored) % ALIGNMENT))
    unfinished.rename(path)


def write_model(name, path, layers, matrices):
    """`layers`: None for all that there are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, SHAPES[name], layers or SHAPES[name].layers, TYPES[matrices])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--type", choices=sorted(TYPES), default="q8_0")
    given = parser.parse_args()
    most = SHAPES[given.shape].layers
    if given.layers is not None and not 1 <= given.layers <= most:
        sys.exit(f"random_gguf: --layers: {given.layers}, expected 1 to {most}")
    write_model(given.shape, given.file, given.layers, given.type)


if __name__ == "__main__":
    main()
