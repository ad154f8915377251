from langchain_anthropic import ChatAnthropic
from pydantic import BaseModel
from asked import CAPITAL, FORM, KEY, MODEL, ROOT, WEATHER, get_weather

model = ChatAnthropic(model=MODEL, base_url=ROOT, api_key=KEY)


class City(BaseModel):
    """A city"""
    city: str
    country: str


def chat():
    return model.invoke(CAPITAL).text


def stream():
    return [chunk.text for chunk in model.stream(CAPITAL)]


def tools():
    return model.bind_tools([get_weather]).invoke(WEATHER).tool_calls[0]["args"]


def structured():
    return model.with_structured_output(City).invoke(FORM).city
