#!/usr/bin/env python3
"""Writes tests/kernels/golden/quants.json: blocks of every weight type with random bits, and the
floats that the gguf package reads from them.

    python3 -m venv VENV && VENV/bin/pip install gguf
    VENV/bin/python tools/golden/make_quants.py tests/kernels/golden/quants.json
"""

import json
import sys

import numpy as np
from gguf import GGMLQuantizationType, quants

# Name: elements and bytes of a block, blocks to write, offsets of its 16-bit floats.
TYPES = {
    "F16": (1, 2, 64, [0]),
    "BF16": (1, 2, 64, []),
    "Q8_0": (32, 34, 4, [0]),
    "Q4_0": (32, 18, 4, [0]),
    "Q4_K": (256, 144, 2, [0, 2]),
    "Q5_K": (256, 176, 2, [0, 2]),
    "Q6_K": (256, 210, 2, [208]),
}


def main() -> None:
    random = np.random.default_rng(2024)
    golden = {}
    for name, (_, size, count, halves) in TYPES.items():
        blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
        for at in halves:
            scales = random.normal(0, 0.1, count).astype(np.float16)
            scales[0] = np.float16(3e-7)  # a denormal one
            blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
        if name == "BF16":
            values = random.normal(0, 1, count).astype(np.float32)
            blocks = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        row = blocks.reshape(-1)
        floats = quants.dequantize(row, GGMLQuantizationType[name]).astype(np.float32)
        golden[name] = {"blocks": row.tobytes().hex(), "floats": floats.tobytes().hex()}
    with open(sys.argv[1], "w", encoding="ascii") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
