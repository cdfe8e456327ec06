"""Evaluates a model behind the server with lm-evaluation-harness, and holds its scores to others'.

usage: lm_eval_tasks.py PROGRAM MODEL [unittest options]

lm-eval's `local-completions` model asks /v1/completions for likelihoods (`echo`, `logprobs`,
prompts as token ids, in batches) and for texts. What it gets is compared with a forward pass of the
same weights in numpy, written from the architecture's definition: MODEL is a Llama folder of few
layers, such as models/demo-arith. lm_eval_hf.py compares with lm-eval's own `hf` backend.

Without lm-eval, which `make check-clients` installs, the exit code is 77.
"""

import json
import os
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from running_server import RunningServer  # noqa: E402

import lm_eval_local  # noqa: E402

import numpy as np  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]

PROBLEMS = [(12, 3), (100, 21), (7, 8), (45, 45), (311, 64), (9, 90)]


def prompt(a, b):
    return f"Q: {a}+{b}=?\nA:"


def records():
    for a, b in PROBLEMS:
        choices = [f" {a + b}", f" {a + b + 1}", f" {a}", f" {a + b}0"]
        yield {"question": prompt(a, b), "answer": f" {a + b}", "choices": choices, "right": 0}


class Llama:
    """The forward pass, in float64, of a folder with BF16 or F32 safetensors."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        data = (folder / "model.safetensors").read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        self.weights = {}
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            values = self.floats(data[begin:end], entry["dtype"])
            self.weights[name] = values.reshape(entry["shape"])

    @staticmethod
    def floats(data, dtype):
        if dtype == "BF16":
            wide = np.frombuffer(data, "<u2").astype("<u4") << 16
            return wide.view("<f4").astype(np.float64)
        return np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[dtype]).astype(np.float64)

    def norm(self, x, name):
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.weights[name]

    def rotate(self, x):
        half = x.shape[-1] // 2
        frequencies = self.config["rope_theta"] ** (-np.arange(half) / half)
        angles = np.arange(x.shape[0])[:, None, None] * frequencies
        first, second = x[..., :half], x[..., half:]
        cosine, sine = np.cos(angles), np.sin(angles)
        return np.concatenate(
            [first * cosine - second * sine, second * cosine + first * sine], axis=-1
        )

    def logprobs(self, ids):
        """[position][token]: of the token behind each position."""
        config, weights = self.config, self.weights
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        count, dim = len(ids), config["head_dim"]
        x = weights["model.embed_tokens.weight"][ids]
        mask = np.triu(np.full((count, count), -np.inf), 1)
        for layer in range(config["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            y = self.norm(x, name + "input_layernorm.weight")
            q, k, v = (
                (y @ weights[f"{name}self_attn.{part}_proj.weight"].T).reshape(count, -1, dim)
                for part in "qkv"
            )
            q, k = self.rotate(q), self.rotate(k)
            k, v = (np.repeat(part, heads // kv_heads, axis=1) for part in (k, v))
            scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(dim) + mask
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            attended = np.einsum("hij,jhd->ihd", shares, v).reshape(count, -1)
            x = x + attended @ weights[name + "self_attn.o_proj.weight"].T
            y = self.norm(x, name + "post_attention_layernorm.weight")
            gate = y @ weights[name + "mlp.gate_proj.weight"].T
            gate = gate / (1 + np.exp(-gate)) * (y @ weights[name + "mlp.up_proj.weight"].T)
            x = x + gate @ weights[name + "mlp.down_proj.weight"].T
        output = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
        logits = self.norm(x, "model.norm.weight") @ output.T
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


class LmEval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Instruction sets that round activations to BF16 would be as right and less near.
        os.environ["DOVETAIL_ISA"] = "avx2"
        cls.server = RunningServer(PROGRAM, MODEL, "--kv-cache-dtype", "f32")
        cls.addClassCleanup(cls.server.stop)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = Path(folder.name)
        lm_eval_local.write_tasks(path, records(), max_tokens=8)
        cls.results = lm_eval_local.evaluate(
            path, "local-completions", lm_eval_local.behind_the_server(cls.server, MODEL)
        )
        cls.model = Llama(Path(MODEL))
        cls.tokenizer = AutoTokenizer.from_pretrained(MODEL)

    def score(self, context, continuation):
        """The likelihood of the continuation, and whether each of its tokens is the likeliest."""
        before = self.tokenizer.encode(context, add_special_tokens=False)
        ids = self.tokenizer.encode(context + continuation, add_special_tokens=False)
        self.assertEqual(ids[: len(before)], before)
        rows = self.model.logprobs(ids)[len(before) - 1 : -1]
        targets = ids[len(before) :]
        likelihood = sum(row[id] for row, id in zip(rows, targets))
        return likelihood, all(row.argmax() == id for row, id in zip(rows, targets))

    def assert_scores(self, response, context, continuation):
        likelihood, greedy = response
        expected, is_greedy = self.score(context, continuation)
        self.assertAlmostEqual(float(likelihood), expected, delta=2e-3 + 1e-4 * abs(expected))
        self.assertEqual(str(greedy), str(is_greedy))

    def samples(self, task):
        found = lm_eval_local.samples(self.results, task)
        self.assertEqual(len(found), len(PROBLEMS))
        return found

    def metric(self, task, name):
        return lm_eval_local.metric(self.results, task, name)

    def test_choices_are_scored_as_by_the_same_weights_elsewhere(self):
        right = 0
        for sample in self.samples("local_choice"):
            doc = sample["doc"]
            best = None
            for choice, response in zip(doc["choices"], sample["filtered_resps"], strict=True):
                self.assert_scores(response, doc["question"], choice)
                best = max(best or (-1e9, ""), (self.score(doc["question"], choice)[0], choice))
            right += best[1] == doc["answer"]
        self.assertAlmostEqual(self.metric("local_choice", "acc"), right / len(PROBLEMS))

    def test_likelihoods_are_those_of_the_same_weights_elsewhere(self):
        scores = []
        for sample in self.samples("local_likelihood"):
            doc = sample["doc"]
            self.assert_scores(sample["filtered_resps"][0], doc["question"], doc["answer"])
            scores.append(self.score(doc["question"], doc["answer"]))
        perplexity = np.exp(-np.mean([likelihood for likelihood, _ in scores]))
        self.assertAlmostEqual(
            self.metric("local_likelihood", "perplexity"), perplexity, delta=1e-2 * perplexity
        )
        accuracy = np.mean([greedy for _, greedy in scores])
        self.assertAlmostEqual(self.metric("local_likelihood", "acc"), accuracy)

    def test_generated_texts_are_those_of_the_same_weights_elsewhere(self):
        for sample in self.samples("local_generation"):
            question = sample["doc"]["question"]
            ids = self.tokenizer.encode(question, add_special_tokens=False)
            given = len(ids)
            while len(ids) < given + 8 and ids[-1] != self.tokenizer.eos_token_id:
                ids.append(int(self.model.logprobs(ids)[-1].argmax()))
            text = self.tokenizer.decode(ids[given:], skip_special_tokens=True)
            expected = text.split("\n")[0]
            self.assertEqual(sample["filtered_resps"][0], expected)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
