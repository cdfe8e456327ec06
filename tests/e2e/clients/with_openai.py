"""The official OpenAI client: chat, streams, parsed answers, tools, responses, embeddings."""

import json
import unittest
from typing import Literal

import weather
from served import API_KEY, NAME, PATIENCE, need, server

openai = need("openai")
from pydantic import BaseModel, Field

TOOL = {
    "type": "function",
    "function": {
        "name": "weather_of",
        "description": "Says the weather of a city",
        "parameters": weather.PARAMETERS,
        "strict": True,
    },
}
FLAT_TOOL = {"type": "function", **TOOL["function"]}


class City(BaseModel):
    name: str = Field(max_length=12)
    size: Literal["small", "large"]


class WithOpenAI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = cls.enterClassContext(
            openai.OpenAI(
                base_url=server().url + "/v1", api_key=API_KEY, max_retries=0, timeout=PATIENCE
            )
        )
        cls.chats = cls.client.chat.completions

    def question(self):
        return [{"role": "user", "content": weather.QUESTION}]

    def test_chat(self):
        answer = self.chats.create(model=NAME, messages=self.question(), max_tokens=8)
        self.assertTrue(answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 8)

    def test_stream(self):
        chunks = list(
            self.chats.create(
                model=NAME, messages=self.question(), max_tokens=8, stream=True,
                stream_options={"include_usage": True},
            )
        )
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertTrue(text)
        self.assertEqual(chunks[-2].choices[0].finish_reason, "length")
        self.assertEqual(chunks[-1].usage.completion_tokens, 8)

    def test_parsed_answers(self):
        whole = self.chats.parse(
            model=NAME, messages=self.question(), response_format=City, max_tokens=60
        )
        self.assertIsInstance(whole.choices[0].message.parsed, City)
        with self.chats.stream(
            model=NAME, messages=self.question(), response_format=City, max_tokens=60
        ) as stream:
            streamed = stream.get_final_completion()
        self.assertIsInstance(streamed.choices[0].message.parsed, City)

    def test_an_agent_with_a_tool(self):
        messages = self.question()
        first = self.chats.create(
            model=NAME, messages=messages, tools=[TOOL], tool_choice="required",
            parallel_tool_calls=False, max_tokens=60,
        ).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        (call,) = first.message.tool_calls
        city = json.loads(call.function.arguments)["city"]
        self.assertIn(city, weather.CITIES)
        result = {"role": "tool", "tool_call_id": call.id, "content": weather.weather_of(city)}
        # As people send it back: the client's own object.
        messages += [first.message, result]
        last = self.chats.create(model=NAME, messages=messages, tools=[TOOL], tool_choice="none",
                                 max_tokens=12).choices[0]
        self.assertTrue(last.message.content)
        self.assertIsNone(last.message.tool_calls)

    def test_a_named_tool_in_a_stream(self):
        with self.chats.stream(
            model=NAME, messages=self.question(), tools=[TOOL], max_tokens=60,
            tool_choice={"type": "function", "function": {"name": "weather_of"}},
        ) as stream:
            events = list(stream)
            choice = stream.get_final_completion().choices[0]
        done = [e for e in events if e.type == "tool_calls.function.arguments.done"]
        self.assertEqual([e.name for e in done], ["weather_of"] * len(choice.message.tool_calls))
        for call, event in zip(choice.message.tool_calls, done):
            self.assertEqual(call.function.arguments, event.arguments)
            self.assertIn(call.function.parsed_arguments["city"], weather.CITIES)
        self.assertEqual(choice.finish_reason, "tool_calls")

    def test_responses(self):
        first = self.client.responses.create(
            model=NAME, instructions="Be brief.", input=weather.QUESTION, max_output_tokens=8
        )
        self.assertTrue(first.output_text)
        self.assertEqual(first.status, "incomplete")
        self.assertEqual(first.incomplete_details.reason, "max_output_tokens")
        second = self.client.responses.create(
            model=NAME, previous_response_id=first.id, input="And in Oslo?", max_output_tokens=8
        )
        self.assertGreater(second.usage.input_tokens, first.usage.total_tokens)
        parsed = self.client.responses.parse(
            model=NAME, input=weather.QUESTION, text_format=City, max_output_tokens=60
        )
        self.assertIsInstance(parsed.output_parsed, City)

    def test_responses_are_kept(self):
        responses = self.client.responses
        first = responses.create(model=NAME, input=weather.QUESTION, max_output_tokens=8)
        self.assertEqual(responses.retrieve(first.id).output, first.output)
        second = responses.create(model=NAME, previous_response_id=first.id, input="And in Oslo?",
                                  max_output_tokens=8)
        # A page has one item: the client asks for the others.
        items = list(responses.input_items.list(second.id, limit=1, order="asc"))
        self.assertEqual([item.role for item in items], ["user", "assistant", "user"])
        self.assertEqual(items[0].content[0].text, weather.QUESTION)
        responses.delete(first.id)
        for missing in (first.id, responses.create(model=NAME, input="a", store=False,
                                                   max_output_tokens=1).id):
            with self.assertRaises(openai.NotFoundError):
                responses.retrieve(missing)
            with self.assertRaises(openai.NotFoundError):
                responses.create(model=NAME, previous_response_id=missing, input="b")

    def test_logprobs_of_responses(self):
        asked = {"model": NAME, "input": weather.QUESTION, "max_output_tokens": 8, "temperature": 0,
                 "top_logprobs": 2, "include": ["message.output_text.logprobs"],
                 "text": {"verbosity": "low"}}
        whole = self.client.responses.create(**asked).output[0].content[0]
        self.assertEqual("".join(each.token for each in whole.logprobs), whole.text)
        self.assertEqual(len(whole.logprobs[0].top_logprobs), 2)
        events = list(self.client.responses.create(**asked, stream=True))
        tokens = [each.token for event in events if event.type == "response.output_text.delta"
                  for each in event.logprobs]
        self.assertEqual("".join(tokens), whole.text)

    def test_responses_with_a_tool(self):
        items = [{"role": "user", "content": weather.QUESTION}]
        first = self.client.responses.create(
            model=NAME, input=items, tools=[FLAT_TOOL], tool_choice="required",
            parallel_tool_calls=False, max_output_tokens=60,
        )
        calls = [item for item in first.output if item.type == "function_call"]
        self.assertEqual(len(calls), 1)
        city = json.loads(calls[0].arguments)["city"]
        self.assertIn(city, weather.CITIES)
        items += first.output
        items.append({"type": "function_call_output", "call_id": calls[0].call_id,
                      "output": weather.weather_of(city)})
        last = self.client.responses.create(model=NAME, input=items, tools=[FLAT_TOOL],
                                            tool_choice="none", max_output_tokens=8)
        self.assertTrue(last.output_text)

    def test_responses_in_a_stream(self):
        events = list(
            self.client.responses.create(
                model=NAME, input=weather.QUESTION, max_output_tokens=8, stream=True
            )
        )
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        self.assertEqual(events[-1].type, "response.incomplete")
        deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
        self.assertEqual(events[-1].response.output_text, "".join(deltas))
        with self.client.responses.stream(
            model=NAME, input=weather.QUESTION, text_format=City, max_output_tokens=60
        ) as stream:
            stream.until_done()
            self.assertIsInstance(stream.get_final_response().output_parsed, City)
        with self.client.responses.stream(
            model=NAME, input=weather.QUESTION, tools=[FLAT_TOOL], tool_choice="required",
            max_output_tokens=60,
        ) as stream:
            events = list(stream)
            whole = stream.get_final_response()
        calls = [item for item in whole.output if item.type == "function_call"]
        self.assertGreater(len(calls), 0)
        deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
        self.assertEqual("".join(call.arguments for call in calls), "".join(deltas))

    def test_embeddings(self):
        answer = self.client.embeddings.create(model=NAME, input=["one", "two words"])
        first, second = (one.embedding for one in answer.data)
        self.assertEqual(len(first), len(second))
        self.assertNotEqual(first, second)
