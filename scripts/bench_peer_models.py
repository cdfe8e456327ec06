#!/usr/bin/env python3
"""Compares the speed of models with llama.cpp's, on the same GGUF files.

usage: bench_peer_models.py BUILD_FOLDER MODEL.gguf... [--rounds N] [--threads N] [--batches N,...] [--print]

`dovetail bench` and the peer (../shared/tools/peer_llama_cpp.py, in a virtual environment under build/) take turns, and
so does who goes first; figures are medians over the rounds. Writes a table between the markers of docs/performance.md
and the batch curve to docs/images/batch-curve.svg; with --print only prints the table. The machine has to be quiet.
"""

import argparse
import datetime
import html
import json
import math
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT.parent / "shared" / "tools" / "peer_llama_cpp.py"
PEER_FOLDER = ROOT / "build" / "peer-llama-cpp"
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "batch-curve.svg"
BEGIN, END = "<!-- bench-peer-models: begin -->", "<!-- bench-peer-models: end -->"

PROMPT, DEPTH, STEPS = 512, 128, 16  # STEPS: of a run of `dovetail bench`
BATCHES = (1, 2, 4, 8, 16, 32, 64)

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 300, 64, 110, 40, 44
STYLE = """
svg { --text: #1f2328; --faint: #656d76; --line: #d8dee4; --own: #0a6ebd; --peer: #bf5a00; background: none; }
@media (prefers-color-scheme: dark) {
  svg { --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --own: #58a6ff; --peer: #f0883e; }
}
text { font: 12px system-ui, sans-serif; fill: var(--text); }
.faint { fill: var(--faint); font-size: 11px; }
.grid { stroke: var(--line); }
polyline { fill: none; stroke-width: 2; }
polyline.own { stroke: var(--own); } circle.own { fill: var(--own); }
polyline.peer { stroke: var(--peer); } circle.peer { fill: var(--peer); }
"""


