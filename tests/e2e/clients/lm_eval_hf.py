"""Evaluates SmolLM2 behind the server and with lm-evaluation-harness's own `hf` backend.

usage: lm_eval_hf.py PROGRAM [unittest options]

The weights of the installed GGUF file (Q4_1) are written as a Hugging Face folder in float32, by
transformers; both read that folder. Log-probabilities of each item are equal within TOLERANCE, the
chosen answers and generated texts are the same. Where two answers are nearer than that, either may
be chosen, and where two tokens are, either may follow; the test says how many such places it found.

Without torch, which `make check-clients CLIENTS=lm_eval_hf` installs, the exit code is 77.
"""

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import served  # noqa: E402
from running_server import RunningServer  # noqa: E402

import lm_eval_local  # noqa: E402

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as missing:
    print(f"skipped: {missing}; run `make check-clients CLIENTS=lm_eval_hf`")
    sys.exit(77)

PROGRAM = sys.argv[1]

# In nats: for each token that is scored, and of the whole. Found: 4.4e-5. A cache in F16 or rounded
# activations are ten times and more beside it.
TOLERANCE = (2e-4, 1e-5)

# (question, the right answer, wrong ones)
PROBLEMS = [
    ("The capital of France is", " Paris", " London", " Berlin", " a river"),
    ("Water is made of hydrogen and", " oxygen", " iron", " gold", " helium and salt"),
    ("The opposite of hot is", " cold", " warm", " fire", " tall"),
    ("Two plus two is", " four", " five", " seventeen", " twenty-two"),
    ("The sun rises in the", " east", " west", " evening", " kitchen"),
    ("A week has", " seven days", " nine days", " twelve hours", " no end"),
    ("Bees make", " honey", " milk", " bread", " wool"),
    ("The largest planet of the solar system is", " Jupiter", " Mars", " Pluto", " the Moon"),
    ("Shakespeare wrote", " Hamlet", " Faust", " Don Quixote", " nothing at all"),
    ("In Python, a list is sorted with", " sorted()", " print()", " import", " len()"),
    ("Ein Hund ist ein", " Tier", " Baum", " Haus", " Monat"),
    ("Question: Is ice colder than steam?\nAnswer:", " Yes", " No", " Perhaps", " Never"),
]


def records():
    for number, (question, right, *wrong) in enumerate(PROBLEMS):
        choices = list(wrong)
        choices.insert(number % 4, right)
        yield {"question": question, "answer": right, "choices": choices, "right": number % 4}


def write_float_folder(gguf, folder):
    """The model of a GGUF file with weights in float32, and its tokenizer."""
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    read = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = read.config
    if hasattr(config, "quantization_config"):  # what was read; a model that has it is not written
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


class BesideHf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Instruction sets that round activations to BF16 would be as right and less near.
        os.environ["DOVETAIL_ISA"] = "avx2"
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        path = Path(temporary.name)
        lm_eval_local.write_tasks(path, records(), max_tokens=24)
        cls.folder = path / "smollm2-float"
        write_float_folder(served.MODEL, cls.folder)
        cls.tokenizer = AutoTokenizer.from_pretrained(cls.folder)

        server = RunningServer(PROGRAM, str(cls.folder), "--kv-cache-dtype", "f32")
        cls.addClassCleanup(server.stop)
        cls.ours = lm_eval_local.evaluate(
            path, "local-completions", lm_eval_local.behind_the_server(server, cls.folder)
        )
        cls.theirs = lm_eval_local.evaluate(
            path, "hf", {"pretrained": str(cls.folder), "dtype": "float32", "device": "cpu"}
        )

    def pairs(self, task):
        ours, theirs = (lm_eval_local.samples(run, task) for run in (self.ours, self.theirs))
        self.assertEqual(len(ours), len(PROBLEMS))
        self.assertEqual([s["doc"] for s in ours], [s["doc"] for s in theirs])
        return zip(ours, theirs, strict=True)

    def tolerance(self, question, continuation, likelihood):
        count = len(self.tokenizer.encode(question + continuation)) - len(
            self.tokenizer.encode(question)
        )
        return TOLERANCE[0] * count + TOLERANCE[1] * abs(likelihood)

    def compare(self, question, continuation, ours, theirs):
        """Whether the pairs of likelihood and greedy agree; how far the likelihoods are apart."""
        likelihood, expected = float(ours[0]), float(theirs[0])
        allowed = self.tolerance(question, continuation, expected)
        self.assertAlmostEqual(likelihood, expected, delta=allowed, msg=question + continuation)
        self.assertEqual(str(ours[1]), str(theirs[1]), question + continuation)
        return abs(likelihood - expected)

    def test_choices(self):
        worst = 0.0
        near = 0
        for ours, theirs in self.pairs("local_choice"):
            doc = ours["doc"]
            scores = []
            for choice, one, other in zip(
                doc["choices"], ours["filtered_resps"], theirs["filtered_resps"], strict=True
            ):
                worst = max(worst, self.compare(doc["question"], choice, one, other))
                scores.append((float(one[0]), float(other[0])))
            chosen, expected = (
                max(range(len(scores)), key=lambda i, side=side: scores[i][side]) for side in (0, 1)
            )
            if chosen != expected:
                gap = scores[expected][1] - scores[chosen][1]
                allowed = self.tolerance(doc["question"], doc["choices"][chosen], gap)
                self.assertLess(gap, 2 * allowed, doc["question"])
                near += 1
        print(f"worst difference {worst:.2g} nats, {near} choices within rounding")
        if near == 0:
            accuracy = (lm_eval_local.metric(run, "local_choice", "acc") for run in
                        (self.ours, self.theirs))
            self.assertEqual(*accuracy)

    def test_likelihoods(self):
        worst = max(
            self.compare(ours["doc"]["question"], ours["doc"]["answer"], ours["filtered_resps"][0],
                         theirs["filtered_resps"][0])
            for ours, theirs in self.pairs("local_likelihood")
        )
        print(f"worst difference {worst:.2g} nats")
        self.assertEqual(*(lm_eval_local.metric(run, "local_likelihood", "acc")
                           for run in (self.ours, self.theirs)))
        perplexities = [lm_eval_local.metric(run, "local_likelihood", "perplexity")
                        for run in (self.ours, self.theirs)]
        self.assertAlmostEqual(perplexities[0] / perplexities[1], 1.0, delta=1e-3)

    def test_generated_texts(self):
        model = None
        near = 0
        for ours, theirs in self.pairs("local_generation"):
            text, expected = ours["filtered_resps"][0], theirs["filtered_resps"][0]
            if text == expected:
                continue
            question = ours["doc"]["question"]
            model = model or AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)
            ids, other = (self.tokenizer.encode(question + t) for t in (text, expected))
            same = next(i for i, pair in enumerate(zip(ids, other)) if pair[0] != pair[1])
            with torch.no_grad():
                logits = model(torch.tensor([ids[:same]])).logits[0, -1]
            gap = abs(float(logits[ids[same]] - logits[other[same]]))
            self.assertLess(gap, 2 * TOLERANCE[0], f"{question}: {text!r} and {expected!r}")
            near += 1
        print(f"{len(PROBLEMS) - near} texts equal, {near} part within rounding")
        self.assertLess(near, len(PROBLEMS) // 2)


if __name__ == "__main__":
    if served.MODEL is None:
        print(f"skipped: {served.MISSING}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
