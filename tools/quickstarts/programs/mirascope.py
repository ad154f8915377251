from mirascope import llm
from pydantic import BaseModel
from asked import CAPITAL, FORM, KEY, MODEL, V1, WEATHER, get_weather

llm.register_provider("ollama", base_url=V1, api_key=KEY)
model = llm.model("ollama/" + MODEL)


class City(BaseModel):
    city: str
    country: str


def chat():
    return model.call(CAPITAL).text()


def stream():
    return list(model.stream(CAPITAL).text_stream())


def tools():
    return model.call(WEATHER, tools=[llm.tool(get_weather)]).tool_calls[0].args


def structured():
    return model.call(FORM, format=City).parse().city
