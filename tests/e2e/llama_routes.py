"""llama.cpp's own routes, asked as the clients of its server ask them.

usage: llama_routes.py PROGRAM MODEL [unittest options]
"""

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from running_server import RunningServer

PROGRAM, MODEL = sys.argv[1:3]
PROMPT = "Q: 1+2=?\nA:"
# Tokens of the model that mean nothing, by the names of those around a gap.
NAMES = {"<|reserved_259|>": "<|fim_prefix|>", "<|reserved_260|>": "<|fim_suffix|>",
         "<|reserved_261|>": "<|fim_middle|>", "<|reserved_262|>": "<|repo_name|>",
         "<|reserved_263|>": "<|file_sep|>"}

# What SillyTavern's "llama.cpp" sends with the settings that it comes with.
SILLY_TAVERN = {
    "max_new_tokens": 8, "max_tokens": 8, "temperature": 0, "top_p": 1, "typical_p": 1,
    "typical": 1, "min_p": 0, "repetition_penalty": 1, "frequency_penalty": 0,
    "presence_penalty": 0, "top_k": 0, "skew": 0, "min_tokens": 0, "add_bos_token": True,
    "smoothing_factor": 0, "smoothing_curve": 1, "dry_allowed_length": 2, "dry_multiplier": 0,
    "dry_base": 1.75, "dry_sequence_breakers": ["\n", ":"], "dry_penalty_last_n": 0,
    "max_tokens_second": 0, "stopping_strings": ["\nQ:"], "stop": ["\nQ:"],
    "truncation_length": 512, "ban_eos_token": False, "skip_special_tokens": False,
    "include_reasoning": True, "top_a": 0, "tfs": 1, "mirostat_mode": 0, "mirostat_tau": 5,
    "mirostat_eta": 0.1, "custom_token_bans": "", "banned_strings": [], "api_type": "llamacpp",
    "xtc_threshold": 0.1, "xtc_probability": 0, "nsigma": 0, "top_n_sigma": 0, "min_keep": 0,
    "adaptive_target": -0.01, "adaptive_decay": 0.9, "rep_pen": 1, "rep_pen_range": 0,
    "repetition_penalty_range": 0, "guidance_scale": 1, "negative_prompt": "",
    "repeat_penalty": 1, "repeat_last_n": 0, "n_predict": 8, "num_predict": 8, "num_ctx": 512,
    "mirostat": 0, "ignore_eos": False, "n_probs": 10, "logprobs": 10, "rep_pen_slope": 1,
    "n": 1, "logit_bias": [[65, -1], [66, False]], "grammar": "", "cache_prompt": True,
    "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc",
                 "temperature"],
}

# What llama.vim sends, but for the texts.
TIMINGS = [f"timings/{kind}_{of}" for kind in ("prompt", "predicted")
           for of in ("n", "ms", "per_token_ms", "per_second")]
LLAMA_VIM = {
    "model": "", "n_predict": 16, "stop": [], "n_indent": 0, "top_k": 40, "top_p": 0.9,
    "stream": False, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True,
    "t_max_prompt_ms": 500, "t_max_predict_ms": 60_000, "n_cmpl": 1,
    "response_fields": ["content", *TIMINGS, "truncated", "tokens_cached"],
}


def events_of(text):
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]


