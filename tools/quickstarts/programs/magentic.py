from magentic import FunctionCall, OpenaiChatModel, StreamedStr, prompt
from pydantic import BaseModel
from asked import CAPITAL, FORM, KEY, MODEL, V1, WEATHER, called_for, get_weather

model = OpenaiChatModel(MODEL, base_url=V1, api_key=KEY)


class City(BaseModel):
    city: str
    country: str


@prompt(CAPITAL, model=model)
def capital() -> str: ...


@prompt(CAPITAL, model=model)
def capital_in_parts() -> StreamedStr: ...


@prompt(WEATHER, model=model, functions=[get_weather])
def weather() -> FunctionCall[str]: ...


@prompt(FORM, model=model)
def city() -> City: ...


def chat():
    return capital()


def stream():
    return list(capital_in_parts())


def tools():
    weather()()
    return called_for


def structured():
    return city().city
