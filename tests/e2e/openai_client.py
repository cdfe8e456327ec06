"""Drives `dovetail serve` with the official OpenAI client.

usage: openai_client.py PROGRAM MODEL [unittest options]
"""

import json
import os
import struct
import subprocess
import sys
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VENV = Path(__file__).resolve().parents[2] / "build" / "venv"
try:
    import openai
except ImportError:
    python = VENV / "bin" / "python"
    if Path(sys.prefix) == VENV or not python.exists():
        sys.exit('the official OpenAI client is missing from build/venv: run "make setup"')
    os.execv(python, [str(python), *sys.argv])

from running_server import API_KEY, PATIENCE, RunningServer

PROGRAM, MODEL = sys.argv[1:3]
NAME = Path(MODEL).name
STREAMS = 64


def client_of(server, **options):
    return openai.OpenAI(
        base_url=server.url + "/v1",
        api_key=options.pop("api_key", API_KEY),
        max_retries=0,
        timeout=PATIENCE,
        **options,
    )


def sum_prompt(a, b):
    return f"Q: {a}+{b}=?\nA:"


def joined(stream):
    """Text and finish reason of a streamed completion of one choice."""
    text, finish = "", None
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.text
            finish = choice.finish_reason or finish
    return text, finish


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RunningServer(PROGRAM, MODEL)
        cls.client = client_of(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def complete(self, prompt, **options):
        return self.client.completions.create(model=NAME, prompt=prompt, **options)

    def chat(self, content, **options):
        messages = [{"role": "user", "content": content}]
        return self.client.chat.completions.create(model=NAME, messages=messages, **options)

    def token(self, text):
        status, answer = self.server.request(
            "/tokenize", {"content": text, "add_special": False}
        )
        self.assertEqual(status, 200, answer)
        tokens = json.loads(answer)["tokens"]
        self.assertEqual(len(tokens), 1)
        return tokens[0]


class Answers(ServerTest):
    def test_a_completion_solves_a_sum(self):
        answer = self.complete(sum_prompt(39, 324), max_tokens=8, temperature=0)
        choice = answer.choices[0]
        self.assertEqual(choice.text.split(), ["363"])
        self.assertEqual(choice.finish_reason, "stop")
        self.assertTrue(answer.id.startswith("cmpl-"))
        self.assertEqual(answer.object, "text_completion")
        self.assertEqual(answer.model, NAME)
        usage = answer.usage
        self.assertEqual(usage.prompt_tokens, 1 + len(sum_prompt(39, 324)))
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    def test_a_chat_solves_a_sum(self):
        answer = self.chat("39+324", max_completion_tokens=8, temperature=0)
        message = answer.choices[0].message
        self.assertEqual(message.role, "assistant")
        self.assertEqual(message.content.split(), ["363"])
        self.assertTrue(answer.id.startswith("chatcmpl-"))
        parts = [{"type": "text", "text": "39"}, {"type": "text", "text": "+324"}]
        again = self.chat(parts, max_tokens=8, temperature=0)
        self.assertEqual(again.choices[0].message.content, message.content)

    def test_streams_say_the_same(self):
        whole = self.complete(sum_prompt(12, 81), max_tokens=20, temperature=1, seed=3)
        stream = self.complete(sum_prompt(12, 81), max_tokens=20, temperature=1, seed=3, stream=True)
        self.assertEqual(
            joined(stream), (whole.choices[0].text, whole.choices[0].finish_reason)
        )

        whole = self.chat("12+81", max_tokens=20, temperature=1, seed=3)
        chunks = list(
            self.chat(
                "12+81",
                max_tokens=20,
                temperature=1,
                seed=3,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
        self.assertEqual(reasons[-1], whole.choices[0].finish_reason)
        self.assertEqual(set(reasons[:-1]), {None})
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertTrue(all(c.usage is None for c in chunks[:-1]))

    def test_a_schema_holds_whatever_the_model_would_say(self):
        person = {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 6},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
                "tags": {"type": "array", "items": {"enum": ["a", "bc"]}, "maxItems": 2},
            },
            "required": ["name", "age", "tags"],
            "additionalProperties": False,
        }
        format = {
            "type": "json_schema",
            "json_schema": {"name": "person", "strict": True, "schema": person},
        }
        options = dict(response_format=format, max_tokens=400, n=3, seed=7, temperature=1.5)
        whole = self.chat("39+324", **options)
        for choice in whole.choices:
            self.assertEqual(choice.finish_reason, "stop")
            value = json.loads(choice.message.content)
            self.assertEqual(list(value), ["name", "age", "tags"])
            self.assertLessEqual(len(value["name"]), 6)
            self.assertIn(value["age"], range(121))
            self.assertLessEqual(set(value["tags"]), {"a", "bc"})
        stream = self.chat("39+324", stream=True, **{**options, "n": 1})
        text = "".join(c.choices[0].delta.content or "" for c in stream)
        self.assertEqual(text, whole.choices[0].message.content)

        cut = self.chat("39+324", **{**options, "n": 1, "max_tokens": 4})
        self.assertEqual(cut.choices[0].finish_reason, "length")
        any_object = self.chat(
            "39+324", response_format={"type": "json_object"}, max_tokens=3, temperature=0
        )
        self.assertTrue(any_object.choices[0].message.content.startswith("{"))

    def test_a_regular_expression_holds(self):
        answer = self.complete(
            sum_prompt(39, 324),
            max_tokens=30,
            temperature=0,
            extra_body={"guided_regex": "the sum is \\d{3}[.]"},
        )
        self.assertRegex(answer.choices[0].text, "^the sum is \\d{3}[.]$")
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        answer = self.complete(
            sum_prompt(39, 324), max_tokens=30, temperature=0, extra_body={"guided_json": {"enum": [1, 23]}}
        )
        self.assertIn(answer.choices[0].text, ("1", "23"))

    def test_what_a_schema_cannot_say_is_named_or_refused_by_its_place(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer", "contains": {}}}, "required": ["a"]}

        def asked(**more):
            form = {"name": "x", "schema": schema, **more}
            return {"type": "json_schema", "json_schema": form}

        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat("hi", response_format=asked(strict=True))
        self.assertEqual(refused.exception.param, "response_format.json_schema.schema")
        self.assertIn("#/properties/a/contains", str(refused.exception))
        # OpenAI's default: the rest of it is held.
        raw = self.client.chat.completions.with_raw_response.create(
            model=NAME, messages=[{"role": "user", "content": "hi"}], max_tokens=40, response_format=asked()
        )
        place = "response_format.json_schema.schema: #/properties/a/contains"
        self.assertEqual(raw.headers["x-dovetail-ignored"], place)
        content = raw.parse().choices[0].message.content
        self.assertRegex(content, r'^\{\s*"a":\s?-?[0-9]+')

    def test_a_seed_fixes_every_choice(self):
        options = dict(max_tokens=24, temperature=20, n=4, extra_body={"ignore_eos": True})
        first = self.complete(sum_prompt(5, 5), seed=11, **options)
        again = self.complete(sum_prompt(5, 5), seed=11, **options)
        other = self.complete(sum_prompt(5, 5), seed=12, **options)
        texts = [[c.text for c in answer.choices] for answer in (first, again, other)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertGreater(len(set(texts[0])), 1)
        self.assertEqual([c.index for c in first.choices], [0, 1, 2, 3])

    def test_several_prompts_are_answered_in_order(self):
        prompts = [sum_prompt(39, 324), sum_prompt(12, 81)]
        answer = self.complete(prompts, max_tokens=8, temperature=0, n=2)
        texts = [choice.text.split() for choice in answer.choices]
        self.assertEqual(texts, [["363"], ["363"], ["93"], ["93"]])

    def test_a_stop_string_ends_the_text_before_it(self):
        answer = self.complete(sum_prompt(39, 324), max_tokens=8, temperature=0, stop=["63", "x"])
        self.assertEqual(answer.choices[0].text, " 3")
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        stream = self.complete(
            sum_prompt(39, 324), max_tokens=8, temperature=0, stop="63", stream=True
        )
        self.assertEqual(joined(stream), (" 3", "stop"))

    def test_length_ends_the_text(self):
        answer = self.complete(sum_prompt(39, 324), max_tokens=2, temperature=0)
        self.assertEqual((answer.choices[0].text, answer.choices[0].finish_reason), (" 3", "length"))
        self.assertEqual(answer.usage.completion_tokens, 2)

    def test_min_tokens_and_stop_ids(self):
        stop_id = self.token("3")
        options = dict(max_tokens=8, temperature=0)
        short = self.complete(
            sum_prompt(39, 324), extra_body={"stop_token_ids": [stop_id]}, **options
        )
        self.assertEqual(short.choices[0].finish_reason, "stop")
        self.assertEqual(short.usage.completion_tokens, 2)
        long = self.complete(sum_prompt(39, 324), extra_body={"min_tokens": 8}, **options)
        self.assertEqual(long.usage.completion_tokens, 8)

    def test_a_bias_rules_out_all_else(self):
        bias = {str(self.token("9")): 100}
        answer = self.complete(sum_prompt(1, 1), max_tokens=5, temperature=1, logit_bias=bias)
        self.assertEqual(answer.choices[0].text, "99999")

    def test_chat_logprobs_spell_the_text(self):
        answer = self.chat("39+324", max_tokens=3, temperature=0, logprobs=True, top_logprobs=3)
        content = answer.choices[0].logprobs.content
        self.assertEqual("".join(t.token for t in content), answer.choices[0].message.content)
        for token in content:
            self.assertEqual(bytes(token.bytes).decode(), token.token)
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertEqual(token.top_logprobs[0].token, token.token)
            self.assertEqual(token.top_logprobs[0].logprob, token.logprob)
            self.assertLessEqual(token.logprob, 0)
        chunks = list(
            self.chat("39+324", max_tokens=3, temperature=0, logprobs=True, top_logprobs=3, stream=True)
        )
        streamed = [
            t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content
        ]
        self.assertEqual(streamed, content)

    def test_completion_logprobs_are_parallel(self):
        answer = self.complete(sum_prompt(39, 324), max_tokens=3, temperature=0, logprobs=2)
        logprobs = answer.choices[0].logprobs
        self.assertEqual("".join(logprobs.tokens), answer.choices[0].text)
        self.assertEqual(logprobs.text_offset, [0, 1, 2])
        for token, value, top in zip(
            logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs
        ):
            self.assertEqual(len(top), 2)
            self.assertEqual(top[token], value)

    def test_a_prompt_seen_before_gets_the_same_answer(self):
        prompt = "".join(f"Q: {i}+{i}=?\nA: {2 * i}\n" for i in range(10)) + sum_prompt(7, 8)
        first = self.complete(prompt, max_tokens=4, temperature=0)
        second = self.complete(prompt, max_tokens=4, temperature=0)
        self.assertEqual(first.choices[0].text, second.choices[0].text)
        cached = second.usage.prompt_tokens_details.cached_tokens
        self.assertLess(cached, second.usage.prompt_tokens)

    def test_ids_are_as_good_as_text(self):
        status, answer = self.server.request("/tokenize", {"prompt": sum_prompt(39, 324)})
        tokens = json.loads(answer)["tokens"]
        text = self.complete(sum_prompt(39, 324), max_tokens=8, temperature=0).choices[0].text
        ids = self.complete(tokens, max_tokens=8, temperature=0).choices[0].text
        self.assertEqual(text, ids)
        status, answer = self.server.request("/detokenize", {"tokens": tokens, "skip_special": True})
        self.assertEqual(json.loads(answer)["content"], sum_prompt(39, 324))

    def test_embeddings_are_those_of_the_command_line(self):
        texts = ["Q: 1+2=?", "A: 3", "Q: 417+86=?"]
        both = []
        for options in ({}, {"encoding_format": "float"}):  # the client asks for base64 by itself
            found = self.client.embeddings.create(model=NAME, input=texts, **options)
            self.assertEqual([entry.index for entry in found.data], [0, 1, 2])
            self.assertEqual(found.usage.total_tokens, found.usage.prompt_tokens)
            both.append([entry.embedding for entry in found.data])
        self.assertEqual(both[0], both[1])
        lines = subprocess.run([PROGRAM, "embed", MODEL], input="\n".join(texts), text=True,
                               capture_output=True, check=True).stdout.splitlines()
        for line, embedding in zip(lines, both[0], strict=True):
            wanted = json.loads(line)["embedding"]
            self.assertEqual([struct.pack("f", v) for v in wanted],
                             [struct.pack("f", v) for v in embedding])
            self.assertAlmostEqual(sum(v * v for v in embedding), 1.0, 5)
        self.assertNotEqual(both[0][0], both[0][1])

    def test_the_model_is_listed(self):
        self.assertEqual([m.id for m in self.client.models.list()], [NAME])
        self.assertEqual(self.client.models.retrieve(NAME).owned_by, "dovetail")
        self.assertEqual(self.server.request("/health"), (200, '{"status":"ok"}'))


class Errors(ServerTest):
    def test_a_bad_field_is_named(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete("a", temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        self.assertIn("temperature: -1", caught.exception.message)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat("a", tools=[{"type": "function", "function": {"name": "f g"}}])
        self.assertEqual(caught.exception.param, "tools[0].function.name")

    def test_an_unknown_field_is_left_out_and_named(self):
        answer = self.client.completions.with_raw_response.create(
            model=NAME, prompt="a", max_tokens=2, temperature=0, extra_body={"foo": 1})
        self.assertEqual(answer.headers["X-Dovetail-Ignored"], "foo")
        self.assertEqual(answer.parse().choices[0].text,
                         self.complete("a", max_tokens=2, temperature=0)
                         .choices[0].text)

    def test_a_prompt_that_is_too_long_is_refused(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete("1" * 600)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_another_model_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="other", prompt="a")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_a_wrong_key_is_refused(self):
        with client_of(self.server, api_key="wrong") as client:
            with self.assertRaises(openai.AuthenticationError):
                client.models.list()

    def test_a_huge_body_is_refused(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            self.complete("1" * (9 << 20))
        self.assertEqual(caught.exception.status_code, 413)


class ManyClients(ServerTest):
    def answer(self, number):
        stream = self.complete(
            sum_prompt(17 * number, 31 + number),
            max_tokens=48,
            temperature=20,
            seed=number,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        return joined(stream)

    def test_each_gets_what_a_lone_client_gets(self):
        lone = [self.answer(number) for number in range(STREAMS)]
        self.assertGreater(len(set(lone)), STREAMS // 2)
        together = threading.Barrier(STREAMS)

        def at_once(number):
            together.wait(PATIENCE)
            return self.answer(number)

        with ThreadPoolExecutor(STREAMS) as pool:
            self.assertEqual(list(pool.map(at_once, range(STREAMS))), lone)
        self.server.wait_for(lambda m: m["kv_blocks_used"] == 0 and m["requests_running"] == 0)


class Leaving(ServerTest):
    def test_a_stream_that_is_closed_frees_its_blocks(self):
        before = self.server.metrics()
        streams = [
            self.complete(
                sum_prompt(i, i), max_tokens=450, stream=True, extra_body={"ignore_eos": True}
            )
            for i in range(8)
        ]
        for stream in streams:
            next(iter(stream))
        for stream in streams:
            stream.close()
        after = self.server.wait_for(
            lambda m: m["kv_blocks_used"] == 0 and m["requests_running"] == 0
        )
        self.assertGreater(after["cancelled_total"], before["cancelled_total"])
        self.assertLess(
            after["generated_tokens_total"] - before["generated_tokens_total"], 8 * 450
        )


class Draining(unittest.TestCase):
    def setUp(self):
        self.server = RunningServer(PROGRAM, MODEL)

    def tearDown(self):
        self.server.stop()

    def test_sigterm_finishes_what_was_accepted(self):
        with client_of(self.server) as client:
            streams = [
                client.completions.create(
                    model=NAME,
                    prompt=sum_prompt(i, 1),
                    max_tokens=400,
                    temperature=1,
                    stream=True,
                    extra_body={"ignore_eos": True},
                )
                for i in range(16)
            ]
            for stream in streams:
                next(iter(stream))
            self.server.terminate()
            refused = None
            while refused is None:  # until the signal has arrived
                try:
                    client.completions.create(model=NAME, prompt="a", max_tokens=1)
                except openai.APIConnectionError as error:
                    self.fail(f"the server was gone before it had drained: {error}")
                except openai.APIStatusError as error:
                    refused = error
            self.assertEqual(refused.status_code, 503)
            self.assertIn("retry-after", refused.response.headers)
            for stream in streams:
                self.assertEqual(joined(stream)[1], "length")
        self.assertEqual(self.server.wait(), 0)

    def test_sigterm_without_work_ends_at_once(self):
        self.server.terminate()
        self.assertEqual(self.server.wait(), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
