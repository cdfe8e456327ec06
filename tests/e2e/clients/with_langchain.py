"""LangChain: tools, an agent, structured output in its three ways, over both of OpenAI's APIs."""

import unittest
from typing import Literal

import weather
from served import API_KEY, NAME, PATIENCE, need, server

need("langchain-openai")
import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field


@tool
def weather_of(city: Literal["Paris", "Oslo", "Rome"]) -> str:
    """Says the weather of a city."""
    return weather.weather_of(city)


@tool
def weather_of_some(cities: set[Literal["Paris", "Oslo", "Rome"]], days: set[int]) -> str:
    """Says the weather of cities on some days of the month."""
    return " ".join(weather.weather_of(city) for city in sorted(cities))


class City(BaseModel):
    """A city."""

    name: str = Field(max_length=12)
    size: Literal["small", "large"]


class WithLangChain(unittest.TestCase):
    def model(self, **options):
        return ChatOpenAI(
            base_url=server().url + "/v1", api_key=API_KEY, model=NAME, max_retries=0,
            timeout=PATIENCE, **{"max_tokens": 60, **options},
        )

    def test_invoke_and_stream(self):
        for responses in (False, True):
            with self.subTest(use_responses_api=responses):
                model = self.model(use_responses_api=responses, max_tokens=8)
                answer = model.invoke(weather.QUESTION)
                self.assertTrue(answer.text)
                self.assertEqual(answer.usage_metadata["output_tokens"], 8)
                chunks = list(model.stream(weather.QUESTION))
                self.assertGreater(len(chunks), 2)
                self.assertTrue("".join(chunk.text for chunk in chunks))

    def test_bound_tools(self):
        for responses in (False, True):
            with self.subTest(use_responses_api=responses):
                model = self.model(use_responses_api=responses)
                forced = model.bind_tools(
                    [weather_of], tool_choice="required", parallel_tool_calls=False
                )
                messages = [HumanMessage(weather.QUESTION)]
                messages.append(forced.invoke(messages))
                (call,) = messages[-1].tool_calls
                self.assertIn(call["args"]["city"], weather.CITIES)
                result = weather_of.invoke(call)
                self.assertIsInstance(result, ToolMessage)
                messages.append(result)
                last = model.bind_tools([weather_of], tool_choice="none").invoke(messages)
                self.assertTrue(last.text)
                # The same as a stream: chunks of calls add up to calls.
                whole = None
                for chunk in forced.stream(weather.QUESTION):
                    whole = chunk if whole is None else whole + chunk
                self.assertIn(whole.tool_calls[0]["args"]["city"], weather.CITIES)

    def test_keywords_that_no_grammar_keeps(self):
        # Sets are arrays of "uniqueItems": of few values they are held, of others left to the model.
        forced = self.model(max_tokens=200).bind_tools([weather_of_some], tool_choice="required")
        for call in forced.invoke(weather.QUESTION).tool_calls:
            cities = call["args"]["cities"]
            self.assertLessEqual(set(cities), set(weather.CITIES))
            self.assertEqual(len(cities), len(set(cities)))
            self.assertTrue(all(isinstance(day, int) for day in call["args"]["days"]))

    def test_structured_output_in_three_ways(self):
        for responses in (False, True):
            model = self.model(use_responses_api=responses)
            for method in ("json_schema", "function_calling"):
                with self.subTest(method, use_responses_api=responses):
                    city = model.with_structured_output(City, method=method).invoke(
                        weather.QUESTION
                    )
                    self.assertIsInstance(city, City)
            # Any object: whether it has City's members, and where it ends, is the model's doing.
            with self.subTest("json_mode", use_responses_api=responses):
                raw = model.with_structured_output(City, method="json_mode", include_raw=True)
                try:
                    text = raw.invoke("Name a city, as JSON.")["raw"].text
                except openai.LengthFinishReasonError as cut:
                    text = cut.completion.choices[0].message.content
                self.assertTrue(text.startswith("{"))

    def test_a_dialog_that_the_server_keeps(self):
        model = self.model(use_responses_api=True, use_previous_response_id=True, max_tokens=8)
        messages = [HumanMessage(weather.QUESTION)]
        first = model.invoke(messages)
        second = model.invoke([*messages, first, HumanMessage("And in Oslo?")])
        self.assertGreater(
            second.usage_metadata["input_tokens"], first.usage_metadata["total_tokens"]
        )

    def test_an_agent(self):
        create_agent = need("langchain", "langchain.agents").create_agent
        agent = create_agent(self.model(temperature=0), tools=[weather_of])
        result = agent.invoke(
            {"messages": [HumanMessage(weather.QUESTION)]}, {"recursion_limit": 12}
        )
        self.assertTrue(result["messages"][-1].text)
        # Whether it calls is the model's choice; an output type is held.
        agent = create_agent(self.model(), tools=[], response_format=City)
        result = agent.invoke({"messages": [HumanMessage(weather.QUESTION)]})
        self.assertIsInstance(result["structured_response"], City)

    def test_embeddings(self):
        embeddings = OpenAIEmbeddings(
            base_url=server().url + "/v1", api_key=API_KEY, model=NAME,
            check_embedding_ctx_length=False,
        )
        first, second = embeddings.embed_documents(["one", "two words"])
        self.assertEqual(len(first), len(second))