class LlamaRoutes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RunningServer(PROGRAM, MODEL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def post(self, path="/completion", expect=200, server=None, **fields):
        status, text = (server or self.server).request(path, fields)
        self.assertEqual(status, expect, text)
        return text

    def test_a_stream_says_what_a_body_says(self):
        asked = {"prompt": PROMPT, "n_predict": 16, "temperature": 0}
        body = json.loads(self.post(**asked, return_tokens=True))
        self.assertEqual(body["content"], " 3\n")
        self.assertEqual(body["tokens"], [ord(c) for c in body["content"]])
        self.assertEqual((body["stop"], body["stop_type"]), (True, "eos"))
        self.assertEqual(body["tokens_evaluated"], len(PROMPT) + 1)
        self.assertEqual(body["timings"]["prompt_n"] + body["timings"]["cache_n"], len(PROMPT) + 1)
        self.assertTrue(body["prompt"].endswith(PROMPT))
        self.assertEqual(body["generation_settings"]["n_predict"], 16)
        *parts, last = events_of(self.post(**asked, stream=True))
        self.assertEqual("".join(part["content"] for part in parts), body["content"])
        self.assertEqual([token for part in parts for token in part["tokens"]], body["tokens"])
        self.assertEqual({part["stop"] for part in parts}, {False})
        for name in ("stop", "stop_type", "tokens_predicted", "tokens_evaluated", "prompt",
                     "has_new_line", "truncated", "tokens_cached"):
            self.assertEqual(last[name], body[name], name)

    def test_a_text_ends_where_it_is_told_to(self):
        word = json.loads(self.post(prompt=PROMPT, temperature=0, stop=["3"]))
        self.assertEqual((word["content"], word["stop_type"], word["stopping_word"]),
                         (" ", "word", "3"))
        limit = json.loads(self.post(prompt=PROMPT, temperature=0, n_predict=1))
        self.assertEqual((limit["content"], limit["stop_type"]), (" ", "limit"))
        held = json.loads(self.post(prompt=PROMPT, grammar='root ::= "yes"'))
        self.assertEqual(held["content"], "yes")
        biased = json.loads(self.post(prompt=PROMPT, temperature=0, n_predict=1,
                                      logit_bias=[[" ", False], [ord("x"), 100]]))
        self.assertEqual(biased["content"], "x")
        # To the context's end without a limit.
        full = json.loads(self.post(prompt=PROMPT, temperature=0, ignore_eos=True))
        self.assertEqual((full["stop_type"], full["truncated"]), ("limit", True))

    def test_what_is_not_indented_ends_a_text(self):
        metrics = self.server.metrics()
        asked = {"prompt": PROMPT, "grammar": 'root ::= "if\\n  a\\nb" [b]*', "temperature": 0}
        cut = json.loads(self.post(**asked, n_indent=2))
        self.assertEqual((cut["content"], cut["stop_type"]), ("if\n  a\n", "limit"))
        self.assertLess(cut["tokens_predicted"], 12)
        # The engine works on it no more.
        self.server.wait_for(lambda m: m["requests_running"] == 0)
        *parts, last = events_of(self.post(**asked, n_indent=2, stream=True))
        self.assertEqual("".join(part["content"] for part in parts), cut["content"])
        self.assertEqual(last["stop_type"], "limit")
        after = self.server.wait_for(lambda m: m["requests_running"] == 0)
        self.assertLess(after["generated_tokens_total"] - metrics["generated_tokens_total"], 400)

    def test_silly_tavern(self):
        status, text = self.server.request("/v1/models")
        self.assertEqual(status, 200)
        self.assertTrue(json.loads(text)["data"][0]["id"])
        status, text = self.server.request("/props")
        self.assertEqual(status, 200)
        props = json.loads(text)
        self.assertTrue(props["chat_template"])
        self.assertEqual(props["default_generation_settings"]["n_ctx"], 512)
        tokens = json.loads(self.post("/tokenize", content=PROMPT, add_special=False))["tokens"]
        self.assertEqual(len(tokens), len(PROMPT))
        body = json.loads(self.post(prompt=PROMPT, **SILLY_TAVERN))
        self.assertEqual(body["content"], " 3\n")
        first = body["completion_probabilities"][0]
        self.assertEqual((first["id"], first["token"], len(first["top_logprobs"])),
                         (32, " ", 10))
        parts = events_of(self.post(prompt=PROMPT, stream=True, **SILLY_TAVERN))
        self.assertEqual("".join(part["content"] for part in parts), body["content"])
        self.assertEqual(len(parts[0]["completion_probabilities"][0]["top_logprobs"]), 10)

    def test_editors(self):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "fills"
            shutil.copytree(MODEL, model)
            for file in model.glob("tokenizer*.json"):
                text = file.read_text("utf-8")
                for old, new in NAMES.items():
                    text = text.replace(old, new)
                file.write_text(text, "utf-8")
            server = RunningServer(PROGRAM, str(model))
            self.addCleanup(server.stop)
        extra = [{"filename": "other.c", "text": "int other;\n" * 8, "time": [1, 2]}]
        # Ahead of time, for the cache.
        warm = {"input_prefix": "", "input_suffix": "", "input_extra": extra, "prompt": "",
                "n_predict": 0, "temperature": 0.0, "stream": False, "samplers": [],
                "cache_prompt": True, "t_max_prompt_ms": 1, "t_max_predict_ms": 1}
        self.assertEqual(self.post("/infill", server=server, **warm, response_fields=[""]), "{}")
        computed = json.loads(self.post("/infill", server=server, **warm))
        self.assertEqual((computed["content"], computed["tokens_predicted"]), ("", 0))
        texts = {"input_prefix": "int main() {\n", "input_suffix": "}\n", "input_extra": extra,
                 "prompt": "  return "}
        shown = json.loads(self.post("/infill", server=server, **texts, **LLAMA_VIM))
        self.assertEqual(set(shown), set(LLAMA_VIM["response_fields"]))
        self.assertGreater(shown["timings/predicted_n"], 0)
        # The rest of the answer: the prompt, of which the cache had the other file.
        fields = {**LLAMA_VIM, "response_fields": []}
        whole = json.loads(self.post("/infill", server=server, **texts, **fields))
        self.assertEqual(whole["prompt"],
                         "<|bos|><|repo_name|>repository\n<|file_sep|>other.c\n" + "int other;\n" * 8
                         + "<|file_sep|>current\n<|fim_prefix|>int main() {\n  return "
                         "<|fim_suffix|>}\n<|fim_middle|>")
        fresh = {**texts, "input_prefix": "void f() {\n"}
        cached = json.loads(self.post("/infill", server=server, **fresh, **fields))["timings"]
        self.assertGreater(cached["cache_n"], len(extra[0]["text"]))
        likeliest = {**texts, **fields, "top_k": 1}
        body = json.loads(self.post("/infill", server=server, **likeliest))
        *parts, last = events_of(self.post("/infill", server=server,
                                           **{**likeliest, "stream": True}))
        self.assertEqual("".join(part["content"] for part in parts), body["content"])
        self.assertEqual(last["tokens_predicted"], body["tokens_predicted"])

    def test_a_model_without_these_tokens_fills_nothing(self):
        error = json.loads(self.post("/infill", expect=400, input_prefix="a", input_suffix="b"))
        self.assertEqual(error["error"]["code"], 400)
        self.assertIn("no tokens for filling in the middle", error["error"]["message"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
