#!/usr/bin/env python3
"""Holds what a model gives its next tokens, by Dovetail, to llama.cpp's, on the same GGUF files.

usage: compare_logits.py BUILD_FOLDER [MODEL.gguf...] [--tokens 32] [--threads 2]

Random tokens, every beginning of which is a prompt of its own; and what follows a quarter of them, token by token,
since a token that was generated may be computed by another formula. Of each place the 20 likeliest tokens are
compared, by their logarithms of probabilities. llama.cpp is the package that ../shared/tools/peer_llama_cpp.py installs,
in a virtual environment under build/. Exit code 1 where half of the places are farther apart than the roundings of both
explain: 0.05 for floats, beside caches of F16; 0.5 for other types, since each rounds activations in its own way.

Without a model: narrow random ones of random_gguf.py, in each type that it writes.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import random_gguf

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT.parent / "shared" / "tools" / "peer_llama_cpp.py"
PYTHON = ROOT / "build" / "peer-llama-cpp" / "bin" / "python"
NARROW = "v2-lite-narrow"
FLOATS, MOST_OF_FLOATS, MOST = {"F32", "F16", "BF16"}, 0.05, 0.5
TOP = 20  # as many as `dovetail run` gives

# Logarithms of the probabilities that a place gives to tokens: of lists of tokens, for each place the wanted ones.
PEER_LOGPROBS = """
import importlib.util, json, sys
import numpy as np
spec = importlib.util.spec_from_file_location("peer", sys.argv[1])
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
lists = json.load(sys.stdin)
one = peer.Peer(sys.argv[2], int(sys.argv[3]), max(64, *(len(each["tokens"]) for each in lists)))
found = []
for each in lists:
    one.clear()
    one.decode([(token, i, 0, True) for i, token in enumerate(each["tokens"])])
    rows = []
    for place, wanted in each["wanted"]:
        logits = one.logits(place).astype(np.float64)
        logprobs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        rows.append([float(logprobs[token]) for token in wanted])
    found.append(rows)
json.dump(found, sys.stdout)
"""


def output(command, given):
    done = subprocess.run([str(part) for part in command], input=given, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_logits: {command[0]} ended with {done.returncode}")
    return done.stdout


def own_answers(binary, model, requests, threads):
    """Of each request the tokens that follow, with the likeliest ones beside each."""
    with tempfile.TemporaryDirectory() as folder:
        asked, said = pathlib.Path(folder, "requests.jsonl"), pathlib.Path(folder, "answers.jsonl")
        defaults = {"temperature": 0, "logprobs": TOP, "ignore_eos": True}
        asked.write_text("".join(json.dumps(defaults | request) + "\n" for request in requests))
        output([binary, "run", model, "--input", asked, "--output", said, "--threads", threads], "")
        answers = sorted(map(json.loads, said.read_text().splitlines()), key=lambda answer: answer["index"])
    return [answer["logprobs"] for answer in answers]


def compare(binary, model, count, threads):
    """How far apart they may be, and two lists, of prompts and of generated tokens: by place, how far the likeliest
    tokens are apart at most."""
    draw = random.Random(1)
    about = json.loads(output([binary, "inspect", model, "--json"], ""))
    most = MOST_OF_FLOATS if FLOATS >= set(about["types"]) else MOST
    tokens = [draw.randrange(256, about["vocab_size"] - 2) for _ in range(count)]
    first = max(1, count // 4)
    requests = [{"prompt": tokens[:end], "max_tokens": 1} for end in range(1, count + 1)]
    requests.append({"prompt": tokens[:first], "max_tokens": count - first})
    *prompts, generated = own_answers(binary, model, requests, threads)
    prompts = [answer[0] for answer in prompts]
    lists = [
        {"tokens": tokens, "own": prompts, "first": 0},
        {"tokens": tokens[:first] + [token["id"] for token in generated][:-1], "own": generated[1:], "first": first},
    ]
    asked = [
        {
            "tokens": each["tokens"],
            "wanted": [(each["first"] + i, [top["id"] for top in place["top"]]) for i, place in enumerate(each["own"])],
        }
        for each in lists
    ]
    found = json.loads(output([PYTHON, "-c", PEER_LOGPROBS, PEER, model, threads], json.dumps(asked)))
    return most, [
        [
            max(abs(top["logprob"] - theirs) for top, theirs in zip(place["top"], row))
            for place, row in zip(each["own"], rows)
        ]
        for each, rows in zip(lists, found)
    ]


def narrow_models():
    for kind in random_gguf.TYPES:
        model = ROOT / "build" / "bench" / f"{NARROW}-{kind}.gguf"
        if not model.exists():
            random_gguf.write_model(NARROW, model, None, kind)
        yield model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.tokens < 4:
        parser.error("--tokens: expected 4 at least")
    if not PYTHON.exists():
        parser.error(f"there is no llama.cpp: python3 {PEER} setup {PYTHON.parent.parent}")
    print("| file | places | median | worst | limit of the median |\n| --- | --- | ---: | ---: | ---: |")
    failed = False
    for model in options.models or narrow_models():
        most, apart = compare(options.build / "dovetail", model, options.tokens, options.threads)
        for kind, places in zip(("of prompts", "generated"), apart):
            median = statistics.median(places)
            print(f"| {model.stem} | {kind} | {median:.1e} | {max(places):.1e} | {most} |", flush=True)
            failed |= not median <= most
    return failed


if __name__ == "__main__":
    sys.exit(main())
