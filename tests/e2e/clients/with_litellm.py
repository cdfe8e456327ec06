"""LiteLLM: its bridges to servers of OpenAI's and of Anthropic's API."""

import json
import os
import unittest

import weather
from served import API_KEY, NAME, PATIENCE, need, server

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a list of prices
litellm = need("litellm")

TOOL = {
    "type": "function",
    "function": {
        "name": "weather_of",
        "description": "Says the weather of a city",
        "parameters": weather.PARAMETERS,
    },
}


class WithLiteLLM(unittest.TestCase):
    def bridges(self):
        for model, base in ((f"openai/{NAME}", "/v1"), (f"anthropic/{NAME}", "")):
            with self.subTest(model):
                yield dict(model=model, api_base=server().url + base, api_key=API_KEY,
                           timeout=PATIENCE, num_retries=0)

    def question(self):
        return [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": weather.QUESTION}]

    def test_completion(self):
        for bridge in self.bridges():
            answer = litellm.completion(messages=self.question(), max_tokens=8, **bridge)
            self.assertTrue(answer.choices[0].message.content)
            self.assertEqual(answer.choices[0].finish_reason, "length")
            self.assertEqual(answer.usage.completion_tokens, 8)

    def test_stream(self):
        for bridge in self.bridges():
            chunks = list(
                litellm.completion(messages=self.question(), max_tokens=8, stream=True,
                                   stream_options={"include_usage": True}, **bridge)
            )
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            self.assertTrue(text)
            self.assertEqual(chunks[-1].usage.completion_tokens, 8)

    def test_tools(self):
        for bridge in self.bridges():
            messages = self.question()
            first = litellm.completion(messages=messages, tools=[TOOL], tool_choice="required",
                                       max_tokens=60, **bridge).choices[0]
            self.assertEqual(first.finish_reason, "tool_calls")
            messages.append(first.message)
            for call in first.message.tool_calls:
                city = json.loads(call.function.arguments)["city"]
                self.assertIn(city, weather.CITIES)
                messages.append({"role": "tool", "tool_call_id": call.id,
                                 "content": weather.weather_of(city)})
            last = litellm.completion(messages=messages, tools=[TOOL], max_tokens=8, **bridge)
            self.assertIn(last.choices[0].finish_reason, ("stop", "length", "tool_calls"))

    def test_a_schema(self):
        format = {"type": "json_schema", "json_schema": {"name": "city", "strict": True,
                                                         "schema": weather.PARAMETERS}}
        for bridge in self.bridges():
            answer = litellm.completion(messages=self.question(), response_format=format,
                                        max_tokens=60, **bridge)
            city = json.loads(answer.choices[0].message.content)["city"]
            self.assertIn(city, weather.CITIES)
