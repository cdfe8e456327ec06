"""Ollama's client: chat, tools, formats, streams, embeddings."""

import unittest
from typing import Literal

import weather
from served import API_KEY, MODEL, NAME, PATIENCE, need, server

ollama = need("ollama")
from pydantic import BaseModel, Field


class City(BaseModel):
    name: str = Field(max_length=12)
    size: Literal["small", "large"]


def weather_of(city: str) -> str:
    """Says the weather of a city.

    Args:
        city: the city
    """
    return weather.weather_of(city)


class WithOllama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = ollama.Client(
            host=server().url, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=PATIENCE
        )

    def question(self):
        return [{"role": "user", "content": weather.QUESTION}]

    def test_chat(self):
        answer = self.client.chat(model=NAME, messages=self.question(), options={"num_predict": 8})
        self.assertTrue(answer.message.content)
        self.assertEqual((answer.done, answer.done_reason), (True, "length"))
        self.assertEqual(answer.eval_count, 8)

    def test_stream(self):
        parts = list(self.client.chat(model=NAME, messages=self.question(), stream=True,
                                      options={"num_predict": 8, "num_ctx": 2048}))
        self.assertGreater(len(parts), 2)
        self.assertEqual([part.done for part in parts], [False] * (len(parts) - 1) + [True])
        self.assertTrue("".join(part.message.content or "" for part in parts))

    def test_formats(self):
        answer = self.client.chat(model=NAME, messages=self.question(),
                                  format=City.model_json_schema(), options={"num_predict": 60})
        City.model_validate_json(answer.message.content)

    def test_tools(self):
        # Whether it calls is the model's choice; a call and its result go back as the client's own.
        messages = self.question()
        answer = self.client.chat(model=NAME, messages=messages, tools=[weather_of],
                                  options={"num_predict": 40})
        messages.append(answer.message)
        for call in answer.message.tool_calls or []:
            self.assertEqual(call.function.name, "weather_of")
            self.assertIsInstance(call.function.arguments["city"], str)
        made = {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "weather_of", "arguments": {"city": "Paris"}}}]}
        messages += [made, {"role": "tool", "tool_name": "weather_of",
                            "content": weather_of("Paris")}]
        last = self.client.chat(model=NAME, messages=messages, tools=[weather_of],
                                options={"num_predict": 8})
        self.assertTrue(last.done)

    def test_generate(self):
        answer = self.client.generate(model=NAME, prompt=weather.QUESTION, system="Be brief.",
                                      options={"num_predict": 8})
        self.assertTrue(answer.response)
        raw = self.client.generate(model=NAME, prompt="Once upon a", raw=True, stream=True,
                                   options={"num_predict": 8, "temperature": 0})
        self.assertTrue("".join(part.response for part in raw))

    def test_embed(self):
        answer = self.client.embed(model=NAME, input=["one", "two words"])
        self.assertEqual(len(answer.embeddings), 2)
        # The form before it, of one text.
        self.assertEqual(self.client.embeddings(model=NAME, prompt="one").embedding,
                         answer.embeddings[0])

    def test_inputs_are_cut_to_the_context(self):
        long = "a b " * 20_000
        answer = self.client.embed(model=NAME, input=long)
        shown = self.client.show(NAME)
        context = shown.modelinfo[f"{shown.modelinfo['general.architecture']}.context_length"]
        self.assertEqual(answer.prompt_eval_count, context - 1)
        with self.assertRaises(ollama.ResponseError) as refused:
            self.client.embed(model=NAME, input=long, truncate=False)
        self.assertIn("context", refused.exception.error)
        size = len(self.client.embed(model=NAME, input="one").embeddings[0])
        self.client.embed(model=NAME, input="one", dimensions=size)
        with self.assertRaises(ollama.ResponseError) as refused:
            self.client.embed(model=NAME, input="one", dimensions=size // 2)
        self.assertIn("dimensions", refused.exception.error)

    def test_logprobs(self):
        options = {"num_predict": 4, "temperature": 0}
        whole = self.client.chat(model=NAME, messages=self.question(), logprobs=True,
                                 top_logprobs=2, options=options)
        parts = self.client.chat(model=NAME, messages=self.question(), logprobs=True, stream=True,
                                 top_logprobs=2, options=options)
        streamed = [entry for part in parts for entry in part.logprobs or []]
        self.assertEqual(streamed, list(whole.logprobs))
        self.assertEqual("".join(entry.token for entry in streamed), whole.message.content)
        for entry in streamed:
            self.assertEqual(len(entry.top_logprobs), 2)
            # What is drawn at temperature 0 is the likeliest.
            self.assertEqual(entry.top_logprobs[0].logprob, entry.logprob)
        answer = self.client.generate(model=NAME, prompt="Once", raw=True, logprobs=True,
                                      options=options)
        self.assertEqual(len(answer.logprobs), 4)

    def test_models(self):
        listed, = self.client.list().models
        self.assertEqual(listed.model, f"{NAME}:latest")
        self.assertRegex(listed.digest, "^[0-9a-f]{64}$")
        self.assertEqual(listed.size, MODEL.stat().st_size)
        self.assertEqual(int(listed.modified_at.timestamp()), int(MODEL.stat().st_mtime))
        self.assertEqual(listed.details.family, "llama")
        self.assertEqual(listed.details.quantization_level, "Q4_1")
        self.assertRegex(listed.details.parameter_size, r"^1\d\d\.\d\dM$")
        loaded, = self.client.ps().models
        self.assertEqual((loaded.digest, loaded.details), (listed.digest, listed.details))
        self.assertGreater(loaded.context_length, 1000)
        self.assertGreater(loaded.expires_at.year, 2200)
        shown = self.client.show(NAME)
        self.assertEqual(shown.capabilities, ["completion", "tools"])
        self.assertEqual(shown.modelinfo["general.architecture"], "llama")
        self.assertEqual(shown.modelinfo["llama.block_count"], 30)
        self.assertIn("<|im_start|>", shown.template)

    def test_a_model_is_loaded_by_asking_nothing(self):
        self.assertEqual(self.client.generate(model=NAME).done_reason, "load")
        self.assertEqual(self.client.chat(model=NAME, keep_alive=0).done_reason, "unload")

    def test_errors_say_why(self):
        with self.assertRaises(ollama.ResponseError) as refused:
            self.client.chat(model=NAME, messages=self.question(), options={"repeat_penalty": 0})
        self.assertIn("repeat_penalty", str(refused.exception))
        with self.assertRaises(ollama.ResponseError) as unknown:
            self.client.pull(NAME)
        self.assertEqual(unknown.exception.status_code, 404)
        self.assertIn("/api/pull", unknown.exception.error)
