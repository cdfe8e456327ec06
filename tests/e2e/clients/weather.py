"""The tool and the answer that tests of clients ask for."""

CITIES = ("Paris", "Oslo", "Rome")


def weather_of(city):
    return f"It is sunny in {city}."


# As JSON schemas say it; clients that make schemas of functions get functions.
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": list(CITIES)}},
    "required": ["city"],
    "additionalProperties": False,
}
QUESTION = "What is the weather in Paris?"
