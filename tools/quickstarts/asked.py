"""What each quickstart asks, and where."""

import os

ROOT = os.environ["ANABRANCH_URL"]  # of Anthropic's and Ollama's clients
V1 = ROOT + "/v1"  # of OpenAI's
MODEL = os.environ["ANABRANCH_MODEL"]
KEY = "none"
CAPITAL = "What is the capital of France?"
WEATHER = "What is the weather in Paris?"
FORM = "The capital of France is Paris. Fill in the city and its country."


called_for = []  # the cities of the calls of get_weather


def get_weather(city: str) -> str:
    """The weather in a city

    Args:
        city: the name of the city
    """
    called_for.append(city)
    return f"It is sunny in {city}."


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city", "parameters": PARAMETERS}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "country": {"type": "string"}}, "required": ["city", "country"],
          "additionalProperties": False}
