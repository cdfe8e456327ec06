"""OpenAI's Agents SDK over both of OpenAI's APIs: function tools, handoffs, output types."""

import asyncio
import unittest
from typing import Literal

import weather
from served import API_KEY, NAME, PATIENCE, need, server

agents = need("openai-agents", "agents")
import openai
from pydantic import BaseModel, Field

agents.set_tracing_disabled(True)


class City(BaseModel):
    name: str = Field(max_length=12)
    size: Literal["small", "large"]


class WithOpenAIAgents(unittest.TestCase):
    def models(self):
        for kind in (agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel):
            # Connections belong to the event loop of one test.
            client = openai.AsyncOpenAI(
                base_url=server().url + "/v1", api_key=API_KEY, max_retries=0, timeout=PATIENCE
            )
            with self.subTest(kind.__name__):
                yield kind(model=NAME, openai_client=client)

    def test_a_function_tool(self):
        seen = []

        @agents.function_tool
        def weather_of(city: Literal["Paris", "Oslo", "Rome"]) -> str:
            """Says the weather of a city."""
            seen.append(city)
            return weather.weather_of(city)

        for model in self.models():
            seen.clear()
            agent = agents.Agent(
                name="Reporter", instructions="Be brief.", model=model, tools=[weather_of],
                model_settings=agents.ModelSettings(
                    tool_choice="required", parallel_tool_calls=False, max_tokens=60,
                    temperature=0,
                ),
            )
            result = agents.Runner.run_sync(agent, weather.QUESTION, max_turns=4)
            # After the first call the choice is the model's, and it has answered in words.
            self.assertTrue(result.final_output)
            self.assertGreaterEqual(len(seen), 1)
            self.assertLessEqual(set(seen), set(weather.CITIES))

    def test_a_handoff(self):
        for model in self.models():
            settings = agents.ModelSettings(max_tokens=60)
            oslo = agents.Agent(name="Oslo", model=model, model_settings=settings)
            first = agents.Agent(
                name="First", model=model, handoffs=[oslo],
                model_settings=agents.ModelSettings(
                    tool_choice="transfer_to_oslo", parallel_tool_calls=False, max_tokens=60
                ),
            )
            result = agents.Runner.run_sync(first, weather.QUESTION, max_turns=3)
            self.assertEqual(result.last_agent.name, "Oslo")
            self.assertTrue(result.final_output)

    def test_an_output_type(self):
        for model in self.models():
            agent = agents.Agent(
                name="Reporter", model=model, output_type=City,
                model_settings=agents.ModelSettings(max_tokens=60),
            )
            result = agents.Runner.run_sync(agent, weather.QUESTION)
            self.assertIsInstance(result.final_output, City)

    def test_a_stream(self):
        async def streamed(model):
            agent = agents.Agent(
                name="Reporter", model=model,
                model_settings=agents.ModelSettings(max_tokens=60, temperature=0),
            )
            result = agents.Runner.run_streamed(agent, "Say: yes.")
            kinds = [event.type async for event in result.stream_events()]
            return kinds, result.final_output

        for model in self.models():
            kinds, output = asyncio.run(streamed(model))
            self.assertIn("raw_response_event", kinds)
            self.assertTrue(output)
