"""A thousand additions that a bundled model was not shown, under many schedules: the same bytes,
with log-probabilities, and nearly all of them right.

usage: accuracy.py PROGRAM MODEL [unittest options]
"""

import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools" / "demo_model"))
import problems  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]
ADDITIONS = 1000
LEAST_RIGHT = 970

SMALL = ("--kv-blocks", "20", "--max-model-len", "64", "--no-prefix-cache")
CHUNKS = ("--long-prefill-token-threshold", "5", "--max-num-batched-tokens", "64")
DRAFTS = ("--speculative-tokens", "3")

# The options of each schedule. Few blocks: sequences are preempted. Answers go on behind their end,
# so that they are long enough for that.
SCHEDULES = {
    "one at a time": ("--max-num-seqs", "1"),
    "all together": (),
    "prompts and answers in steps of their own": ("--no-mixed",),
    "chunks": CHUNKS,
    "planned ahead": ("--async-scheduling",),
    "preempted": SMALL,
    "drafts": DRAFTS,
    "drafts, chunks, planned ahead, preempted": DRAFTS + CHUNKS + ("--async-scheduling",) + SMALL,
}


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        draw = random.Random(2026)
        lines, expected = [], []
        for number in range(ADDITIONS):
            a, op, b = problems.sample_problem(draw, held_out=True, op="+")
            lines.append({"id": number, "prompt": f"Q: {a}{op}{b}=?\nA:"})
            expected.append(f" {a + b}\n")
        cls.expected = expected
        cls.input = cls.folder / "additions.jsonl"
        cls.input.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def answers(self, *options):
        """What the program wrote, and how many sequences were preempted."""
        output, trace = self.folder / "answers.jsonl", self.folder / "trace.json"
        command = [PROGRAM, "run", MODEL, "--input", self.input, "--output", output]
        command += ["--max-tokens", "40", "--ignore-eos", "--logprobs", "2", "--quiet"]
        command += ["--trace", trace, *options]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return output.read_bytes(), trace.read_text().count('"name":"preempted"')

    def test_every_schedule_gives_the_same_bytes(self):
        first = None
        for name, options in SCHEDULES.items():
            with self.subTest(name):
                written, preempted = self.answers(*options)
                if first is None:
                    first = written
                    self.check_answers(written)
                self.assertEqual(written, first)
                if "--kv-blocks" in options:
                    self.assertGreater(preempted, 0)
                else:
                    self.assertEqual(preempted, 0)

    def check_answers(self, written):
        answers = [json.loads(line) for line in written.splitlines()]
        self.assertEqual(len(answers), ADDITIONS)
        right = sum(
            answer["text"].startswith(text)
            for answer, text in zip(answers, self.expected, strict=True)
        )
        print(f"{Path(MODEL).name}: {right} of {ADDITIONS} additions are right", file=sys.stderr)
        self.assertGreaterEqual(right, LEAST_RIGHT)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
