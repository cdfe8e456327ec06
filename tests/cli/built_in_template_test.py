"""Models without a chat template, and templates by name: built_in_template_test.py BINARY SOURCE_DIR"""

import json
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.request

from cases import BINARY
from serving import DEMO, WithServer

SOURCE = pathlib.Path(sys.argv[2]).resolve()
GOLDEN = SOURCE / "tests" / "golden"
# What the templates write, in the order of the reserved tokens that they stand for here.
TOKENS = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"]

PIPELINE = """
records: 1
models: {{m: {{path: {model}, sampling: {{temperature: 0, max_tokens: 2}}}}}}
columns:
  - {{name: said, type: llm-text, model: m, prompt: "{prompt}"}}
"""


def golden(template, name):
    cases = json.loads((GOLDEN / "templates" / "built_in.json").read_text())
    return next(case for case in cases if (case["template"], case["name"]) == (template, name))


def ascii_tokenizer():
    """Of 128 tokens, for a model that has no more: characters as byte-level BPE spells them, and the template's."""
    letters = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]
    added = [{"id": len(letters) + i, "content": token, "special": True, "normalized": False, "single_word": False,
              "lstrip": False, "rstrip": False} for i, token in enumerate(TOKENS)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
            "decoder": byte_level, "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)},
                                             "merges": []}}


class BuiltIn(WithServer):
    def v4(self):
        """The demo model with DeepSeek's tokens in place of reserved ones, without a template."""
        demo, model = SOURCE / "models" / "demo-v4-tiny", self.folder / "v4"
        model.mkdir()
        for name in ("config.json", "generation_config.json", "model.safetensors"):
            (model / name).symlink_to(demo / name)
        text = (demo / "tokenizer.json").read_text()
        for i, token in enumerate(TOKENS):
            text = text.replace(f"<|reserved_{259 + i}|>", token)
        (model / "tokenizer.json").write_text(text)
        settings = json.loads((demo / "tokenizer_config.json").read_text())
        del settings["chat_template"]
        (model / "tokenizer_config.json").write_text(json.dumps(settings))
        return model

    def v32(self):
        made, model = GOLDEN / "models" / "deepseek-v32-tiny", self.folder / "v32"
        model.mkdir()
        for name in ("config.json", "model.safetensors"):
            (model / name).symlink_to(made / name)
        (model / "tokenizer.json").write_text(json.dumps(ascii_tokenizer()))
        return model

    def start_up(self, model, *options):
        """(the server's URL, what it said until then)"""
        process = subprocess.Popen([BINARY, "serve", model, "--port", "0", *options], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        said = ""
        for line in process.stderr:
            said += line
            if "listening on " in line:
                return line.split("listening on ")[1].strip(), said
        self.fail(f"the server ended with {process.wait()}: {said}")

    def post(self, url, **body):
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def run_program(self, *arguments, code=0, text=None, **more):
        done = subprocess.run([BINARY, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=120,
                              check=False, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def expect_prompt(self, url, template, name):
        """The server's tokens are those of the golden prompt, byte for byte and token for token."""
        case = golden(template, name)
        variables = dict(case["variables"])
        messages, tools = variables.pop("messages"), variables.pop("tools", None)
        for message in messages:
            for call in message.get("tool_calls", []):
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        more = {"tools": tools} if tools else {}
        opens = variables.pop("add_generation_prompt", False)
        got = self.post(url + "/tokenize", messages=messages, chat_template_kwargs=variables,
                        add_generation_prompt=opens, **more)["tokens"]
        wanted = self.post(url + "/tokenize", prompt=case["expected"], add_special=False, parse_special=True)["tokens"]
        self.assertEqual(got, wanted, name)
        self.assertGreater(len(set(got)), 5)

    def test_a_server_takes_the_one_of_the_family(self):
        url, said = self.start_up(self.v4())
        self.assertRegex(said, r"(?m)chat-template on: built in \(deepseek-v4\)$")
        self.assertRegex(said, r"(?m)dialog tools: deepseek-v4; reasoning: <think>$")
        for name in ("one", "one_not_thinking", "turns_thinking", "calls_twice", "calls_untold", "results_swapped"):
            self.expect_prompt(url, "deepseek-v4", name)
        url, said = self.start_up(self.v32())
        self.assertRegex(said, r"(?m)chat-template on: built in \(deepseek-v3.2\)$")
        self.assertRegex(said, r"(?m)dialog tools: deepseek-v3.2; reasoning: <think>$")
        for name in ("one", "one_thinking", "answered_again"):
            self.expect_prompt(url, "deepseek-v3.2", name)

    def test_a_chat_a_run_and_a_pipeline_take_it_too(self):
        for model in (self.v4(), self.v32()):
            self.run_program("chat", model, "--max-tokens", "4", text="Hello\n")
            prompt = "What is 12 + 34?"
            lines = json.dumps({"messages": [{"role": "user", "content": prompt}], "max_tokens": 1})
            done = self.run_program("run", model, "--quiet", "--input", self.write("in.jsonl", lines))
            tokens = len(prompt) + 4  # a byte each, and BOS, the roles and <think> or </think>
            self.assertEqual(json.loads(done.stdout)["prompt_tokens"], tokens)
            folder = self.folder / f"pipeline-{model.name}"
            folder.mkdir()
            (folder / "said.yaml").write_text(PIPELINE.format(model=model, prompt=prompt))
            done = self.run_program("pipeline", "run", folder / "said.yaml", cwd=folder)
            self.assertEqual(int(re.search(r"(\d+) prompt and \d+ generated tokens", done.stderr)[1]), tokens)
            self.assertIn("no; built in: deepseek-v", self.run_program("inspect", model).stdout)

    def test_one_is_taken_by_its_name(self):
        _, said = self.start_up(DEMO, "--chat-template", "deepseek-v3.2")
        self.assertRegex(said, r"(?m)chat-template on: built in \(deepseek-v3.2\)$")
        for command in (("chat", DEMO), ("run", DEMO, "a", "--chat"), ("serve", DEMO, "--port", "0")):
            error = self.run_program(*command, "--chat-template", "deepseek-v9", code=1, text="a\n").stderr
            self.assertIn("deepseek-v9: there is no such file", error)
            self.assertIn("built in: deepseek-v3.1, deepseek-v3.2, deepseek-v4", error)

    def test_a_file_and_the_models_own_go_before_it(self):
        model = self.v4()
        file = self.write("own.jinja", "{{ bos_token }}{{ messages[0].content }}")
        _, said = self.start_up(model, "--chat-template", file)
        self.assertRegex(said, r"(?m)chat-template on: as given$")
        (model / "chat_template.jinja").write_text(file.read_text())
        _, said = self.start_up(model)
        self.assertRegex(said, r"(?m)chat-template on: the model's own$")

    def test_a_model_without_its_tokens_has_none(self):
        model = self.v4()
        tokenizer = (model / "tokenizer.json").read_text().replace("<｜User｜>", "<|reserved|>")
        (model / "tokenizer.json").write_text(tokenizer)
        error = self.run_program("chat", model, code=1, text="a\n").stderr
        self.assertIn("no chat template", error)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
