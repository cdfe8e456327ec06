"""Whatever a model is like, tool_choice "required" gives a call that its schema allows, and what
a client sends back of it are the tokens that the model wrote.

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
BLOCK = 16  # tokens of a block of the cache


class RequiredTools(unittest.TestCase):
    def start(self, model, *options, room, tokens):
        server = RunningServer(PROGRAM, str(model), "--served-model-name", "m", *options)
        self.addCleanup(server.stop)
        self.client = self.enterContext(
            openai.OpenAI(
                base_url=server.url + "/v1", api_key=API_KEY, max_retries=0, timeout=PATIENCE
            )
        )
        self.room, self.tokens = room, tokens

    def start_demo(self):
        # A token is a character and the context has 512: no room for an explanation of calls.
        self.start(DEMO, "--chat-template", str(HERE / "compact.jinja"), room=300, tokens=400)

    def start_smollm2(self):
        if served.MODEL is None:
            self.skipTest(served.MISSING)
        self.start(served.MODEL, room=600, tokens=700)

    def choice_of(self, seed, tools, options):
        fields = dict(
            model="m", messages=[{"role": "user", "content": "Do it."}], tools=tools, seed=seed,
            max_tokens=self.tokens, temperature=1, **{"tool_choice": "required", **options},
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

    def calls_come_back(self, seeds):
        """Answers with calls are sent back: how many of them were not written as the template
        would, and yet were found in the cache."""
        found = 0
        for seed in seeds:
            tools = RandomTools(seed, self.room).tools()
            fields = dict(model="m", tools=tools, tool_choice="required", temperature=1, seed=seed,
                          max_tokens=self.tokens, parallel_tool_calls=False)
            messages = [{"role": "user", "content": f"Do it for number {seed}."}]
            first = self.client.chat.completions.create(messages=messages, **fields)
            answer = first.choices[0].message
            call = answer.tool_calls[0]
            messages += [
                answer.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": "done"},
            ]
            second = self.client.chat.completions.create(
                messages=messages, **{**fields, "max_tokens": 1, "tool_choice": "auto"}
            )
            told = first.usage.prompt_tokens + first.usage.completion_tokens
            cached = second.usage.prompt_tokens_details.cached_tokens
            # Whole blocks, but for the last token, whose outputs are not kept.
            self.assertGreaterEqual(cached, (told - 2) // BLOCK * BLOCK, f"seed {seed}")
            found += call.function.arguments != json.dumps(json.loads(call.function.arguments))
        return found

    def test_calls_that_come_back_are_in_the_cache(self):
        self.start_smollm2()
        self.assertGreater(self.calls_come_back(range(2000, 2012)), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2, warnings="ignore")