def run(command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench_peer_models: {' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def peer_python():
    """The interpreter that has the peer, which is installed the first time (some 15 minutes)."""
    python = PEER_FOLDER / "bin" / "python"
    there = python.exists() and subprocess.run([python, "-c", "import llama_cpp, numpy"], capture_output=True).returncode == 0
    if not there:
        print(f"bench_peer_models: building llama-cpp-python in {PEER_FOLDER}", file=sys.stderr)
        run([sys.executable, PEER, "setup", PEER_FOLDER])
    return python


def measures_of(batches):
    """What `dovetail bench` calls it, and the peer."""
    return {f"prefill {PROMPT}": f"prefill {PROMPT}"} | {f"decode x{n} at {DEPTH}": f"decode x{n}" for n in batches}


def measure_own(binary, model, batches, threads):
    """Tokens per second and shares of the rooflines by measure, and what the command says of itself."""
    said = json.loads(run([binary, "bench", model, "--runs", 1, "--depth", DEPTH, "--threads", threads,
                           "--only", ",".join(measures_of(batches)), "--json", "-"]))
    return {row["measure"]: row for row in said["measures"] if "skipped" not in row}, said


def measure_peer(python, model, batches, threads):
    said = run([python, PEER, "bench", model, "--rounds", 1, "--threads", threads, "--prompt", PROMPT, "--decode", STEPS,
                "--batch", ",".join(map(str, batches)), "--depth", DEPTH])
    rows = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    return {row["measure"]: statistics.median(row["tokens_per_s"]) for row in rows}


def compare(binary, python, model, batches, rounds, threads):
    """(kernels, rows): a row has the measure, own and peer's medians, the ratios' quartiles, and shares of rooflines."""
    own, peer, kernels = [], [], ""
    for turn in range(rounds):
        for who in ("own", "peer") if turn % 2 == 0 else ("peer", "own"):
            print(f"bench_peer_models: {model.name}, round {turn + 1} of {rounds}: {who}", file=sys.stderr)
            if who == "own":
                rows, said = measure_own(binary, model, batches, threads)
                own.append(rows)
                kernels = said["kernels"]
            else:
                peer.append(measure_peer(python, model, batches, threads))
    result = []
    for name, peer_name in measures_of(batches).items():
        if name not in own[0] or peer_name not in peer[0]:
            continue
        speeds, others = [rows[name]["median"] for rows in own], [rows[peer_name] for rows in peer]
        ratios = [mine / other for mine, other in zip(speeds, others)]
        result.append({
            "measure": name, "own": statistics.median(speeds), "peer": statistics.median(others),
            "ratio": statistics.quantiles(ratios, n=4, method="inclusive") if rounds > 1 else ratios * 3,
            "of_compute": statistics.median(rows[name]["of_compute"] for rows in own),
            "of_dram": statistics.median(rows[name]["of_dram"] for rows in own),
        })
    return kernels, result


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def table(models, kernels, rounds, threads):
    lines = [f"{datetime.date.today()}, {processor()}, `{kernels}` kernels, {threads} threads, medians of {rounds} rounds in turns; "
             "tokens per second. The ratio has its quartiles; shares are Dovetail's, of what this machine does at most "
             "(`dovetail bench`). llama.cpp is driven from Python, which costs it some 5 to 20 %: a smaller lead is none.", "",
             "| file | what | Dovetail | llama.cpp | ratio | of compute | of DRAM |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, rows in models.items():
        for row in rows:
            low, middle, high = row["ratio"]
            lines.append(f"| {name} | {row['measure']} | {row['own']:.1f} | {row['peer']:.1f} | {middle:.2f} ({low:.2f} to "
                         f"{high:.2f}) | {100 * row['of_compute']:.0f} % | {100 * row['of_dram']:.0f} % |")
    return "\n".join(lines)


def nice_top(value):
    """The least of 1, 2 or 5 times a power of ten that is not below."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def panel(name, rows, top):
    """The batch curves of a model, the panel's upper edge at `top`."""
    curve = [(int(row["measure"].split()[1][1:]), row) for row in rows if row["measure"].startswith("decode")]
    if not curve:
        return []
    most = nice_top(max(max(row["own"], row["peer"]) for _, row in curve))
    last = max(math.log2(curve[-1][0]), 1)
    x_of = lambda batch: LEFT + (WIDTH - LEFT - RIGHT) * math.log2(batch) / last
    y_of = lambda speed: top + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * speed / most
    out = [f'<text x="{LEFT}" y="{top + 20}">{html.escape(name)}: tokens per second by sequences, depth {DEPTH}</text>']
    for part in range(5):
        y = y_of(most * part / 4)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="faint" text-anchor="end" x="{LEFT - 8}" y="{y + 4:.1f}">{most * part / 4:g}</text>')
    for batch, _ in curve:
        out.append(f'<text class="faint" text-anchor="middle" x="{x_of(batch):.1f}" y="{top + HEIGHT - BOTTOM + 18}">{batch}</text>')
    ends = {who: y_of(curve[-1][1][who]) for who in ("own", "peer")}
    if abs(ends["own"] - ends["peer"]) < 14:  # names that would lie on each other
        upper = min(ends, key=ends.get)
        ends[upper] -= 7
        ends["peer" if upper == "own" else "own"] += 7
    for who, label in (("own", "Dovetail"), ("peer", "llama.cpp")):
        points = [(x_of(batch), y_of(row[who])) for batch, row in curve]
        out.append(f'<polyline class="{who}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        for (x, y), (batch, row) in zip(points, curve):
            out.append(f'<circle class="{who}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{label}, {batch}: {row[who]:.1f}</title></circle>')
        out.append(f'<text x="{WIDTH - RIGHT + 10}" y="{ends[who] + 4:.1f}">{label}</text>')
    return out


def picture(models):
    height = HEIGHT * len(models)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
             f"<style>{STYLE}</style>"]
    for index, (name, rows) in enumerate(models.items()):
        parts += panel(name, rows, HEIGHT * index)
    return "\n".join(parts + ["</svg>"]) + "\n"


def replace_section(page, text):
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        sys.exit(f"bench_peer_models: {PAGE}: the markers {BEGIN} and {END} are not there")
    return f"{page[:begin]}{BEGIN}\n{text}\n{page[end:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of both (as many as Dovetail takes by itself: the physical cores)")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="sequences that decode at a time")
    parser.add_argument("--print", action="store_true", dest="print_only")
    args = parser.parse_intermixed_args()
    if args.rounds < 1 or (args.threads is not None and args.threads < 1):
        parser.error("--rounds and --threads: expected at least 1")
    batches = [int(each) if each.isdigit() else 0 for each in args.batches.split(",")]
    if not set(batches) <= set(BATCHES):
        parser.error(f"--batches: {args.batches}: expected some of {','.join(map(str, BATCHES))}")
    if not PEER.exists():
        print(f"bench_peer_models: skipped: there is no {PEER}")
        return
    for model in args.models:
        if model.suffix != ".gguf" or not model.is_file():
            sys.exit(f"bench_peer_models: {model}: expected a GGUF file, which both can read")
    binary, python = args.build.resolve() / "dovetail", peer_python()
    threads = args.threads or json.loads(run([binary, "bench", args.models[0], "--runs", 1, "--only", "roofline", "--json",
                                              "-"]))["threads"]
    models, kernels = {}, ""
    for model in args.models:
        kernels, models[model.stem] = compare(binary, python, model, batches, args.rounds, threads)
        # What is known is not lost where a later model fails.
        print(table({model.stem: models[model.stem]}, kernels, args.rounds, threads), file=sys.stderr)
    text = table(models, kernels, args.rounds, threads)
    print(text)
    if args.print_only:
        return
    PAGE.write_text(replace_section(PAGE.read_text(), f"{text}\n\n![Tokens per second by batch](images/{PICTURE.name})"))
    PICTURE.write_text(picture(models))


if __name__ == "__main__":
    main()
