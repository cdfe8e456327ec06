"""LlamaIndex's client for servers like OpenAI's: chat, completion, streams, structured answers."""

import unittest
from typing import Literal

import weather
from served import API_KEY, NAME, PATIENCE, need, server

need("llama-index-llms-openai-like", "llama_index.llms.openai_like")
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field


class City(BaseModel):
    """A city."""

    name: str = Field(max_length=12)
    size: Literal["small", "large"]


def weather_of(city: Literal["Paris", "Oslo", "Rome"]) -> str:
    """Says the weather of a city."""
    return weather.weather_of(city)


class WithLlamaIndex(unittest.TestCase):
    def model(self, **options):
        return OpenAILike(
            model=NAME, api_base=server().url + "/v1", api_key=API_KEY, context_window=8192,
            max_retries=0, timeout=PATIENCE,
            **{"is_chat_model": True, "max_tokens": 60, **options},
        )

    def question(self):
        return [ChatMessage(role="user", content=weather.QUESTION)]

    def test_chat_and_stream(self):
        model = self.model(max_tokens=8)
        self.assertTrue(model.chat(self.question()).message.content)
        self.assertTrue("".join(part.delta or "" for part in model.stream_chat(self.question())))
        plain = self.model(max_tokens=8, is_chat_model=False)
        self.assertTrue(plain.complete("Once upon a").text)

    def test_a_structured_answer(self):
        for calls in (True, False):
            with self.subTest(is_function_calling_model=calls):
                model = self.model(
                    is_function_calling_model=calls, should_use_structured_outputs=not calls
                )
                answer = model.as_structured_llm(City).chat(self.question())
                self.assertIsInstance(answer.raw, City)

    def test_a_tool(self):
        model = self.model(is_function_calling_model=True)
        answer = model.predict_and_call(
            [FunctionTool.from_defaults(weather_of)], user_msg=weather.QUESTION,
            tool_required=True, allow_parallel_tool_calls=False,
        )
        self.assertIn("sunny", str(answer))
