from asked import CAPITAL, FORM, KEY, MODEL, V1, WEATHER, get_weather
from magentic import FunctionCall, OpenaiChatModel, StreamedStr, prompt
from pydantic import BaseModel

model = OpenaiChatModel(MODEL, base_url=V1, api_key=KEY)


class City(BaseModel):
    city: str
    country: str


@prompt(CAPITAL, model=model)
def answer() -> str: ...


@prompt(CAPITAL, model=model)
def parts() -> StreamedStr: ...


@prompt(WEATHER, functions=[get_weather], model=model)
def call() -> FunctionCall[str]: ...


@prompt(FORM, model=model)
def form() -> City: ...


def chat():
    return answer()


def stream():
    return list(parts())


def tools():
    return call().arguments


def structured():
    return form().city
