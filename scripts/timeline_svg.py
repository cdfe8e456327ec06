#!/usr/bin/env python3
"""Draws a trace of `dovetail simulate --trace` or `dovetail run --trace` as an SVG picture.

Time runs to the right. On top are the steps, below one lane per sequence, in order of arrival: what it computed in
each step, and while it computed nothing, why. Colours follow the reader's light or dark theme.
"""

import argparse
import html
import json
import re
import sys

SLOTS, SEQUENCES, STEPS = 2, 3, 1
STEP_TRACK = 1

WIDTH, LABELS, RIGHT = 960, 132, 12
TOP, LANE, GAP = 34, 24, 8
STEP_LANE = 20

STYLE = """
svg { --text: #1f2328; --faint: #656d76; --line: #d8dee4; --prefill: #bf5a00; --decode: #0a6ebd;
      --waiting: #8c959f; --preempted: #c4314b; --empty: #eef1f4; background: none; }
@media (prefers-color-scheme: dark) {
  svg { --text: #e6edf3; --faint: #9198a1; --line: #3d444d; --prefill: #f0883e; --decode: #58a6ff;
        --waiting: #6e7681; --preempted: #f85149; --empty: #212830; }
}
text { font: 12px system-ui, sans-serif; fill: var(--text); }
.faint { fill: var(--faint); font-size: 11px; }
.grid { stroke: var(--line); stroke-width: 1; }
.lane { fill: var(--empty); }
.prefill { fill: var(--prefill); }
.decode { fill: var(--decode); }
.waiting { fill: var(--waiting); opacity: 0.45; }
.preempted { fill: var(--preempted); opacity: 0.45; }
.mark { stroke: var(--preempted); stroke-width: 2.5; }
"""

LEGEND = (
    ("prefill", "prompt is read"),
    ("decode", "answer grows"),
    ("lane", "has no row"),
    ("waiting", "waits"),
    ("preempted", "gave way, waits at its old place"),
)


class Trace:
    """What the picture needs of a trace; times in microseconds."""

    def __init__(self, items):
        self.steps = []  # (begin, end, name)
        self.rows = {}  # sequence: [(begin, end, kind, name)]
        self.waits = {}  # sequence: [(begin, end, was preempted)]
        self.preemptions = {}  # sequence: [time]
        waits = []
        for item in items:
            phase, process = item["ph"], item.get("pid")
            if phase == "i" and item["name"] == "preempted":
                self.preemptions.setdefault(item["tid"], []).append(item["ts"])
            if phase != "X":
                continue
            begin, end, name = item["ts"], item["ts"] + item["dur"], item["name"]
            if process == STEPS and item["tid"] == STEP_TRACK:
                self.steps.append((begin, end, name))
            elif process == SLOTS:
                row = re.fullmatch(r"(prefill|decode) (\d+): (\d+)\+(\d+)", name)
                if row:
                    what = f"slot {item['tid']}, positions {row[3]}+{row[4]}"
                    self.rows.setdefault(int(row[2]), []).append((begin, end, row[1], what))
            elif process == SEQUENCES and name == "waiting":
                waits.append((item["tid"], begin, end))
        for sequence, begin, end in waits:
            back = any(abs(begin - at) < 1e-3 for at in self.preemptions.get(sequence, ()))
            self.waits.setdefault(sequence, []).append((begin, end, back))
        self.steps.sort()
        for rows in self.rows.values():
            rows.sort()

    def sequences(self, begin, end):
        """Those that have something to show between two times."""
        seen = set()
        for lanes in (self.rows, self.waits):
            for sequence, slices in lanes.items():
                if any(at < end and until > begin for at, until, *_ in slices):
                    seen.add(sequence)
        return sorted(seen)


def tick_distance(span):
    """A round distance, in microseconds, that gives at most ten ticks."""
    distance = 1.0
    while True:
        for factor in (1, 2, 5):
            if span / (distance * factor) <= 10:
                return distance * factor
        distance *= 10


