from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from asked import CAPITAL, FORM, KEY, MODEL, V1, WEATHER, called_for, get_weather
from pydantic import BaseModel


class City(BaseModel):
    city: str
    country: str


def agent(**more):
    return Agent(model=OpenAILike(id=MODEL, base_url=V1, api_key=KEY), telemetry=False, **more)


def chat():
    return agent().run(CAPITAL).content


def stream():
    return [event.content for event in agent().run(CAPITAL, stream=True) if event.event == "RunContent"]


def tools():
    agent(tools=[get_weather]).run(WEATHER)
    return called_for


def structured():
    return agent(output_schema=City).run(FORM).content.city
