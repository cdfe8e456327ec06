"""Whatever a model is like, tool_choice "required" gives a call that its schema allows.

usage: required_tools.py PROGRAM DEMO_MODEL [unittest options]

Random functions, one set a request, on the demo model and on SmolLM2 (where it is installed): 200
sets each, of SmolLM2 40 unless DOVETAIL_LONG is set.
"""

import json
import os
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent)]
try:
    import jsonschema
    import openai
except ImportError:
    python = ROOT / "build" / "venv" / "bin" / "python"
    if Path(sys.prefix) == ROOT / "build" / "venv" or not python.exists():
        print('skipped: openai or jsonschema is not in build/venv: run "make setup"')
        sys.exit(77)
    os.execv(python, [str(python), *sys.argv])

import served
from random_tools import RandomTools
from running_server import API_KEY, PATIENCE, RunningServer

PROGRAM, DEMO = sys.argv[1:3]
LONG = "DOVETAIL_LONG" in os.environ
COUNT = 200


class RequiredTools(unittest.TestCase):
    def start(self, model, *options, room, tokens):
        server = RunningServer(PROGRAM, str(model), "--served-model-name", "m", *options)
        self.addCleanup(server.stop)
        self.client = self.enterContext(
            openai.OpenAI(
                base_url=server.url + "/v1", api_key=API_KEY, max_retries=0, timeout=PATIENCE
            )
        )
        self.room, self.tokens, self.more = room, tokens, {}
        self.server = server

    def start_demo(self):
        # A token is a character and the context has 512: no room for an explanation of calls.
        self.start(DEMO, "--chat-template", str(HERE / "compact.jinja"), room=300, tokens=400)
        # It would indent by all that may be, which is 64 of the 512.
        body = {"content": "\n", "add_special": False}
        (line_break,) = json.loads(self.server.request("/tokenize", body)[1])["tokens"]
        self.more = {"logit_bias": {str(line_break): -100}}

    def start_smollm2(self):
        if served.MODEL is None:
            self.skipTest(served.MISSING)
        self.start(served.MODEL, room=600, tokens=700)

    def choice_of(self, seed, tools, options):
        fields = dict(
            model="m", messages=[{"role": "user", "content": "Do it."}], tools=tools, seed=seed,
            max_tokens=self.tokens, temperature=1, **self.more,
            **{"tool_choice": "required", **options},
        )
        if seed % 2 == 0:
            return self.client.chat.completions.create(**fields).choices[0]
        with self.client.chat.completions.stream(**fields) as stream:
            return stream.get_final_completion().choices[0]

    def faults(self, seed, **options):
        """What is wrong with the answer to the request of a seed."""
        tools = RandomTools(seed, self.room).tools()
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
        choice = self.choice_of(seed, tools, options)
        faults = []
        if choice.finish_reason != "tool_calls":
            faults.append(f"the finish reason is {choice.finish_reason}")
        if choice.message.content:
            faults.append(f"content {choice.message.content!r} beside calls")
        calls = choice.message.tool_calls or []
        if not calls or (options.get("parallel_tool_calls") is False and len(calls) != 1):
            faults.append(f"{len(calls)} calls")
        for call in calls:
            try:
                arguments = json.loads(call.function.arguments)
                jsonschema.Draft202012Validator(schemas[call.function.name]).validate(arguments)
            except (ValueError, KeyError, jsonschema.ValidationError) as fault:
                faults.append(f"{call.function.name}({call.function.arguments}): {fault}")
        return [f"seed {seed}: {fault}" for fault in faults]

    def all_hold(self, seeds, **options):
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda seed: self.faults(seed, **options), seeds))
        self.assertEqual([fault for faults in found for fault in faults], [])

    def test_the_demo_model(self):
        self.start_demo()
        self.all_hold(range(COUNT), parallel_tool_calls=False)

    def test_smollm2(self):
        self.start_smollm2()
        self.all_hold(range(COUNT if LONG else 40), parallel_tool_calls=False)

    def test_a_named_function(self):
        self.start_demo()
        for seed in range(1000, 1020):
            tools = RandomTools(seed, self.room).tools()
            name = tools[-1]["function"]["name"]
            choice = self.choice_of(seed, tools, {
                "tool_choice": {"type": "function", "function": {"name": name}},
                "parallel_tool_calls": False,
            })
            self.assertEqual([call.function.name for call in choice.message.tool_calls], [name])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2, warnings="ignore")