def draw(trace, begin, end, title, names):
    scale = (WIDTH - LABELS - RIGHT) / (end - begin)
    sequences = trace.sequences(begin, end)
    step_top = TOP + 12
    first_lane = step_top + STEP_LANE + GAP + 4
    bottom = first_lane + len(sequences) * (LANE + GAP)
    height = bottom + 48
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="4" y="18" font-weight="600">{html.escape(title)}</text>',
    ]

    def x(time):
        return LABELS + (min(max(time, begin), end) - begin) * scale

    def box(kind, at, until, top, tall, tip, inset=0.0):
        if until <= begin or at >= end:
            return
        left, width = x(at), max(x(until) - x(at) - inset, 0.4)
        out.append(
            f'<rect class="{kind}" x="{left:.2f}" y="{top}" width="{width:.2f}" height="{tall}">'
            f"<title>{html.escape(tip)}</title></rect>"
        )

    def milliseconds(at, until):
        return f"{(until - at) / 1000:.2f} ms"

    distance = tick_distance(end - begin)
    tick = -(-begin // distance) * distance
    while tick <= end:
        out.append(f'<line class="grid" x1="{x(tick):.2f}" x2="{x(tick):.2f}" y1="{step_top - 6}" y2="{bottom}"/>')
        out.append(
            f'<text class="faint" x="{x(tick):.2f}" y="{bottom + 14}" text-anchor="middle">{tick / 1000:g}</text>'
        )
        tick += distance
    out.append(f'<text class="faint" x="4" y="{bottom + 14}">milliseconds</text>')

    # A mixed step has both colours.
    out.append(f'<text x="4" y="{step_top + 14}">steps</text>')
    for at, until, name in trace.steps:
        tip = f"{name}, {milliseconds(at, until)}"
        if name.startswith("mixed"):
            box("prefill", at, until, step_top, STEP_LANE // 2, tip, 1)
            box("decode", at, until, step_top + STEP_LANE // 2, STEP_LANE // 2, tip, 1)
        else:
            box("prefill" if name.startswith("prefill") else "decode", at, until, step_top, STEP_LANE, tip, 1)

    for number, sequence in enumerate(sequences):
        top = first_lane + number * (LANE + GAP)
        label = names.get(sequence, f"sequence {sequence}")
        out.append(f'<text x="4" y="{top + 16}">{html.escape(label)}</text>')
        parts = trace.rows.get(sequence, []) + trace.waits.get(sequence, [])
        alive = min(part[0] for part in parts), max(part[1] for part in parts)
        box("lane", *alive, top, LANE, f"{label} is there for {milliseconds(*alive)}")
        for at, until, back in trace.waits.get(sequence, ()):
            tip = "gave way" if back else "waits"
            box("preempted" if back else "waiting", at, until, top + 7, LANE - 14, f"{tip}, {milliseconds(at, until)}")
        for at, until, kind, what in trace.rows.get(sequence, ()):
            box(kind, at, until, top, LANE, f"{kind}, {what}, {milliseconds(at, until)}", 1)
        for at in trace.preemptions.get(sequence, ()):
            if begin <= at <= end:
                out.append(f'<line class="mark" x1="{x(at):.2f}" x2="{x(at):.2f}" y1="{top - 3}" y2="{top + LANE + 3}"/>')

    shown = [entry for entry in LEGEND if entry[0] != "preempted" or any(trace.preemptions.values())]
    left = LABELS
    for kind, text in shown:
        out.append(f'<rect class="{kind}" x="{left}" y="{bottom + 28}" width="12" height="12"/>')
        out.append(f'<text class="faint" x="{left + 18}" y="{bottom + 38}">{text}</text>')
        left += 40 + 7 * len(text)
    out.append("</svg>\n")
    return "\n".join(out)


def named(text):
    sequence, found, label = text.partition("=")
    if not found or not sequence.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is no name, expected SEQUENCE=LABEL")
    return int(sequence), label


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="what --trace has written")
    parser.add_argument("-o", "--output", help="the picture (standard output)")
    parser.add_argument("--title", default="Steps", help="its first line")
    parser.add_argument("--from-ms", type=float, help="where it begins (the first step)")
    parser.add_argument("--to-ms", type=float, help="where it ends (the last step's end)")
    parser.add_argument("--name", type=named, action="append", default=[], metavar="SEQUENCE=LABEL")
    arguments = parser.parse_args()

    try:
        with open(arguments.trace, encoding="utf-8") as file:
            trace = Trace(json.load(file)["traceEvents"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{arguments.trace}: {error}")
    if not trace.steps:
        sys.exit(f"{arguments.trace}: there is no step in it")
    begin = trace.steps[0][0] if arguments.from_ms is None else arguments.from_ms * 1000
    end = max(step[1] for step in trace.steps) if arguments.to_ms is None else arguments.to_ms * 1000
    if end <= begin:
        sys.exit(f"--to-ms: {end / 1000:g} is not after {begin / 1000:g}")
    picture = draw(trace, begin, end, arguments.title, dict(arguments.name))
    if arguments.output is None:
        sys.stdout.write(picture)
    else:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(picture)


if __name__ == "__main__":
    main()
