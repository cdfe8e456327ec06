"""Pydantic AI: tools, and output in its default way (a tool whose arguments are the output)."""

import unittest
from typing import Literal

import weather
from served import API_KEY, NAME, need, server

need("pydantic-ai-slim[openai]", "pydantic_ai.models.openai")
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits


class City(BaseModel):
    name: str = Field(max_length=12)
    size: Literal["small", "large"]


LIMITED = {"max_tokens": 100}


class WithPydanticAI(unittest.TestCase):
    def setUp(self):
        provider = OpenAIProvider(base_url=server().url + "/v1", api_key=API_KEY)
        self.chat = OpenAIChatModel(NAME, provider=provider)
        self.responses = OpenAIResponsesModel(NAME, provider=provider)

    def test_text(self):
        for model in (self.chat, self.responses):
            with self.subTest(type(model).__name__):
                result = Agent(model, instructions="Be brief.").run_sync(
                    weather.QUESTION, model_settings={"max_tokens": 8}
                )
                self.assertTrue(result.output)
                self.assertEqual(result.usage.output_tokens, 8)

    def test_output_in_the_default_way(self):
        for model in (self.chat, self.responses):
            with self.subTest(type(model).__name__):
                result = Agent(model, output_type=City).run_sync(
                    weather.QUESTION, model_settings=LIMITED
                )
                self.assertIsInstance(result.output, City)

    def test_output_by_a_schema(self):
        agent = Agent(self.chat, output_type=NativeOutput(City))
        result = agent.run_sync(weather.QUESTION, model_settings=LIMITED)
        self.assertIsInstance(result.output, City)

    def test_a_stream(self):
        with Agent(self.chat).run_stream_sync(
            weather.QUESTION, model_settings={"max_tokens": 8}
        ) as run:
            text = "".join(run.stream_text(delta=True))
        self.assertTrue(text)

    def test_an_agent_with_a_tool(self):
        seen = []

        def weather_of(city: Literal["Paris", "Oslo", "Rome"]) -> str:
            """Says the weather of a city."""
            seen.append(city)
            return weather.weather_of(city)

        agent = Agent(self.chat, tools=[weather_of])
        result = agent.run_sync(
            weather.QUESTION,
            model_settings={"max_tokens": 100, "temperature": 0},
            usage_limits=UsageLimits(request_limit=4),
        )
        # Whether it calls is the model's choice.
        self.assertTrue(result.output)
        self.assertLessEqual(set(seen), set(weather.CITIES))
