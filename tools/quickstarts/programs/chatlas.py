from asked import CAPITAL, FORM, KEY, MODEL, V1, WEATHER, called_for, get_weather
from chatlas import ChatOpenAICompletions
from pydantic import BaseModel


class City(BaseModel):
    city: str
    country: str


def client():
    return ChatOpenAICompletions(model=MODEL, base_url=V1, api_key=KEY)


def chat():
    return str(client().chat(CAPITAL, echo="none"))


def stream():
    return list(client().stream(CAPITAL, echo="none"))


def tools():
    one = client()
    one.register_tool(get_weather)
    one.chat(WEATHER, echo="none")
    return called_for


def structured():
    return client().chat_structured(FORM, data_model=City, echo="none").city
