#!/usr/bin/env python3
"""Measures the scheduler through the HTTP server: what a long prompt does to streams, and what a small pool costs.

usage: bench_server.py PROGRAM [MODEL]

Prints ratios of times from one run of the server each, medians of several rounds. MODEL: a Hugging Face folder; its positions are
stretched to 8,192, since only its work matters.
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from running_server import RunningServer
from stream_client import Stream, read_all

ROUNDS = 5


def stretched(model, folder):
    if not Path(model).is_dir():
        return model
    copy = Path(folder) / Path(model).name
    shutil.copytree(model, copy, ignore=shutil.ignore_patterns("*.gguf"))
    config = json.loads((copy / "config.json").read_text())
    config["max_position_embeddings"] = 8192
    (copy / "config.json").write_text(json.dumps(config))
    return str(copy)


def request(server, number, prompt, tokens):
    body = {"model": "m", "prompt": prompt, "max_tokens": tokens, "stream": True, "temperature": 0, "ignore_eos": True}
    return Stream(number, server.url, body)


def round_with_long_prompt(server, number):
    """8 streams decode and a prompt of 4,096 tokens comes in.

    Returns the normal gap, the longest gap of any stream while the prompt is read and in as much time after it (what this machine
    does to streams by itself), and the seconds until the prompt's token.
    """
    streams = [request(server, i, f"{number} {i} Q: {i}+{i}=?", 7000) for i in range(8)]
    read_all(streams, until=lambda all_: all(len(s.pieces) > 150 for s in all_))
    normal = statistics.median(gap for s in streams for gap in s.gaps()[20:])
    came = [len(s.pieces) for s in streams]
    # A prompt that no cache knows.
    prompt = request(server, 8, str(number) + "1" * 4094, 1)
    read_all([*streams, prompt], until=lambda all_: all_[8].finish is not None)
    read = [len(s.pieces) for s in streams]
    wait = prompt.ended - prompt.sent
    end = time.monotonic() + wait
    read_all(streams, until=lambda all_: time.monotonic() > end or any(s.finish for s in all_))
    during = max(gap for s, a, b in zip(streams, came, read) for gap in s.gaps()[a - 1 : b])
    after = max(gap for s, b in zip(streams, read) for gap in s.gaps()[b + 1 :])
    for stream in [*streams, prompt]:
        stream.close()
    server.wait_for(lambda m: m["requests_running"] == 0)
    return normal, during, after, wait


def long_prompt(program, model):
    """Rounds of all settings in turn, since the machine's mood changes; one result per setting and round."""
    settings = {"default settings": [], "--async-scheduling": ["--async-scheduling"], "--no-mixed": ["--no-mixed"]}
    servers = {
        name: RunningServer(program, model, "--served-model-name", "m", *options) for name, options in settings.items()
    }
    results = {name: [] for name in settings}
    try:
        for number in range(ROUNDS):
            for name, server in servers.items():
                results[name].append(round_with_long_prompt(server, number))
    finally:
        for server in servers.values():
            server.stop()
    return results


def forty(program, model):
    """40 requests of 100 tokens over a pool for 12: the last one's latency over 4,000 tokens at the speed of 12."""
    ratios = []
    for round_ in range(ROUNDS):
        server = RunningServer(program, model, "--served-model-name", "m", "--kv-blocks", "84", "--no-prefix-cache")
        try:
            twelve = [request(server, i, f"Q: {100 + i}+7=?\nA:", 100) for i in range(12)]
            read_all(twelve)
            speed = 1200 / (max(s.ended for s in twelve) - min(s.sent for s in twelve))
            streams = [request(server, i, f"Q: {100 + i}+7=?\nA:", 100) for i in range(40)]
            read_all(streams)
            assert all(s.finish == "length" for s in streams)
            last = max(s.ended for s in streams) - min(s.sent for s in streams)
            ratios.append(last / (4000 / speed))
        finally:
            server.stop()
    return ratios


def main():
    program = sys.argv[1]
    bundled = str(ROOT / "models" / "demo-arith")
    with tempfile.TemporaryDirectory() as folder:
        model = stretched(sys.argv[2] if len(sys.argv) > 2 else bundled, folder)
        for name, rounds in long_prompt(program, model).items():
            ratios = [during / normal for normal, during, _, _ in rounds]
            print(
                f"8 streams, then a prompt of 4,096 tokens, {name}: longest gap {statistics.median(ratios):.1f} x the normal one "
                f"({1000 * statistics.median(r[0] for r in rounds):.2f} ms), runs {[round(r, 1) for r in ratios]}; "
                f"without the prompt {[round(after / normal, 1) for normal, _, after, _ in rounds]}; "
                f"prompt read in {statistics.median(r[3] for r in rounds):.2f} s"
            )
    ratios = forty(program, bundled)
    print(
        f"40 requests over a pool for 12: last one at {statistics.median(ratios):.3f} x of total work over throughput, "
        f"runs {[round(r, 3) for r in ratios]}"
    )


if __name__ == "__main__":
    main()
