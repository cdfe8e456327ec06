#!/usr/bin/env python3
"""Writes tests/kernels/golden/quants.json: blocks of every weight type, and the floats that the gguf
package reads from them, or, of types that GGUF does not have, the functions of OWN. Most bits are
random; others are all zero or all one, and scales are common ones, the smallest and the largest. Of types with a
codebook also a checksum of the floats of so many blocks that they use every entry of it.

    python3 -m venv VENV && VENV/bin/pip install gguf
    VENV/bin/python tools/golden/make_quants.py tests/kernels/golden/quants.json
"""

import json
import sys
import zlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

# Name: offsets of the block's halves.
TYPES = {
    "F16": [0],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ1_S": [0],
    "IQ1_M": [],  # see set_iq1_m_scale
    "IQ2_XXS": [0],
    "IQ2_XS": [0],
    "IQ2_S": [0],
    "IQ3_XXS": [0],
    "IQ3_S": [0],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "TQ1_0": [52],
    "TQ2_0": [64],
    "MXFP4": [],  # an exponent in byte 0
    "NVFP4": [],  # any scale is finite
}

# What the blocks hold beside their scale.
FILLS = ["random", "random", "zero", "one", "random", "random"]
# A half's bits, of each block: None for a common one; the smallest, a denormal one, the largest.
SCALES = [None, 0x0034, None, None, 0x7BFF, 0x8001]
EXPONENTS = [121, 0, 127, 120, 254, 1]


def read_int4(blocks: np.ndarray) -> np.ndarray:
    scale = blocks[:, :4].copy().view(np.float32)
    codes = np.stack([blocks[:, 5:] & 15, blocks[:, 5:] >> 4], axis=2).reshape(len(blocks), -1)
    return scale * (codes.astype(np.float32) - blocks[:, 4:5].astype(np.float32))


def read_int8(blocks: np.ndarray) -> np.ndarray:
    return blocks[:, :4].copy().view(np.float32) * blocks[:, 4:].view(np.int8).astype(np.float32)


def read_e4m3(bits: np.ndarray) -> np.ndarray:
    """Without its NaN."""
    exponent, fraction = (bits >> 3 & 15).astype(np.int32), (bits & 7).astype(np.float32)
    tiny = np.ldexp(fraction, -9)
    size = np.where(exponent == 0, tiny, np.ldexp(1 + fraction / 8, exponent - 7))
    return np.where(bits & 128, -size, size).astype(np.float32)


def read_fp8(blocks: np.ndarray) -> np.ndarray:
    return blocks[:, :4].copy().view(np.float32) * read_e4m3(blocks[:, 4:])


# Types with a float32 scale in front: bytes of a block, and what they stand for.
OWN = {
    "INT4_32": (21, read_int4),
    "INT4_128": (69, read_int4),
    "INT8": (36, read_int8),
    "FP8_E4M3": (132, read_fp8),
}
# Their scales: common ones, a denormal one, a large one, a negative one.
OWN_SCALES = [0.01, 1e-40, 0.0123, 1.5, 2.0**110, -0.003]


def set_iq1_m_scale(block: np.ndarray, bits: int) -> None:
    for i in range(4):
        block[49 + 2 * i] = (block[49 + 2 * i] & 15) | (bits >> 4 * i & 15) << 4


def blocks_of(name: str, random: np.random.Generator) -> np.ndarray:
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    rows = []
    for fill, scale, exponent in zip(FILLS, SCALES, EXPONENTS):
        block = random.integers(0, 256, size, dtype=np.uint8)
        if fill != "random":
            block[:] = 0 if fill == "zero" else 255
        if name == "MXFP4":
            block[0] = exponent
        for at in TYPES[name] or [None]:
            common = int(np.float16(random.normal(0, 0.1)).view(np.uint16))
            bits = common if scale is None else scale
            if name == "IQ1_M":
                set_iq1_m_scale(block, bits)
            elif at is not None:
                block[at : at + 2] = [bits & 255, bits >> 8]
        rows.append(block)
    return np.concatenate(rows)


def own_blocks_of(name: str, random: np.random.Generator) -> np.ndarray:
    rows = []
    for fill, scale in zip(FILLS, OWN_SCALES):
        block = random.integers(0, 256, OWN[name][0], dtype=np.uint8)
        if fill != "random":
            block[:] = 0 if fill == "zero" else 255
        block[:4] = np.frombuffer(np.float32(scale).tobytes(), np.uint8)
        if name.startswith("INT4"):
            block[4] &= 31
        rows.append(block)
    return np.stack(rows)


# Types with a codebook of their own, which is read with these blocks of bytes from a generator that the test has, too.
CODEBOOKS = ["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
CODEBOOK_BLOCKS = 2048


def splitmix64(words: int) -> np.ndarray:
    """Of the seed 0: Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014."""
    z = np.arange(1, words + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def codebook_checksum(name: str) -> int:
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    words = splitmix64((CODEBOOK_BLOCKS * size + 7) // 8)
    blocks = words.astype("<u8").view(np.uint8)[: CODEBOOK_BLOCKS * size].reshape(-1, size).copy()
    blocks[:, 0:2] = [0x00, 0x3C]  # the scale: 1
    floats = quants.dequantize(blocks.reshape(-1), GGMLQuantizationType[name]).astype("<f4")
    # No zero has a sign that this would see.
    return zlib.crc32((floats + np.float32(0)).tobytes())


def main() -> None:
    random = np.random.default_rng(2024)
    golden = {}

    def add(name: str, row: np.ndarray) -> None:
        with np.errstate(over="ignore"):
            floats = quants.dequantize(row, GGMLQuantizationType[name]).astype(np.float32)
        golden[name] = {"blocks": row.tobytes().hex(), "floats": floats.tobytes().hex()}

    values = random.normal(0, 1, 64).astype(np.float32)
    add("BF16", (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8))
    for name in TYPES:
        add(name, blocks_of(name, random))
    for name, (_, read) in OWN.items():
        blocks = own_blocks_of(name, random)
        floats = read(blocks).astype(np.float32)
        golden[name] = {"blocks": blocks.tobytes().hex(), "floats": floats.tobytes().hex()}
    golden["codebooks"] = {
        "blocks": CODEBOOK_BLOCKS,
        "crc32": {name: codebook_checksum(name) for name in CODEBOOKS},
    }
    with open(sys.argv[1], "w", encoding="ascii") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
