from asked import CAPITAL, FORM, KEY, MODEL, V1, WEATHER, get_weather
from mirascope import llm
from pydantic import BaseModel

llm.register_provider("openai:completions", scope="openai/", base_url=V1, api_key=KEY)
NAME = f"openai/{MODEL}"


class City(BaseModel):
    city: str
    country: str


@llm.call(NAME)
def capital():
    return CAPITAL


@llm.call(NAME, tools=[llm.tool(get_weather)])
def weather():
    return WEATHER


@llm.call(NAME, format=City)
def form():
    return FORM


def chat():
    return capital().text()


def stream():
    return list(capital.stream().text_stream())


def tools():
    return [call.args for call in weather().tool_calls]


def structured():
    return form().parse().city
