#!/usr/bin/env python3
"""Perplexity of a model in the weight types that llama.cpp makes of it, by Dovetail and by llama.cpp, on the same files.

usage: compare_quantized.py BUILD_FOLDER MODEL.gguf [--text FILE] [--types Q8_0,Q4_K_M,...] [--context 512] [--threads 2]

The files are made of MODEL.gguf by llama.cpp (the package that ../shared/tools/peer_llama_cpp.py installs, in a virtual
environment under build/) and kept in build/quantized. Prints a table in Markdown; exit code 1 where the ratio of
F16, BF16, Q8_0, Q4_0 or Q4_K_M is off by more than 0.3 %, or a file does not load.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT.parent / "shared" / "tools" / "peer_llama_cpp.py"
PYTHON = ROOT / "build" / "peer-llama-cpp" / "bin" / "python"
# llama-quantize's names, and the numbers of its file types (llama_ftype in llama.h).
TYPES = {"F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_M": 12,
         "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "IQ3_S": 26, "TQ2_0": 37}
LIMIT = 0.003  # of the types that are held to it: the others are so coarse that how activations are rounded shows
HELD = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M")

QUANTIZE = """
import ctypes, sys
import llama_cpp as api
quiet = api.llama_log_callback(lambda *_: None)
api.llama_log_set(quiet, ctypes.c_void_p(0))
params = api.llama_model_quantize_default_params()
params.ftype, params.allow_requantize, params.nthread = int(sys.argv[3]), True, 2
sys.exit(api.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), ctypes.byref(params)))
"""

# As `dovetail perplexity` does it: the second halves of chunks that begin with BOS where the model wants one.
PERPLEXITY = """
import importlib.util, math, sys
import numpy as np
spec = importlib.util.spec_from_file_location("peer", sys.argv[1])
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
model, context, threads = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
tokens = [int(word) for word in sys.stdin.read().split()]
one = peer.Peer(model, threads, context)
vocabulary = one.api.llama_model_get_vocab(one.model)
total, count = 0.0, 0
for at in range(0, len(tokens) - context + 1, context):
    chunk = tokens[at:at + context]
    if one.api.llama_vocab_get_add_bos(vocabulary):
        chunk[0] = one.api.llama_vocab_bos(vocabulary)
    one.clear()
    for first in range(0, context, 512):
        part = chunk[first:first + 512]
        one.decode([(token, first + i, 0, True) for i, token in enumerate(part)])
        for i in range(len(part)):
            position = first + i
            if context // 2 <= position < context - 1:
                logits = one.logits(i).astype(np.float64)
                most = logits.max()
                total += math.log(np.exp(logits - most).sum()) + most - logits[chunk[position + 1]]
                count += 1
print(math.exp(total / count))
"""


def output(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return done.stdout


def quantized(model, name):
    path = ROOT / "build" / "quantized" / f"{model.stem}-{name}.gguf"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        output([PYTHON, "-c", QUANTIZE, model, path, TYPES[name]])
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "tests" / "golden" / "texts" / "alice.txt")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    unknown = [name for name in options.types.split(",") if name not in TYPES]
    if unknown:
        parser.error(f"--types: {unknown[0]} is none of {', '.join(TYPES)}")
    if not PYTHON.exists():
        parser.error(f"there is no llama.cpp: python3 {PEER} setup {PYTHON.parent.parent}")
    binary = options.build / "dovetail"

    tokens = json.loads(output([binary, "tokenize", options.model, "--no-special", "--json"],
                               input=options.text.read_text()))["ids"]
    worst = 0.0
    print("| file | Dovetail | llama.cpp | ratio |\n| --- | --- | --- | --- |")
    for name in options.types.split(","):
        try:
            path = quantized(options.model, name)
            own = json.loads(output([binary, "perplexity", path, "--file", options.text, "--context", options.context,
                                     "--threads", options.threads, "--json", "-"]))["perplexity"]
            peer = float(output([PYTHON, "-c", PERPLEXITY, PEER, path, options.context, options.threads],
                                input=" ".join(map(str, tokens))))
        except RuntimeError as error:
            print(f"| {name} | {error} | | |", flush=True)
            worst = math.inf
            continue
        if name in HELD:
            worst = max(worst, abs(own / peer - 1))
        print(f"| {name} | {own:.4f} | {peer:.4f} | {own / peer:.5f} |", flush=True)
    return worst > LIMIT


if __name__ == "__main__":
    sys.exit(main())
