"""Instructor in its default mode (tools), in a stream, and by JSON schema."""

import unittest
from typing import Literal

import weather
from served import API_KEY, NAME, PATIENCE, need, server

instructor = need("instructor")
import openai
from pydantic import BaseModel, Field


class City(BaseModel):
    name: str = Field(max_length=12)
    size: Literal["small", "large"]


class WithInstructor(unittest.TestCase):
    def client(self, **options):
        return instructor.from_openai(
            openai.OpenAI(
                base_url=server().url + "/v1", api_key=API_KEY, max_retries=0, timeout=PATIENCE
            ),
            **options,
        )

    def ask(self, client, **options):
        return client.create(
            model=NAME, messages=[{"role": "user", "content": weather.QUESTION}],
            max_tokens=100, max_retries=0, **options,
        )

    def test_the_default_mode(self):
        self.assertIsInstance(self.ask(self.client(), response_model=City), City)

    def test_json_schema(self):
        client = self.client(mode=instructor.Mode.JSON_SCHEMA)
        self.assertIsInstance(self.ask(client, response_model=City), City)

    def test_a_partial_answer_in_a_stream(self):
        client = self.client()
        parts = list(
            client.create_partial(
                model=NAME, messages=[{"role": "user", "content": weather.QUESTION}],
                response_model=City, max_tokens=100, max_retries=0,
            )
        )
        self.assertGreater(len(parts), 1)
        City.model_validate(parts[-1].model_dump())
