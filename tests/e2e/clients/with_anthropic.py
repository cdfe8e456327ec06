"""The official Anthropic client: messages, tools, streams, counted tokens."""

import unittest
from typing import Literal

import weather
from served import API_KEY, NAME, PATIENCE, need, server

anthropic = need("anthropic")
from pydantic import BaseModel, Field

TOOL = {
    "name": "weather_of",
    "description": "Says the weather of a city",
    "input_schema": weather.PARAMETERS,
}


class City(BaseModel):
    name: str = Field(max_length=12)
    size: Literal["small", "large"]


class WithAnthropic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = cls.enterClassContext(
            anthropic.Anthropic(
                base_url=server().url, api_key=API_KEY, max_retries=0, timeout=PATIENCE
            )
        )
        cls.messages = cls.client.messages

    def question(self):
        return [{"role": "user", "content": weather.QUESTION}]

    def test_messages(self):
        answer = self.messages.create(
            model=NAME, system=[{"type": "text", "text": "Be brief."}], messages=self.question(),
            max_tokens=8,
        )
        self.assertEqual([block.type for block in answer.content], ["text"])
        self.assertEqual(answer.stop_reason, "max_tokens")
        self.assertEqual(answer.usage.output_tokens, 8)
        self.assertTrue(answer.id.startswith("msg_"))

    def test_counted_tokens(self):
        counted = self.messages.count_tokens(
            model=NAME, system="Be brief.", messages=self.question(), tools=[TOOL]
        )
        answer = self.messages.create(
            model=NAME, system="Be brief.", messages=self.question(), tools=[TOOL], max_tokens=1
        )
        usage = answer.usage
        self.assertEqual(
            counted.input_tokens,
            usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
        )

    def test_stream(self):
        with self.messages.stream(model=NAME, messages=self.question(), max_tokens=8) as stream:
            text = "".join(stream.text_stream)
            whole = stream.get_final_message()
        self.assertEqual(whole.content[0].text, text)
        self.assertEqual(whole.usage.output_tokens, 8)
        self.assertEqual(whole.stop_reason, "max_tokens")

    def test_an_agent_with_a_tool(self):
        messages = self.question()
        first = self.messages.create(
            model=NAME, messages=messages, tools=[TOOL], max_tokens=60,
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
        )
        self.assertEqual(first.stop_reason, "tool_use")
        (call,) = [block for block in first.content if block.type == "tool_use"]
        self.assertIn(call.input["city"], weather.CITIES)
        result = {"type": "tool_result", "tool_use_id": call.id,
                  "content": weather.weather_of(call.input["city"])}
        messages += [{"role": "assistant", "content": first.content},
                     {"role": "user", "content": [result]}]
        last = self.messages.create(model=NAME, messages=messages, tools=[TOOL],
                                    tool_choice={"type": "none"}, max_tokens=8)
        self.assertEqual([block.type for block in last.content], ["text"])

    def test_a_tool_in_a_stream(self):
        with self.messages.stream(
            model=NAME, messages=self.question(), tools=[TOOL], max_tokens=60,
            tool_choice={"type": "tool", "name": "weather_of"},
        ) as stream:
            pieces = [e.partial_json for e in stream if e.type == "input_json"]
            whole = stream.get_final_message()
        calls = [block for block in whole.content if block.type == "tool_use"]
        self.assertGreater(len(calls), 0)
        self.assertGreater(len(pieces), 1)
        for call in calls:
            self.assertIn(call.input["city"], weather.CITIES)

    def test_the_clients_own_loop(self):
        # It asks the server to keep the messages, is told that this one does not, and sends all.
        seen = []

        @anthropic.beta_tool
        def weather_of(city: Literal["Paris", "Oslo", "Rome"]) -> str:
            """Says the weather of a city.

            Args:
                city: the city
            """
            seen.append(city)
            return weather.weather_of(city)

        runner = self.client.beta.messages.tool_runner(
            model=NAME, messages=self.question(), tools=[weather_of], max_tokens=60,
            tool_choice={"type": "any", "disable_parallel_tool_use": True}, max_iterations=2,
        )
        answers = list(runner)
        self.assertEqual(len(answers), 2)
        self.assertGreaterEqual(len(seen), 1)
        self.assertLessEqual(set(seen), set(weather.CITIES))

    def test_a_parsed_answer(self):
        answer = self.messages.parse(
            model=NAME, messages=self.question(), output_format=City, max_tokens=60
        )
        self.assertIsInstance(answer.parsed_output, City)
