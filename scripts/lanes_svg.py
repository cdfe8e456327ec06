#!/usr/bin/env python3
"""Draws what the lanes did in one step of a trace of `dovetail run --trace` or `dovetail serve --trace` as an SVG picture.

Time runs to the right; every lane has a row, with a box for each block of a task, coloured by what it is. Colours follow
the reader's light or dark theme.
"""

import argparse
import html
import json
import re
import sys

STEPS, STEP_TRACK, LANES = 1, 1, 4
FULL = 0.9  # of the tokens of the step with the most
WIDTH, LABELS, RIGHT = 960, 64, 12
TOP, LANE, GAP = 34, 28, 10

KINDS = (
    ("product", "products", {"query-key-value", "output", "gate-up", "down", "logits"}),
    ("attend", "attention", {"attend"}),
    ("vector", "work on rows", None),
)
STYLE = """
svg { --text: #1f2328; --faint: #656d76; --line: #d8dee4; --product: #0a6ebd; --attend: #bf5a00;
      --vector: #2da44e; --empty: #eef1f4; background: none; }
@media (prefers-color-scheme: dark) {
  svg { --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --product: #58a6ff; --attend: #f0883e;
        --vector: #56d364; --empty: #212830; }
}
text { font: 12px system-ui, sans-serif; fill: var(--text); }
.faint { fill: var(--faint); font-size: 11px; }
.lane { fill: var(--empty); }
.product { fill: var(--product); }
.attend { fill: var(--attend); }
.vector { fill: var(--vector); }
rect.t1 { opacity: 0.8; } rect.t2 { opacity: 0.6; } rect.t3 { opacity: 0.45; }
"""


def kind_of(name):
    task = name.split()[-1]
    return next(kind for kind, _, tasks in KINDS if tasks is None or task in tasks)


def tokens_of(step):
    """Of a step called `mixed[p=2 chunks/1934 tok, d=114]`, `prefill[p=2 chunks/1934 tok]` or `decode[d=114]`."""
    return sum(int(read or decoded) for read, decoded in re.findall(r"(\d+) tok|d=(\d+)", step))


def lanes_of(items, step):
    """What each lane did in a step: (begin, end, name, tile) of every block."""
    begin, end, _ = step
    lanes = {}
    for item in items:
        if item["pid"] == LANES and begin <= item["ts"] < end:
            slice_ = (item["ts"], item["ts"] + item["dur"], item["name"], item["args"]["tile"])
            lanes.setdefault(item["tid"], []).append(slice_)
    return lanes


def extent(lanes):
    first = min(at for slices in lanes.values() for at, *_ in slices)
    last = max(until for slices in lanes.values() for _, until, *_ in slices)
    return first, last


def share_busy(lanes):
    first, last = extent(lanes)
    busy = sum(until - at for slices in lanes.values() for at, until, *_ in slices)
    return busy / (len(lanes) * (last - first))


def choose(which, items, steps):
    """The number of a step: as given, or of those with nearly the most tokens."""
    full = [i for i, (_, _, name) in enumerate(steps) if tokens_of(name) >= FULL * max(tokens_of(s[2]) for s in steps)]
    if which == "latest":
        return full[-1]
    if which == "fastest":
        return min(full, key=lambda i: (steps[i][1] - steps[i][0]) / tokens_of(steps[i][2]))
    if not which.isdigit() or int(which) >= len(steps):
        sys.exit(f"--step: {which} is none of the trace's {len(steps)} steps, from 0, nor latest or fastest")
    return int(which)


def draw(lanes, begin, end, title):
    scale = (WIDTH - LABELS - RIGHT) / (end - begin)
    bottom = TOP + len(lanes) * (LANE + GAP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 44}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="4" y="18" font-weight="600">{html.escape(title)}</text>',
    ]
    for number, (lane, slices) in enumerate(sorted(lanes.items())):
        top = TOP + number * (LANE + GAP)
        out.append(f'<text x="4" y="{top + 18}">lane {lane}</text>')
        out.append(f'<rect class="lane" x="{LABELS}" y="{top}" width="{WIDTH - LABELS - RIGHT}" height="{LANE}"/>')
        for at, until, name, tile in slices:
            left, width = LABELS + (at - begin) * scale, max((until - at) * scale - 0.15, 0.2)
            out.append(
                f'<rect class="{kind_of(name)} t{min(tile, 3)}" x="{left:.2f}" y="{top}" width="{width:.2f}" '
                f'height="{LANE}"><title>{html.escape(name)}, tile {tile}: {until - at:.1f} us</title></rect>'
            )
    out.append(f'<text class="faint" x="{LABELS}" y="{bottom + 8}">0</text>')
    out.append(
        f'<text class="faint" x="{WIDTH - RIGHT}" y="{bottom + 8}" text-anchor="end">{(end - begin) / 1000:.2f} ms</text>'
    )
    x = LABELS
    for kind, what, _ in KINDS:
        out.append(f'<rect class="{kind}" x="{x}" y="{bottom + 22}" width="12" height="12"/>')
        out.append(f'<text class="faint" x="{x + 18}" y="{bottom + 32}">{what}</text>')
        x += 110
    out.append(f'<text class="faint" x="{x}" y="{bottom + 32}">the paler, the later the tile of rows</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument(
        "--step",
        default="latest",
        help="which of the trace, from 0; or of those with nearly the most tokens the latest one, or the fastest, which "
        "whatever else the machine did has held up least: latest, fastest (latest)",
    )
    parser.add_argument("--title", default="What the lanes did in a step")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    with open(args.trace, encoding="utf-8") as file:
        items = [item for item in json.load(file)["traceEvents"] if item["ph"] == "X"]
    steps = sorted(
        (item["ts"], item["ts"] + item["dur"], item["name"])
        for item in items
        if item["pid"] == STEPS and item["tid"] == STEP_TRACK
    )
    if not steps:
        sys.exit(f"{args.trace}: it has no steps")
    step = choose(args.step, items, steps)
    lanes = lanes_of(items, steps[step])
    if not lanes:
        sys.exit(f"{args.trace}: no lane did anything in step {step}")
    title = f"{args.title}: {steps[step][2]}, lanes busy {100 * share_busy(lanes):.0f} %"
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(draw(lanes, *extent(lanes), title))
    print(f"step {step} of {len(steps)}: {title}")


if __name__ == "__main__":
    main()
