#!/usr/bin/env python3
"""Writes tests/kernels/golden/quants.json: blocks of every weight type, and the floats that the gguf
package reads from them. Most bits are random; others are all zero or all one, and scales are common
ones, the smallest and the largest.

    python3 -m venv VENV && VENV/bin/pip install gguf
    VENV/bin/python tools/golden/make_quants.py tests/kernels/golden/quants.json
"""

import json
import sys

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
}

# What the blocks hold beside their scale.
FILLS = ["random", "random", "zero", "one", "random", "random"]
# A half's bits, of each block: None for a common one; the smallest, a denormal one, the largest.
SCALES = [None, 0x0034, None, None, 0x7BFF, 0x8001]
EXPONENTS = [121, 0, 127, 120, 254, 1]


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
    with open(sys.argv[1], "w", encoding="ascii") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
