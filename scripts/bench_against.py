#!/usr/bin/env python3
"""Compares the engine's speed with that of another revision, in one run.

usage: bench_against.py REVISION [MODEL...] [--rounds N] [--only TEXT] [--own=OPTION...]

Builds REVISION in a worktree of its own under build/against/, with this tree's engine_bench, and
lets the two programs take turns; "." is this tree itself. --only measures the figures whose names
contain TEXT; --own gives this tree's program one more option (--own=--pin-threads=never).

Prints the medians, and the median of the rounds' ratios with its quartiles: this tree's speed by
the other's, so more than 1 is faster (steps are given in ms and turned round). The machine may be
noisy: compare what stands in one line, never two runs.
"""

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURE = re.compile(r"  (.{24}) +([0-9.]+) (tokens/s|ms)(,|$)")


def build(tree: Path) -> Path:
    if not (tree / "build/release/build.ninja").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "build/release", "--target", "engine_bench"], cwd=tree, check=True,
                   stdout=subprocess.DEVNULL)
    return tree / "build/release/bench/engine_bench"


def other_tree(revision: str) -> Path:
    commit = subprocess.run(["git", "rev-parse", "--verify", revision + "^{commit}"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()
    tree = ROOT / "build/against" / commit
    if not tree.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # The same figures from both.
    (tree / "bench/engine_bench.cpp").write_bytes((ROOT / "bench/engine_bench.cpp").read_bytes())
    return tree


def measure(command: list[str | Path], figures: dict[str, list[float]]) -> None:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench_against: {' '.join(map(str, command))} ended with {done.returncode}")
    for line in done.stdout.splitlines():
        if match := FIGURE.match(line):
            speed = float(match[2]) if match[3] == "tokens/s" else 1000.0 / float(match[2])
            figures.setdefault(match[1].strip(), []).append(speed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("models", nargs="*", default=["models/demo-arith", "random:Q8_0", "random:BF16"])
    parser.add_argument("--only", default="")
    parser.add_argument("--own", action="append", default=[])
    args = parser.parse_intermixed_args()
    own = build(ROOT)
    other = own if args.revision == "." else build(other_tree(args.revision))
    for model in args.models:
        before: dict[str, list[float]] = {}
        after: dict[str, list[float]] = {}
        for turn in range(args.rounds):
            # Who goes first takes turns, too.
            sides = [(other, [], before), (own, args.own, after)]
            for program, options, figures in sides if turn % 2 else reversed(sides):
                measure([program, model, "--only", args.only, *options], figures)
        print(f"{model}, medians of {args.rounds} rounds: {args.revision}, this tree, ratio (quartiles)")
        for name, speeds in after.items():
            ratios = [new / old for old, new in zip(before[name], speeds)]
            low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            print(f"  {name:<24} {statistics.median(before[name]):10.2f} {statistics.median(speeds):10.2f} "
                  f"{middle:8.3f} ({low:.3f} to {high:.3f})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
