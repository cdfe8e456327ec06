#!/usr/bin/env python3
"""Writes a layer of a DeepSeek-style mixture of experts as a graph for `dovetail cores`.

Usage: moe_layer.py [TILES [EXPERTS]] > moe_layer.yaml

A batch of TILES (31) tiles of 64 prompt tokens and one of 32 sequences that decode goes through attention (a block per head
group, or per sequence that decodes), the router, a shared expert, and 8 of EXPERTS (64) experts for each token. Norms, choosing
experts, sending tokens to them and adding up what they give are vector work, the router and the output projection are
matrix work; what multiplies and then works on the product at once (rotation, softmax, gating) takes the matrix lane and
both vector lanes of a group. Who waits for whom follows from what is read and written. How many tokens an expert has is
drawn, skewed as routers do it; costs are microseconds on a made-up machine whose matrix lane does 64 rows of an expert's
first two projections in 24.
"""

import random
import sys

TILES = int(sys.argv[1]) if len(sys.argv) > 1 else 31  # of a prompt
DECODE = 0  # the tile before them
ROWS, DECODING = 64, 32
HEAD_GROUPS = 8
EXPERTS = int(sys.argv[2]) if len(sys.argv) > 2 else 64
CHOSEN = 8
BYTES = 4096  # of a tile, in every buffer


def tile(buffer, first, last=None):
    return f'"{buffer}[{first * BYTES}:{((first if last is None else last) + 1) * BYTES}]"'


def task(name, shape, cost, reads, writes, blocks=1, how="writes"):
    many = f", blocks: {blocks}" if blocks > 1 else ""
    print(f"  - {{name: {name}, shape: {shape}, cost: {cost:g}{many}, reads: [{', '.join(reads)}], {how}: {writes}}}")


def loads():
    """Blocks of up to 64 tokens for each expert."""
    draw = random.Random(7)
    liked = [0.4 + draw.random() ** 2 for _ in range(EXPERTS)]
    tokens = CHOSEN * (TILES * ROWS + DECODING)
    return [max(1, -int(-tokens * one // (sum(liked) * ROWS))) for one in liked]


def main():
    # Later tiles see more of the prompt: what takes longest goes first.
    tiles = [DECODE, *range(TILES, 0, -1)]
    print("# Made by moe_layer.py, which says what it is.\nbuffers:")
    for name in ("x", "h", "qkv", "context", "h2", "scores", "routes", "shared"):
        print(f"  {name}: {len(tiles) * BYTES}")
    for name in ("inbox", "gated", "given"):
        print(f"  {name}: {EXPERTS * BYTES}")
    print("tasks:")
    for t in tiles:
        task(f"norm {t}", "V", 3, [tile("x", t)], tile("h", t))
    for t in tiles:
        task(f"qkv {t}", "1C2V", 12 if t == DECODE else 20, [tile("h", t)], tile("qkv", t))
    for t in tiles:
        if t == DECODE:
            task(f"attention {t}", "1C2V", 9, [tile("qkv", t)], tile("context", t), DECODING)
        else:
            task(f"attention {t}", "1C2V", 3 + t, [tile("qkv", 1, t)], tile("context", t), HEAD_GROUPS)
    for t in tiles:
        task(f"output {t}", "C", 10 if t == DECODE else 15, [tile("context", t)], tile("x", t), how="updates")
        task(f"norm2 {t}", "V", 4, [tile("x", t)], tile("h2", t))
        task(f"router {t}", "C", 2, [tile("h2", t)], tile("scores", t))
        task(f"choose {t}", "V", 3, [tile("scores", t)], tile("routes", t))
    for t in tiles:
        task(f"shared {t}", "1C2V", 12 if t == DECODE else 18, [tile("h2", t)], tile("shared", t))
    for e, blocks in enumerate(loads()):
        task(f"send {e}", "V", 2, ["routes", "h2"], tile("inbox", e))
        task(f"gate_up {e}", "1C2V", 24, [tile("inbox", e)], tile("gated", e), blocks)
        task(f"down {e}", "1C2V", 12, [tile("gated", e)], tile("given", e), blocks)
    for t in tiles:
        task(f"combine {t}", "V", 5, ["given", tile("shared", t)], tile("x", t), how="updates")


if __name__ == "__main__":
    main()
